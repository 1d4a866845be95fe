//! The supervisor that runs the reconcilers, and the context that it gives to their ticks.

mod context;
mod quarantine;
mod supervisor;

pub use context::ReconcilerContext;
pub use quarantine::RowId;
pub use supervisor::{Aborted, ReconcilerStatus, Supervisor};
