//! The invariants of signals, steps and waitpoints, checked over the tables of a store without writers.
//!
//! They are those of the event log, numbered from 1 without gaps, and those that the execution's row counts; all queries
//! return the same. An execution that has ended has no open waitpoint. The resume condition of a suspended execution does not hold. No row belongs to an execution that does not
//! exist or to another namespace.

use super::replay::{LoggedEnd, Recorded};
use crate::harness::runner::load_rows;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::rows::Queries;
use selvedge_core::step::{Step as RecordedStep, WaitResult};
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::{Execution, ExecutionId, Needs, Signal, Timestamp, Waitpoint};
use selvedge_store::{ReconcilerScope, Store};
use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

/// The number of executions read at a time.
const EXECUTIONS: usize = 500;
/// The page size of lists, small enough that lists have several pages.
const PAGE: u32 = 7;

/// The signals, steps and waitpoints of one execution, as the tables have them.
#[derive(Debug, Default)]
struct Tables {
    signals: Vec<Signal>,
    steps: Vec<RecordedStep>,
    waitpoints: Vec<Waitpoint>,
}

/// Returns the violations in signals, steps and waitpoints. `logged` has the replayed log of every execution, deleted
/// ones included.
pub(super) async fn check(
    store: &dyn Store,
    rows: &BTreeMap<ExecutionId, Execution>,
    logged: &HashMap<ExecutionId, Recorded>,
) -> Vec<String> {
    let mut violations = Vec::new();
    let ids: BTreeSet<ExecutionId> = rows.keys().chain(logged.keys()).copied().collect();
    let ids: Vec<ExecutionId> = ids.into_iter().collect();
    for ids in ids.chunks(EXECUTIONS) {
        let mut tables = read_tables(store, ids).await;
        for id in ids {
            let tables = tables.remove(id).unwrap_or_default();
            let wrong = match (rows.get(id), logged.get(id)) {
                (Some(row), Some(logged)) => check_execution(store, row, logged, &tables).await,
                (None, _) if tables.is_empty() => vec![],
                (None, _) => vec![format!("it was deleted, and these rows remain: {tables:?}")],
                // The caller reports a row without events.
                (Some(_), None) => vec![],
            };
            violations.extend(wrong.into_iter().map(|what| format!("{id}: {what}")));
        }
        violations
            .extend(tables.keys().map(|id| format!("{id}: the store returned rows that were not requested")));
    }
    violations.extend(check_parents(store, rows).await);
    violations
}

impl Tables {
    fn is_empty(&self) -> bool {
        self.signals.is_empty() && self.steps.is_empty() && self.waitpoints.is_empty()
    }
}

/// Loads the rows of these executions as a decision does.
async fn read_tables(store: &dyn Store, ids: &[ExecutionId]) -> HashMap<ExecutionId, Tables> {
    let needs = Needs {
        queries: Queries { records: ids.to_vec(), waitpoints: ids.to_vec(), ..Queries::default() },
        ..Needs::default()
    };
    let rows = load_rows(store, needs).await;
    let mut tables: HashMap<ExecutionId, Tables> = HashMap::new();
    for signal in rows.signals {
        tables.entry(signal.execution).or_default().signals.push(signal);
    }
    for step in rows.steps {
        tables.entry(step.execution).or_default().steps.push(step);
    }
    for waitpoint in rows.waitpoints {
        tables.entry(waitpoint.execution).or_default().waitpoints.push(waitpoint);
    }
    for tables in tables.values_mut() {
        tables.signals.sort_by_key(|signal| signal.number);
        tables.steps.sort_by_key(|step| step.number);
        tables.waitpoints.sort_by_key(|waitpoint| waitpoint.number);
    }
    tables
}

async fn check_execution(
    store: &dyn Store,
    row: &Execution,
    logged: &Recorded,
    tables: &Tables,
) -> Vec<String> {
    let mut violations = Vec::new();
    let mut numbered = |what: &str, numbers: Vec<u32>, count: u32| {
        if !numbers.iter().copied().eq(1..=count) {
            violations.push(format!("its {what} are {numbers:?}, and its row counts {count}"));
        }
    };
    let record = &row.detail.record;
    numbered("signals", tables.signals.iter().map(|signal| signal.number).collect(), record.signals);
    numbered("steps", tables.steps.iter().map(|step| step.number).collect(), record.steps);
    numbered("waitpoints", tables.waitpoints.iter().map(|one| one.number).collect(), record.waitpoints);
    let untaken = tables.signals.iter().filter(|signal| signal.taken.is_none()).count();
    if untaken != record.untaken as usize {
        violations.push(format!("{untaken} signals are untaken, and its row counts {}", record.untaken));
    }
    let open = || tables.waitpoints.iter().filter(|one| one.state == WaitpointState::Open);
    if let Some(outcome) = row.state.outcome()
        && let Some(waitpoint) = open().next()
    {
        violations.push(format!("it has ended as {outcome}, and its waitpoint {:?} is open", waitpoint.name));
    }
    let expires_at = open().filter_map(|one| one.expires_at).min();
    if expires_at != record.expires_at {
        violations
            .push(format!("a waitpoint expires at {expires_at:?}, and its row has {:?}", record.expires_at));
    }
    if let Some(suspension) = row.state.suspension().filter(|suspension| suspension.holds()) {
        violations.push(format!("its resume condition holds, and it is still suspended: {suspension:?}"));
    }
    violations.extend(check_signals(logged, &tables.signals));
    violations.extend(check_steps(logged, &tables.steps));
    violations.extend(check_waitpoints(row, logged, &tables.waitpoints));
    if !tables.is_empty() {
        violations.extend(check_reads(store, row.id, tables).await);
    }
    violations
}

fn check_signals(logged: &Recorded, signals: &[Signal]) -> Vec<String> {
    let mut violations = Vec::new();
    for (logged, signal) in logged.signals.iter().zip(signals) {
        let bytes = signal.payload.as_ref().map(|payload| payload.len() as u32);
        let same = (logged.number, &logged.name, &logged.source)
            == (signal.number, &signal.name, &signal.source)
            && (&logged.waitpoint, logged.at) == (&signal.waitpoint, signal.at)
            && (logged.effect, logged.taken, Some(logged.bytes)) == (signal.effect, signal.taken, bytes);
        if !same {
            violations.push(format!("the event log has {logged:?}, and the store has {signal:?}"));
        }
    }
    let mut keys = BTreeSet::new();
    let twice = signals.iter().filter_map(|signal| signal.key.as_ref()).filter(|key| !keys.insert(*key));
    violations.extend(twice.map(|key| format!("two signals have the key {key}")));
    violations
}

fn check_steps(logged: &Recorded, steps: &[RecordedStep]) -> Vec<String> {
    let mut violations = Vec::new();
    for step in steps {
        let known = logged.steps.get(&step.name);
        let same = known.is_some_and(|known| {
            let result = match &known.end {
                LoggedEnd::Open => step.result.is_none(),
                LoggedEnd::Done(bytes) => {
                    step.result.as_ref().is_some_and(|result| result.len() == *bytes as usize)
                }
                LoggedEnd::Waited(waited) => {
                    step.result.as_deref().and_then(WaitResult::decode).as_ref() == Some(waited)
                }
            };
            (known.number, known.attempt) == (step.number, step.attempt)
                && (known.started_at, known.recorded_at) == (step.started_at, step.recorded_at)
                && result
        });
        if !same {
            violations.push(format!("the event log has {known:?}, and the store has {step:?}"));
        }
    }
    violations
}

fn check_waitpoints(row: &Execution, logged: &Recorded, waitpoints: &[Waitpoint]) -> Vec<String> {
    let mut violations = Vec::new();
    for (logged, one) in logged.waitpoints.iter().zip(waitpoints) {
        let same = (logged.id, &logged.name, &logged.source) == (one.id, &one.name, &one.source)
            && (logged.created_at, logged.expires_at, logged.state, logged.issue)
                == (one.created_at, one.expires_at, one.state, one.issue);
        if !same {
            violations.push(format!("the event log has {logged:?}, and the store has {one:?}"));
        }
        if one.namespace != row.namespace {
            violations.push(format!("waitpoint {} belongs to namespace {:?}", one.id, one.namespace));
        }
    }
    violations
}

/// Checks that all queries return the rows that a decision loads.
async fn check_reads(store: &dyn Store, id: ExecutionId, tables: &Tables) -> Vec<String> {
    let mut listed = Tables::default();
    loop {
        let after = listed.signals.last().map_or(0, |signal| signal.number);
        let page = store.signals(id, after, PAGE).await.expect("signals are read");
        if page.is_empty() {
            break;
        }
        listed.signals.extend(page);
    }
    loop {
        let after = listed.steps.last().map_or(0, |step| step.number);
        let page = store.steps(id, after, PAGE).await.expect("steps are read");
        if page.is_empty() {
            break;
        }
        listed.steps.extend(page);
    }
    loop {
        let after = listed.waitpoints.last().map_or(0, |one| one.number);
        let page = store.waitpoints(id, after, PAGE).await.expect("waitpoints are read");
        if page.is_empty() {
            break;
        }
        listed.waitpoints.extend(page);
    }
    let mut violations = Vec::new();
    for waitpoint in &tables.waitpoints {
        let found = store.waitpoint(waitpoint.id).await.expect("a waitpoint is read");
        if found.as_ref() != Some(waitpoint) {
            violations.push(format!("a waitpoint read by id is {found:?}, in the list {waitpoint:?}"));
        }
    }
    let same = (&listed.signals, &listed.steps, &listed.waitpoints)
        == (&tables.signals, &tables.steps, &tables.waitpoints);
    if !same {
        violations.push(format!("a decision loads {tables:?}, and the lists have {listed:?}"));
    }
    violations
}

/// Checks that an execution which is suspended until its children have ended will learn of that: by an outbox row, or by
/// the end of a live child that it awaits.
async fn check_parents(store: &dyn Store, rows: &BTreeMap<ExecutionId, Execution>) -> Vec<String> {
    let mut to_be_notified: BTreeSet<Uuid> = BTreeSet::new();
    let mut after: Option<(Timestamp, Uuid)> = None;
    loop {
        let page = store
            .outbox(&ReconcilerScope::ALL, OutboxKind::Parent, 0, after, 500)
            .await
            .expect("the outbox is read");
        let Some(last) = page.last() else { break };
        after = Some((last.at, last.name.id));
        to_be_notified.extend(page.iter().map(|row| row.name.id));
    }
    let tells = |child: &Execution| {
        let node = child.spec.node.as_ref();
        let always = node.is_some_and(|node| !node.tells_if_awaited);
        child.state.outcome().is_none() && (always || child.detail.end_awaited)
    };
    let waits = |row: &&Execution| {
        let attached = row.wiring().children.iter().filter(|child| !child.detached);
        let mut children = attached.filter_map(|child| rows.get(&child.execution));
        row.state.suspension().is_some_and(|suspension| suspension.waits_for_children())
            && !children.any(tells)
            && !to_be_notified.contains(&row.id.0)
    };
    let unnotified = rows.values().filter(waits);
    unnotified
        .map(|row| {
            format!(
                "{}: waits for its children, and neither the outbox nor a live child will tell it",
                row.id
            )
        })
        .collect()
}
