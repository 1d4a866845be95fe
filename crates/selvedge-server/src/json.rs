//! Writes JSON straight into a buffer: payloads go in byte for byte, and nothing is built only to be written.

use crate::times;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use selvedge_core::Timestamp;
use serde::Serialize;

/// An answer with this status whose body is the object that `fill` writes.
pub fn answer(status: StatusCode, fill: impl FnOnce(&mut Object<'_>)) -> Response {
    let mut out = Vec::with_capacity(512);
    object(&mut out, fill);
    body(status, out)
}

/// An answer with this status and body.
pub fn body(status: StatusCode, json: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], json).into_response()
}

/// A page of a list.
pub fn page<T>(items: &[T], next_cursor: Option<String>, write: fn(&mut Vec<u8>, &T)) -> Response {
    answer(StatusCode::OK, |object| {
        object.array("items", items, write);
        object.value("next_cursor", &next_cursor);
    })
}

/// Writes an object.
pub fn object(out: &mut Vec<u8>, fill: impl FnOnce(&mut Object<'_>)) {
    out.push(b'{');
    fill(&mut Object { out, first: true });
    out.push(b'}');
}

/// Writes an array, each item by `each`.
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

/// Writes a payload, byte for byte; null where there is none.
pub fn raw(out: &mut Vec<u8>, json: Option<&[u8]>) {
    out.extend_from_slice(json.filter(|json| !json.is_empty()).unwrap_or(b"null"));
}

/// Writes any value that cannot fail to be written: text, numbers, ids, lists of them.
pub fn value<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let before = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(before);
        out.extend_from_slice(b"null");
    }
}

/// An object that is being written. Names are literals without anything to escape, except in [`Object::entry`].
pub struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl Object<'_> {
    /// Begins a field; its value is to be written next.
    pub fn field(&mut self, name: &'static str) -> &mut Vec<u8> {
        self.out.extend_from_slice(if self.first { b"\"" } else { b",\"" });
        self.first = false;
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// Begins a field whose name came from a caller; its value is to be written next.
    pub fn entry(&mut self, name: &str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        self::value(self.out, name);
        self.out.push(b':');
        self.out
    }

    /// A field with any value.
    pub fn value<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) {
        self::value(self.field(name), value);
    }

    /// A field with a payload, byte for byte; null where there is none.
    pub fn raw(&mut self, name: &'static str, json: Option<&[u8]>) {
        self::raw(self.field(name), json);
    }

    /// A field with null.
    pub fn null(&mut self, name: &'static str) {
        self.raw(name, None);
    }

    /// A field with a time; null where there is none.
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

    /// A field with an object.
    pub fn object(&mut self, name: &'static str, fill: impl FnOnce(&mut Object<'_>)) {
        object(self.field(name), fill);
    }

    /// A field with an array.
    pub fn array<T>(
        &mut self,
        name: &'static str,
        items: impl IntoIterator<Item = T>,
        each: impl FnMut(&mut Vec<u8>, T),
    ) {
        array(self.field(name), items, each);
    }
}
