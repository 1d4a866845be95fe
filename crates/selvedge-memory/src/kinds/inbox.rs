//! SQL submissions: there is no inbox, because SQL cannot reach the store.

use crate::MemoryStore;
use selvedge_store::InboxStore;

impl InboxStore for MemoryStore {}
