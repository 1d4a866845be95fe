//! The event log: its pages, its live feed, and the history of one execution.
//!
//! `next_cursor` is null at the current end of the log, as in every list. `resume_cursor` is always given: it is the
//! position after everything that the page has read, from which a later request continues.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::sse::{self, Chunk, Source};
use crate::wire::json;
use crate::wire::path::PathExecution;
use crate::wire::query::Query;
use crate::wire::views;
use axum::http::{HeaderMap, StatusCode};
use selvedge_api::filter::parse_tag;
use selvedge_core::fact::EVENT_TYPES;
use selvedge_core::log::UNREADABLE;
use selvedge_core::{ExecutionId, FlowId, Refusal};
use selvedge_engine::{EventFilter, From, Notice, Subscription};

/// `GET /v1/events`: a page, or the live feed for a caller that accepts an event stream.
pub async fn page(caller: Caller, headers: HeaderMap, mut query: Query) -> HandlerResult {
    let from = read_from(&mut query)?;
    let filter = read_filter(&mut query)?;
    let limit = query.limit()? as usize;
    query.finish()?;
    if sse::accepts_event_stream(&headers) {
        // A reconnecting client repeats its query, which has the position where the first connection began.
        let from = sse::last_event_id(&headers).map(From::Cursor).or(from).unwrap_or(From::Now);
        // An invalid cursor is refused here, before the stream begins.
        let subscription = caller.namespace.subscribe(filter, from).await?;
        return Ok(sse::response(caller, EventFeed(subscription)));
    }
    let from = from.unwrap_or(From::Beginning);
    let from_now = matches!(from, From::Now);
    let page = caller.namespace.events(&filter, from, limit).await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.array("items", page.items, views::event);
        object.value("next_cursor", &page.next.as_ref().filter(|_| from_now || !page.at_end));
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
    match (after, query.time_or_word("from", word, From::Time)?) {
        (Some(_), Some(_)) => {
            Err(Refusal::field("/query/from", "cannot be combined with after; give only one of them"))
        }
        (Some(cursor), None) => Ok(Some(From::Cursor(cursor))),
        (None, from) => Ok(from),
    }
}

pub fn read_filter(query: &mut Query) -> Result<EventFilter, Refusal> {
    let types = query.text("types")?.unwrap_or_default();
    let types = types.split(',').map(str::trim).filter(|word| !word.is_empty());
    let types: Vec<String> = types.map(str::to_owned).collect();
    let is_known = |word: &str| EVENT_TYPES.contains(&word) || word == UNREADABLE;
    if let Some(unknown) = types.iter().find(|word| !is_known(word)) {
        let detail = format!("has {unknown:?}; there are {}", EVENT_TYPES.join(", "));
        return Err(Refusal::field("/query/types", detail));
    }
    let execution = query.id("execution")?.map(ExecutionId);
    let flow = query.id("flow")?.map(FlowId);
    let tag = query.text("tag")?;
    let tag = tag.as_deref().map(|tag| parse_tag("/query/tag", tag)).transpose()?;
    Ok(EventFilter { types, execution, flow, tag: tag.map(|(name, value)| (name.into(), value.into())) })
}

/// The live feed. The `id` of a message is its cursor, so a reconnecting client continues where it stopped.
struct EventFeed(Subscription);

impl Source for EventFeed {
    async fn next(&mut self) -> Chunk {
        match self.0.next().await {
            None => Chunk::End,
            Some(Notice::Break { .. }) => Chunk::Comment(
                "the event log cannot be read at the moment; the feed continues without gaps, or ends".into(),
            ),
            Some(Notice::Event(event)) => {
                let (cursor, kind) = (event.cursor.clone(), event.kind);
                let mut data = Vec::with_capacity(512);
                views::event(&mut data, *event);
                let mut out = Vec::with_capacity(data.len() + 128);
                sse::message(&mut out, Some(&cursor), kind, &data);
                Chunk::Messages(out)
            }
        }
    }
}

/// `GET /v1/executions/{id}/events`: the execution's own history, oldest first.
///
/// The history is stored with the execution and kept as long as it, even after the log has deleted the events. An event
/// that is still in the log has its cursor of the log, from which `/v1/events?after=` continues. An older one has a cursor of
/// this list: (version, index of the event in that version), ten hexadecimal digits, in the same order on every server.
/// `cursor` takes both, and `next_cursor` is always of this list, so that it does not expire. Events that raise no version
/// are only in the log, for as long as the log keeps them: `/v1/events?execution=` lists those of one execution, such as progress.
/// `lease.renewed` is one event of a worker's session for all its leases, so no filter by execution, flow or tag finds it.
pub async fn of_execution(
    caller: Caller,
    PathExecution(id): PathExecution,
    mut query: Query,
) -> HandlerResult {
    let limit = query.limit()? as usize;
    let cursor = query.text("cursor")?;
    query.finish()?;
    let (events, next) = caller.namespace.history_page(id, cursor.as_deref(), limit).await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.array("items", events, views::event);
        object.value("next_cursor", &next);
    }))
}
