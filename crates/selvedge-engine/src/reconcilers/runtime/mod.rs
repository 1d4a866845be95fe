//! The supervisor that runs the reconcilers, and the context that it gives to their ticks.

mod context;
mod supervisor;

pub use context::ReconcilerContext;
pub use supervisor::{Aborted, ReconcilerStatus, Supervisor};
