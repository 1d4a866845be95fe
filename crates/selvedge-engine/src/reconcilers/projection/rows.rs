//! The rows of a page of the log.

use selvedge_api::times;
use selvedge_core::fact::{self, EventBody, Fact};
use selvedge_core::history::{attempt_end, attempt_outcome};
use selvedge_core::log::{Cursor, Event, Mark, UNREADABLE, check, unpack};
use selvedge_core::{ExecutionId, FlowId, NamespaceId, Timestamp};
use selvedge_store::{
    Entries, Entry, ProjectedAttempt, ProjectedEnd, ProjectedEvent, ProjectedStart, ProjectionPage,
};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};

/// The type of the event that stands for entries which the log dropped before they were read.
const MISSED: &str = "log.missed";

/// The rows of some entries, and the time of the last one.
pub struct PageRows {
    pub page: ProjectionPage,
    pub at: Timestamp,
}

/// The attempts that began or ended, by execution and index.
type Attempts = BTreeMap<(ExecutionId, u32), ProjectedAttempt>;

impl PageRows {
    /// Returns the rows of entries that were read after a position; none if there are no entries.
    pub fn of(after: i64, log: Entries) -> Option<PageRows> {
        let (first, last) = (log.entries.first()?, log.entries.last()?);
        let (upto, mut at) = (last.number, last.at);
        let mut events: Vec<ProjectedEvent> = missed(after, log.oldest - 1, first).into_iter().collect();
        let mut attempts = Attempts::new();
        for entry in &log.entries {
            let check = check(&entry.body);
            match unpack(&entry.body) {
                Ok(facts) => {
                    add_events(entry.number, check, &facts, &mut events);
                    facts.iter().for_each(|fact| add_attempt(fact, &mut attempts));
                    at = facts.first().map_or(at, |fact| fact.at);
                }
                Err(error) => {
                    tracing::error!(entry = entry.number, %error, "an entry of the log is unreadable; it is passed");
                    let cursor = Cursor::unreadable(entry.number).encode(Some(Mark { check, is_last: true }));
                    events.push(of_log(cursor, UNREADABLE, entry.at, "{}".to_owned()));
                }
            }
        }
        let attempts = attempts.into_values().collect();
        Some(PageRows { page: ProjectionPage { after, upto, events, attempts }, at })
    }
}

/// Returns the event that announces dropped entries, before the first entry that is there. A projection that has not begun
/// has missed nothing.
fn missed(after: i64, dropped: i64, first: &Entry) -> Option<ProjectedEvent> {
    if after == 0 || dropped <= after {
        return None;
    }
    let cursor = Cursor { entry: first.number, fact: 0, event: 0 };
    let cursor = cursor.encode(Some(Mark { check: check(&first.body), is_last: false }));
    Some(of_log(cursor, MISSED, first.at, json!({ "entries": dropped - after }).to_string()))
}

/// Returns an event that concerns the log itself.
fn of_log(cursor: String, kind: &'static str, at: Timestamp, data: String) -> ProjectedEvent {
    ProjectedEvent {
        cursor,
        kind,
        at,
        namespace: None,
        execution: None,
        flow: None,
        version: None,
        actor: None,
        data,
    }
}

/// Adds the public events of an entry, with the cursors that readers of their namespaces get.
fn add_events(entry: i64, check: u32, facts: &[Event], events: &mut Vec<ProjectedEvent>) {
    let bodies: Vec<Vec<EventBody>> = facts.iter().map(|event| event.fact.public_events()).collect();
    let mut last: HashMap<NamespaceId, Cursor> = HashMap::new();
    for (fact, (event, bodies)) in facts.iter().zip(&bodies).enumerate() {
        if !bodies.is_empty() {
            let cursor = Cursor { entry, fact: fact as u32, event: bodies.len() as u16 };
            last.insert(event.namespace, cursor);
        }
    }
    for (fact, (event, bodies)) in facts.iter().zip(bodies).enumerate() {
        for (index, (kind, mut data)) in bodies.into_iter().enumerate() {
            let cursor = Cursor { entry, fact: fact as u32, event: index as u16 + 1 };
            let is_last = last.get(&event.namespace) == Some(&cursor);
            times::format_fields(&mut data);
            events.push(ProjectedEvent {
                cursor: cursor.encode(Some(Mark { check, is_last })),
                kind,
                at: event.at,
                namespace: Some(event.namespace),
                execution: event.execution,
                flow: event.flow.or(event.execution.map(|id| FlowId(id.0))),
                version: event.version,
                actor: event.actor.clone(),
                data: data.to_string(),
            });
        }
    }
}

/// Adds the attempt that a fact begins or ends. A later attempt with the same index is one of another execution that had the
/// same id; it replaces the earlier one.
fn add_attempt(event: &Event, attempts: &mut Attempts) {
    let Some(execution) = event.execution else { return };
    let namespace = event.namespace;
    if let Fact::Claimed(fact::Claimed { lease, .. }) = &event.fact {
        let (attempt, at) = (lease.attempt(), event.at);
        let start = Some(ProjectedStart { lease: lease.clone(), at });
        let began = ProjectedAttempt { execution, attempt, namespace, start, end: None };
        attempts.insert((execution, attempt), began);
    } else if let Some((attempt, _)) = attempt_end(&event.fact) {
        let (outcome, error) = (attempt_outcome(&event.fact), event.fact.error());
        let end = ProjectedEnd { at: event.at, outcome, error };
        let unknown = ProjectedAttempt { execution, attempt, namespace, start: None, end: None };
        attempts.entry((execution, attempt)).or_insert(unknown).end = Some(end);
    }
}
