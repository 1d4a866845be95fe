//! The SQLite store itself: opening files, group commit, statements and their plans, and everything that depends on the
//! file.

#[path = "../support/mod.rs"]
mod support;

mod diagnosis;
mod fixtures;
mod flows;
mod gates;
mod log_window;
mod opening;
mod ownership;
mod plans;
mod records;
mod statements;
mod streams;
mod views;
mod writer;
