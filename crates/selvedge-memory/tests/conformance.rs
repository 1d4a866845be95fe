//! The conformance suite on the store in memory.

use selvedge_memory::MemoryStore;
use selvedge_store::Store;
use std::sync::Arc;

async fn empty_store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

selvedge_conformance::suite!(empty_store);
