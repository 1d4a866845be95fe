//! Tests that concern the whole API: invalid input, problems, HTML pages, and shutdown.

mod connections;
mod invalid_input;
mod pages;
mod problems;
mod shutdown;
