//! Subscriptions on Postgres: every event is delivered once and in one order, whatever writers, other programs and the
//! database do meanwhile.

#[path = "../support/mod.rs"]
mod support;

mod delivery;
mod faults;
mod filters;
mod mutants;
mod projection;
mod window;
