//! The description of the API as an OpenAPI 3.1 document, served at `/openapi.json` and shown at `/docs`.
//!
//! `operations` describes the handlers in `routes` and `shapes` the readers and writers in `wire`: files and functions have
//! the names of what they describe. Words, limits, problem codes and roles are taken from the types that the handlers use.
//! The tests in `tests/http/openapi` keep the rest the same: the document has exactly the routes of the router; an object of
//! a request has exactly the fields that its reader knows; and every request and answer of every HTTP test is checked
//! against the document.

mod document;
mod operations;
mod shapes;

pub use document::document;

use crate::compression::FixedContent;
use axum::http::header;
use axum::response::Response;
use std::sync::LazyLock;

/// The document as text, written once.
static JSON: LazyLock<FixedContent> =
    LazyLock::new(|| FixedContent::new(serde_json::to_vec(&document()).expect("the document serialises")));

/// `GET /openapi.json`
pub async fn openapi() -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-cache")];
    JSON.response(headers)
}
