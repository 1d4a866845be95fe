//! The supervisor that runs the reconcilers, and the context that it gives to their ticks.

mod context;
mod supervisor;

pub use context::{ReconcilerContext, RowId};
pub use supervisor::{Aborted, ReconcilerStatus, Supervisor};
