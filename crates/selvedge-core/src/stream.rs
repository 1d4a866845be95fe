//! Streams: what an attempt says while it runs, frame by frame.
//!
//! Frames are numbered from 0 within their attempt. A durable frame stays as long as its execution; a best-effort frame
//! is one of the newest [`BEST_EFFORT_MAX`] and not older than [`BEST_EFFORT_MS`], or gone; a summary frame is a JSON merge
//! patch (RFC 7396) into one document with a version, and is not kept itself. Appending reads one small row, however many
//! frames there are.

use crate::{ExecutionId, Refusal, Timestamp};
use bytes::Bytes;
use serde_json::Value;

/// The largest frame, in bytes.
pub const FRAME_LIMIT: usize = 256 * 1024;
/// The most frames of one attempt.
pub const FRAMES_MAX: u32 = 1_000_000;
/// The most bytes of one attempt's frames together.
pub const STREAM_LIMIT: u64 = 256 * 1024 * 1024;
/// The largest summary document, in bytes.
pub const SUMMARY_LIMIT: usize = 1024 * 1024;
/// How many best-effort frames of an attempt are kept at most.
pub const BEST_EFFORT_MAX: u32 = 1000;
/// How long a best-effort frame is kept at most.
pub const BEST_EFFORT_MS: i64 = 10 * 60 * 1000;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Something that happened, such as a token of a model.
    Event,
    /// Anything else.
    Blob,
}

impl FrameKind {
    /// Every kind.
    pub const ALL: [FrameKind; 4] = [Self::Stdout, Self::Stderr, Self::Event, Self::Blob];

    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Event => "event",
            Self::Blob => "blob",
        }
    }

    /// The kind with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// The number a store keeps. Stable for ever.
    pub fn code(self) -> i16 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
            Self::Event => 3,
            Self::Blob => 4,
        }
    }

    /// The kind with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// How a frame is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum FrameMode {
    /// As long as its execution.
    #[default]
    Durable,
    /// For a while.
    BestEffort,
    /// Merged into the summary document.
    Summary,
}

impl FrameMode {
    /// Every mode.
    pub const ALL: [FrameMode; 3] = [Self::Durable, Self::BestEffort, Self::Summary];

    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::BestEffort => "best_effort",
            Self::Summary => "summary",
        }
    }

    /// The mode with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

/// Names the stream of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName {
    /// The execution.
    pub execution: ExecutionId,
    /// The attempt.
    pub attempt: u32,
}

/// What is known of a stream as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Its name.
    pub name: StreamName,
    /// The number of the next frame.
    pub next: u32,
    /// How many bytes its frames had together.
    pub bytes: u64,
    /// Digest of the newest append that has an `op_id`, by which a repeat is known.
    pub digest: u64,
    /// How many patches the summary document has taken in.
    pub summary_version: u32,
    /// The summary document.
    pub summary: Option<Bytes>,
}

impl Stream {
    /// A stream without frames.
    pub fn new(name: StreamName) -> Self {
        Stream { name, next: 0, bytes: 0, digest: 0, summary_version: 0, summary: None }
    }
}

/// A frame that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Its stream.
    pub stream: StreamName,
    /// Its number.
    pub number: u32,
    /// What it is.
    pub kind: FrameKind,
    /// Whether it is kept only for a while.
    pub best_effort: bool,
    /// When it was appended.
    pub at: Timestamp,
    /// JSON, byte for byte.
    pub data: Bytes,
}

/// Merges a patch into a document by RFC 7396.
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

/// Merges a patch into a stored document, and refuses one that grows too large.
pub fn merge_bytes(document: Option<&Bytes>, patch: &Bytes) -> Result<Bytes, Refusal> {
    let parse = |bytes: &Bytes| serde_json::from_slice::<Value>(bytes);
    let mut merged = document.and_then(|bytes| parse(bytes).ok()).unwrap_or(Value::Null);
    let patch = parse(patch).map_err(|error| Refusal::field("/data", format!("is not JSON: {error}")))?;
    merge(&mut merged, patch);
    let merged = serde_json::to_vec(&merged).unwrap_or_default();
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
    fn the_examples_of_the_standard_hold() {
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
