//! The simple values of the API: text, numbers, ids, times, words.

use crate::fields::{NOT_A_TIME, unknown_word};
use crate::schema::{self, Schema};
use crate::shape::{Input, Shape};
use crate::{Answer, times, write};
use selvedge_core::api_key::ApiKeyId;
use selvedge_core::bulk_job::{BulkJobId, BulkJobState};
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::submission::check_duration;
use selvedge_core::webhook::DeliveryId;
use selvedge_core::{ExecutionId, FlowId, Name, Refusal, Role, Timestamp, WaitpointId};
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// Values that serde reads and writes: the words of a refusal, and the schema.
macro_rules! plain {
    ($($type:ty, $expected:literal, $schema:expr;)*) => {$(
        impl Shape for $type {
            fn schema() -> Schema {
                $schema
            }

            fn read(input: &Input<'_, '_>) -> Result<Self, Refusal> {
                input.parse($expected)
            }

            fn write(&self, out: &mut Vec<u8>) {
                write::value(out, self);
            }
        }
    )*};
}

plain! {
    String, "a string", schema::text();
    bool, "true or false", schema::flag();
    i64, "an integer", schema::integer();
    u32, "an integer between 0 and 4294967295", schema::count();
    u64, "an integer", schema::total();
    f64, "a number", schema::number();
    serde_json::Value, "any value", schema::any();
    BTreeMap<String, serde_json::Value>, "an object", schema::map(schema::any());
}

/// Ids: UUIDs in JSON.
macro_rules! ids {
    ($($type:ident)*) => {$(
        impl Shape for $type {
            fn schema() -> Schema {
                schema::id()
            }

            fn read(input: &Input<'_, '_>) -> Result<Self, Refusal> {
                let text: String = input.parse("a string")?;
                Uuid::parse_str(&text).map($type).map_err(|_| input.refuse("must be a UUID"))
            }

            fn write(&self, out: &mut Vec<u8>) {
                write::value(out, self);
            }
        }
    )*};
}

ids! { ApiKeyId BulkJobId DeliveryId ExecutionId FlowId WaitpointId }

impl Shape for Name {
    fn schema() -> Schema {
        schema::name()
    }

    fn read(input: &Input<'_, '_>) -> Result<Self, Refusal> {
        let text: String = input.parse("a string")?;
        Name::parse(&input.pointer(), &text, NAME_LIMIT)
    }

    fn write(&self, out: &mut Vec<u8>) {
        write::value(out, self);
    }
}

impl Shape for Timestamp {
    fn schema() -> Schema {
        schema::time()
    }

    fn read(input: &Input<'_, '_>) -> Result<Self, Refusal> {
        let text: String = input.parse("a string")?;
        times::parse(&text).ok_or_else(|| input.refuse(NOT_A_TIME))
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(b'"');
        times::write(out, *self);
        out.push(b'"');
    }
}

/// A duration in milliseconds, from 0 to the longest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Millis(pub i64);

impl Shape for Millis {
    fn schema() -> Schema {
        schema::duration()
    }

    fn read(input: &Input<'_, '_>) -> Result<Self, Refusal> {
        let ms = i64::read(input)?;
        check_duration(&input.pointer(), ms)?;
        Ok(Millis(ms))
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }
}

/// A type with a fixed set of values, each with its word.
pub trait Words: Copy + 'static {
    /// Returns every value.
    fn all() -> Vec<Self>;

    /// Returns the word of a value.
    fn word(self) -> &'static str;
}

/// One of a set of words. In an answer of a later server it may be one that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word<T> {
    Known(T),
    Unknown(String),
}

impl<T: Words> Word<T> {
    pub fn as_str(&self) -> &str {
        match self {
            Word::Known(value) => value.word(),
            Word::Unknown(word) => word,
        }
    }
}

impl<T: Words> fmt::Display for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<T> From<T> for Word<T> {
    fn from(value: T) -> Word<T> {
        Word::Known(value)
    }
}

impl<T: Words> Shape for Word<T> {
    fn schema() -> Schema {
        schema::word(T::all().into_iter().map(T::word))
    }

    fn read(input: &Input<'_, '_>) -> Result<Self, Refusal> {
        let word: String = input.parse("a string")?;
        let known = T::all().into_iter().find(|value| value.word() == word);
        Ok(known.map_or(Word::Unknown(word), Word::Known))
    }

    fn write(&self, out: &mut Vec<u8>) {
        write::value(out, self.as_str());
    }
}

/// Words of the core, which requests name.
macro_rules! words {
    ($($type:ty)*) => {$(
        impl Words for $type {
            fn all() -> Vec<Self> {
                <$type>::ALL.to_vec()
            }

            fn word(self) -> &'static str {
                self.as_str()
            }
        }

        impl Shape for $type {
            fn schema() -> Schema {
                schema::word(<$type>::ALL.map(<$type>::as_str))
            }

            fn read(input: &Input<'_, '_>) -> Result<Self, Refusal> {
                let word: String = input.parse("a string")?;
                let known = <$type>::ALL.map(<$type>::as_str).into_iter();
                <$type>::parse(&word).ok_or_else(|| input.refuse(unknown_word(&word, known)))
            }

            fn write(&self, out: &mut Vec<u8>) {
                write::value(out, self.as_str());
            }
        }
    )*};
}

words! { BulkJobState Role }

/// The field `duplicate` of answers to requests that are safe to repeat.
#[derive(Clone, Copy, Debug, PartialEq, Answer)]
pub struct Duplicate {
    /// True if the request repeats an earlier one.
    pub duplicate: bool,
}
