//! The invariants, checked over all rows and the whole event log of a store without writers.
//!
//! The log is replayed execution by execution against the transition table, and the result must equal the row. Also: entry
//! numbers rise, no lease is granted twice, a key has one effect, and every live execution has a next cause. `flows.rs` holds
//! the invariants of flows and their edges, `gates.rs` those of gates, `record.rs` those of signals, steps and waitpoints.

mod flows;
mod gates;
mod record;
mod replay;

use flows::Outcomes;
use replay::{Recorded, Replay};
use selvedge_core::filter::{Filter, ListPosition, Payloads};
use selvedge_core::history::HistoryLine;
use selvedge_core::log::{Event, unpack};
use selvedge_core::{Execution, ExecutionId, Fact, History, LeaseId, Name, NamespaceId, State};
use selvedge_store::Store;
use std::collections::{BTreeMap, HashMap};

/// Returns the violations in a store; empty if there are none. Nothing may write to the store meanwhile.
///
/// # Panics
/// If the store cannot be read.
pub async fn check(store: &dyn Store) -> Vec<String> {
    let mut violations = Vec::new();
    let log = read_log(store).await;
    if !log.is_sorted_by(|a, b| a.0 < b.0) {
        violations.push("the numbers of the event log do not rise".to_owned());
    }
    let rows = read_rows(store).await;
    let mut by_execution: BTreeMap<ExecutionId, Vec<&Event>> = BTreeMap::new();
    for event in log.iter().flat_map(|(_, events)| events) {
        match event.execution {
            // Neither spending nor the firing of a schedule changes the row of the execution.
            Some(_)
                if event.version.is_none()
                    && matches!(event.fact, Fact::Spent { .. } | Fact::ScheduleFired { .. }) => {}
            Some(id) => by_execution.entry(id).or_default().push(event),
            None if event.version.is_some() => {
                violations.push(format!("an event without an execution has a version: {event:?}"));
            }
            None => {}
        }
    }
    let mut leases: HashMap<LeaseId, ExecutionId> = HashMap::new();
    let mut outcomes: Outcomes = HashMap::new();
    let mut recorded: HashMap<ExecutionId, Recorded> = HashMap::new();
    for (id, events) in &by_execution {
        let (mut wrong, replay) = check_execution(store, *id, events, rows.get(id), &mut leases).await;
        outcomes.insert(*id, replay.outcomes);
        recorded.insert(*id, replay.recorded);
        violations.extend(wrong.drain(..).map(|what| format!("{id}: {what}")));
    }
    let unlogged = rows.keys().filter(|id| !by_execution.contains_key(id));
    violations.extend(unlogged.map(|id| format!("{id}: the event log has no event of it")));
    violations.extend(check_keys(rows.values()));
    violations.extend(record::check(store, &rows, &recorded).await);
    violations.extend(flows::check(store, &rows, &outcomes).await);
    violations.extend(gates::check(store, &rows).await);
    violations
}

/// Returns the whole event log of a store, by entries.
pub(super) async fn read_log(store: &dyn Store) -> Vec<(i64, Vec<Event>)> {
    let mut log = Vec::new();
    loop {
        let after = log.last().map_or(0, |(number, _)| *number);
        let page = store.log_after(after, 500).await.expect("the log is read");
        if page.entries.is_empty() {
            return log;
        }
        log.extend(page.entries.into_iter().map(|entry| {
            let events = unpack(&entry.body).expect("an entry can be read");
            (entry.number, events)
        }));
    }
}

/// Returns all executions of all namespaces.
async fn read_rows(store: &dyn Store) -> BTreeMap<ExecutionId, Execution> {
    let mut rows = BTreeMap::new();
    for (namespace, _) in store.namespaces().await.expect("namespaces are read") {
        let (filter, mut after) = (Filter::all(namespace), None);
        loop {
            let page = store.list(&filter, after, 500, Payloads::NONE).await.expect("executions are listed");
            let Some(last) = page.rows.last() else { break };
            after = Some(ListPosition::of(&last.execution));
            rows.extend(page.rows.into_iter().map(|stored| (stored.execution.id, stored.execution)));
        }
    }
    rows
}

async fn check_execution(
    store: &dyn Store,
    id: ExecutionId,
    events: &[&Event],
    row: Option<&Execution>,
    leases: &mut HashMap<LeaseId, ExecutionId>,
) -> (Vec<String>, Replay) {
    // An id may be reused once its execution has ended and was deleted: the row is that of the last submission.
    let submitted = |event: &&Event| {
        matches!(event.fact, Fact::Submitted { .. } | Fact::SubmittedWaitingDependencies { .. })
    };
    let last_submission = events.iter().rposition(submitted).unwrap_or_default();
    let policy = row.map(|row| &row.spec.policy);
    let mut replay = Replay::default();
    let mut violations = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let wrong = replay.step(event, policy.filter(|_| index >= last_submission));
        violations.extend(wrong.into_iter().map(|what| format!("{what} ({event:?})")));
    }
    for lease in &replay.leases {
        if leases.insert(*lease, id).is_some() {
            violations.push(format!("lease {lease} was granted twice"));
        }
    }
    match row {
        Some(row) => {
            violations.extend(replay.differences(row));
            violations.extend(check_next_cause(row));
            violations.extend(check_history(store, row, &events[last_submission..]).await);
            let foreign = events[last_submission..].iter().filter(|event| event.namespace != row.namespace);
            violations
                .extend(foreign.map(|event| format!("an event belongs to another namespace: {event:?}")));
        }
        None if replay.has_ended() => {}
        None => violations.push("it was acknowledged, has not ended, and has no row".to_owned()),
    }
    (violations, replay)
}

/// Checks that a row has an end or a next cause.
fn check_next_cause(row: &Execution) -> Vec<String> {
    let mut violations = Vec::new();
    if row.ended_at.is_some() != row.state.outcome().is_some() {
        violations.push(format!("its state is {:?} and it ended at {:?}", row.state, row.ended_at));
    }
    let alone = row.flow.is_none();
    if matches!(row.state, State::Delayed { .. }) && row.due().is_none()
        || matches!(row.state, State::Terminal(_)) && row.due().is_none() && alone
    {
        violations.push(format!("its state is {:?} and nothing is due", row.state));
    }
    if row.detail.cancel.is_some() && row.state.lease().is_none() {
        violations.push("a cancellation is requested and it has no lease".to_owned());
    }
    violations
}

/// Checks that an execution's history equals its events in the log, except for facts that history omits and for the ends
/// of long messages.
async fn check_history(store: &dyn Store, row: &Execution, events: &[&Event]) -> Vec<String> {
    let pages = store.history_pages(row.id).await.expect("pages are read");
    if pages.len() != row.detail.history_pages as usize {
        return vec![format!("it has {} history pages, not {}", pages.len(), row.detail.history_pages)];
    }
    let mut lines: Vec<HistoryLine> = Vec::new();
    for page in pages.into_iter().map(History::from_bytes).chain([row.history.clone()]) {
        match page.lines() {
            Ok(more) => lines.extend(more),
            Err(error) => return vec![format!("its history cannot be read: {error}")],
        }
    }
    lines.sort_by_key(|line: &HistoryLine| line.version);
    let logged = events.iter().filter(|event| event.fact.is_history()).map(|event| HistoryLine {
        version: event.version.unwrap_or_default(),
        at: event.at,
        actor: event.actor.clone(),
        fact: event.fact.clone().shortened(),
    });
    match logged.eq(lines.iter().cloned()) {
        true => vec![],
        false => vec![format!("its history differs from the event log: {lines:?}")],
    }
}

/// Checks that a key has one effect: no second execution within the window of an idempotency key, and no second live
/// one with a unique key unless an operator replayed it.
fn check_keys<'a>(rows: impl Iterator<Item = &'a Execution>) -> Vec<String> {
    let mut by_key: BTreeMap<(NamespaceId, Name), Vec<&Execution>> = BTreeMap::new();
    let mut live: BTreeMap<(NamespaceId, Name), usize> = BTreeMap::new();
    for row in rows {
        if let Some(key) = &row.spec.idempotency_key {
            by_key.entry((row.namespace, key.clone())).or_default().push(row);
        }
        if let Some(key) = &row.spec.unique_while_active
            && row.state.outcome().is_none()
            && row.detail.generation == 0
        {
            *live.entry((row.namespace, key.clone())).or_default() += 1;
        }
    }
    let mut violations = Vec::new();
    for ((_, key), mut rows) in by_key {
        rows.sort_by_key(|row| (row.submitted_at, row.key_until()));
        let early =
            |pair: &&[&Execution]| pair[0].key_until().is_some_and(|until| pair[1].submitted_at < until);
        let twice = rows.windows(2).filter(early);
        violations.extend(
            twice.map(|pair| format!("idempotency key {key} created {} and {}", pair[0].id, pair[1].id)),
        );
    }
    let many = live.into_iter().filter(|(_, count)| *count > 1);
    violations
        .extend(many.map(|((_, key), count)| format!("{count} live executions have the unique key {key}")));
    violations
}
