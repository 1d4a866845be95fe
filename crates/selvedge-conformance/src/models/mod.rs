//! The random models: each drives a store through random commands and checks it, against a reference model or against the
//! limits of gates.

mod compare;
pub mod executions;
pub mod flows;
pub mod gates;
mod random;
pub mod schedules;
