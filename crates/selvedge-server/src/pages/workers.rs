//! The page `/workers`: live workers, and those that ended in the last minutes with the reason.

use super::actions::simple;
use super::layout::{Page, Viewer, heading};
use super::parts::{ago, empty, executions_link, labelled_state, path_part, user_text};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::session::EndReason;
use selvedge_core::state::StateName;
use selvedge_core::{Name, Permission, Timestamp};
use selvedge_engine::WorkerView;

/// The most workers that are listed.
const WORKERS_MAX: usize = 500;

/// `GET /workers`
pub async fn page(caller: Caller, query: Query) -> HandlerResult {
    query.finish()?;
    let workers = caller.namespace.workers().await?;
    let now = caller.namespace.now().await?;
    let (live, ended): (Vec<&WorkerView>, Vec<&WorkerView>) =
        workers.iter().take(WORKERS_MAX).partition(|worker| worker.end.is_none());
    let may_drain = caller.may(Permission::Work);
    let content = html! {
        (heading(html! { "Workers" }, html! { p.faint #total data-live { (live.len()) " live" } }))
        section #live data-live {
            h2 { "Live" }
            @if live.is_empty() {
                (empty("No live worker", html! {
                    p { "A worker appears with its first claim: " code { "POST /v1/workers/{instance}/claim" } "." }
                }))
            } @else { (table(&live, now, may_drain)) }
        }
        @if !ended.is_empty() {
            section #ended data-live { h2 { "Ended in the last 15 minutes" } (table(&ended, now, false)) }
        }
    };
    Ok(Page::new("Workers", "/workers").live("/live").response(Some(&Viewer::of(&caller)), content))
}

fn table(workers: &[&WorkerView], now: Timestamp, may_drain: bool) -> Markup {
    html! {
        div.table {
            table {
                thead {
                    tr { th { "Worker" } th { "Instance" } th { "State" } th { "Lanes" } th { "Kinds" } th { "Capabilities" } th { "Seen" } th { span.visually-hidden { "Actions" } } }
                }
                tbody { @for worker in workers { (row(worker, now, may_drain)) } }
            }
        }
    }
}

fn row(worker: &WorkerView, now: Timestamp, may_drain: bool) -> Markup {
    let Some(session) = worker.sessions.first() else { return html! {} };
    let (state, label) = match (worker.end.map(|end| end.reason), session.draining) {
        (None, false) => (StateName::Active, "live"),
        (None, true) => (StateName::Suspended, "draining"),
        (Some(EndReason::Deleted), _) => (StateName::Completed, "departed"),
        (Some(EndReason::Expired), _) => (StateName::Failed, "not seen any more"),
        (Some(EndReason::Superseded), _) => (StateName::Cancelled, "replaced"),
    };
    let names = |names: &mut dyn Iterator<Item = &Name>| {
        names.map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let kinds = session.scope.kinds.as_ref().map_or("all".to_owned(), |kinds| names(&mut kinds.iter()));
    html! {
        tr {
            td { a href=(executions_link(&[("worker", &session.worker)])) { (user_text(&session.worker)) } }
            td.id { a href=(executions_link(&[("worker", &session.instance)])) { (user_text(&session.instance)) } }
            td { (labelled_state(state, label)) }
            td { (user_text(&names(&mut session.scope.lanes.iter()))) }
            td { (user_text(&kinds)) }
            td { (user_text(&names(&mut session.scope.capabilities.iter()))) }
            td.nowrap { (ago(worker.seen_at(), now)) }
            td {
                @if may_drain && !session.draining {
                    (simple(&format!("POST /v1/workers/{}/drain", path_part(&session.instance)), "Drain", "Asked to drain."))
                }
            }
        }
    }
}
