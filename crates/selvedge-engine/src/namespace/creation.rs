//! Creates namespaces. A request finds only namespaces that exist: an administrator creates them, so that no typing error does.
//!
//! A name that was deleted gets a new namespace with a new id, and nothing of the deleted one reaches it: its rows and events have
//! the old id, and before the name is used again, it is removed from keys that have it.

use super::KeysOf;
use crate::Error;
use crate::commit::Committer;
use selvedge_core::name::EVERY_NAMESPACE;
use selvedge_core::{Name, NamespaceId, Refusal};
use selvedge_store::{Deletion, Store};
use std::sync::Arc;

/// The namespace that always exists.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Returns the id of a namespace for a request. A missing one is created only if it is `default`, or if `creates` is true.
pub async fn open(
    store: &dyn Store,
    committer: &Arc<Committer>,
    creates: bool,
    name: &Name,
) -> Result<Option<NamespaceId>, Error> {
    match committer.registry().find(name).await? {
        None if name.as_str() == EVERY_NAMESPACE => Ok(None),
        None if creates || name.as_str() == DEFAULT_NAMESPACE => {
            Ok(Some(create(store, committer, name).await?))
        }
        found => Ok(found),
    }
}

/// Returns the id of a namespace, which is created if it does not exist or was deleted.
pub async fn create(
    store: &dyn Store,
    committer: &Arc<Committer>,
    name: &Name,
) -> Result<NamespaceId, Error> {
    if name.as_str() == EVERY_NAMESPACE {
        let detail = "is \"*\", which stands for every namespace; choose another name";
        return Err(Refusal::field("/namespace", detail).into());
    }
    // Before the look at the namespace: keys of its successor, if another server creates it now, are newer.
    let now = store.now().await?;
    if let Some(id) = store.find_namespace(name).await?
        && store.namespace_settings(id).await?.deletion == Some(Deletion::Done)
    {
        let keys = KeysOf { name, created_by: now, log: id, actor: None };
        keys.remove(store, committer).await?;
    }
    committer.registry().intern_namespace(name).await
}
