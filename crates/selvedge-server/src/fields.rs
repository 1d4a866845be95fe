//! The fields of a JSON object in a request, taken one by one.
//!
//! Every field is taken by name and type; what is left at the end does not exist and is refused. So the code that reads a
//! request is the list of its fields, every refusal points at its field, and payloads are never parsed. `null` counts as
//! left out, except for payloads.

use crate::problem::{Code, Problem};
use crate::times;
use bytes::Bytes;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::submission::{When, check_payload};
use selvedge_core::{Name, Refusal, Timestamp};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// More fields than any object of ours has.
const FIELDS_MAX: usize = 100;

/// The fields of one object.
pub struct Fields<'a> {
    at: String,
    left: Vec<(Cow<'a, str>, &'a RawValue)>,
    asked: Vec<&'static str>,
}

/// A value under a name of the caller's own.
pub struct Entry<'a> {
    /// The name.
    pub name: String,
    /// Where the value stands.
    pub pointer: String,
    /// The value.
    pub raw: &'a RawValue,
}

impl<'a> Fields<'a> {
    /// The fields of a body.
    pub fn of_body(body: &'a [u8]) -> Result<Self, Problem> {
        let text = std::str::from_utf8(body)
            .map_err(|error| Problem::new(Code::InvalidJson, format!("the body is not UTF-8: {error}")))?;
        Self::parse(text, String::new()).map_err(|refusal| {
            match serde_json::from_str::<&RawValue>(text) {
                // It is JSON, but not the JSON that is wanted.
                Ok(_) => refusal.into(),
                Err(error) => Problem::new(Code::InvalidJson, format!("the body is not JSON: {error}")),
            }
        })
    }

    /// The fields of an object that stands at `at`.
    pub fn of(raw: &'a RawValue, at: impl Into<String>) -> Result<Self, Refusal> {
        Self::parse(raw.get(), at.into())
    }

    fn parse(text: &'a str, at: String) -> Result<Self, Refusal> {
        let Entries(left) = serde_json::from_str(text).map_err(|_| wrong_type(&at, "an object", text))?;
        if left.len() > FIELDS_MAX {
            let detail = format!("has {} fields; no object here has that many", left.len());
            return Err(Refusal::field(&at, detail));
        }
        for (index, (name, _)) in left.iter().enumerate() {
            if left[..index].iter().any(|(other, _)| other == name) {
                return Err(twice(&at, name));
            }
        }
        let asked = Vec::with_capacity(24);
        Ok(Fields { at, left, asked })
    }

    /// The pointer of the object itself.
    pub fn pointer_here(&self) -> &str {
        &self.at
    }

    /// The pointer of one of its fields.
    pub fn pointer(&self, name: &str) -> String {
        join(&self.at, name)
    }

    /// A refusal of one of its fields.
    pub fn refuse(&self, name: &str, detail: impl Into<String>) -> Refusal {
        Refusal::field(&self.pointer(name), detail)
    }

    /// Takes any value, null too.
    pub fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.asked.push(name);
        let index = self.left.iter().position(|(other, _)| other == name)?;
        Some(self.left.swap_remove(index).1)
    }

    /// Takes any value but null.
    fn take(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.raw(name).filter(|raw| raw.get() != "null")
    }

    /// Takes a value of a type that serde reads.
    fn read<T: Deserialize<'a>>(&mut self, name: &'static str, what: &str) -> Result<Option<T>, Refusal> {
        let Some(raw) = self.take(name) else {
            return Ok(None);
        };
        let read = serde_json::from_str(raw.get());
        read.map(Some).map_err(|_| wrong_type(&self.pointer(name), what, raw.get()))
    }

    /// Takes a payload, byte for byte.
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

    /// Takes text.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, Refusal> {
        self.read(name, "a string")
    }

    /// Takes a name.
    pub fn name(&mut self, name: &'static str) -> Result<Option<Name>, Refusal> {
        let text = self.text(name)?;
        text.map(|text| Name::parse(&self.pointer(name), &text, NAME_LIMIT)).transpose()
    }

    /// Takes a whole number.
    pub fn integer(&mut self, name: &'static str) -> Result<Option<i64>, Refusal> {
        self.read(name, "an integer")
    }

    /// Takes a count: a whole number from 0 to 4294967295.
    pub fn count(&mut self, name: &'static str) -> Result<Option<u32>, Refusal> {
        self.read(name, "an integer between 0 and 4294967295")
    }

    /// Takes a number.
    pub fn number(&mut self, name: &'static str) -> Result<Option<f64>, Refusal> {
        self.read(name, "a number")
    }

    /// Takes true or false.
    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Refusal> {
        self.read(name, "true or false")
    }

    /// Takes an id.
    pub fn id(&mut self, name: &'static str) -> Result<Option<Uuid>, Refusal> {
        let text = self.text(name)?;
        let parse = |text: String| Uuid::parse_str(&text).map_err(|_| self.refuse(name, "must be a UUID"));
        text.map(parse).transpose()
    }

    /// Takes a time.
    pub fn time(&mut self, name: &'static str) -> Result<Option<Timestamp>, Refusal> {
        let text = self.text(name)?;
        let parse = |text: String| times::parse(&text).ok_or_else(|| self.refuse(name, NO_TIME));
        text.map(parse).transpose()
    }

    /// Takes a time, or a duration from now on; not both.
    pub fn when(&mut self, at: &'static str, after_ms: &'static str) -> Result<Option<When>, Refusal> {
        match (self.time(at)?, self.integer(after_ms)?) {
            (Some(_), Some(_)) => Err(self.refuse(after_ms, format!("excludes {at}; give only one of them"))),
            (Some(time), None) => Ok(Some(When::At(time))),
            (None, Some(ms)) => Ok(Some(When::AfterMs(ms))),
            (None, None) => Ok(None),
        }
    }

    /// Takes a list of anything.
    pub fn items(&mut self, name: &'static str) -> Result<Option<Vec<&'a RawValue>>, Refusal> {
        self.read(name, "an array")
    }

    /// Takes a list of at most `limit`, each with its pointer. It is counted before it is read, so that a list that is far
    /// too long costs little.
    pub fn list(
        &mut self,
        name: &'static str,
        limit: usize,
    ) -> Result<Option<Vec<(String, &'a RawValue)>>, Refusal> {
        let Some(items) = self.items(name)? else {
            return Ok(None);
        };
        if items.len() > limit {
            let detail = format!("has {} entries; at most {limit} are allowed", items.len());
            return Err(self.refuse(name, detail));
        }
        let at = self.pointer(name);
        Ok(Some(items.into_iter().enumerate().map(|(index, raw)| (format!("{at}/{index}"), raw)).collect()))
    }

    /// Takes a list of text.
    pub fn texts(&mut self, name: &'static str) -> Result<Option<Vec<String>>, Refusal> {
        let Some(items) = self.items(name)? else {
            return Ok(None);
        };
        let text = |(index, raw): (usize, &RawValue)| {
            let pointer = join(&self.pointer(name), &index.to_string());
            serde_json::from_str(raw.get()).map_err(|_| wrong_type(&pointer, "a string", raw.get()))
        };
        items.into_iter().enumerate().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// Takes an object with at most `limit` names of the caller's own.
    pub fn map(&mut self, name: &'static str, limit: usize) -> Result<Option<Vec<Entry<'a>>>, Refusal> {
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
                return Err(twice(&at, key));
            }
        }
        let entry = |(key, raw): (Cow<'a, str>, &'a RawValue)| Entry {
            pointer: join(&at, &key),
            name: key.into_owned(),
            raw,
        };
        Ok(Some(entries.into_iter().map(entry).collect()))
    }

    /// Takes an object whose values are text.
    pub fn text_map(&mut self, name: &'static str) -> Result<Option<BTreeMap<String, String>>, Refusal> {
        let pointer = self.pointer(name);
        let entries = self.read::<Entries<'a>>(name, "an object whose values are strings")?;
        let Some(Entries(entries)) = entries else {
            return Ok(None);
        };
        let mut map = BTreeMap::new();
        for (key, raw) in entries {
            let value = serde_json::from_str(raw.get())
                .map_err(|_| wrong_type(&join(&pointer, &key), "a string", raw.get()))?;
            if map.insert(key.to_string(), value).is_some() {
                return Err(twice(&pointer, &key));
            }
        }
        Ok(Some(map))
    }

    /// Takes an object.
    pub fn object(&mut self, name: &'static str) -> Result<Option<Fields<'a>>, Refusal> {
        let pointer = self.pointer(name);
        self.take(name).map(|raw| Fields::of(raw, pointer)).transpose()
    }

    /// The name of the one field that is there, of those that are `known`: there must be exactly one.
    pub fn only(&mut self, known: &[&'static str]) -> Result<&'static str, Refusal> {
        let unknown = self.left.iter().find(|(name, _)| !known.contains(&name.as_ref()));
        if let Some((name, _)) = unknown {
            return Err(Refusal::UnknownField {
                pointer: self.pointer(name),
                detail: format!("there is no such field; there are {}", known.join(", ")),
            });
        }
        self.left.retain(|(_, raw)| raw.get() != "null");
        let mut given = known.iter().filter(|name| self.left.iter().any(|(other, _)| other == *name));
        match (given.next(), given.next()) {
            (None, _) => Err(Refusal::field(&self.at, format!("must have one of {}", known.join(", ")))),
            (Some(name), None) => Ok(name),
            (Some(name), Some(other)) => {
                Err(self.refuse(other, format!("excludes {name}; give only one of them")))
            }
        }
    }

    /// A field that must be there.
    pub fn require<T>(&self, name: &str, value: Option<T>) -> Result<T, Refusal> {
        value.ok_or_else(|| self.refuse(name, "is missing"))
    }

    /// Nothing may be left.
    pub fn finish(self) -> Result<(), Refusal> {
        match self.left.first() {
            None => Ok(()),
            Some((name, _)) => Err(Refusal::UnknownField {
                pointer: self.pointer(name),
                detail: format!("there is no such field; there are {}", self.asked.join(", ")),
            }),
        }
    }
}

/// What is said of text that is no time.
pub const NO_TIME: &str = "must be an RFC 3339 time such as 2026-01-31T12:00:00.000Z";

/// A pointer to `name` in the object at `at`.
fn join(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn twice(at: &str, name: &str) -> Refusal {
    Refusal::field(&join(at, name), "is given twice; give it once")
}

/// A value of another type than is wanted. One of the wanted type can only have failed because its text, or one of its
/// names, holds half of a surrogate pair.
pub fn wrong_type(pointer: &str, wanted: &str, json: &str) -> Refusal {
    let found = match json.trim_start().as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        Some(_) | None => "a number",
    };
    let detail = match found {
        "a string" | "an object" if wanted.starts_with(found) => "must hold valid Unicode text only".into(),
        "a number" if json.len() <= 40 => format!("must be {wanted}, not {json}"),
        _ => format!("must be {wanted}, not {found}"),
    };
    Refusal::field(pointer, detail)
}

/// The fields of an object in the order they were sent, values unparsed.
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

/// A name, borrowed where it holds no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
