//! The HTTP API as types.

#![forbid(unsafe_code)]

pub mod code;
pub mod description;
pub mod fields;
pub mod node;
pub mod parameters;
pub mod schema;
pub mod times;
pub mod write;

pub use code::Code;
pub use parameters::Parameters;

use selvedge_core::Refusal;

/// The reason why a request cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub enum Rejection {
    /// The body is not JSON.
    NotJson(String),
    /// It is JSON, but not an acceptable request.
    Refused(Refusal),
}
