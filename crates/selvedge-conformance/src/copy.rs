//! Every row of a store, read through its decoders and written into another store through its encoders: where the two then
//! differ in a byte, a build reads or writes a stored form differently than the build that wrote the rows.
//!
//! Encoded history and log entries pass through a store as bytes, so their lines and facts are decoded and encoded here too.
#![allow(missing_docs)]

use super::rule::decision;
use selvedge_core::Demand;
use selvedge_core::filter::{Filter, tag_text};
use selvedge_core::flow::FlowFilter;
use selvedge_core::gate::{Gate, GateId, LedgerEntry};
use selvedge_core::outbox::OutboxKind;
use selvedge_core::rows::{
    HistoryPage, Inserted, KeyName, KeyRow, Members, NodeEntry, ResultChange, Rows, TagEntry, Updated,
};
use selvedge_core::stream::StreamName;
use selvedge_core::table::{Entries, Guarded, Request};
use selvedge_core::{Changes, ClassId, ExecutionId, Flow, FlowId, History, Name, Needs, log};
use selvedge_store::{Store, Stored};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// More than any fixture has of anything.
const ALL: u32 = 100_000;

/// What the contract cannot list: a store is asked for these by name.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub keys: Vec<KeyName>,
    pub gates: Vec<GateId>,
}

/// Copies every row from one store into another, which must be empty.
pub async fn copy(from: &dyn Store, to: &dyn Store, names: &Names) {
    for (id, name) in from.namespaces().await.expect("namespaces are read") {
        assert_eq!(to.namespace(&name).await.expect("a namespace is interned"), id);
    }
    for (id, class) in from.classes_after(ClassId(0)).await.expect("classes are read") {
        assert_eq!(
            to.intern(std::slice::from_ref(&class)).await.expect("a class is interned"),
            [(id, class)]
        );
    }
    let rows = Read::all(from, names).await;
    save(to, rows.as_new()).await;
    let secret = from.kept_secret(b"never kept").await.expect("the secret is read");
    assert_eq!(to.kept_secret(&secret).await.expect("the secret is kept"), secret);
}

/// Writes every row of a store over itself, as the update of a row that has not changed.
pub async fn rewrite(store: &dyn Store, names: &Names) {
    let rows = Read::all(store, names).await;
    save(store, rows.as_updates()).await;
}

/// Decodes every entry of the log and encodes it again: it must have the same bytes. Returns how many there were.
pub async fn check_log(store: &dyn Store) -> usize {
    let entries = store.log_after(0, ALL).await.expect("the log is read").entries;
    for entry in &entries {
        let facts =
            log::unpack(&entry.body).unwrap_or_else(|error| panic!("entry {}: {error}", entry.number));
        assert_eq!(log::pack(&facts), entry.body, "entry {} is encoded differently", entry.number);
    }
    entries.len()
}

/// All rows of a store.
struct Read {
    executions: Vec<Stored>,
    pages: Vec<HistoryPage>,
    flows: Vec<Flow>,
    gates: Vec<Gate>,
    rest: Changes,
}

impl Read {
    async fn all(store: &dyn Store, names: &Names) -> Read {
        let mut rest = Changes { keys: Entries::writing(keys(store, names).await), ..Changes::default() };
        let (mut executions, mut flows) = (Vec::new(), Vec::new());
        for (namespace, _) in store.namespaces().await.expect("namespaces are read") {
            executions
                .extend(store.list(&Filter::all(namespace), None, ALL).await.expect("executions are read"));
            let found = store.list_flows(&FlowFilter::all(namespace), None, ALL).await;
            flows.extend(found.expect("flows are read"));
        }
        executions.sort_by_key(|stored| stored.execution.id);
        flows.sort_by_key(|flow| flow.id);
        let mut pages = Vec::new();
        for stored in &mut executions {
            let row = &mut stored.execution;
            row.history = encoded_again(&row.history, row.id);
            pages.extend(pages_of(store, row.id).await);
            rest.tags.written.extend(row.tags.iter().map(|(name, value)| TagEntry {
                namespace: row.namespace,
                tag: tag_text(name, value),
                submitted_at: row.submitted_at,
                execution: row.id,
            }));
            add_records(store, row.id, row.epoch, &mut rest).await;
        }
        for flow in &flows {
            rest.nodes.written.extend(nodes_of(store, flow.id).await);
        }
        for kind in OutboxKind::ALL {
            rest.outbox.written.extend(store.outbox(kind, 0, None, ALL).await.expect("the outbox is read"));
        }
        rest.sessions.written = store.sessions(None).await.expect("sessions are read");
        rest.token_keys.written = store.token_keys().await.expect("the keys of tokens are read");
        let gates = store.fetch_gates(&names.gates).await.expect("gates are read");
        rest.ledger = ledger(store, &gates).await;
        in_order(&mut rest);
        Read { executions, pages, flows, gates, rest }
    }

    /// The rows as they are saved when all of them are new.
    fn as_new(&self) -> Changes {
        let inserted = self.executions.iter().map(|stored| Inserted {
            execution: stored.execution.clone(),
            input: stored.input.clone(),
            result: stored.result.clone(),
        });
        Changes {
            executions: Guarded::inserting(inserted),
            history_pages: self.pages.clone(),
            flows: Guarded::inserting(self.flows.clone()),
            gates: Guarded::writing(self.gates.iter().map(|gate| (gate.clone(), None))),
            ..self.rest.clone()
        }
    }

    /// The rows as they are saved when all of them are there: what can be written again is.
    fn as_updates(&self) -> Changes {
        let updated = self.executions.iter().map(|stored| Updated {
            expected_version: stored.execution.version,
            execution: stored.execution.clone(),
            result: stored.result.clone().map_or(ResultChange::Clear, ResultChange::Set),
            rewired: true,
        });
        Changes {
            executions: Guarded::updating(updated),
            flows: Guarded::updating(self.flows.iter().map(|flow| (flow.clone(), flow.version))),
            gates: Guarded::writing(self.gates.iter().map(|gate| (gate.clone(), Some(gate.version)))),
            sessions: Entries::writing(self.rest.sessions.written.clone()),
            outbox: Entries::writing(self.rest.outbox.written.clone()),
            streams: self.rest.streams.clone(),
            steps: self.rest.steps.clone(),
            waitpoints: self.rest.waitpoints.clone(),
            token_keys: Entries::writing(self.rest.token_keys.written.clone()),
            ..Changes::default()
        }
    }
}

/// The same lines, decoded and encoded.
fn encoded_again(history: &History, of: ExecutionId) -> History {
    let lines = history.lines().unwrap_or_else(|error| panic!("history of {of}: {error}"));
    let mut again = History::default();
    lines.iter().for_each(|line| again.push(line));
    again
}

async fn pages_of(store: &dyn Store, execution: ExecutionId) -> Vec<HistoryPage> {
    let pages = store.history_pages(execution).await.expect("pages are read").into_iter();
    let again = |lines| encoded_again(&History::from_bytes(lines), execution).as_bytes().to_vec();
    (0..).zip(pages).map(|(page, lines)| HistoryPage { execution, page, lines: again(lines) }).collect()
}

/// Adds what is recorded beside an execution, and its streams. Best-effort frames are not shown when they are old.
async fn add_records(store: &dyn Store, id: ExecutionId, attempts: u32, rest: &mut Changes) {
    rest.signals.extend(store.signals(id, 0, ALL).await.expect("signals are read"));
    rest.steps.extend(store.steps(id, 0, ALL).await.expect("steps are read"));
    rest.waitpoints.extend(store.waitpoints(id, 0, ALL).await.expect("waitpoints are read"));
    for attempt in 0..attempts {
        let name = StreamName { execution: id, attempt };
        rest.streams.extend(store.stream(name).await.expect("a stream is read"));
        let frames = store.frames(name, 0, ALL).await.expect("frames are read");
        rest.frames.extend(frames.into_iter().filter(|frame| !frame.best_effort));
    }
}

async fn nodes_of(store: &dyn Store, flow: FlowId) -> Vec<NodeEntry> {
    let members = store.members(Members { flow, skip: 0, limit: ALL }).await.expect("members are read");
    let entry = |row: selvedge_core::Execution| NodeEntry {
        flow,
        name: Name::trusted(row.node().expect("a member has a name")),
        submitted_at: row.submitted_at,
        execution: row.id,
    };
    members.into_iter().map(entry).collect()
}

/// The ledger of all gates in all their periods.
async fn ledger(store: &dyn Store, gates: &[Gate]) -> Vec<LedgerEntry> {
    let mut entries = Vec::new();
    for gate in gates {
        for period in 0..=gate.state.period {
            entries.extend(store.ledger(gate.id(), period).await.expect("the ledger is read"));
        }
    }
    entries
}

async fn keys(store: &dyn Store, names: &Names) -> Vec<KeyRow> {
    let needs = Needs { keys: Request::reading(names.keys.clone()), ..Needs::default() };
    let shown: Arc<Mutex<Rows>> = Arc::default();
    let seen = shown.clone();
    let look = decision(
        move |_| needs.clone(),
        move |rows| {
            *seen.lock().expect("nobody panics with rows") = rows;
            Demand::Save(Box::default())
        },
    );
    store.transact(look).await.expect("keys are read");
    std::mem::take(&mut shown.lock().expect("nobody panics with rows").keys)
}

async fn save(store: &dyn Store, changes: Changes) {
    let save = decision(|_| Needs::default(), move |_| Demand::Save(Box::new(changes.clone())));
    store.transact(save).await.expect("the rows are saved");
}

/// Puts rows into the order in which a decision gives them.
fn in_order(rest: &mut Changes) {
    rest.keys.written.sort_by(|a, b| a.name.cmp(&b.name));
    rest.tags.written.sort();
    rest.nodes.written.sort();
    rest.outbox.written.sort_by_key(|row| row.name);
    rest.sessions.written.sort_by_key(|session| session.id);
    rest.ledger.sort_by_key(|entry| (entry.gate, entry.period, entry.execution));
}

/// The rows of every table of two stores, by table.
pub type Tables = BTreeMap<String, Vec<String>>;

/// Asserts that every table has the same rows in both.
pub fn assert_same(stored: &Tables, written: &Tables) {
    assert_eq!(stored.keys().collect::<Vec<_>>(), written.keys().collect::<Vec<_>>());
    for (table, rows) in stored {
        let again = &written[table];
        // Both are sorted, so that the first that differ are forms of the same row.
        let differs = rows.iter().find(|row| !again.contains(row));
        let written = again.iter().find(|row| !rows.contains(row));
        assert!(differs.is_none() && written.is_none(), "{table}\nhas    {differs:?}\nwrites {written:?}");
        assert_eq!(rows.len(), again.len(), "rows in {table}");
    }
}
