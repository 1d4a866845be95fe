//! The inbox of submissions from SQL: what waits to be taken in, and what was refused.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::body::RequestBody;
use crate::wire::json::{self, Object};
use crate::wire::paging::{NamePage, name_cursor};
use crate::wire::path::PathNumber;
use crate::wire::problem::{Code, Problem};
use crate::wire::query::Query;
use axum::http::StatusCode;
use selvedge_core::inbox::{InboxEntry, InboxNumber};
use selvedge_core::rules::inbox::InboxChange;

/// The largest count of rows.
pub const COUNT_BOUND: u64 = 10_000;

/// `GET /v1/inbox`: the number of submissions that wait, and those that were refused, newest first.
pub async fn list(caller: Caller, query: Query) -> HandlerResult {
    let NamePage { after, limit } = NamePage::read(query)?;
    let after = after.map(|after| after.parse().map(InboxNumber)).transpose();
    let after = after.map_err(|_| Problem::new(Code::InvalidCursor, "the cursor is not from this list"))?;
    let counts = caller.namespace.inbox_counts(COUNT_BOUND).await?;
    // Reads one row more than the page shows: it tells that another page follows.
    let mut rows = caller.namespace.refused_inbox(after, limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|entry| name_cursor(&entry.row.number.to_string()));
    Ok(json::response(StatusCode::OK, |object| {
        object.value("pending", &counts.pending);
        object.time("oldest_pending_at", counts.oldest);
        object.value("refused_count", &counts.refused);
        object.array("items", &rows, |out, entry| json::object(out, |object| write(object, entry)));
        object.value("next_cursor", &next);
    }))
}

/// `POST /v1/inbox/{number}/retry`: takes a refused submission in again.
pub async fn retry(caller: Caller, PathNumber(number): PathNumber, body: RequestBody) -> HandlerResult {
    body.fields_if_any()?.finish()?;
    change(caller, number, InboxChange::Retry).await
}

/// `DELETE /v1/inbox/{number}`: deletes a refused submission.
pub async fn delete(caller: Caller, PathNumber(number): PathNumber, query: Query) -> HandlerResult {
    query.finish()?;
    change(caller, number, InboxChange::Delete).await
}

async fn change(caller: Caller, number: i64, change: InboxChange) -> HandlerResult {
    caller.namespace.change_inbox_row(InboxNumber(number), change).await?;
    Ok(json::response(StatusCode::OK, |object| object.value("number", &number)))
}

fn write(object: &mut Object<'_>, entry: &InboxEntry) {
    object.value("number", &entry.row.number.0);
    object.value("type", if entry.is_flow { "flow" } else { "execution" });
    object.value("id", &entry.id);
    object.value("role", &entry.role);
    object.time("submitted_at", Some(entry.submitted_at));
    object.time("refused_at", entry.row.refused.as_ref().map(|(at, _)| *at));
    match &entry.row.refused {
        None => object.null("problem"),
        Some((_, problem)) => object.object("problem", |object| {
            object.value("code", &problem.code);
            object.value("detail", &problem.detail);
            object.value("pointer", &problem.pointer);
        }),
    }
}
