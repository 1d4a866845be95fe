//! The event log: all facts of one transaction form one entry, and entries are numbered.
//!
//! A cursor identifies one public event: (entry, fact in the entry, event of the fact). The store assigns the number of
//! an entry after it holds all row locks, so the facts of one execution are in the order of its versions.

use crate::{ExecutionId, Fact, FlowId, Name, NamespaceId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A fact with everything that event filters match on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The time of the transaction. Stored once per entry.
    #[serde(skip)]
    pub at: Timestamp,
    /// The namespace.
    pub namespace: NamespaceId,
    /// The execution that changed, if the fact is about one.
    pub execution: Option<ExecutionId>,
    /// The flow; none if the execution was submitted alone and has spawned nothing.
    pub flow: Option<FlowId>,
    /// The execution's version after the change; none if the fact changes no execution.
    pub version: Option<u32>,
    /// The operator who caused the change, if one did.
    pub actor: Option<Name>,
    /// The execution's tags.
    pub tags: BTreeMap<String, String>,
    /// The change.
    pub fact: Fact,
}

/// The format version of an entry's body. Every older version stays readable.
const FORMAT: u8 = 1;

/// Encodes the facts of one transaction as the body of one entry.
pub fn pack(events: &[Event]) -> Vec<u8> {
    let at = events.first().map(|event| event.at).unwrap_or_default();
    let mut body = postcard::to_extend(&at, vec![FORMAT]).expect("a time always serialises");
    for event in events {
        debug_assert_eq!(event.at, at, "one transaction has one time");
        body = postcard::to_extend(event, body).expect("an event always serialises");
    }
    body
}

/// The reason why an entry cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The entry has an unknown format version.
    #[error(
        "the entry has the unknown format version {0:?}; a newer version of Selvedge wrote it, so upgrade this one"
    )]
    Format(Option<u8>),
    /// The bytes of the entry are damaged.
    #[error("the entry is damaged: {0}")]
    Damaged(#[from] postcard::Error),
}

/// Decodes the facts of an entry.
pub fn unpack(body: &[u8]) -> Result<Vec<Event>, Unreadable> {
    let [FORMAT, rest @ ..] = body else {
        return Err(Unreadable::Format(body.first().copied()));
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

/// The position of a public event in the log. Cursors have the order of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// The number of the entry.
    pub entry: i64,
    /// The index of the fact in the entry.
    pub fact: u32,
    /// The index of the event among those of the fact.
    pub event: u16,
}

impl Cursor {
    /// The position before every event.
    pub const BEGINNING: Cursor = Cursor { entry: 0, fact: 0, event: 0 };

    /// Encodes the cursor as opaque text: a version digit, then the position in hexadecimal.
    pub fn encode(self) -> String {
        format!("1{:016x}{:08x}{:04x}", self.entry, self.fact, self.event)
    }

    /// Decodes opaque text; none if it is no cursor.
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
    fn a_cursor_survives_a_round_trip_and_keeps_its_order() {
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
