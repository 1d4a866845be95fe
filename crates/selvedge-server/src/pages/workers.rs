//! The page `/workers`: live workers with the leases that they hold, and those that ended in the last minutes with the reason.

use super::frame::layout::{Page, Viewer, heading};
use super::parts::forms::call_button;
use super::parts::table::{actions_column, table_of};
use super::parts::{
    ago, duration, empty, execution_link, executions_link, labelled_state, maybe_ago, path_part, user_text,
};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::session::EndReason;
use selvedge_core::state::StateName;
use selvedge_core::{ExecutionId, Name, Permission, Timestamp};
use selvedge_engine::WorkerView;
use std::collections::BTreeMap;

/// The most workers that are listed.
const WORKERS_MAX: usize = 500;
/// The most active executions that are read to find the leases of workers.
const LEASES_READ: u32 = 500;
/// The most leases that a row shows.
const LEASES_SHOWN: usize = 3;

/// The leases of workers, as far as they were read.
struct Leases {
    of_instance: BTreeMap<Name, Vec<ExecutionId>>,
    /// True if there are more active executions than were read.
    is_cut: bool,
}

/// `GET /workers`
pub async fn page(caller: Caller, query: Query) -> HandlerResult {
    query.finish()?;
    let namespace = &caller.namespace;
    let workers = namespace.workers().await?;
    let now = namespace.now().await?;
    let active = Filter { states: vec![StateName::Active], ..Filter::all(namespace.id()) };
    let (views, next) = namespace.list(&active, None, LEASES_READ, Payloads::NONE).await?;
    let mut leases = Leases { of_instance: BTreeMap::new(), is_cut: next.is_some() };
    for row in views.iter().map(|view| &view.stored.execution) {
        let Some(lease) = row.state.lease() else { continue };
        leases.of_instance.entry(lease.instance.clone()).or_default().push(row.id);
    }
    let (mut live, mut ended): (Vec<&WorkerView>, Vec<&WorkerView>) =
        workers.iter().partition(|worker| worker.end.is_none());
    // The order of the engine, by the time when they were seen, changes all the time.
    live.sort_by_key(|worker| worker.sessions.first().map(|session| (&session.worker, &session.instance)));
    let count = live.len();
    live.truncate(WORKERS_MAX);
    ended.truncate(WORKERS_MAX);
    let may_drain = caller.may(Permission::Work);
    let content = html! {
        (heading(html! { "Workers" }, html! { p.faint #total data-live { (count) " live" } }))
        section #live data-live {
            h2 { "Live" }
            @if live.is_empty() {
                (empty("No live worker", html! {
                    p { "A worker appears with its first claim: " code { "POST /v1/workers/{instance}/claim" } "." }
                }))
            } @else { (table(&live, &leases, now, may_drain)) }
            @if count > live.len() { p.faint { "The first " (live.len()) " of " (count) ", by name." } }
        }
        section #ended data-live {
            h2 { "Ended in the last 15 minutes" }
            @if ended.is_empty() { p.faint { "None." } } @else { (ended_table(&ended, now)) }
        }
    };
    Ok(Page::new("Workers", "/workers").live("/live").response(Some(&Viewer::of(&caller)), content))
}

fn names<'a>(names: impl Iterator<Item = &'a Name>) -> String {
    names.map(Name::as_str).collect::<Vec<_>>().join(", ")
}

fn table(workers: &[&WorkerView], leases: &Leases, now: Timestamp, may_drain: bool) -> Markup {
    let columns = html! {
        th { "Worker" } th { "Instance" } th { "State" } th { "Holds" } th { "Lanes" } th { "Kinds" }
        th { "Capabilities" } th { "Last heartbeat" } th { "Seen" } @if may_drain { (actions_column()) }
    };
    table_of(columns, html! { @for worker in workers { (row(worker, leases, now, may_drain)) } })
}

fn row(worker: &WorkerView, leases: &Leases, now: Timestamp, may_drain: bool) -> Markup {
    let Some(session) = worker.sessions.first() else { return html! {} };
    let (state, label) = match session.draining {
        false => (StateName::Active, "live"),
        true => (StateName::Suspended, "draining"),
    };
    let kinds = session.scope.kinds.as_ref().map_or("all".to_owned(), |kinds| names(kinds.iter()));
    let heartbeat = worker.sessions.iter().filter_map(|session| session.renewed_at).max();
    let instance = &session.instance;
    let confirm =
        format!("Ask the worker {instance} to drain? It finishes what it holds and claims nothing more.");
    html! {
        tr {
            td { a href=(executions_link(&[("worker", &session.worker)])) { (user_text(&session.worker)) } }
            td.id { a href=(executions_link(&[("worker", instance)])) { (user_text(instance)) } }
            td { (labelled_state(state, label)) span.more { "leases of " (duration(session.ttl_ms)) } }
            td { (held(leases, instance)) }
            td { (user_text(&names(session.scope.lanes.iter()))) }
            td { (user_text(&kinds)) }
            td { (user_text(&names(session.scope.capabilities.iter()))) }
            td.nowrap { (maybe_ago(heartbeat, now)) }
            td.nowrap { (ago(worker.seen_at(), now)) }
            @if may_drain {
                td {
                    @if !session.draining {
                        (call_button(&format!("POST /v1/workers/{}/drain", path_part(instance)), "Drain", "Asked to drain.", Some(&confirm), &[]))
                    }
                }
            }
        }
    }
}

/// Shows the executions of which an instance holds the lease.
fn held(leases: &Leases, instance: &Name) -> Markup {
    let held = leases.of_instance.get(instance).map_or(&[][..], Vec::as_slice);
    let all = executions_link(&[("worker", instance), ("state", "active")]);
    html! {
        @if held.is_empty() && !leases.is_cut { span.faint { "nothing" } }
        @else if held.len() > LEASES_SHOWN || leases.is_cut {
            a href=(all) { @if leases.is_cut { "≥\u{202f}" } (held.len()) " executions" }
        } @else {
            ul.plain { @for id in held { li { (execution_link(*id)) } } }
        }
    }
}

fn ended_table(workers: &[&WorkerView], now: Timestamp) -> Markup {
    let columns = html! { th { "Worker" } th { "Instance" } th { "Reason" } th { "Ended" } th { "Lanes" } th { "Seen" } };
    let rows = html! {
        @for worker in workers {
            @if let (Some(session), Some(end)) = (worker.sessions.first(), worker.end) {
                @let (state, label, reason) = match end.reason {
                    EndReason::Deleted => (StateName::Completed, "departed", "It said that it goes; its leases were put back."),
                    EndReason::Expired => (StateName::Failed, "not seen any more", "No heartbeat came; its leases expire and others get them."),
                    EndReason::Superseded => (StateName::Cancelled, "replaced", "A new process of the same instance took over."),
                };
                tr {
                    td { (user_text(&session.worker)) }
                    td.id { a href=(executions_link(&[("worker", &session.instance)])) { (user_text(&session.instance)) } }
                    td { (labelled_state(state, label)) span.more { (reason) } }
                    td.nowrap { (ago(end.at, now)) }
                    td { (user_text(&names(session.scope.lanes.iter()))) }
                    td.nowrap { (ago(worker.seen_at(), now)) }
                }
            }
        }
    };
    table_of(columns, rows)
}
