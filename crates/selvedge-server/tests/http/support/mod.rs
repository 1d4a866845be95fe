//! Fixtures: a server for each test, a client of its API, and a reader of event streams.

mod event_stream;
mod server;

pub use event_stream::{EventStream, Message};
pub use server::{Reply, Server, check_problem, fence, op, op_with, text_of, within};
