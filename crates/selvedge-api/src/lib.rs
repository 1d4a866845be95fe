//! The HTTP API as types.
//!
//! An operation is one struct: its method, path, permission and problems, and its fields ([`Operation`]). A field of a request
//! or an answer is written once: its name, its type, whether it may be left out, and its words. Reading with refusals, writing,
//! the OpenAPI document and the types of clients come from that declaration, by the derives of [`selvedge_api_derive`].
//!
//! Each noun has a file with its operations and objects: `api_keys`, `bulk_jobs`, `namespaces`.

#![forbid(unsafe_code)]

extern crate self as selvedge_api;

pub mod actions;
pub mod api_keys;
pub mod bulk_jobs;
pub mod code;
pub mod description;
pub mod fields;
pub mod filter;
pub mod namespaces;
pub mod node;
pub mod operation;
pub mod paging;
pub mod parameters;
pub mod schema;
pub mod shape;
pub mod tags;
pub mod times;
pub mod values;
pub mod write;

pub use code::Code;
pub use description::Description;
pub use fields::Fields;
pub use operation::Operation;
pub use paging::Page;
pub use parameters::Parameters;
pub use selvedge_api_derive::{Answer, Operation, Request};
pub use selvedge_core::{Permission, Refusal};
pub use shape::{Input, Shape};

/// The reason why a request cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub enum Rejection {
    /// The body is not JSON.
    NotJson(String),
    /// It is JSON, but not an acceptable request.
    Refused(Refusal),
    /// Another problem, with its detail.
    Problem(Code, String),
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Rejection {
        Rejection::Refused(refusal)
    }
}
