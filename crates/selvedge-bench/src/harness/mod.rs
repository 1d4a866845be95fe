//! The parts that scenarios share.
//!
//! - [`TestBed`] is an engine on an empty store with its measured floor, and the counters of that store;
//! - [`Target`] is the engine in this process or behind HTTP (`http`), [`BenchWorker`] claims from it;
//! - [`Workload`] says what executions require and workers offer, `drive` runs it, `comparison` runs several in turn;
//! - [`graphs`] builds flows; [`Unlogged`] lets a store record no events.

pub mod comparison;
pub mod drive;
pub mod graphs;
mod http;
mod target;
mod test_bed;
mod unlogged;
pub mod workload;

pub use target::{ActiveExecution, BenchWorker, Target, active_execution, report_all};
pub use test_bed::{Cost, TestBed};
pub use unlogged::Unlogged;
pub use workload::{Requirements, Workload};
