//! Names given by callers: lanes, kinds, workers, instances, capabilities, tags and keys.
//!
//! A [`Name`] is checked once, where a request enters, and is valid from then on: not empty, within its limit, and
//! without control characters (so without NUL, which databases do not store in text).

use crate::Refusal;
use serde::{Deserialize, Serialize};
use std::{fmt, ops::Deref, sync::Arc};

/// The longest lane, kind, worker, instance or namespace, in bytes.
pub const NAME_LIMIT: usize = 200;
/// The word that stands for every namespace, in keys of administrators. No namespace has this name.
pub const EVERY_NAMESPACE: &str = "*";
/// The longest idempotency or uniqueness key, in bytes.
pub const KEY_LIMIT: usize = 512;
/// The longest capability or tag name, in bytes.
pub const LABEL_LIMIT: usize = 128;
/// The longest tag value, in bytes.
pub const TAG_VALUE_LIMIT: usize = 512;

/// A valid name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Name(Arc<str>);

/// Formats the name as quoted text, the form in which refusals show it.
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl Name {
    /// Checks `value`, which is at `pointer` in the caller's request and may have `limit` bytes.
    pub fn parse(pointer: &str, value: &str, limit: usize) -> Result<Name, Refusal> {
        if value.is_empty() {
            return Err(Refusal::field(pointer, "must not be empty"));
        }
        check_text(pointer, value, limit)?;
        Ok(Name(value.into()))
    }

    /// Wraps text that was checked before: from a row of the store, or a literal.
    pub fn trusted(value: &str) -> Name {
        Name(value.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Refuses text that is too long or contains a control character. Empty text is valid.
pub fn check_text(pointer: &str, value: &str, limit: usize) -> Result<(), Refusal> {
    if value.len() > limit {
        return Err(Refusal::field(
            pointer,
            format!("is {} bytes long; at most {limit} are allowed", value.len()),
        ));
    }
    if let Some(position) = value.chars().position(char::is_control) {
        return Err(Refusal::field(
            pointer,
            format!("contains a control character at position {position}; only printable text is allowed"),
        ));
    }
    Ok(())
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
