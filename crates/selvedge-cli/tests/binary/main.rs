//! Tests of the real binary: it is started, called with `curl`, stopped and killed.

mod auth;
mod backup;
mod crash;
mod dev;
mod docs;
mod faults;
mod feed;
mod files;
mod hostile;
mod memory;
mod ownership;
mod readiness;
mod refusals;
mod reservations;
mod secret;
mod servers;
mod subscribers;
mod support;
mod versions;
mod worker;
