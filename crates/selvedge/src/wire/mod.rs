//! The JSON of the HTTP API: bodies that the client writes, and answers that it reads.
//!
//! - `submissions`: submissions, flows and graphs;
//! - `claims` and `reports`: the worker protocol;
//! - `values`: times, payloads and objects.

pub mod claims;
pub mod reports;
pub mod submissions;
pub mod values;
