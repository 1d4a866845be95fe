//! The wire format: what requests carry and how responses are written.
//!
//! Requests: [`body`] reads the bytes, [`selvedge_api::fields`] takes them apart, [`path`] and [`query`] read the address, and
//! `amounts`, `filter`, `graph`, `ops`, `submission` and `suspension` build the engine's types. The engine has the modules that
//! read submissions, because it also reads those from SQL. Responses: [`json`] writes, [`views`] and [`flow_views`] have the shapes, [`problem`] the errors. [`paging`] has the pages and
//! cursors of lists.

pub mod body;
pub mod filter;
pub mod flow_views;
pub mod json;
pub mod ops;
pub mod paging;
pub mod path;
pub mod problem;
pub mod query;
pub mod schedule;
pub mod suspension;
pub mod views;

pub use selvedge_engine::request::{amounts, graph, submission};
