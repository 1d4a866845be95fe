//! Frames: an attempt appends to its stream.
//!
//! A worker that did not receive the reply to a report repeats it with all its frames. So a stream keeps the digest of
//! its latest frame that has an `op_id`: a digest over the `op_id`s of the report's frames up to that one. If a
//! repeated report contains a frame with that digest, the frames up to it were appended before.

use super::report::{Attempt, Op, Operation, Report, Reported};
use crate::digest::Digest;
use crate::rows::Needs;
use crate::stream::{
    BEST_EFFORT_MAX, FRAME_LIMIT, FRAMES_MAX, Frame, FrameKind, FrameMode, STREAM_LIMIT, StreamName,
    merge_bytes,
};
use crate::submission::check_payload;
use crate::{Execution, Name, Refusal, Work};
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

/// Appends a frame to the stream of the attempt.
pub(super) struct NewFrame<'a> {
    pub kind: FrameKind,
    pub mode: FrameMode,
    pub data: &'a Bytes,
    pub correlation_id: &'a Option<Name>,
}

impl Operation for NewFrame<'_> {
    fn check(&self) -> Result<(), Refusal> {
        if self.data.len() > FRAME_LIMIT {
            let (pointer, limit, actual) = ("/data".into(), FRAME_LIMIT as u64, self.data.len() as u64);
            return Err(Refusal::PayloadTooLarge { pointer, limit, actual });
        }
        check_payload("/data", self.data)
    }

    fn needs(&self, report: &Report, _held: Option<&Execution>, _work: &Work, needs: &mut Needs) {
        match self.mode {
            FrameMode::Summary => needs.summaries.read([report.stream()]),
            FrameMode::Durable | FrameMode::BestEffort => needs.streams.read([report.stream()]),
        }
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.raw(b"frame");
        digest.raw(self.data);
    }

    fn apply(&self, of: &Attempt<'_>, work: &mut Work) -> Result<Reported, Refusal> {
        let (data, correlation_id) = (self.data.clone(), self.correlation_id.clone());
        let (stream, kind, at) = (of.report.stream(), self.kind, work.now());
        let frame = Frame { stream, number: 0, kind, best_effort: false, at, data, correlation_id };
        append(frame, self.mode, of.frame, work)?;
        Ok(Reported::active())
    }
}

/// Appends a frame with the next number of its stream, unless it was appended before.
fn append(frame: Frame, mode: FrameMode, identity: FrameIdentity, work: &mut Work) -> Result<(), Refusal> {
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
