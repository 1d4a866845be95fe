//! Tests that concern the whole API: invalid input, limits, problems, HTML pages, and shutdown.

mod compression;
mod connections;
mod invalid_input;
mod limits;
mod metrics;
mod pages;
mod problems;
mod request_ids;
mod shutdown;
mod stalled;
mod tls;
