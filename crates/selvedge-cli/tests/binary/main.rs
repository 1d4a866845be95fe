//! Tests of the real binary: it is started, called with `curl`, stopped and killed.

mod backup;
mod crash;
mod dev;
mod docs;
mod faults;
mod feed;
mod files;
mod memory;
mod metrics;
mod ownership;
mod readiness;
mod refusals;
mod reservations;
mod secret;
mod servers;
mod subscribers;
mod support;
#[cfg(feature = "otlp")]
mod traces;
mod versions;
mod worker;
