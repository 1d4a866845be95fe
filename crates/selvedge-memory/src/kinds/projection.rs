//! The projection of the log: none, because SQL cannot reach the store.

use crate::MemoryStore;
use selvedge_store::ProjectionStore;

impl ProjectionStore for MemoryStore {}
