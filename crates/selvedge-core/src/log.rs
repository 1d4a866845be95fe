//! The event log: all facts of one commit are packed into one entry, and entries are numbered.
//!
//! A cursor names one public event: (entry, fact in the entry, event of the fact). The number of an entry is drawn by the
//! store after all row locks are held, so the facts of one execution stand in the order of its versions.

use crate::{ExecutionId, Fact, FlowId, Name, NamespaceId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One fact with everything a filter may ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When: the time of its transaction, which an entry stores once.
    #[serde(skip)]
    pub at: Timestamp,
    /// Whose.
    pub namespace: NamespaceId,
    /// About which execution.
    pub execution: Option<ExecutionId>,
    /// Of which flow; none where the execution is its own flow.
    pub flow: Option<FlowId>,
    /// The version the change made; none where no version rose.
    pub version: Option<u32>,
    /// Who asked for it, where a person did.
    pub actor: Option<Name>,
    /// The execution's tags.
    pub tags: BTreeMap<String, String>,
    /// What happened.
    pub fact: Fact,
}

/// The form of an entry's body. Raised when it changes; every older form stays readable.
const FORM: u8 = 1;

/// Packs the facts of one commit into the body of one entry.
pub fn pack(events: &[Event]) -> Vec<u8> {
    let at = events.first().map(|event| event.at).unwrap_or_default();
    let mut body = postcard::to_extend(&at, vec![FORM]).unwrap_or_default();
    for event in events {
        debug_assert_eq!(event.at, at, "one transaction has one time");
        body = postcard::to_extend(event, body).unwrap_or_default();
    }
    body
}

/// Why an entry could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// A form that this version does not know.
    #[error("entry of unknown form {0:?}; it was written by a newer version")]
    Form(Option<u8>),
    /// Damaged bytes.
    #[error("damaged entry: {0}")]
    Damaged(#[from] postcard::Error),
}

/// The facts of one entry.
pub fn unpack(body: &[u8]) -> Result<Vec<Event>, Unreadable> {
    let [FORM, rest @ ..] = body else {
        return Err(Unreadable::Form(body.first().copied()));
    };
    let mut events = Vec::new();
    let (at, mut rest) = postcard::take_from_bytes::<Timestamp>(rest)?;
    while !rest.is_empty() {
        let (event, after) = postcard::take_from_bytes::<Event>(rest)?;
        events.push(Event { at, ..event });
        rest = after;
    }
    Ok(events)
}

/// The place of one public event in the log. Ordered as the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// The entry's number.
    pub entry: i64,
    /// Which fact of the entry.
    pub fact: u32,
    /// Which event of the fact.
    pub event: u16,
}

impl Cursor {
    /// Before every event.
    pub const BEGINNING: Cursor = Cursor { entry: 0, fact: 0, event: 0 };

    /// The opaque text: a version digit and the place, in hexadecimal.
    pub fn encode(self) -> String {
        format!("1{:016x}{:08x}{:04x}", self.entry, self.fact, self.event)
    }

    /// The place an opaque text names, if it is one of ours.
    pub fn decode(text: &str) -> Option<Cursor> {
        let digits = text.strip_prefix('1')?;
        if digits.len() != 28 || !digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        Some(Cursor {
            entry: i64::from_str_radix(&digits[..16], 16).ok()?,
            fact: u32::from_str_radix(&digits[16..24], 16).ok()?,
            event: u16::from_str_radix(&digits[24..], 16).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_and_keeps_its_order() {
        let cursors = [
            Cursor { entry: 1, fact: 0, event: 0 },
            Cursor { entry: 1, fact: 0, event: 1 },
            Cursor { entry: 1, fact: 9, event: 0 },
            Cursor { entry: 77, fact: 0, event: 0 },
        ];
        let texts: Vec<String> = cursors.iter().map(|cursor| cursor.encode()).collect();
        assert!(texts.is_sorted());
        for (cursor, text) in cursors.iter().zip(&texts) {
            assert_eq!(Cursor::decode(text), Some(*cursor));
        }
    }

    #[test]
    fn a_malformed_cursor_is_refused() {
        for text in
            ["", "1", "x", "2000", "+1", "1zzzzzzzzzzzzzzzzzzzzzzzzzz", "1ffffffffffffffff000000000000"]
        {
            assert_eq!(Cursor::decode(text), None, "{text}");
        }
    }
}
