//! API keys: the secret that a caller sends, and the row that a store keeps of it.
//!
//! The text of a key is `slv_`, 33 random base62 digits (192 bits) and 6 digits of checksum. A mistyped key is recognised
//! without a look at the store, and secret scanners recognise a key by its form. A store has only the SHA-256 of the text: the
//! text has so much entropy that no slow hash is needed. `Debug` hides the text and the digest.

pub use crate::name::EVERY_NAMESPACE;
use crate::{Name, Refusal, Role, Timestamp};
use sha2::{Digest, Sha256};
use std::fmt;
use uuid::Uuid;

/// The beginning of every key.
pub const PREFIX: &str = "slv_";
/// The number of random bytes in a key.
pub const RANDOM_BYTES: usize = 24;
/// The number of digits that encode the random bytes.
const RANDOM_DIGITS: usize = 33;
/// The number of digits that encode the checksum.
const CHECKSUM_DIGITS: usize = 6;
/// The maximum number of namespaces of a key.
pub const NAMESPACES_MAX: usize = 100;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The id of an API key. Not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct ApiKeyId(pub Uuid);

impl fmt::Display for ApiKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The text of a key: the secret itself. Shown once, never stored.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText(..)")
    }
}

impl KeyText {
    /// Returns the key of these random bytes.
    pub fn new(random: [u8; RANDOM_BYTES]) -> KeyText {
        let mut text = format!("{PREFIX}{}", base62(random, RANDOM_DIGITS));
        text.push_str(&checksum(&text));
        KeyText(text)
    }

    /// Returns the text, for the response that shows it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn digest(&self) -> KeyDigest {
        KeyDigest::of(&self.0)
    }

    /// Reports whether a text has the form of a key, with the right checksum.
    pub fn is_well_formed(text: &str) -> bool {
        let length = PREFIX.len() + RANDOM_DIGITS + CHECKSUM_DIGITS;
        text.len() == length
            && text.starts_with(PREFIX)
            && text[PREFIX.len()..].bytes().all(|byte| byte.is_ascii_alphanumeric())
            && checksum(&text[..length - CHECKSUM_DIGITS]) == text[length - CHECKSUM_DIGITS..]
    }
}

/// The SHA-256 of a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyDigest(pub [u8; 32]);

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest(..)")
    }
}

impl KeyDigest {
    pub fn of(text: &str) -> KeyDigest {
        KeyDigest(Sha256::digest(text.as_bytes()).into())
    }

    /// Compares two digests in constant time.
    pub fn matches(&self, other: &KeyDigest) -> bool {
        let differing = self.0.iter().zip(other.0).fold(0, |differing, (a, b)| differing | (a ^ b));
        std::hint::black_box(differing) == 0
    }
}

/// An API key as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    pub id: ApiKeyId,
    pub digest: KeyDigest,
    /// The name, which is the actor of all that is done with the key.
    pub name: Name,
    pub role: Role,
    /// The namespaces in which the role applies; [`EVERY_NAMESPACE`] alone for all.
    pub namespaces: Vec<Name>,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time from which it is refused. Default: none.
    pub expires_at: Option<Timestamp>,
    /// The time of its last use, at most some minutes old. None if it was not used.
    pub last_used_at: Option<Timestamp>,
    /// The time of its revocation.
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// Reports whether the key is of every namespace.
    pub fn is_of_every_namespace(&self) -> bool {
        self.namespaces.iter().any(|name| name.as_str() == EVERY_NAMESPACE)
    }

    /// Reports whether all namespaces of the key are among these.
    pub fn is_within(&self, namespaces: &[Name]) -> bool {
        self.namespaces.iter().all(|name| namespaces.contains(name))
    }

    /// Reports whether the key was created until `created_by` and has the namespace, which was deleted then.
    pub fn loses(&self, namespace: &Name, created_by: Timestamp) -> bool {
        let names = !self.is_of_every_namespace() && self.namespaces.contains(namespace);
        names && self.created_at <= created_by && self.revoked_at.is_none()
    }

    /// Reports whether the key is accepted at a time: it is of a namespace, not revoked and not expired.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        !self.namespaces.is_empty()
            && self.revoked_at.is_none()
            && self.expires_at.is_none_or(|expires_at| now < expires_at)
    }

    /// Returns the namespaces in the form in which a store keeps them, a JSON list.
    pub fn encode_namespaces(&self) -> String {
        serde_json::to_string(&self.namespaces).unwrap_or_default()
    }

    /// Returns the namespaces of their stored form.
    pub fn decode_namespaces(stored: &str) -> Result<Vec<Name>, String> {
        serde_json::from_str(stored).map_err(|error| error.to_string())
    }
}

/// Checks the namespaces that a new key of this role is to have, and sorts them.
pub fn check_namespaces(role: Role, names: &[String]) -> Result<Vec<Name>, Refusal> {
    use crate::name::NAME_LIMIT;
    if names.is_empty() || names.len() > NAMESPACES_MAX {
        let detail = format!("has {} names; a key has 1 to {NAMESPACES_MAX} namespaces", names.len());
        return Err(Refusal::field("/namespaces", detail));
    }
    if names.iter().any(|name| name == EVERY_NAMESPACE) && (names.len() > 1 || role != Role::Admin) {
        let detail = "has \"*\", every namespace, which stands alone and only in keys of the role admin";
        return Err(Refusal::field("/namespaces", detail));
    }
    let pointer = |index: usize| format!("/namespaces/{index}");
    let names = names.iter().enumerate();
    let mut names: Vec<Name> = names
        .map(|(index, name)| Name::parse(&pointer(index), name, NAME_LIMIT))
        .collect::<Result<_, _>>()?;
    names.sort();
    names.dedup();
    Ok(names)
}

/// Returns a number as base62, with leading zeros.
fn base62(mut number: [u8; RANDOM_BYTES], digits: usize) -> String {
    let mut text = vec![b'0'; digits];
    for digit in text.iter_mut().rev() {
        let remainder = number.iter_mut().fold(0_u32, |remainder, byte| {
            let value = remainder << 8 | u32::from(*byte);
            *byte = (value / 62) as u8;
            value % 62
        });
        *digit = DIGITS[remainder as usize];
    }
    text.into_iter().map(char::from).collect()
}

/// Returns the CRC-32 (ISO-HDLC) of a text as six base62 digits.
fn checksum(text: &str) -> String {
    let crc = text.bytes().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| match crc & 1 {
            0 => crc >> 1,
            _ => crc >> 1 ^ 0xedb8_8320,
        })
    });
    let mut number = [0; RANDOM_BYTES];
    number[RANDOM_BYTES - 4..].copy_from_slice(&(!crc).to_be_bytes());
    base62(number, CHECKSUM_DIGITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_prefix_192_random_bits_and_a_checksum() {
        let key = KeyText::new([0xff; RANDOM_BYTES]);
        assert_eq!(key.reveal().len(), 43);
        assert!(KeyText::is_well_formed(key.reveal()), "{}", key.reveal());
        assert!(key.reveal()[4..].bytes().all(|digit| DIGITS.contains(&digit)));
        assert_ne!(
            KeyText::new([0; RANDOM_BYTES]).reveal()[4..37],
            KeyText::new([1; RANDOM_BYTES]).reveal()[4..37]
        );
        // The check value of the CRC-32 that zip and PNG use.
        assert_eq!(checksum("123456789"), base62_of(0xcbf4_3926));
    }

    fn base62_of(number: u32) -> String {
        let mut bytes = [0; RANDOM_BYTES];
        bytes[RANDOM_BYTES - 4..].copy_from_slice(&number.to_be_bytes());
        base62(bytes, CHECKSUM_DIGITS)
    }

    #[test]
    fn a_key_with_any_altered_digit_is_not_well_formed() {
        let key = KeyText::new(std::array::from_fn(|index| index as u8 * 7));
        for position in 0..key.reveal().len() {
            for digit in DIGITS.iter().chain(b"_ .") {
                let mut altered = key.reveal().as_bytes().to_vec();
                if altered[position] != *digit {
                    altered[position] = *digit;
                    let altered = String::from_utf8(altered).expect("is text");
                    assert!(!KeyText::is_well_formed(&altered), "{altered}");
                }
            }
        }
        for wrong in ["", "slv_", "slv_é", &key.reveal()[..42], &format!("{}0", key.reveal())] {
            assert!(!KeyText::is_well_formed(wrong), "{wrong}");
        }
    }

    #[test]
    fn keys_and_digests_are_hidden_in_debug_output() {
        let key = KeyText::new([7; RANDOM_BYTES]);
        assert_eq!(format!("{key:?} {:?}", key.digest()), "KeyText(..) KeyDigest(..)");
        assert!(key.digest().matches(&KeyDigest::of(key.reveal())));
        assert!(!key.digest().matches(&KeyDigest::of("slv_")));
    }

    #[test]
    fn every_namespace_is_for_administrators_only() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(check_namespaces(Role::Admin, &names(&["*"])).is_ok());
        assert!(check_namespaces(Role::Worker, &names(&["*"])).is_err());
        assert!(check_namespaces(Role::Admin, &names(&["*", "a"])).is_err());
        assert!(check_namespaces(Role::Reader, &[]).is_err());
        let sorted = check_namespaces(Role::Reader, &names(&["b", "a", "b"])).expect("is valid");
        assert_eq!(sorted, [Name::trusted("a"), Name::trusted("b")]);
    }
}
