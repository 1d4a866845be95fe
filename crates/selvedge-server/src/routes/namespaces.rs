//! Namespaces and their settings. The path names the namespace, which only its administrators may do.

use crate::auth::{Caller, DEFAULT_NAMESPACE};
use crate::routes::typed::{Reply, Typed};
use crate::wire::problem::{Code, Problem};
use selvedge_api::Page;
use selvedge_api::bulk_jobs::BulkJob;
use selvedge_api::namespaces::{self, DeleteNamespace, GetNamespace, ListNamespaces, PutNamespace};
use selvedge_api::paging::NameCursor;
use selvedge_core::Refusal;
use selvedge_engine::Namespace;
use selvedge_engine::store::{Deletion, NamespaceSettings};

pub async fn list(
    caller: Caller,
    ListNamespaces { page }: ListNamespaces,
) -> Typed<Page<namespaces::Namespace>> {
    let limit = page.limit();
    let mut namespaces = caller.namespace.engine().list_namespaces().await?;
    namespaces.retain(|one| {
        page.after.as_ref().is_none_or(|NameCursor(after)| one.name().as_str() > after.as_str())
    });
    namespaces.retain(|one| caller.check_namespace(one.name()).is_ok());
    let mut found = Vec::new();
    for namespace in namespaces {
        let settings = namespace.settings().await?;
        if settings.deletion != Some(Deletion::Done) {
            found.push(view(namespace.name(), settings));
        }
        // One more than the page shows tells that another page follows.
        if found.len() > limit as usize {
            break;
        }
    }
    Ok(Page::cut(found, limit, |one| NameCursor(one.name.clone()), |one| one).into())
}

pub async fn get(caller: Caller, GetNamespace { name }: GetNamespace) -> Typed<namespaces::Namespace> {
    let (_, settings) = find(&caller, &name).await?;
    Ok(view(&name, settings).into())
}

/// Returns a namespace that exists, with its settings.
async fn find(caller: &Caller, name: &str) -> Result<(Namespace, NamespaceSettings), Problem> {
    caller.check_namespace(name)?;
    let found = caller.namespace.engine().find_namespace(name).await?;
    let missing = || Refusal::NotFound { what: "namespace".into(), id: name.into() };
    let namespace = found.ok_or_else(missing)?;
    let settings = namespace.settings().await?;
    Ok((namespace, settings))
}

/// Deletes a namespace as a bulk job. A repeated call continues a job that was stopped.
pub async fn delete(caller: Caller, DeleteNamespace { name }: DeleteNamespace) -> Typed<BulkJob> {
    let (namespace, _) = find(&caller, &name).await?;
    if name == DEFAULT_NAMESPACE {
        let detail = "the namespace default cannot be deleted; servers without keys need it";
        return Err(Problem::new(Code::WrongState, detail));
    }
    let job = caller.namespace.delete_namespace(&namespace, &caller.actor).await?;
    Ok(BulkJob::from(&job).into())
}

/// Creates the namespace or replaces its settings.
pub async fn put(caller: Caller, put: PutNamespace) -> Typed<namespaces::Namespace> {
    let PutNamespace { name, suspension_timeout_ms, retention_ms, weight } = put;
    let settings = NamespaceSettings { suspension_timeout_ms, retention_ms, weight, deletion: None };
    settings.check()?;
    caller.check_namespace(&name)?;
    let engine = caller.namespace.engine();
    let existed = engine.find_namespace(&name).await?.is_some();
    let stored = engine.namespace(&name).await?.set_settings(settings).await?;
    if stored.deletion.is_some() {
        let detail = format!(
            "the namespace {name:?} is being deleted; wait until its bulk job has ended, or delete it again if the job was stopped"
        );
        return Err(Problem::new(Code::WrongState, detail));
    }
    Ok(Reply::created(view(&name, stored), !existed))
}

fn view(name: &str, settings: NamespaceSettings) -> namespaces::Namespace {
    namespaces::Namespace {
        name: name.to_owned(),
        suspension_timeout_ms: settings.suspension_timeout_ms,
        retention_ms: settings.retention_ms,
        weight: settings.weight.unwrap_or(1),
        deleting: settings.deletion.is_some(),
    }
}
