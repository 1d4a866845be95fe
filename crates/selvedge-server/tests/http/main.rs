//! The API over real HTTP on loopback, on the store in memory.

mod bad_input;
mod client;
mod events;
mod flow_ends;
mod flow_problems;
mod flow_work;
mod flows;
mod idempotency;
mod lists;
mod operators;
mod pages;
mod problems;
mod shutdown;
mod submission;
mod workers;
