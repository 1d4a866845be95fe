//! The invariants, checked over all rows and the whole log of a store that is at rest.
//!
//! The log is replayed execution by execution against the transition table; what comes out must be the
//! row. Checked besides: entries rise, leases are never given twice, a key has one effect, and every execution that has
//! not ended has a stated next cause. What holds of flows and their edges stands in `flow_invariants.rs`, what holds of
//! gates in `gate_invariants.rs`, what holds of signals, steps and waitpoints in `invariants/record.rs`.

mod record;

use super::flow_invariants::{self, Outcomes};
use super::gate_invariants;
use super::replay::{Recorded, Replay};
use selvedge_core::filter::{Filter, Place};
use selvedge_core::history::HistoryLine;
use selvedge_core::log::{Event, unpack};
use selvedge_core::{Execution, ExecutionId, Fact, History, LeaseId, Name, NamespaceId, State};
use selvedge_store::Store;
use std::collections::{BTreeMap, HashMap};

/// What is wrong with a store; empty where all is well. Nothing may write to the store meanwhile.
///
/// # Panics
/// If the store cannot be read.
pub async fn check(store: &dyn Store) -> Vec<String> {
    let mut broken = Vec::new();
    let log = read_log(store).await;
    if !log.is_sorted_by(|a, b| a.0 < b.0) {
        broken.push("the numbers of the log do not rise".to_owned());
    }
    let rows = read_rows(store).await;
    let mut by_execution: BTreeMap<ExecutionId, Vec<&Event>> = BTreeMap::new();
    for event in log.iter().flat_map(|(_, events)| events) {
        match event.execution {
            // What an execution has spent changes no row of its own.
            Some(_) if event.version.is_none() && matches!(event.fact, Fact::Spent { .. }) => {}
            Some(id) => by_execution.entry(id).or_default().push(event),
            None if event.version.is_some() => {
                broken.push(format!("a fact of no execution has a version: {event:?}"));
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
        broken.extend(wrong.drain(..).map(|what| format!("{id}: {what}")));
    }
    let unheard = rows.keys().filter(|id| !by_execution.contains_key(id));
    broken.extend(unheard.map(|id| format!("{id}: the log does not know it")));
    broken.extend(check_keys(rows.values()));
    broken.extend(record::check(store, &rows, &recorded).await);
    broken.extend(flow_invariants::check(store, &rows, &outcomes).await);
    broken.extend(gate_invariants::check(store, &rows).await);
    broken
}

/// The whole log of a store, by entries.
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

/// All executions of all namespaces.
async fn read_rows(store: &dyn Store) -> BTreeMap<ExecutionId, Execution> {
    let mut rows = BTreeMap::new();
    for (namespace, _) in store.namespaces().await.expect("namespaces are read") {
        let (filter, mut after) = (Filter::all(namespace), None);
        loop {
            let page = store.list(&filter, after, 500).await.expect("executions are listed");
            let Some(last) = page.last() else { break };
            after = Some(Place { submitted_at: last.execution.submitted_at, id: last.execution.id });
            rows.extend(page.into_iter().map(|stored| (stored.execution.id, stored.execution)));
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
    // An id may be given again once its execution has ended and was deleted: the row is the last life of its log.
    let born = |event: &&Event| matches!(event.fact, Fact::Submitted { .. } | Fact::SubmittedBlocked { .. });
    let last_life = events.iter().rposition(born).unwrap_or_default();
    let policy = row.map(|row| &row.spec.policy);
    let mut replay = Replay::default();
    let mut broken = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let wrong = replay.step(event, policy.filter(|_| index >= last_life));
        broken.extend(wrong.into_iter().map(|what| format!("{what} ({event:?})")));
    }
    for lease in &replay.leases {
        if leases.insert(*lease, id).is_some() {
            broken.push(format!("lease {lease} was given twice"));
        }
    }
    match row {
        Some(row) => {
            broken.extend(replay.differences(row));
            broken.extend(at_rest(row));
            broken.extend(check_history(store, row, &events[last_life..]).await);
            let foreign = events[last_life..].iter().filter(|event| event.namespace != row.namespace);
            broken.extend(foreign.map(|event| format!("a fact of it is of another namespace: {event:?}")));
        }
        None if replay.has_ended() => {}
        None => broken.push("it was acknowledged, has not ended, and is gone".to_owned()),
    }
    (broken, replay)
}

/// What a row must have whatever happened: an end or a stated next cause.
fn at_rest(row: &Execution) -> Vec<String> {
    let mut broken = Vec::new();
    if row.ended_at.is_some() != row.state.outcome().is_some() {
        broken.push(format!("it is {:?} and ended at {:?}", row.state, row.ended_at));
    }
    let alone = row.flow.is_none();
    if matches!(row.state, State::Delayed { .. }) && row.due().is_none()
        || matches!(row.state, State::Terminal(_)) && row.due().is_none() && alone
    {
        broken.push(format!("it is {:?} and nothing is due", row.state));
    }
    if row.detail.cancel.is_some() && row.state.lease().is_none() {
        broken.push("a cancel is asked for and nobody holds it".to_owned());
    }
    broken
}

/// The execution's own history is the log's facts about it, but for those that are no lines of history.
async fn check_history(store: &dyn Store, row: &Execution, events: &[&Event]) -> Vec<String> {
    let pages = store.history_pages(row.id).await.expect("pages are read");
    if pages.len() != row.detail.history_pages as usize {
        return vec![format!("it has {} pages, not {}", pages.len(), row.detail.history_pages)];
    }
    let mut lines: Vec<HistoryLine> = Vec::new();
    for page in pages.into_iter().map(History::from_bytes).chain([row.history.clone()]) {
        match page.lines() {
            Ok(more) => lines.extend(more),
            Err(error) => return vec![format!("its history cannot be read: {error}")],
        }
    }
    lines.sort_by_key(|line: &HistoryLine| line.version);
    let told = events.iter().filter(|event| event.fact.is_history()).map(|event| HistoryLine {
        version: event.version.unwrap_or_default(),
        at: event.at,
        actor: event.actor.clone(),
        fact: event.fact.clone(),
    });
    match told.eq(lines.iter().cloned()) {
        true => vec![],
        false => vec![format!("its history is not what the log tells: {lines:?}")],
    }
}

/// A key has one effect: no second execution within the window of an idempotency key, and no second active one with a
/// uniqueness key, unless an operator replayed it.
fn check_keys<'a>(rows: impl Iterator<Item = &'a Execution>) -> Vec<String> {
    let mut by_key: BTreeMap<(NamespaceId, Name), Vec<&Execution>> = BTreeMap::new();
    let mut active: BTreeMap<(NamespaceId, Name), usize> = BTreeMap::new();
    for row in rows {
        if let Some(key) = &row.spec.idempotency_key {
            by_key.entry((row.namespace, key.clone())).or_default().push(row);
        }
        if let Some(key) = &row.spec.unique_while_active
            && row.state.outcome().is_none()
            && row.detail.generation == 0
        {
            *active.entry((row.namespace, key.clone())).or_default() += 1;
        }
    }
    let mut broken = Vec::new();
    for ((_, key), mut rows) in by_key {
        rows.sort_by_key(|row| (row.submitted_at, row.key_until()));
        let early =
            |pair: &&[&Execution]| pair[0].key_until().is_some_and(|until| pair[1].submitted_at < until);
        let twice = rows.windows(2).filter(early);
        broken.extend(
            twice.map(|pair| format!("idempotency key {key} made {} and {}", pair[0].id, pair[1].id)),
        );
    }
    let many = active.into_iter().filter(|(_, count)| *count > 1);
    broken.extend(many.map(|((_, key), count)| format!("{count} active with the unique key {key}")));
    broken
}
