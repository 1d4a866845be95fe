//! The fields of a JSON object in a request, taken one by one.
//!
//! Every field is taken by name and type; a field that is still there at the end is unknown and refused. So the code
//! that reads a request is the list of its fields, every refusal points at its field, and payloads are never parsed.
//! `null` counts as absent, except for payloads.

use crate::shape::Input;
use crate::{Rejection, times};
use bytes::Bytes;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::submission::{When, check_payload};
use selvedge_core::{Name, Refusal, Timestamp};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// The most fields of one object; no object of the API has as many.
const FIELDS_MAX: usize = 100;

/// The fields of one object.
pub struct Fields<'a> {
    /// The JSON pointer of the object.
    pointer: String,
    /// The fields that have not been taken yet.
    remaining: Vec<(Cow<'a, str>, &'a RawValue)>,
    /// The names of the fields that the API knows here: every name asked for so far.
    known: Vec<&'static str>,
}

/// An entry of an object whose names the caller chooses.
pub struct Entry<'a> {
    pub name: String,
    /// The JSON pointer of the value.
    pub pointer: String,
    /// The value, unparsed.
    pub raw: &'a RawValue,
}

impl<'a> Fields<'a> {
    /// Parses the object of a request body.
    pub fn from_body(body: &'a [u8]) -> Result<Self, Rejection> {
        let text = std::str::from_utf8(body)
            .map_err(|error| Rejection::NotJson(format!("the body is not UTF-8: {error}")))?;
        Self::parse(text, String::new()).map_err(|refusal| {
            match serde_json::from_str::<&RawValue>(text) {
                // The body is JSON, but not an acceptable object.
                Ok(_) => Rejection::Refused(refusal),
                Err(error) => Rejection::NotJson(format!("the body is not JSON: {error}")),
            }
        })
    }

    /// Parses the object at the JSON pointer `pointer`.
    pub fn from_value(raw: &'a RawValue, pointer: impl Into<String>) -> Result<Self, Refusal> {
        Self::parse(raw.get(), pointer.into())
    }

    fn parse(text: &'a str, pointer: String) -> Result<Self, Refusal> {
        let Entries(remaining) =
            serde_json::from_str(text).map_err(|_| wrong_type(&pointer, "an object", text))?;
        if remaining.len() > FIELDS_MAX {
            let detail = format!("has {} fields; no object here has that many", remaining.len());
            return Err(Refusal::field(&pointer, detail));
        }
        for (index, (name, _)) in remaining.iter().enumerate() {
            if remaining[..index].iter().any(|(other, _)| other == name) {
                return Err(given_twice(&pointer, name));
            }
        }
        let known = Vec::with_capacity(24);
        Ok(Fields { pointer, remaining, known })
    }

    /// Returns the JSON pointer of the object itself.
    pub fn own_pointer(&self) -> &str {
        &self.pointer
    }

    /// Returns the JSON pointer of a field.
    pub fn pointer(&self, name: &str) -> String {
        join(&self.pointer, name)
    }

    /// Returns a refusal of a field.
    pub fn refuse(&self, name: &str, detail: impl Into<String>) -> Refusal {
        Refusal::field(&self.pointer(name), detail)
    }

    /// Takes any value, including null.
    pub fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.known.push(name);
        let index = self.remaining.iter().position(|(other, _)| other == name)?;
        Some(self.remaining.swap_remove(index).1)
    }

    /// Takes any value but null.
    pub fn non_null(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.raw(name).filter(|raw| raw.get() != "null")
    }

    /// Takes any value but null, with its place.
    pub fn input(&mut self, name: &'static str) -> Option<Input<'a, '_>> {
        let raw = self.non_null(name)?;
        Some(Input::field(raw, &self.pointer, name))
    }

    /// Reports whether a field that has not been taken yet is null.
    pub fn is_null(&self, name: &str) -> bool {
        self.remaining.iter().any(|(other, raw)| other == name && raw.get() == "null")
    }

    /// Takes a value that serde can read; `expected` names the type in a refusal.
    fn read<T: Deserialize<'a>>(&mut self, name: &'static str, expected: &str) -> Result<Option<T>, Refusal> {
        let Some(raw) = self.non_null(name) else {
            return Ok(None);
        };
        let read = serde_json::from_str(raw.get());
        read.map(Some).map_err(|_| wrong_type(&self.pointer(name), expected, raw.get()))
    }

    /// Takes a payload byte for byte, including null.
    pub fn payload(&mut self, name: &'static str) -> Result<Option<Bytes>, Refusal> {
        Ok(match self.raw(name).map(RawValue::get) {
            None => None,
            Some("null") => Some(Bytes::from_static(b"null")),
            Some(json) => {
                check_payload(&self.pointer(name), json.as_bytes())?;
                Some(Bytes::copy_from_slice(json.as_bytes()))
            }
        })
    }

    /// Takes a string.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, Refusal> {
        self.read(name, "a string")
    }

    /// Takes a string that is a valid [`Name`].
    pub fn name(&mut self, name: &'static str) -> Result<Option<Name>, Refusal> {
        let text = self.text(name)?;
        text.map(|text| Name::parse(&self.pointer(name), &text, NAME_LIMIT)).transpose()
    }

    /// Takes an integer.
    pub fn integer(&mut self, name: &'static str) -> Result<Option<i64>, Refusal> {
        self.read(name, "an integer")
    }

    /// Takes a count: an integer from 0 to 4294967295.
    pub fn count(&mut self, name: &'static str) -> Result<Option<u32>, Refusal> {
        self.read(name, "an integer between 0 and 4294967295")
    }

    /// Takes a number.
    pub fn number(&mut self, name: &'static str) -> Result<Option<f64>, Refusal> {
        self.read(name, "a number")
    }

    /// Takes a boolean.
    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Refusal> {
        self.read(name, "true or false")
    }

    /// Takes a UUID.
    pub fn id(&mut self, name: &'static str) -> Result<Option<Uuid>, Refusal> {
        let text = self.text(name)?;
        let parse = |text: String| Uuid::parse_str(&text).map_err(|_| self.refuse(name, "must be a UUID"));
        text.map(parse).transpose()
    }

    /// Takes an RFC 3339 time.
    pub fn time(&mut self, name: &'static str) -> Result<Option<Timestamp>, Refusal> {
        let text = self.text(name)?;
        let parse = |text: String| times::parse(&text).ok_or_else(|| self.refuse(name, NOT_A_TIME));
        text.map(parse).transpose()
    }

    /// Takes one of the words that `parse` accepts; `known` lists them for a refusal.
    pub fn word<T, const COUNT: usize>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Option<T>,
        known: [&'static str; COUNT],
    ) -> Result<Option<T>, Refusal> {
        let text = self.text(name)?;
        let parse = |text: String| {
            parse(&text).ok_or_else(|| self.refuse(name, unknown_word(&text, known.into_iter())))
        };
        text.map(parse).transpose()
    }

    /// Takes a time from field `at` or a delay in milliseconds from field `delay_ms`, but not both.
    pub fn time_or_delay(
        &mut self,
        at: &'static str,
        delay_ms: &'static str,
    ) -> Result<Option<When>, Refusal> {
        match (self.time(at)?, self.integer(delay_ms)?) {
            (Some(_), Some(_)) => {
                Err(self.refuse(delay_ms, format!("cannot be combined with {at}; give only one of them")))
            }
            (Some(time), None) => Ok(Some(When::At(time))),
            (None, Some(ms)) => Ok(Some(When::AfterMs(ms))),
            (None, None) => Ok(None),
        }
    }

    /// Takes an array, its items unparsed.
    pub fn array(&mut self, name: &'static str) -> Result<Option<Vec<&'a RawValue>>, Refusal> {
        self.read(name, "an array")
    }

    /// Takes an array of at most `limit` items, unparsed. The items beyond are only counted, so refusing a far too long
    /// array is cheap.
    pub fn array_of_at_most(
        &mut self,
        name: &'static str,
        limit: usize,
    ) -> Result<Option<Vec<&'a RawValue>>, Refusal> {
        let Some(raw) = self.non_null(name) else {
            return Ok(None);
        };
        let read = serde_json::Deserializer::from_str(raw.get()).deserialize_seq(AtMost(limit));
        let (items, count) = read.map_err(|_| wrong_type(&self.pointer(name), "an array", raw.get()))?;
        if count > limit {
            let detail = format!("has {count} entries; at most {limit} are allowed");
            return Err(self.refuse(name, detail));
        }
        Ok(Some(items))
    }

    /// Takes an array of at most `limit` items, each with its JSON pointer.
    pub fn bounded_array(
        &mut self,
        name: &'static str,
        limit: usize,
    ) -> Result<Option<Vec<(String, &'a RawValue)>>, Refusal> {
        let Some(items) = self.array_of_at_most(name, limit)? else {
            return Ok(None);
        };
        let at = self.pointer(name);
        Ok(Some(items.into_iter().enumerate().map(|(index, raw)| (format!("{at}/{index}"), raw)).collect()))
    }

    /// Takes an array of strings.
    pub fn texts(&mut self, name: &'static str) -> Result<Option<Vec<String>>, Refusal> {
        let Some(items) = self.array(name)? else {
            return Ok(None);
        };
        let text = |(index, raw): (usize, &RawValue)| {
            let pointer = join(&self.pointer(name), &index.to_string());
            serde_json::from_str(raw.get()).map_err(|_| wrong_type(&pointer, "a string", raw.get()))
        };
        items.into_iter().enumerate().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// Takes an object whose names the caller chooses, with at most `limit` entries.
    pub fn entries(&mut self, name: &'static str, limit: usize) -> Result<Option<Vec<Entry<'a>>>, Refusal> {
        let Some(Entries(entries)) = self.read::<Entries<'a>>(name, "an object")? else {
            return Ok(None);
        };
        let at = self.pointer(name);
        if entries.len() > limit {
            let detail = format!("has {} entries; at most {limit} are allowed", entries.len());
            return Err(self.refuse(name, detail));
        }
        for (index, (key, _)) in entries.iter().enumerate() {
            if entries[..index].iter().any(|(other, _)| other == key) {
                return Err(given_twice(&at, key));
            }
        }
        let entry = |(key, raw): (Cow<'a, str>, &'a RawValue)| Entry {
            pointer: join(&at, &key),
            name: key.into_owned(),
            raw,
        };
        Ok(Some(entries.into_iter().map(entry).collect()))
    }

    /// Takes an object whose values are strings.
    pub fn text_map(&mut self, name: &'static str) -> Result<Option<BTreeMap<String, String>>, Refusal> {
        self.input(name).map(|input| input.text_map()).transpose()
    }

    /// Takes an object of the API.
    pub fn object(&mut self, name: &'static str) -> Result<Option<Fields<'a>>, Refusal> {
        let pointer = self.pointer(name);
        self.non_null(name).map(|raw| Fields::from_value(raw, pointer)).transpose()
    }

    /// Returns the name of the only field, which must be one of `known`. The field is not taken.
    pub fn exactly_one(&mut self, known: &[&'static str]) -> Result<&'static str, Refusal> {
        let unknown = self.remaining.iter().find(|(name, _)| !known.contains(&name.as_ref()));
        if let Some((name, _)) = unknown {
            return Err(Refusal::UnknownField {
                pointer: self.pointer(name),
                detail: format!("there is no such field; there are {}", known.join(", ")),
            });
        }
        self.remaining.retain(|(_, raw)| raw.get() != "null");
        let mut given = known.iter().filter(|name| self.remaining.iter().any(|(other, _)| other == *name));
        match (given.next(), given.next()) {
            (None, _) => Err(Refusal::field(&self.pointer, format!("must have one of {}", known.join(", ")))),
            (Some(name), None) => Ok(name),
            (Some(name), Some(other)) => {
                Err(self.refuse(other, format!("cannot be combined with {name}; give only one of them")))
            }
        }
    }

    /// Refuses an absent field.
    pub fn require<T>(&self, name: &str, value: Option<T>) -> Result<T, Refusal> {
        value.ok_or_else(|| self.refuse(name, "is missing"))
    }

    /// Refuses any field that has not been taken.
    pub fn finish(self) -> Result<(), Refusal> {
        match self.remaining.first() {
            None => Ok(()),
            Some((name, _)) => Err(Refusal::UnknownField {
                pointer: self.pointer(name),
                detail: match self.known.is_empty() {
                    true => "there is no such field; this object takes none".into(),
                    false => format!("there is no such field; there are {}", self.known.join(", ")),
                },
            }),
        }
    }
}

impl Input<'_, '_> {
    /// Reads an object whose values are strings.
    pub fn text_map(&self) -> Result<BTreeMap<String, String>, Refusal> {
        let Entries(entries) = self.parse("an object whose values are strings")?;
        let pointer = self.pointer();
        let mut map = BTreeMap::new();
        for (key, raw) in entries {
            let value = serde_json::from_str(raw.get())
                .map_err(|_| wrong_type(&join(&pointer, &key), "a string", raw.get()))?;
            if map.insert(key.to_string(), value).is_some() {
                return Err(given_twice(&pointer, &key));
            }
        }
        Ok(map)
    }
}

/// The detail of a refusal of text that is not a time.
pub const NOT_A_TIME: &str = "must be an RFC 3339 time such as 2026-01-31T12:00:00.000Z";

/// Returns the JSON pointer of `name` in the object at `pointer`.
pub fn join(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn given_twice(pointer: &str, name: &str) -> Refusal {
    Refusal::field(&join(pointer, name), "is given twice; give it once")
}

/// Returns the detail of a refusal of `word`, which is not one of the `known` words.
pub fn unknown_word(word: &str, known: impl Iterator<Item = &'static str>) -> String {
    let known: Vec<&str> = known.collect();
    format!("is {word:?}; it must be one of {}", known.join(", "))
}

/// Returns the refusal of a value that is not of the `expected` type. If its JSON type is the expected one, it can only
/// have failed because a string in it contains half of a surrogate pair.
pub fn wrong_type(pointer: &str, expected: &str, json: &str) -> Refusal {
    let found = match json.trim_start().as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        Some(_) | None => "a number",
    };
    let detail = match found {
        "a string" | "an object" if expected.starts_with(found) => "must be valid Unicode text".into(),
        "a number" if json.len() <= 40 => format!("must be {expected}, not {json}"),
        _ => format!("must be {expected}, not {found}"),
    };
    Refusal::field(pointer, detail)
}

/// Reads the first items of an array, as many as the limit says, and counts all of them.
struct AtMost(usize);

impl<'de> Visitor<'de> for AtMost {
    type Value = (Vec<&'de RawValue>, usize);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while items.len() < self.0 {
            match array.next_element()? {
                Some(item) => items.push(item),
                None => break,
            }
        }
        let mut count = items.len();
        while array.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok((items, count))
    }
}

/// The entries of an object in the order of the request, values unparsed.
struct Entries<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(8);
                while let Some((Key(name), value)) = map.next_entry()? {
                    entries.push((name, value));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// The name of an entry, borrowed if it contains no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
