//! Rows and sessions built by hand: with times in the past, and in states that the rules would need time to reach.

use super::{Harness, new_id};
use selvedge_core::execution::{Detail, RecordSummary, Spec};
use selvedge_core::fact::{self, LeaseRef};
use selvedge_core::filter::tag_text;
use selvedge_core::flow::{Counts, FlowDetail, FlowSpec, FlowState};
use selvedge_core::history::HistoryLine;
use selvedge_core::rows::{Inserted, NodeEntry, TagEntry};
use selvedge_core::state::StateName;
use selvedge_core::suspension::{Condition, Wait, WaitDraft};
use selvedge_core::table::{Entries, Guarded};
use selvedge_core::{
    Changes, ClaimScope, ClassId, Execution, Fact, Flow, FlowId, History, Lease, LeaseId, Name, Policy,
    Session, SessionId, State, Suspension, Timestamp,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

/// The input of every execution that is inserted here.
pub const INPUT: &[u8] = b"\"by hand\"";

/// Returns a waiting execution that was submitted at this time.
pub fn row(harness: &Harness, class: ClassId, submitted_at: Timestamp) -> Execution {
    Execution {
        id: new_id(),
        namespace: harness.namespace,
        class,
        flow: None,
        submitted_at,
        spec: Arc::default(),
        tags: Default::default(),
        version: 1,
        state: State::Waiting,
        priority: 0,
        ready_order: submitted_at,
        epoch: 0,
        started_at: None,
        ended_at: None,
        detail: Default::default(),
        history: History::default(),
        wiring: None,
        join: None,
    }
}

/// Returns a running flow without members that was submitted at this time.
pub fn flow(harness: &Harness, submitted_at: Timestamp) -> Flow {
    Flow {
        id: FlowId(Uuid::now_v7()),
        namespace: harness.namespace,
        submitted_at,
        name: None,
        tags: Default::default(),
        spec: FlowSpec::default(),
        version: 1,
        state: FlowState::Running,
        ended_at: None,
        detail: FlowDetail::default(),
        counts: Counts::default(),
    }
}

/// Returns counts of members by state.
pub fn counts(of: &[(StateName, i32)]) -> Counts {
    let mut counts = Counts::default();
    of.iter().for_each(|(state, more)| counts.add(*state, *more));
    counts
}

pub async fn insert_flows(harness: &Harness, flows: &[Flow]) {
    let mut flows_inserted = flows.to_vec();
    flows_inserted.sort_by_key(|flow| flow.id);
    harness.save(Changes { flows: Guarded::inserting(flows_inserted), ..Changes::default() }).await;
}

/// Returns a spec with this policy.
pub fn spec(policy: Policy) -> Arc<Spec> {
    Arc::new(Spec { policy, ..Spec::default() })
}

/// Turns a row into an active one under a lease of a session, with the history line that a claim writes.
pub fn with_lease(mut row: Execution, session: &Session, claimed_at: Timestamp) -> Execution {
    row.epoch = row.epoch.max(1);
    let lease = Lease {
        id: LeaseId(Uuid::new_v4()),
        session: session.id,
        worker: session.worker.clone(),
        instance: session.instance.clone(),
        claimed_at,
        ttl_ms: session.ttl_ms,
    };
    row.history.push(&HistoryLine {
        version: row.version,
        at: claimed_at,
        actor: None,
        fact: Fact::Claimed(fact::Claimed {
            lease: LeaseRef {
                id: lease.id,
                epoch: row.epoch,
                worker: lease.worker.clone(),
                instance: lease.instance.clone(),
            },
            ttl_ms: lease.ttl_ms,
            after: None,
        }),
    });
    row.state = State::Active(lease);
    row
}

/// Turns a row into one that its first attempt has suspended.
pub fn suspended(row: Execution, since: Timestamp, waits: Vec<Wait>) -> Execution {
    let lease = LeaseRef {
        id: LeaseId(Uuid::new_v4()),
        epoch: 1,
        worker: Name::trusted("wörker"),
        instance: Name::trusted("one"),
    };
    let suspension = Suspension { number: 1, since, lease, waits };
    let record = RecordSummary { suspensions: 1, ..RecordSummary::default() };
    let detail = Detail { record, ..Detail::default() };
    Execution { state: State::Suspended(suspension.into()), epoch: 1, started_at: Some(since), detail, ..row }
}

/// Returns a wait without a step and without a timeout.
pub fn wait(condition: Condition) -> Wait {
    WaitDraft::new(condition).begin(Timestamp::default(), None)
}

/// Inserts a waiting execution with this record.
pub async fn recorded(harness: &Harness, record: RecordSummary) -> Execution {
    let class = harness.class("default", "kind").await;
    let row = row(harness, class, harness.now().await);
    let row = Execution { detail: Detail { record, ..Detail::default() }, ..row };
    insert(harness, std::slice::from_ref(&row)).await;
    row
}

/// Returns a session that was last seen at this time and never renewed.
pub fn session(harness: &Harness, instance: &str, ttl_ms: i64, seen_at: Timestamp) -> Session {
    Session {
        id: SessionId::of(harness.namespace, instance, ttl_ms),
        worker: Name::trusted("worker"),
        instance: Name::trusted(instance),
        ttl_ms,
        scope: ClaimScope {
            namespace: harness.namespace,
            lanes: vec![Name::trusted("default")],
            kinds: None,
            capabilities: BTreeSet::new(),
        },
        registered_at: seen_at,
        seen_at,
        renewed_at: None,
        draining: false,
        life: 0,
        detail: selvedge_core::session::SessionDetail::default(),
    }
}

/// Returns the changes that insert rows with their tags, and node names for the members of flows.
pub fn inserting(rows: &[Execution]) -> Changes {
    let mut changes = Changes::default();
    for row in rows {
        let name =
            row.spec.node.as_ref().map_or(Name::trusted(&row.id.to_string()), |node| node.name.clone());
        let (submitted_at, execution) = (row.submitted_at, row.id);
        let named = row.flow.map(|flow| NodeEntry { flow, name, submitted_at, execution });
        changes.nodes.written.extend(named);
        changes.executions.inserted.push(Inserted {
            execution: row.clone(),
            input: INPUT.into(),
            result: None,
        });
        changes.tags.written.extend(row.tags.iter().map(|(name, value)| TagEntry {
            namespace: row.namespace,
            tag: tag_text(name, value),
            submitted_at: row.submitted_at,
            execution: row.id,
        }));
    }
    changes.executions.inserted.sort_by_key(|row| row.execution.id);
    changes.tags.written.sort();
    changes.nodes.written.sort();
    changes
}

/// Inserts rows with their tags.
pub async fn insert(harness: &Harness, rows: &[Execution]) {
    harness.save(inserting(rows)).await;
}

pub async fn put_sessions(harness: &Harness, sessions: &[Session]) {
    let mut sessions = sessions.to_vec();
    sessions.sort_by_key(|session| session.id);
    harness.save(Changes { sessions: Entries::writing(sessions), ..Changes::default() }).await;
}
