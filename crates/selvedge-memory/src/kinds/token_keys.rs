//! Keys of waitpoint tokens.

use crate::MemoryStore;
use crate::kinds::Kind;
use async_trait::async_trait;
use selvedge_core::token::TokenKey;
use selvedge_store::{Error, TokenKeyReads};

pub(crate) const KIND: Kind = Kind {
    load: |tables, needs, rows| {
        if needs.queries.token_keys {
            rows.token_keys.extend(tables.token_keys.values());
        }
    },
    save: |tables, changes, _| {
        tables.token_keys.extend(changes.token_keys.written.iter().map(|key| (key.id, *key)));
        tables.token_keys.retain(|id, _| !changes.token_keys.removed.contains(id));
    },
    ..Kind::EMPTY
};

#[async_trait]
impl TokenKeyReads for MemoryStore {
    async fn token_keys(&self) -> Result<Vec<TokenKey>, Error> {
        self.read("token_keys", |tables, _| tables.token_keys.values().copied().collect()).await
    }
}
