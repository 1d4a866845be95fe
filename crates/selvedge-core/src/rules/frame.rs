//! Frames: what an attempt appends to its stream.
//!
//! A worker that did not hear the answer to a report sends it again, with all its frames. So a stream remembers its newest
//! frame that has an `op_id`, by a digest over those of its report up to it: the frames of a report that comes again up to
//! the one that is remembered are there already.

use super::report::{Op, Report};
use crate::stream::{
    BEST_EFFORT_MAX, FRAME_LIMIT, FRAMES_MAX, Frame, FrameKind, FrameMode, STREAM_LIMIT, StreamName,
    merge_bytes,
};
use crate::submission::check_payload;
use crate::{Refusal, Work};
use bytes::Bytes;
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// After how many frames those are deleted that are too many. A prime, so that no regular change of modes escapes it.
const DELETE_EVERY: u32 = 97;

/// What a report knows of one of its frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// By what it is remembered; zero if it has no `op_id`.
    digest: u64,
    /// Whether it was appended before.
    appended: bool,
}

/// What is known of the frames of a report, in the order of its parts.
pub fn known(reports: &[Report], work: &Work) -> Vec<Known> {
    let mut known = vec![Known::default(); reports.len()];
    let mut newest: HashMap<StreamName, u64> = HashMap::new();
    let mut appended: HashMap<StreamName, usize> = HashMap::new();
    for (index, report) in reports.iter().enumerate() {
        let (Op::Frame { .. }, Some(op_id)) = (&report.op, &report.op_id) else { continue };
        let name = report.stream();
        let digest = newest.entry(name).or_default();
        *digest = xxh3_64_with_seed(op_id.as_bytes(), *digest).max(1);
        known[index].digest = *digest;
        if work.stream(name).digest == *digest {
            appended.insert(name, index);
        }
    }
    for (index, report) in reports.iter().enumerate().filter(|_| !appended.is_empty()) {
        let upto = appended.get(&report.stream());
        known[index].appended = known[index].digest != 0 && upto.is_some_and(|upto| index <= *upto);
    }
    known
}

/// Checks what can be checked without rows.
pub fn check(data: &Bytes) -> Result<(), Refusal> {
    if data.len() > FRAME_LIMIT {
        let (pointer, limit, actual) = ("/data".into(), FRAME_LIMIT as u64, data.len() as u64);
        return Err(Refusal::PayloadTooLarge { pointer, limit, actual });
    }
    check_payload("/data", data)
}

/// Appends a frame, unless it was appended before.
pub fn append(
    name: StreamName,
    (kind, mode, data): (FrameKind, FrameMode, &Bytes),
    known: Known,
    work: &mut Work,
) -> Result<(), Refusal> {
    if known.appended {
        return Ok(());
    }
    let mut stream = work.stream(name);
    if known.digest != 0 {
        stream.digest = known.digest;
    }
    stream.bytes += data.len() as u64;
    if stream.next >= FRAMES_MAX || stream.bytes > STREAM_LIMIT {
        let detail = format!(
            "is one too many: an attempt has at most {FRAMES_MAX} frames and {STREAM_LIMIT} bytes of them"
        );
        return Err(Refusal::field("/data", detail));
    }
    if mode == FrameMode::Summary {
        stream.summary = Some(merge_bytes(stream.summary.as_ref(), data)?);
        stream.summary_version += 1;
    } else {
        let (number, best_effort) = (stream.next, mode == FrameMode::BestEffort);
        let at = work.now();
        work.add_frame(Frame { stream: name, number, kind, best_effort, at, data: data.clone() });
        stream.next += 1;
        if best_effort && number >= BEST_EFFORT_MAX && number.is_multiple_of(DELETE_EVERY) {
            work.drop_frames(name, number + 1 - BEST_EFFORT_MAX);
        }
    }
    work.put_stream(stream);
    Ok(())
}
