//! Trace context: the place of an execution in a distributed trace, in the form of the `traceparent` header of W3C Trace
//! Context.
//!
//! An execution belongs to the trace of its submission, and so do its attempts and its children. Without a trace of the
//! submission, all executions of a flow share a trace of their own. The ids of spans are derived from the execution and the
//! attempt, so every server names the same spans without storing them.

use crate::{Execution, ExecutionId};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

/// The flag of a trace whose spans are recorded.
const SAMPLED: u8 = 1;

/// A span of a trace, as the parent of further spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceParent {
    /// The id of the trace; not zero.
    pub trace: u128,
    /// The id of the span; not zero.
    pub span: u64,
    /// The flags. Only `sampled` is defined.
    pub flags: u8,
}

impl TraceParent {
    /// Parses a `traceparent`. Later versions of the format may have further fields, which are ignored. Returns none for
    /// anything else: a broken header begins a new trace and refuses nothing.
    pub fn parse(text: &str) -> Option<TraceParent> {
        let mut parts = text.trim().split('-');
        let mut field = |length: usize| {
            let is_hexadecimal =
                |text: &&str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            parts.next().filter(|text| text.len() == length).filter(is_hexadecimal)
        };
        let (version, trace, span, flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
        let is_longer = parts.next().is_some();
        if version == "ff" || (version == "00" && is_longer) {
            return None;
        }
        let parsed = TraceParent {
            trace: u128::from_str_radix(trace, 16).ok()?,
            span: u64::from_str_radix(span, 16).ok()?,
            flags: u8::from_str_radix(flags, 16).ok()?,
        };
        (parsed.trace != 0 && parsed.span != 0).then_some(parsed)
    }

    /// Reports whether the spans of the trace are recorded.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the span of an execution in its current generation.
    pub fn of_execution(row: &Execution) -> TraceParent {
        Self::of_member(row, row.id, row.detail.generation)
    }

    /// Returns the span of another execution of the same flow, in a generation.
    pub fn of_member(row: &Execution, member: ExecutionId, generation: u32) -> TraceParent {
        TraceParent { span: span_id(member, GENERATION | generation), ..trace_of(row) }
    }

    /// Returns the span of an attempt of an execution; `epoch` is that of its lease.
    pub fn of_attempt(row: &Execution, epoch: u32) -> TraceParent {
        TraceParent { span: span_id(row.id, epoch), ..trace_of(row) }
    }
}

/// Distinguishes the number of a generation from that of an epoch.
const GENERATION: u32 = 1 << 31;

/// Returns the trace of an execution: that of its submission, or one that it shares with its flow.
fn trace_of(row: &Execution) -> TraceParent {
    let own = TraceParent { trace: row.flow().0.as_u128().max(1), span: 1, flags: SAMPLED };
    row.spec.trace.unwrap_or(own)
}

/// Returns the id of the span of an execution or of one of its attempts.
fn span_id(execution: ExecutionId, number: u32) -> u64 {
    let mut bytes = [0; 20];
    bytes[..16].copy_from_slice(execution.0.as_bytes());
    bytes[16..].copy_from_slice(&number.to_le_bytes());
    xxh3_64(&bytes).max(1)
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceParent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        TraceParent::parse(&text).ok_or_else(|| de::Error::custom("is not a traceparent"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_survives_its_text_and_its_json() {
        let parsed = TraceParent::parse(HEADER).expect("the header is valid");
        assert_eq!(parsed.to_string(), HEADER);
        assert!(parsed.is_sampled());
        let json = serde_json::to_string(&parsed).expect("it serialises");
        assert_eq!(serde_json::from_str::<TraceParent>(&json).expect("it is read"), parsed);
        let later = format!("cc{}-more", &HEADER[2..]);
        assert_eq!(TraceParent::parse(&later), Some(parsed), "fields of later versions are ignored");
    }

    #[test]
    fn anything_else_is_no_traceparent() {
        let zero_trace = HEADER.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let zero_span = HEADER.replace("00f067aa0ba902b7", &"0".repeat(16));
        for text in [
            "",
            "00",
            &HEADER[3..],
            &HEADER.to_uppercase(),
            &zero_trace,
            &zero_span,
            &HEADER.replace("00-4", "ff-4"),
        ] {
            assert_eq!(TraceParent::parse(text), None, "{text}");
        }
        assert_eq!(TraceParent::parse(&format!("{HEADER}-more")), None);
    }
}
