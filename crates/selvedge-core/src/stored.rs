//! Values that stores keep as bytes: wirings, joins, suspensions, names of gates, lines of histories.
//!
//! They are encoded with postcard, which has neither names nor lengths. A server must recognise a value that a newer version
//! wrote, and leave its row alone, instead of reading it as something else. The form without a version byte is version 1, and
//! three rules keep it recognisable:
//!
//! - An enum only grows at its end: an earlier version does not know the new variant and refuses the value.
//! - A struct may get fields at its end: an earlier version finds bytes that it does not expect, and refuses the value.
//! - Any other form begins with [`LATER`] and a version byte. No value of version 1 begins like that: it is no valid number,
//!   length or variant.
//!
//! The body of a log entry has had a version byte from the beginning ([`log`](crate::log)).

use serde::de::DeserializeOwned;

/// The first bytes of every later form, before its version byte.
pub const LATER: [u8; 10] = [0xff; 10];

/// Decodes a value. Fails if it is damaged, or if a newer version wrote it.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, postcard::Error> {
    match postcard::take_from_bytes(bytes)? {
        (value, []) => Ok(value),
        (_, [..]) => Err(postcard::Error::DeserializeBadEncoding),
    }
}

#[cfg(test)]
mod tests {
    use super::LATER;
    use crate::gate::{GateKind, GateName};
    use crate::join::Join;
    use crate::wiring::Wiring;
    use crate::{History, Name, NamespaceId, Suspension};

    type Decode = fn(&[u8]) -> bool;

    #[test]
    fn a_value_of_a_newer_version_is_refused_by_every_column() {
        let gate = GateName::new(NamespaceId(1), GateKind::Lane, Name::trusted("lane"));
        let columns: [(&str, Vec<u8>, Decode); 3] = [
            ("wiring", Wiring::default().encode(), |bytes| Wiring::decode(bytes).is_ok()),
            ("joined", Join::default().encode(), |bytes| Join::decode(bytes).is_ok()),
            ("held_by", gate.encode(), |bytes| GateName::decode(bytes).is_ok()),
        ];
        for (column, value, decodes) in columns {
            assert!(decodes(&value), "{column}");
            assert!(!decodes(&[value.as_slice(), &[0]].concat()), "{column} with one more field");
            assert!(!decodes(&[&LATER, [2].as_slice(), &value].concat()), "{column} of a later form");
        }
        let later = [LATER.as_slice(), &[2, 0, 0, 0]].concat();
        assert!(Suspension::decode(&later).is_err());
        assert!(History::from_bytes(later).lines().is_err());
    }
}
