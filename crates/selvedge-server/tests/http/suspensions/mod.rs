//! Tests of suspensions: waits, timeouts, signals, steps, waitpoints and their tokens, and invalid input.

mod invalid_input;
mod operators;
mod signals;
mod steps;
mod suspend;
mod timeouts;
mod tokens;
mod waitpoints;
