//! The API over real HTTP on loopback, on the store in memory.

mod bad_input;
mod client;
mod conditions;
mod events;
mod feed;
mod flow_ends;
mod flow_problems;
mod flow_work;
mod flows;
mod idempotency;
mod lists;
mod live;
mod operators;
mod pages;
mod problems;
mod shutdown;
mod signals;
mod steps;
mod streams;
mod submission;
mod suspension;
mod timeouts;
mod tokens;
mod waitpoints;
mod workers;
