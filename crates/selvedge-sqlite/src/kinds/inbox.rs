//! SQL submissions: there is no inbox, because only this process opens the file.

use crate::SqliteStore;
use selvedge_store::InboxStore;

impl InboxStore for SqliteStore {}
