//! The real binary, started, spoken to with `curl`, stopped and killed.

mod crash;
mod dev;
mod feed;
mod refusals;
mod reservations;
mod secret;
mod servers;
mod support;
mod worker;
