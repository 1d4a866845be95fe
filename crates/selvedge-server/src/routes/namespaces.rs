//! Namespaces and their settings. The path names the namespace, which only its administrators may do.

use crate::auth::{Caller, DEFAULT_NAMESPACE};
use crate::routes::HandlerResult;
use crate::wire::body::RequestBody;
use crate::wire::json::{self, Object};
use crate::wire::paging::{NamePage, name_cursor};
use crate::wire::path::PathName;
use crate::wire::problem::{Code, Problem};
use crate::wire::query::Query;
use axum::http::StatusCode;
use selvedge_api::bulk_jobs::BulkJob;
use selvedge_api::shape::Object as _;
use selvedge_core::Refusal;
use selvedge_engine::Namespace;
use selvedge_engine::store::{Deletion, NamespaceSettings};

/// `GET /v1/admin/namespaces`: ordered by name.
pub async fn list(caller: Caller, query: Query) -> HandlerResult {
    let NamePage { after, limit } = NamePage::read(query)?;
    let mut namespaces = caller.namespace.engine().list_namespaces().await?;
    namespaces.retain(|one| after.as_ref().is_none_or(|after| one.name().as_str() > after.as_str()));
    namespaces.retain(|one| caller.check_namespace(one.name()).is_ok());
    let mut items = Vec::new();
    for namespace in namespaces {
        let settings = namespace.settings().await?;
        if settings.deletion != Some(Deletion::Done) {
            items.push((namespace, settings));
        }
        if items.len() > limit as usize {
            break;
        }
    }
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let last = items.last().filter(|_| more).map(|(last, _)| name_cursor(last.name()));
    Ok(json::page(&items, last, |out, (namespace, settings)| {
        json::object(out, |object| write(object, namespace.name(), *settings));
    }))
}

/// `GET /v1/admin/namespaces/{name}`
pub async fn get(caller: Caller, PathName(name): PathName, query: Query) -> HandlerResult {
    query.finish()?;
    let (_, settings) = find(&caller, &name).await?;
    Ok(json::response(StatusCode::OK, |object| write(object, &name, settings)))
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

/// `DELETE /v1/admin/namespaces/{name}`: deletes the namespace with everything in it, as a bulk job. A repeated call continues a
/// job that was stopped.
pub async fn delete(caller: Caller, PathName(name): PathName, query: Query) -> HandlerResult {
    query.finish()?;
    let (namespace, _) = find(&caller, &name).await?;
    if name == DEFAULT_NAMESPACE {
        let detail = "the namespace default cannot be deleted; servers without keys need it";
        return Err(Problem::new(Code::WrongState, detail));
    }
    let job = caller.namespace.delete_namespace(&namespace, &caller.actor).await?;
    Ok(json::response(StatusCode::ACCEPTED, |object| BulkJob::from(&job).put(object)))
}

/// `PUT /v1/admin/namespaces/{name}`: creates the namespace or replaces its settings.
pub async fn put(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    let mut fields = body.fields_if_any()?;
    let settings = NamespaceSettings {
        suspension_timeout_ms: fields.integer("suspension_timeout_ms")?,
        retention_ms: fields.integer("retention_ms")?,
        weight: fields.count("weight")?,
        deletion: None,
    };
    fields.finish()?;
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
    let status = if existed { StatusCode::OK } else { StatusCode::CREATED };
    Ok(json::response(status, |object| write(object, &name, stored)))
}

fn write(object: &mut Object<'_>, name: &str, settings: NamespaceSettings) {
    object.value("name", name);
    object.value("suspension_timeout_ms", &settings.suspension_timeout_ms);
    object.value("retention_ms", &settings.retention_ms);
    object.value("weight", &settings.weight.unwrap_or(1));
    object.value("deleting", &settings.deletion.is_some());
}
