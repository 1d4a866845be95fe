//! The invariants of what is recorded beside executions, checked over the tables of a store that is at rest.
//!
//! Signals, steps and waitpoints are those that the log tells of, numbered from 1 without gaps, and what an execution's row
//! says of them; every way of reading shows the same. A suspended execution still waits for something. Nothing is recorded
//! of an execution that is not there, and nothing refers to another namespace.

use super::super::replay::{Recorded, ToldEnd};
use super::super::rule::decision;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::rows::Queries;
use selvedge_core::step::{Step as RecordedStep, Waited};
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::{Execution, ExecutionId, Needs, Rows, Signal, Timestamp, Waitpoint};
use selvedge_store::{Demand, Store};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use uuid::Uuid;

/// How many executions are read at a time.
const EXECUTIONS: usize = 500;
/// How many rows of a list are read at a time: few, so that there are pages.
const PAGE: u32 = 7;

/// What is recorded beside one execution, as the tables have it.
#[derive(Debug, Default)]
struct Tables {
    signals: Vec<Signal>,
    steps: Vec<RecordedStep>,
    waitpoints: Vec<Waitpoint>,
}

/// What is wrong with what is recorded. `told` is what the log tells of every execution, also of those that are gone.
pub(super) async fn check(
    store: &dyn Store,
    rows: &BTreeMap<ExecutionId, Execution>,
    told: &HashMap<ExecutionId, Recorded>,
) -> Vec<String> {
    let mut broken = Vec::new();
    let ids: BTreeSet<ExecutionId> = rows.keys().chain(told.keys()).copied().collect();
    let ids: Vec<ExecutionId> = ids.into_iter().collect();
    for ids in ids.chunks(EXECUTIONS) {
        let mut tables = read_tables(store, ids).await;
        for id in ids {
            let tables = tables.remove(id).unwrap_or_default();
            let wrong = match (rows.get(id), told.get(id)) {
                (Some(row), Some(told)) => check_execution(store, row, told, &tables).await,
                (None, _) if tables.is_empty() => vec![],
                (None, _) => vec![format!("it is gone, and this is left of it: {tables:?}")],
                // That the log does not know a row is said elsewhere.
                (Some(_), None) => vec![],
            };
            broken.extend(wrong.into_iter().map(|what| format!("{id}: {what}")));
        }
        broken.extend(tables.keys().map(|id| format!("{id}: it was not asked for")));
    }
    broken.extend(check_parents(store, rows).await);
    broken
}

impl Tables {
    fn is_empty(&self) -> bool {
        self.signals.is_empty() && self.steps.is_empty() && self.waitpoints.is_empty()
    }
}

/// What a decision is shown of these executions.
async fn read_tables(store: &dyn Store, ids: &[ExecutionId]) -> HashMap<ExecutionId, Tables> {
    let shown: Arc<Mutex<Rows>> = Arc::default();
    let (seen, ids) = (shown.clone(), ids.to_vec());
    let look = decision(
        move |_| Needs {
            queries: Queries { records: ids.clone(), waitpoints: ids.clone(), ..Queries::default() },
            ..Needs::default()
        },
        move |rows| {
            *seen.lock().expect("nobody panics with rows") = rows;
            Demand::Save(Box::default())
        },
    );
    store.transact(look).await.expect("what is recorded is read");
    let rows = std::mem::take(&mut *shown.lock().expect("nobody panics with rows"));
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
    told: &Recorded,
    tables: &Tables,
) -> Vec<String> {
    let mut broken = Vec::new();
    let mut numbered = |what: &str, numbers: Vec<u32>, count: u32| {
        if !numbers.iter().copied().eq(1..=count) {
            broken.push(format!("its {what} are {numbers:?}, and its row says {count}"));
        }
    };
    let record = &row.detail.record;
    numbered("signals", tables.signals.iter().map(|signal| signal.number).collect(), record.signals);
    numbered("steps", tables.steps.iter().map(|step| step.number).collect(), record.steps);
    numbered("waitpoints", tables.waitpoints.iter().map(|one| one.number).collect(), record.waitpoints);
    let untaken = tables.signals.iter().filter(|signal| signal.taken.is_none()).count();
    if untaken != record.untaken as usize {
        broken.push(format!("{untaken} signals are not taken, and its row says {}", record.untaken));
    }
    let open = tables.waitpoints.iter().filter(|one| one.state == WaitpointState::Open);
    let expires_at = open.filter_map(|one| one.expires_at).min();
    if expires_at != record.expires_at {
        broken
            .push(format!("a waitpoint expires at {expires_at:?}, and its row says {:?}", record.expires_at));
    }
    if let Some(suspension) = row.state.suspension().filter(|suspension| suspension.holds()) {
        broken.push(format!("what it waits for has come, and it is suspended: {suspension:?}"));
    }
    broken.extend(check_signals(told, &tables.signals));
    broken.extend(check_steps(told, &tables.steps));
    broken.extend(check_waitpoints(row, told, &tables.waitpoints));
    if !tables.is_empty() {
        broken.extend(check_reads(store, row.id, tables).await);
    }
    broken
}

fn check_signals(told: &Recorded, signals: &[Signal]) -> Vec<String> {
    let mut broken = Vec::new();
    for (told, signal) in told.signals.iter().zip(signals) {
        let bytes = signal.payload.as_ref().map(|payload| payload.len() as u32);
        let same = (told.number, &told.name, &told.source) == (signal.number, &signal.name, &signal.source)
            && (&told.waitpoint, told.at) == (&signal.waitpoint, signal.at)
            && (told.effect, told.taken, Some(told.bytes)) == (signal.effect, signal.taken, bytes);
        if !same {
            broken.push(format!("the log tells of {told:?}, and stored is {signal:?}"));
        }
    }
    let mut keys = BTreeSet::new();
    let twice = signals.iter().filter_map(|signal| signal.key.as_ref()).filter(|key| !keys.insert(*key));
    broken.extend(twice.map(|key| format!("two signals have the key {key}")));
    broken
}

fn check_steps(told: &Recorded, steps: &[RecordedStep]) -> Vec<String> {
    let mut broken = Vec::new();
    for step in steps {
        let known = told.steps.get(&step.name);
        let same = known.is_some_and(|known| {
            let result = match &known.end {
                ToldEnd::Open => step.result.is_none(),
                ToldEnd::Done(bytes) => {
                    step.result.as_ref().is_some_and(|result| result.len() == *bytes as usize)
                }
                ToldEnd::Waited(waited) => {
                    step.result.as_deref().and_then(Waited::decode).as_ref() == Some(waited)
                }
            };
            (known.number, known.attempt) == (step.number, step.attempt)
                && (known.started_at, known.recorded_at) == (step.started_at, step.recorded_at)
                && result
        });
        if !same {
            broken.push(format!("the log tells of {known:?}, and stored is {step:?}"));
        }
    }
    broken
}

fn check_waitpoints(row: &Execution, told: &Recorded, waitpoints: &[Waitpoint]) -> Vec<String> {
    let mut broken = Vec::new();
    for (told, one) in told.waitpoints.iter().zip(waitpoints) {
        let same = (told.id, &told.name, &told.source) == (one.id, &one.name, &one.source)
            && (told.created_at, told.expires_at, told.state) == (one.created_at, one.expires_at, one.state);
        if !same {
            broken.push(format!("the log tells of {told:?}, and stored is {one:?}"));
        }
        if one.namespace != row.namespace {
            broken.push(format!("waitpoint {} is of namespace {:?}", one.id, one.namespace));
        }
    }
    broken
}

/// Every way of reading shows what a decision is shown.
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
    let mut broken = Vec::new();
    for waitpoint in &tables.waitpoints {
        let found = store.waitpoint(waitpoint.id).await.expect("a waitpoint is read");
        if found.as_ref() != Some(waitpoint) {
            broken.push(format!("by its id a waitpoint is {found:?}, in its list {waitpoint:?}"));
        }
    }
    let same = (&listed.signals, &listed.steps, &listed.waitpoints)
        == (&tables.signals, &tables.steps, &tables.waitpoints);
    if !same {
        broken.push(format!("a decision is shown {tables:?}, and the lists are {listed:?}"));
    }
    broken
}

/// A suspended execution whose children have all ended knows that, or is about to be told.
async fn check_parents(store: &dyn Store, rows: &BTreeMap<ExecutionId, Execution>) -> Vec<String> {
    let mut left: BTreeSet<Uuid> = BTreeSet::new();
    let mut after: Option<(Timestamp, Uuid)> = None;
    loop {
        let page = store.outbox(OutboxKind::Parent, 0, after, 500).await.expect("the outbox is read");
        let Some(last) = page.last() else { break };
        after = Some((last.at, last.name.id));
        left.extend(page.iter().map(|row| row.name.id));
    }
    let waits = |row: &&Execution| {
        let attached = row.wiring().children.iter().filter(|child| !child.detached);
        let mut children = attached.filter_map(|child| rows.get(&child.execution));
        row.state.suspension().is_some_and(|suspension| suspension.waits_for_children())
            && children.all(|child| child.state.outcome().is_some())
            && !left.contains(&row.id.0)
    };
    let unheard = rows.values().filter(waits);
    unheard
        .map(|row| format!("{}: its children have ended, and nothing is left to tell it", row.id))
        .collect()
}
