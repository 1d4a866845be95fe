//! Tests of the command line against a real server: every verb through a pipe and on a terminal.

mod bulk;
mod cli;
mod errors;
mod follow;
mod outcomes;
mod profiles;
mod shells;
mod snapshot;
mod still_waits;
#[path = "../binary/support/mod.rs"]
#[allow(dead_code, unused_imports, unused_macros, reason = "this binary needs only a part of it")]
mod support;
mod terminal;
mod text;
mod watching;
mod worker;
