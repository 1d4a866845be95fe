//! The store in memory does what every store must do.

use selvedge_memory::MemoryStore;
use selvedge_store::Store;
use std::sync::Arc;

async fn empty_store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

selvedge_conformance::suite!(empty_store);
