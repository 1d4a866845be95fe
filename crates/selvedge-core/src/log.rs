//! The event log: all facts of one transaction form one entry, and entries are numbered.
//!
//! A cursor identifies one public event: (entry, fact in the entry, event of the fact). The store assigns the number of
//! an entry after it holds all row locks, so the facts of one execution are in the order of its versions.
//!
//! A restored backup, or a failover that lost commits, gives the numbers of lost entries to other entries. So a cursor
//! also has a check of its entry, and a reader refuses a cursor whose entry has another one.

use crate::{ExecutionId, Fact, FlowId, Name, NamespaceId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// The type of the event that stands for an entry which this version cannot read.
pub const UNREADABLE: &str = "log.unreadable";

/// A fact with everything that event filters match on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The time of the transaction. Stored once per entry.
    #[serde(skip)]
    pub at: Timestamp,
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
    let (mut place, mut rest) = PackedFacts::begin(body)?;
    let mut events = Vec::new();
    while let Some(event) = place.take(&mut rest)? {
        events.push(event);
    }
    Ok(events)
}

/// Decodes the facts of an entry one by one: an unpacked entry needs several times the memory of its body.
#[derive(Clone, Copy, Debug)]
pub struct PackedFacts {
    at: Timestamp,
    next: u32,
}

impl PackedFacts {
    /// Begins with the first fact. Returns the rest of the body, which holds the facts.
    pub fn begin(body: &[u8]) -> Result<(PackedFacts, &[u8]), Unreadable> {
        let [FORMAT, rest @ ..] = body else {
            return Err(Unreadable::Format(body.first().copied()));
        };
        let (at, rest) = postcard::take_from_bytes::<Timestamp>(rest)?;
        Ok((PackedFacts { at, next: 0 }, rest))
    }

    /// The time of the transaction.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// The index of the next fact.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Takes the next fact from the rest of the body; none at its end.
    pub fn take(&mut self, rest: &mut &[u8]) -> Result<Option<Event>, Unreadable> {
        if rest.is_empty() {
            return Ok(None);
        }
        let (event, after) = postcard::take_from_bytes::<Event>(rest)?;
        *rest = after;
        self.next += 1;
        Ok(Some(Event { at: self.at, ..event }))
    }
}

/// The position of a public event in the log. Cursors have the order of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// The number of the entry.
    pub entry: i64,
    /// The index of the fact in the entry.
    pub fact: u32,
    /// The index of the event among those of the fact, from 1.
    pub event: u16,
}

/// The part of a cursor that identifies its entry. It reveals a store with another history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The check of the entry: see [`check`].
    pub check: u32,
    /// True if no event of the cursor's namespace follows in the entry.
    pub is_last: bool,
}

/// Returns the check of an entry's body. Entries of different histories that have the same number differ in it.
pub fn check(body: &[u8]) -> u32 {
    xxh3_64(body) as u32
}

/// Returns the position of the last event of a namespace in an entry; none if the entry has none.
pub fn last_event(entry: i64, events: &[Event], namespace: NamespaceId) -> Option<Cursor> {
    let mut last = events.iter().enumerate().rev();
    last.find_map(|(fact, event)| last_of_fact(entry, fact as u32, event, namespace))
}

/// Returns the position of the last event of a fact; none if the fact has no event or belongs to another namespace.
pub fn last_of_fact(entry: i64, fact: u32, event: &Event, namespace: NamespaceId) -> Option<Cursor> {
    let count = if event.namespace == namespace { event.fact.public_events().len() } else { 0 };
    (count > 0).then_some(Cursor { entry, fact, event: count as u16 })
}

/// The number of digits of a position.
const POSITION_DIGITS: usize = 28;
/// The number of digits of a mark: 8 for the check, 1 for `is_last`.
const MARK_DIGITS: usize = 9;

impl Cursor {
    /// The position before every event.
    pub const BEGINNING: Cursor = Cursor { entry: 0, fact: 0, event: 0 };

    /// Returns the position after every event of an entry.
    pub fn end_of(entry: i64) -> Cursor {
        Cursor { entry, fact: u32::MAX, event: u16::MAX }
    }

    /// Returns the position after every event of a fact.
    pub fn end_of_fact(entry: i64, fact: u32) -> Cursor {
        Cursor { entry, fact, event: u16::MAX }
    }

    /// Returns the position of the one event that stands for an unreadable entry. It follows all events that the entry has
    /// for a reader that can read it.
    pub fn unreadable(entry: i64) -> Cursor {
        Cursor { entry, fact: u32::MAX, event: 0 }
    }

    /// Encodes the cursor as opaque text: a version digit, then the position in hexadecimal, then the mark. Without a mark
    /// the text has the form of earlier versions.
    pub fn encode(self, mark: Option<Mark>) -> String {
        let Cursor { entry, fact, event } = self;
        match mark {
            None => format!("1{entry:016x}{fact:08x}{event:04x}"),
            Some(Mark { check, is_last }) => {
                format!("2{entry:016x}{fact:08x}{event:04x}{check:08x}{}", u8::from(is_last))
            }
        }
    }

    /// Decodes opaque text; none if it is no cursor. A cursor of an earlier version has no mark.
    pub fn decode(text: &str) -> Option<(Cursor, Option<Mark>)> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if !text.bytes().all(is_digit) {
            return None;
        }
        let (version, digits) = text.split_at_checked(1)?;
        let (position, mark) = digits.split_at_checked(POSITION_DIGITS)?;
        let mark = match (version, mark.len()) {
            ("1", 0) => None,
            ("2", MARK_DIGITS) => Some(Mark {
                check: u32::from_str_radix(&mark[..8], 16).ok()?,
                is_last: match &mark[8..] {
                    "0" => false,
                    "1" => true,
                    _ => return None,
                },
            }),
            _ => return None,
        };
        let cursor = Cursor {
            entry: i64::from_str_radix(&position[..16], 16).ok()?,
            fact: u32::from_str_radix(&position[16..24], 16).ok()?,
            event: u16::from_str_radix(&position[24..], 16).ok()?,
        };
        Some((cursor, mark))
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
        let marks =
            [None, Some(Mark { check: 0xfe, is_last: false }), Some(Mark { check: u32::MAX, is_last: true })];
        for mark in marks {
            let texts: Vec<String> = cursors.iter().map(|cursor| cursor.encode(mark)).collect();
            assert!(texts.is_sorted());
            for (cursor, text) in cursors.iter().zip(&texts) {
                assert_eq!(Cursor::decode(text), Some((*cursor, mark)));
            }
        }
    }

    #[test]
    fn a_malformed_cursor_is_refused() {
        for text in
            ["", "1", "x", "é", "2000", "+1", "1zzzzzzzzzzzzzzzzzzzzzzzzzz", "1ffffffffffffffff000000000000"]
        {
            assert_eq!(Cursor::decode(text), None, "{text}");
        }
        let marked = Cursor::end_of(7).encode(Some(Mark { check: 1, is_last: true }));
        for text in [&marked[..marked.len() - 1], &format!("{marked}0"), &format!("1{}", &marked[1..])] {
            assert_eq!(Cursor::decode(text), None, "{text}");
        }
    }

    #[test]
    fn a_cursor_of_an_earlier_version_has_no_mark() {
        let text = "1000000000000004d000000090001";
        assert_eq!(Cursor::decode(text), Some((Cursor { entry: 77, fact: 9, event: 1 }, None)));
    }
}
