//! Suspensions, signals, waitpoints and steps with the real rules: the order of events does not affect results that
//! must not depend on it, nothing is lost, and nothing happens twice.

mod helpers;
mod races;
mod stable;
mod steps;
mod test_store;
mod waitpoints;
mod waits;
