//! API keys. A key itself is in one response only: that of the call which created it.

use crate::auth::Caller;
use crate::routes::typed::{Reply, Typed};
use crate::wire::problem::{Code, Problem};
use selvedge_api::Page;
use selvedge_api::api_keys::{self, CreateKey, CreatedApiKey, ListKeys, RevokeKey};
use selvedge_api::paging::{Cursor, IdCursor};
use selvedge_api::values::Duplicate;
use selvedge_core::Name;
use selvedge_core::api_key::{ApiKey, ApiKeyId, EVERY_NAMESPACE};
use selvedge_core::rules::CallKey;
use selvedge_core::rules::keyed::Answered;
use selvedge_engine::ApiKeyDraft;

pub async fn list(caller: Caller, ListKeys { page }: ListKeys) -> Typed<Page<api_keys::ApiKey>> {
    let limit = page.limit();
    let (keys, more) = visible(&caller, page.after.map(|IdCursor(id)| id), limit).await?;
    let next_cursor = keys.last().filter(|_| more).map(|key| IdCursor(key.id).text());
    Ok(Page { items: keys.iter().map(Into::into).collect(), next_cursor }.into())
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

/// A repeated call with its key gets no key, because keys are not kept.
pub async fn create(caller: Caller, create: CreateKey, key: Option<CallKey>) -> Typed<CreatedApiKey> {
    check_within(&caller, &create.namespaces)?;
    let CreateKey { name, role, namespaces, expires_at } = create;
    let draft = ApiKeyDraft { name: name.to_string(), role, namespaces, expires_at };
    let calls = caller.namespace.keyed(key);
    let Answered { done: (key, text), duplicate } = calls.create_api_key(draft, &caller.actor).await?;
    let key = CreatedApiKey {
        created: (&key).into(),
        key: text.as_ref().map(|text| text.reveal().to_owned()),
        duplicate: Duplicate { duplicate },
    };
    Ok(Reply::created(key, !duplicate).secret())
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

pub async fn revoke(caller: Caller, RevokeKey { id }: RevokeKey) -> Typed<api_keys::ApiKey> {
    let key = caller.namespace.revoke_api_key(id, caller.namespaces(), &caller.actor).await?;
    caller.forget_key(&key);
    Ok(api_keys::ApiKey::from(&key).into())
}
