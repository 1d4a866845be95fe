//! Namespaces and their settings. The path names the namespace, which only the administrator of the server may do.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::body::RequestBody;
use crate::wire::json::{self, Object};
use crate::wire::path::PathName;
use crate::wire::query::Query;
use axum::http::StatusCode;
use selvedge_core::Refusal;
use selvedge_engine::store::NamespaceSettings;

/// `GET /v1/admin/namespaces/{name}`
pub async fn get(caller: Caller, PathName(name): PathName, query: Query) -> HandlerResult {
    query.finish()?;
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
    let settings = NamespaceSettings { suspension_timeout_ms: fields.integer("suspension_timeout_ms")? };
    fields.finish()?;
    settings.check()?;
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
}
