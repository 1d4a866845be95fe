//! Frames: an attempt appends to its stream.
//!
//! A worker that did not receive the reply to a report repeats it with all its frames. So a stream keeps the digest of
//! its latest frame that has an `op_id`: a digest over the `op_id`s of the report's frames up to that one. If a
//! repeated report contains a frame with that digest, the frames up to it were appended before.

use super::report::{Op, Report};
use crate::stream::{
    BEST_EFFORT_MAX, FRAME_LIMIT, FRAMES_MAX, Frame, FrameMode, STREAM_LIMIT, StreamName, merge_bytes,
};
use crate::submission::check_payload;
use crate::{Refusal, Work};
use bytes::Bytes;
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The number of frames between two deletions of surplus best-effort frames. A prime, so that a periodic pattern of
/// modes does not escape it.
const DELETE_EVERY: u32 = 97;

/// The identity of a frame within its report.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameIdentity {
    /// The digest of the frame; zero if it has no `op_id`.
    digest: u64,
    /// True if the frame was appended before.
    appended: bool,
}

/// Returns the identities of the frames among these reports, in the order of the reports.
pub fn identify(reports: &[Report], work: &Work) -> Vec<FrameIdentity> {
    let mut identities = vec![FrameIdentity::default(); reports.len()];
    let mut newest: HashMap<StreamName, u64> = HashMap::new();
    let mut appended: HashMap<StreamName, usize> = HashMap::new();
    for (index, report) in reports.iter().enumerate() {
        let (Op::Frame { .. }, Some(op_id)) = (&report.op, &report.op_id) else { continue };
        let name = report.stream();
        let digest = newest.entry(name).or_default();
        *digest = xxh3_64_with_seed(op_id.as_bytes(), *digest).max(1);
        identities[index].digest = *digest;
        if work.stream(name).digest == *digest {
            appended.insert(name, index);
        }
    }
    for (index, report) in reports.iter().enumerate().filter(|_| !appended.is_empty()) {
        let last = appended.get(&report.stream());
        let identity = &mut identities[index];
        identity.appended = identity.digest != 0 && last.is_some_and(|last| index <= *last);
    }
    identities
}

pub fn check(data: &Bytes) -> Result<(), Refusal> {
    if data.len() > FRAME_LIMIT {
        let (pointer, limit, actual) = ("/data".into(), FRAME_LIMIT as u64, data.len() as u64);
        return Err(Refusal::PayloadTooLarge { pointer, limit, actual });
    }
    check_payload("/data", data)
}

/// Appends a frame with the next number of its stream, unless it was appended before.
pub fn append(
    frame: Frame,
    mode: FrameMode,
    identity: FrameIdentity,
    work: &mut Work,
) -> Result<(), Refusal> {
    if identity.appended {
        return Ok(());
    }
    let (name, data) = (frame.stream, &frame.data);
    let mut stream = work.stream(name);
    if identity.digest != 0 {
        stream.digest = identity.digest;
    }
    stream.bytes += data.len() as u64;
    if stream.next >= FRAMES_MAX || stream.bytes > STREAM_LIMIT {
        let detail = format!(
            "exceeds the stream of its attempt, which may have {FRAMES_MAX} frames with {STREAM_LIMIT} bytes in total"
        );
        return Err(Refusal::field("/data", detail));
    }
    if mode == FrameMode::Summary {
        stream.summary = Some(merge_bytes(stream.summary.as_ref(), data)?);
        stream.summary_version += 1;
    } else {
        let (number, best_effort) = (stream.next, mode == FrameMode::BestEffort);
        work.add_frame(Frame { number, best_effort, ..frame });
        stream.next += 1;
        if best_effort && number >= BEST_EFFORT_MAX && number.is_multiple_of(DELETE_EVERY) {
            work.drop_frames(name, number + 1 - BEST_EFFORT_MAX);
        }
    }
    work.put(stream);
    Ok(())
}
