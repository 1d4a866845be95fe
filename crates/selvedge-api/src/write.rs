//! Writes JSON straight into a buffer: payloads are copied byte for byte, and no intermediate values are built.

use crate::times;
use selvedge_core::Timestamp;
use serde::Serialize;

/// Writes an object.
pub fn object(out: &mut Vec<u8>, fill: impl FnOnce(&mut Object<'_>)) {
    out.push(b'{');
    fill(&mut Object { out, first: true });
    out.push(b'}');
}

/// Writes an array; `each` writes an item.
pub fn array<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut each: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        each(out, item);
    }
    out.push(b']');
}

/// Writes a payload byte for byte, or null if there is none.
pub fn raw(out: &mut Vec<u8>, json: Option<&[u8]>) {
    out.extend_from_slice(json.filter(|json| !json.is_empty()).unwrap_or(b"null"));
}

/// Writes a value whose serialisation cannot fail: text, numbers, ids, and lists and maps by text of them.
pub fn value<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("values of responses always serialise");
}

/// An object that is being written. Field names are literals that need no escaping, except in [`Object::entry`].
pub struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl Object<'_> {
    /// Begins a field; the caller writes its value next.
    pub fn field(&mut self, name: &'static str) -> &mut Vec<u8> {
        self.out.extend_from_slice(if self.first { b"\"" } else { b",\"" });
        self.first = false;
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// Begins a field whose name came from a request; the caller writes its value next.
    pub fn entry(&mut self, name: &str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        self::value(self.out, name);
        self.out.push(b':');
        self.out
    }

    /// Writes a field with a serialisable value.
    pub fn value<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) {
        self::value(self.field(name), value);
    }

    /// Writes a field with a payload byte for byte, or null if there is none.
    pub fn raw(&mut self, name: &'static str, json: Option<&[u8]>) {
        self::raw(self.field(name), json);
    }

    /// Writes a null field.
    pub fn null(&mut self, name: &'static str) {
        self.raw(name, None);
    }

    /// Writes a field with a time, or null if there is none.
    pub fn time(&mut self, name: &'static str, time: Option<Timestamp>) {
        let out = self.field(name);
        match time {
            Some(time) => {
                out.push(b'"');
                times::write(out, time);
                out.push(b'"');
            }
            None => out.extend_from_slice(b"null"),
        }
    }

    /// Writes a field with an object.
    pub fn object(&mut self, name: &'static str, fill: impl FnOnce(&mut Object<'_>)) {
        object(self.field(name), fill);
    }

    /// Writes a field with an array.
    pub fn array<T>(
        &mut self,
        name: &'static str,
        items: impl IntoIterator<Item = T>,
        each: impl FnMut(&mut Vec<u8>, T),
    ) {
        array(self.field(name), items, each);
    }
}
