//! The event log: pages of it, and the feed.
//!
//! `next_cursor` is null where the log ends for now, as in every list; `resume_cursor` is always there: the place after
//! everything that the page looked at, to go on from later.

use crate::Answer;
use crate::auth::Caller;
use crate::feed::feed;
use crate::filter::{check_tag, invalid_cursor};
use crate::json;
use crate::query::{Id, Query};
use crate::sse;
use crate::views;
use axum::http::{HeaderMap, StatusCode};
use selvedge_core::fact::EVENT_TYPES;
use selvedge_core::{ExecutionId, FlowId, Refusal};
use selvedge_engine::{EventFilter, From};

/// Types that the API has and nothing tells yet: a filter may name them.
const NOT_YET: &[&str] = &["schedule.fired", "inbox.refused"];

/// `GET /v1/events`: a page, or the live feed for a caller that accepts one.
pub async fn page(caller: Caller, headers: HeaderMap, mut query: Query) -> Answer {
    let from = read_from(&mut query)?;
    let filter = read_filter(&mut query)?;
    let limit = query.limit()? as usize;
    query.finish()?;
    if sse::is_wanted(&headers) {
        // A client that comes back repeats its query as well, which says where it began.
        let from = sse::last_event_id(&headers).map(From::Cursor).or(from).unwrap_or(From::Now);
        return feed(caller, filter, from).await;
    }
    let from = from.unwrap_or(From::Beginning);
    let now = matches!(from, From::Now);
    let page = caller.namespace.events(&filter, from, limit).await?;
    Ok(json::answer(StatusCode::OK, |object| {
        object.array("items", page.items, views::event);
        object.value("next_cursor", &page.next.as_ref().filter(|_| now || !page.at_end));
        object.value("resume_cursor", &page.next);
    }))
}

fn read_from(query: &mut Query) -> Result<Option<From>, Refusal> {
    let word = |word: &str| match word {
        "now" => Some(From::Now),
        "beginning" => Some(From::Beginning),
        _ => None,
    };
    let after = query.text("after")?;
    match (after, query.time_or("from", word, From::Time)?) {
        (Some(_), Some(_)) => Err(Refusal::field("/query/from", "excludes after; give only one")),
        (Some(cursor), None) => Ok(Some(From::Cursor(cursor))),
        (None, from) => Ok(from),
    }
}

fn read_filter(query: &mut Query) -> Result<EventFilter, Refusal> {
    let types = query.text("types")?.unwrap_or_default();
    let types = types.split(',').map(str::trim).filter(|word| !word.is_empty());
    let types: Vec<String> = types.map(str::to_owned).collect();
    if let Some(unknown) =
        types.iter().find(|word| !EVENT_TYPES.contains(&word.as_str()) && !NOT_YET.contains(&word.as_str()))
    {
        let detail = format!("has {unknown:?}; there are {}", EVENT_TYPES.join(", "));
        return Err(Refusal::field("/query/types", detail));
    }
    let execution = query.id("execution")?.map(ExecutionId);
    let flow = query.id("flow")?.map(FlowId);
    let tag = query.text("tag")?;
    let tag = tag.as_deref().map(|tag| check_tag("/query/tag", tag)).transpose()?;
    Ok(EventFilter { types, execution, flow, tag: tag.map(|(name, value)| (name.into(), value.into())) })
}

/// `GET /v1/executions/{id}/events`: its own history, oldest first.
///
/// It comes from the execution's lines of history, which live as long as the execution, also after the log has dropped
/// their entries, and which do not know the places of those. So the cursors here are of this list only: (version, event
/// of that version), the same for every reader and on every server, in the order of the log. They are ten digits; a cursor
/// of the log is refused here, and one of these by `/v1/events`. What raises no version, such as a renewal of leases, is
/// only in the log: `/v1/events?execution=` has the log's cursors, for as long as the log keeps its entries.
pub async fn of_execution(caller: Caller, Id(id): Id, mut query: Query) -> Answer {
    let limit = query.limit()? as usize;
    let cursor = query.text("cursor")?;
    query.finish()?;
    let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if cursor.as_deref().is_some_and(|cursor| cursor.len() != 10 || !cursor.bytes().all(hexadecimal)) {
        return Err(invalid_cursor());
    }
    let mut events = caller.namespace.execution_events(id).await?;
    events.retain(|event| cursor.as_ref().is_none_or(|cursor| event.cursor > *cursor));
    let more = events.len() > limit;
    events.truncate(limit);
    let last = events.last().map(|event| event.cursor.clone());
    Ok(json::answer(StatusCode::OK, |object| {
        object.array("items", events, views::event);
        object.value("next_cursor", &last.filter(|_| more));
    }))
}
