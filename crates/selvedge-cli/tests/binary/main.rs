//! Tests of the real binary: it is started, called with `curl`, stopped and killed.

mod auth;
mod backup;
mod bulk_jobs;
mod crash;
mod dev;
mod docs;
mod doctor;
mod event_views;
mod faults;
mod feed;
mod files;
mod hostile;
mod inbox;
mod logs;
mod memory;
mod metrics;
mod migrate;
mod ownership;
mod readiness;
mod refusals;
mod reservations;
mod rolling;
mod schedules;
mod secret;
mod servers;
mod settings;
mod stalled;
mod subscribers;
mod support;
mod tls;
#[cfg(feature = "otlp")]
mod traces;
mod versions;
mod webhooks;
mod worker;
mod worker_exec;
