//! API keys. A key itself is in one response only: that of the call which created it.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::body::RequestBody;
use crate::wire::json::{self, Object};
use crate::wire::paging::{NamePage, name_cursor};
use crate::wire::path::PathKey;
use crate::wire::problem::{Code, Problem};
use crate::wire::query::Query;
use axum::http::{HeaderValue, StatusCode, header};
use selvedge_core::api_key::{ApiKey, ApiKeyId, EVERY_NAMESPACE};
use selvedge_core::rules::keyed::Answered;
use selvedge_core::{Name, Role};
use selvedge_engine::ApiKeyDraft;
use uuid::Uuid;

/// `GET /v1/admin/keys`: newest first, revoked ones included.
pub async fn list(caller: Caller, query: Query) -> HandlerResult {
    let NamePage { after, limit } = NamePage::read(query)?;
    let after = after.map(|after| Uuid::parse_str(&after).map(ApiKeyId)).transpose();
    let after = after.map_err(|_| Problem::new(Code::InvalidCursor, "the cursor is not from this list"))?;
    let (keys, more) = visible(&caller, after, limit).await?;
    let last = keys.last().filter(|_| more).map(|key| key.id.to_string());
    Ok(json::page(&keys, last.map(|id| name_cursor(&id)), |out, key| {
        json::object(out, |object| write(object, key));
    }))
}

/// Returns at most `limit` keys after a position that are of the caller's namespaces, newest first, and whether more follow.
pub async fn visible(
    caller: &Caller,
    after: Option<ApiKeyId>,
    limit: u32,
) -> Result<(Vec<ApiKey>, bool), Problem> {
    let own = caller.namespaces();
    let is_shown = |key: &ApiKey| own.as_ref().is_none_or(|own| key.is_within(own));
    // Finds one key more than it returns: it tells that others follow.
    let (mut keys, mut position, wanted) = (Vec::new(), after, limit as usize + 1);
    loop {
        let read = caller.namespace.engine().api_keys(position, limit + 1).await?;
        position = read.last().map(|key| key.id);
        let is_end = read.len() < wanted;
        keys.extend(read.into_iter().filter(is_shown));
        if is_end || keys.len() >= wanted {
            break;
        }
    }
    let more = keys.len() >= wanted;
    keys.truncate(limit as usize);
    Ok((keys, more))
}

/// `POST /v1/admin/keys`: a repeated call with its key gets no key, because keys are not kept.
pub async fn create(caller: Caller, body: RequestBody) -> HandlerResult {
    let mut fields = body.fields()?;
    let name = fields.text("name")?;
    let role = fields.word("role", Role::parse, Role::ALL.map(Role::as_str))?;
    let namespaces = fields.texts("namespaces")?;
    let expires_at = fields.time("expires_at")?;
    let draft = ApiKeyDraft {
        name: fields.require("name", name)?,
        role: fields.require("role", role)?,
        namespaces: fields.require("namespaces", namespaces)?,
        expires_at,
    };
    fields.finish()?;
    check_within(&caller, &draft.namespaces)?;
    let calls = caller.namespace.keyed(body.call_key()?);
    let Answered { done: (key, text), duplicate } = calls.create_api_key(draft, &caller.actor).await?;
    let status = if duplicate { StatusCode::OK } else { StatusCode::CREATED };
    let mut response = json::response(status, |object| {
        write(object, &key);
        object.value("key", &text.as_ref().map(|text| text.reveal()));
        object.value("duplicate", &duplicate);
    });
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Refuses namespaces that the caller does not have itself.
fn check_within(caller: &Caller, namespaces: &[String]) -> Result<(), Problem> {
    let Some(own) = caller.namespaces() else { return Ok(()) };
    let is_own = |name: &String| name != EVERY_NAMESPACE && own.iter().any(|own| own.as_str() == name);
    match namespaces.iter().find(|name| !is_own(name)) {
        None => Ok(()),
        Some(foreign) => {
            let foreign = Name::trusted(foreign);
            let detail = format!("the key {:?} is not of the namespace {foreign:?}", caller.actor);
            Err(Problem::new(Code::Forbidden, detail))
        }
    }
}

/// `DELETE /v1/admin/keys/{id}`: revokes a key. This server refuses it at once, others within seconds.
pub async fn revoke(caller: Caller, PathKey(id): PathKey) -> HandlerResult {
    let key = caller.namespace.revoke_api_key(id, caller.namespaces(), &caller.actor).await?;
    caller.forget_key(&key);
    Ok(json::response(StatusCode::OK, |object| write(object, &key)))
}

fn write(object: &mut Object<'_>, key: &ApiKey) {
    object.value("id", &key.id);
    object.value("name", &key.name);
    object.value("role", key.role.as_str());
    object.value("namespaces", &key.namespaces);
    object.time("created_at", Some(key.created_at));
    object.time("expires_at", key.expires_at);
    object.time("last_used_at", key.last_used_at);
    object.time("revoked_at", key.revoked_at);
}
