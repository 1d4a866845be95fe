//! Subscriptions on Postgres: every event is delivered once and in one order, whatever writers, other programs and the
//! database do meanwhile.

mod delivery;
mod faults;
mod filters;
mod mutants;
mod projection;
mod window;
