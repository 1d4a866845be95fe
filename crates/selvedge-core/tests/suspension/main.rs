//! Suspensions, signals, waitpoints and steps by the real rules: in which order things come decides nothing that it should
//! not, nothing is lost, and nothing happens twice.

mod desk;
mod races;
mod stable;
mod steps;
mod waitpoints;
mod waits;
mod words;
