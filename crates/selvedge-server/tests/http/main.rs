//! The API over real HTTP on loopback, on the store in memory.

mod bad_input;
mod client;
mod events;
mod idempotency;
mod lists;
mod operators;
mod pages;
mod problems;
mod shutdown;
mod submission;
mod workers;
