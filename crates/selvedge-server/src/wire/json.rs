//! Responses with JSON, written straight into their buffer.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

pub use selvedge_api::write::{Object, object, raw, value};

/// The largest unused part of the buffer of a response, in bytes.
const SPARE_MAX: usize = 16 * 1024;

/// Returns a response whose body is the object that `fill` writes.
pub fn response(status: StatusCode, fill: impl FnOnce(&mut Object<'_>)) -> Response {
    let mut out = Vec::with_capacity(512);
    object(&mut out, fill);
    body(status, out)
}

/// Returns a response with `json` as its body.
pub fn body(status: StatusCode, mut json: Vec<u8>) -> Response {
    // A response may wait for its client, and only its bytes count towards the room for responses.
    if json.capacity() - json.len() > SPARE_MAX {
        json.shrink_to_fit();
    }
    (status, [(header::CONTENT_TYPE, "application/json")], json).into_response()
}

/// Returns a response with a page of a list.
pub fn page<T>(items: &[T], next_cursor: Option<String>, write: impl Fn(&mut Vec<u8>, &T)) -> Response {
    response(StatusCode::OK, |object| {
        object.array("items", items, write);
        object.value("next_cursor", &next_cursor);
    })
}
