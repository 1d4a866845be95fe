//! Namespaces and their settings. The path names the namespace, which only its administrators may do.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::body::RequestBody;
use crate::wire::json::{self, Object};
use crate::wire::paging::{NamePage, name_cursor};
use crate::wire::path::PathName;
use crate::wire::query::Query;
use axum::http::StatusCode;
use selvedge_core::Refusal;
use selvedge_engine::store::NamespaceSettings;

/// `GET /v1/admin/namespaces`: ordered by name.
pub async fn list(caller: Caller, query: Query) -> HandlerResult {
    let NamePage { after, limit } = NamePage::read(query)?;
    let mut namespaces = caller.namespace.engine().list_namespaces().await?;
    namespaces.retain(|one| after.as_ref().is_none_or(|after| one.name().as_str() > after.as_str()));
    namespaces.retain(|one| caller.check_namespace(one.name()).is_ok());
    let more = namespaces.len() > limit as usize;
    namespaces.truncate(limit as usize);
    let last = namespaces.last().filter(|_| more).map(|last| name_cursor(last.name()));
    let mut items = Vec::with_capacity(namespaces.len());
    for namespace in namespaces {
        let settings = namespace.settings().await?;
        items.push((namespace, settings));
    }
    Ok(json::page(&items, last, |out, (namespace, settings)| {
        json::object(out, |object| write(object, namespace.name(), *settings));
    }))
}

/// `GET /v1/admin/namespaces/{name}`
pub async fn get(caller: Caller, PathName(name): PathName, query: Query) -> HandlerResult {
    query.finish()?;
    caller.check_namespace(&name)?;
    let engine = caller.namespace.engine();
    if !engine.has_namespace(&name).await? {
        return Err(Refusal::NotFound { what: "namespace".into(), id: name }.into());
    }
    let settings = engine.namespace(&name).await?.settings().await?;
    Ok(json::response(StatusCode::OK, |object| write(object, &name, settings)))
}

/// `PUT /v1/admin/namespaces/{name}`: creates the namespace or replaces its settings.
pub async fn put(caller: Caller, PathName(name): PathName, body: RequestBody) -> HandlerResult {
    let mut fields = body.fields_if_any()?;
    let settings = NamespaceSettings {
        suspension_timeout_ms: fields.integer("suspension_timeout_ms")?,
        retention_ms: fields.integer("retention_ms")?,
        weight: fields.count("weight")?,
    };
    fields.finish()?;
    settings.check()?;
    caller.check_namespace(&name)?;
    let engine = caller.namespace.engine();
    let status = match engine.has_namespace(&name).await? {
        true => StatusCode::OK,
        false => StatusCode::CREATED,
    };
    engine.namespace(&name).await?.set_settings(settings).await?;
    Ok(json::response(status, |object| write(object, &name, settings)))
}

fn write(object: &mut Object<'_>, name: &str, settings: NamespaceSettings) {
    object.value("name", name);
    object.value("suspension_timeout_ms", &settings.suspension_timeout_ms);
    object.value("retention_ms", &settings.retention_ms);
    object.value("weight", &settings.weight.unwrap_or(1));
}
