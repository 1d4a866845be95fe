//! The wire format: what requests carry and how responses are written.
//!
//! Requests: [`body`] reads the bytes, [`fields`] takes them apart, [`path`] and [`query`] read the address, and
//! `amounts`, `required_gates`, `filter`, `graph`, `ops`, `submission` and `suspension` build the engine's types. Responses:
//! [`json`] writes, [`views`] and [`flow_views`] have the shapes, [`problem`] the errors. [`paging`] has the pages and
//! cursors of lists.

pub mod amounts;
pub mod body;
pub mod draws;
pub mod fields;
pub mod filter;
pub mod flow_views;
pub mod graph;
pub mod json;
pub mod ops;
pub mod paging;
pub mod path;
pub mod problem;
pub mod query;
pub mod schedule;
pub mod submission;
pub mod suspension;
pub mod times;
pub mod views;
