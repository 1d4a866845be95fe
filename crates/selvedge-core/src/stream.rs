//! Streams: the output of an attempt while it runs, frame by frame.
//!
//! Frames are numbered from 0 within their attempt. A durable frame is kept as long as its execution. A best-effort
//! frame is kept while it is among the newest [`BEST_EFFORT_MAX`] and not older than [`BEST_EFFORT_MS`]. A summary
//! frame is a JSON merge patch (RFC 7396) that is applied to one versioned document and not kept itself. Appending
//! reads one small row, however many frames there are.

use crate::{ExecutionId, Name, Refusal, Timestamp, json};
use bytes::Bytes;
use serde_json::Value;

/// The largest frame, in bytes.
pub const FRAME_LIMIT: usize = 256 * 1024;
/// The most frames of one attempt.
pub const FRAMES_MAX: u32 = 1_000_000;
/// The largest total size of one attempt's frames, in bytes.
pub const STREAM_LIMIT: u64 = 256 * 1024 * 1024;
/// The largest summary document, in bytes.
pub const SUMMARY_LIMIT: usize = 1024 * 1024;
/// The most best-effort frames that are kept of one attempt.
pub const BEST_EFFORT_MAX: u32 = 1000;
/// The longest time for which a best-effort frame is kept, in milliseconds.
pub const BEST_EFFORT_MS: i64 = 10 * 60 * 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    Stdout,
    Stderr,
    /// An event of the handler, such as a token of a language model.
    Event,
    /// Any other data.
    Blob,
}

impl FrameKind {
    pub const ALL: [FrameKind; 4] = [Self::Stdout, Self::Stderr, Self::Event, Self::Blob];

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Event => "event",
            Self::Blob => "blob",
        }
    }

    /// Returns the kind with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Returns the number under which stores keep this kind. Never changes.
    pub fn code(self) -> i16 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
            Self::Event => 3,
            Self::Blob => 4,
        }
    }

    /// Returns the kind with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// The retention of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum FrameMode {
    /// Kept as long as its execution.
    #[default]
    Durable,
    /// Kept for a limited time and number.
    BestEffort,
    /// Merged into the summary document and not kept itself.
    Summary,
}

impl FrameMode {
    pub const ALL: [FrameMode; 3] = [Self::Durable, Self::BestEffort, Self::Summary];

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::BestEffort => "best_effort",
            Self::Summary => "summary",
        }
    }

    /// Returns the mode with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

/// The key of a stream: each attempt has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName {
    pub execution: ExecutionId,
    /// The index of the attempt.
    pub attempt: u32,
}

/// The row of a stream, without its frames.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// The key of the stream.
    pub name: StreamName,
    /// The number of the next frame.
    pub next: u32,
    /// The total size of all frames appended so far, in bytes.
    pub bytes: u64,
    /// The digest of the latest appended frame that has an `op_id`, by which repeated frames are recognised.
    pub digest: u64,
    /// The number of patches applied to the summary document.
    pub summary_version: u32,
    /// The summary document, as JSON.
    pub summary: Option<Bytes>,
}

impl Stream {
    /// Creates a stream without frames.
    pub fn new(name: StreamName) -> Self {
        Stream { name, next: 0, bytes: 0, digest: 0, summary_version: 0, summary: None }
    }
}

/// A stored frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub stream: StreamName,
    /// The position in the stream, from 0.
    pub number: u32,
    pub kind: FrameKind,
    /// True if it is a best-effort frame.
    pub best_effort: bool,
    /// The time at which it was appended.
    pub at: Timestamp,
    /// The data: JSON, kept byte for byte.
    pub data: Bytes,
    /// The worker's name for what the frame belongs to, such as a request to a model.
    pub correlation_id: Option<Name>,
}

/// A range of the frames of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameRange {
    /// The smallest number.
    pub from: u32,
    /// The number before which the range ends. Default: it has no end.
    pub before: Option<u32>,
    /// True to leave out best-effort frames.
    pub durable: bool,
}

impl From<u32> for FrameRange {
    /// All frames from this number on.
    fn from(from: u32) -> Self {
        FrameRange { from, ..FrameRange::default() }
    }
}

/// Applies a JSON merge patch (RFC 7396) to a document.
pub fn merge(document: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *document = patch;
        return;
    };
    if !document.is_object() {
        *document = Value::Object(serde_json::Map::new());
    }
    let Value::Object(fields) = document else { return };
    for (name, value) in patch {
        match value {
            Value::Null => drop(fields.remove(&name)),
            value => merge(fields.entry(name).or_insert(Value::Null), value),
        }
    }
}

/// Applies a JSON merge patch to a stored document. Refuses a result beyond [`SUMMARY_LIMIT`].
pub fn merge_bytes(document: Option<&Bytes>, patch: &Bytes) -> Result<Bytes, Refusal> {
    let mut merged = document.and_then(|bytes| json::parse(bytes).ok()).unwrap_or(Value::Null);
    let patch =
        json::parse(patch).map_err(|error| Refusal::field("/data", format!("is not valid JSON: {error}")))?;
    merge(&mut merged, patch);
    let merged = serde_json::to_vec(&merged).expect("a JSON value always serialises");
    if merged.len() > SUMMARY_LIMIT {
        return Err(Refusal::PayloadTooLarge {
            pointer: "/data".into(),
            limit: SUMMARY_LIMIT as u64,
            actual: merged.len() as u64,
        });
    }
    Ok(merged.into())
}

#[cfg(test)]
mod tests {
    use super::merge;
    use serde_json::{Value, json};

    #[test]
    fn the_examples_of_rfc_7396_hold() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"a": "foo"}), json!("bar"), json!("bar")),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (mut document, patch, merged) in cases {
            merge(&mut document, patch);
            assert_eq!(document, merged);
        }
        let mut nothing = Value::Null;
        merge(&mut nothing, json!({"a": 1}));
        assert_eq!(nothing, json!({"a": 1}));
    }
}
