//! The JSON of submissions, read into drafts; and the cursors of the API as text.
//!
//! There is one reader, for requests over HTTP and for rows of the inbox: [`selvedge_api::fields`] takes an object apart, and
//! `amounts`, `draws`, [`graph`] and [`submission`] build the types of the core.

pub mod amounts;
pub mod cursors;
mod draws;
pub mod graph;
pub mod submission;
