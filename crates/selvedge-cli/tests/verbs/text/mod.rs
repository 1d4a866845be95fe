//! The whole output of every verb through a pipe, as text and as JSON.

mod executions;
mod flows;
mod operators;
mod resources;
