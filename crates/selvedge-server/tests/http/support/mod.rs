//! Fixtures: a server for each test, a client of its API, a reader of event streams, and the check of both
//! against the OpenAPI document.

pub mod contract;
mod event_stream;
mod server;

pub use event_stream::{EventStream, Message};
pub use server::{Reply, Server, check_problem, fence, op, op_with, text_of, within};
