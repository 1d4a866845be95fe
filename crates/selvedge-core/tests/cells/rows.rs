//! Rows of every state, in every variation that a rule distinguishes.

use super::Row;
use super::gated::{gated_rows, open_key};
use super::record::{CHILD, recorded_rows, waitpoints, waits_for_a_signal};
use selvedge_core::execution::{CancelRequest, Detail, RecordSummary, Spec};
use selvedge_core::flow::{Counts, FlowDetail, FlowSpec, FlowState};
use selvedge_core::join::{Edge, EdgeCondition, GroupDecision, JoinPolicy, OnSatisfied, Resolution};
use selvedge_core::state::StateName;
use selvedge_core::submission::{Debounce, When};
use selvedge_core::wiring::{Child, Downstream, Node, Upstream};
use selvedge_core::{
    Backoff, ClaimScope, ClassId, Execution, ExecutionId, Flow, FlowId, History, Join, Lease, LeaseId, Name,
    NamespaceId, Outcome, Policy, Retry, Session, SessionId, State, Timestamp, Wiring,
};
use std::sync::{Arc, LazyLock};
use uuid::Uuid;

/// The namespace of every row.
pub const NAMESPACE: NamespaceId = NamespaceId(1);
/// The class of every row.
pub const CLASS: ClassId = ClassId(1);
/// The id of every row.
pub const ID: ExecutionId = ExecutionId(Uuid::from_u128(1));
/// The lease of every active row.
pub const LEASE: LeaseId = LeaseId(Uuid::from_u128(2));
/// The upstreams of every row that has upstreams.
pub const UPSTREAMS: [ExecutionId; 2] = [ExecutionId(Uuid::from_u128(3)), ExecutionId(Uuid::from_u128(4))];
/// The flow of every row that has upstreams.
pub const FLOW: FlowId = FlowId(Uuid::from_u128(5));
/// The id of a parent of the execution.
pub const PARENT: ExecutionId = ExecutionId(Uuid::from_u128(6));
/// The name of such a row in its flow.
pub const NODE: &str = "node";
/// The debounce key of every row that waits for quiet.
pub const QUIET: &str = "quiet";
/// The time to live of the lease, in milliseconds.
pub const TTL_MS: i64 = 1_000;

/// Returns the current time.
pub fn now() -> Timestamp {
    Timestamp::from_millis(1_000_000)
}

fn lease() -> Lease {
    Lease {
        id: LEASE,
        session: session().id,
        worker: Name::trusted("worker"),
        instance: Name::trusted("instance"),
        claimed_at: now().minus_ms(10 * TTL_MS),
        ttl_ms: TTL_MS,
    }
}

/// Returns the session of every lease.
pub fn session() -> Session {
    Session {
        id: SessionId::of(NAMESPACE, "instance", TTL_MS),
        worker: Name::trusted("worker"),
        instance: Name::trusted("instance"),
        ttl_ms: TTL_MS,
        scope: ClaimScope {
            namespace: NAMESPACE,
            lanes: vec![Name::trusted("default")],
            kinds: None,
            capabilities: Default::default(),
        },
        registered_at: now(),
        seen_at: now(),
        renewed_at: None,
        draining: false,
        life: 0,
        detail: Default::default(),
    }
}

pub(super) fn states() -> impl Iterator<Item = State> {
    let live = [
        State::WaitingDependencies,
        State::Waiting,
        State::Delayed { until: now().minus_ms(1) },
        State::Delayed { until: now().plus_ms(1) },
        State::Active(lease()),
        State::Held(open_key().into()),
        waits_for_a_signal(),
    ];
    live.into_iter().chain(Outcome::ALL.into_iter().map(State::Terminal))
}

/// Returns no row, and rows of every state in every variation.
pub fn rows() -> Vec<Row> {
    let mut rows = vec![None];
    rows.extend(debounced_rows().map(Some));
    rows.extend(wired_rows().into_iter().chain(recorded_rows()).chain(gated_rows()).map(Some));
    for state in states() {
        for policy in policies() {
            for charged in 0..=2 {
                for cancel_until in cancel_requests(&state) {
                    rows.push(Some(row(state.clone(), policy.clone(), charged, cancel_until)));
                }
            }
        }
    }
    rows
}

/// Returns delayed rows that wait for quiet.
fn debounced_rows() -> impl Iterator<Item = Execution> {
    let delayed = states().filter(|state| matches!(state, State::Delayed { .. }));
    delayed.map(|state| {
        let mut row = row(state, Policy::default(), 0, None);
        let debounce = Debounce { key: Name::trusted(QUIET), delay_ms: 5, max_ms: Some(10) };
        Arc::make_mut(&mut row.spec).debounce = Some(debounce);
        Execution { epoch: 0, ..row }
    })
}

/// Returns policies with each limit alone, exceeded; with and without a back-off.
fn policies() -> Vec<Policy> {
    let mut policies = Vec::new();
    for delay_ms in [0, 1_000] {
        let retry = Retry {
            max_retries: 2,
            max_interruptions: 2,
            backoff: Backoff::Fixed { delay_ms },
            ..Retry::default()
        };
        let none = || Policy { retry: retry.clone(), retention_ms: 0, ..Policy::default() };
        policies.extend([
            none(),
            Policy { deadline_ms: Some(1), ..none() },
            Policy { start_by_ms: Some(1), ..none() },
            Policy { attempt_timeout_ms: Some(1), ..none() },
        ]);
    }
    policies
}

/// Returns the ends of grace periods to test: none, in the future and passed for an active row, which alone can have a
/// cancellation request; none for the others.
pub(super) fn cancel_requests(state: &State) -> Vec<Option<Timestamp>> {
    match state {
        State::Active(_) => vec![None, Some(now().plus_ms(1)), Some(now())],
        State::WaitingDependencies
        | State::Waiting
        | State::Delayed { .. }
        | State::Suspended(_)
        | State::Held(_)
        | State::Terminal(_) => vec![None],
    }
}

pub(super) fn row(state: State, policy: Policy, charged: u32, cancel_until: Option<Timestamp>) -> Execution {
    let (submitted_at, lease) = (now().minus_ms(100_000), lease());
    Execution {
        id: ID,
        namespace: NAMESPACE,
        class: CLASS,
        flow: None,
        submitted_at,
        spec: Arc::new(Spec { policy, ..Spec::default() }),
        tags: Default::default(),
        version: 7,
        priority: 0,
        ready_order: submitted_at,
        epoch: u32::from(state.lease().is_some() || state.suspension().is_some()),
        started_at: state.lease().or(state.suspension().map(|_| &lease)).map(|lease| lease.claimed_at),
        ended_at: state.outcome().map(|_| now().plus_ms(1)),
        state,
        detail: Detail {
            retries: charged,
            interruptions: charged,
            cancel: cancel_until.map(|until| CancelRequest { actor: None, reason: None, until }),
            record: RecordSummary { waitpoints: waitpoints().len() as u32, ..RecordSummary::default() },
            ..Detail::default()
        },
        history: History::default(),
        wiring: None,
        join: None,
    }
}

/// Returns the flow of the rows that have one.
pub fn flow() -> Flow {
    let mut counts = Counts::default();
    counts.add(StateName::Waiting, 1);
    Flow {
        id: FLOW,
        namespace: NAMESPACE,
        submitted_at: now(),
        name: None,
        tags: Default::default(),
        spec: FlowSpec::default(),
        version: 1,
        state: FlowState::Running,
        ended_at: None,
        detail: FlowDetail::default(),
        counts,
    }
}

/// Returns rows of every state with two upstreams: with every combination of edges and decision, and with and without a
/// delay.
fn wired_rows() -> Vec<Execution> {
    use Resolution::{Dead, Holds, Pending};
    let mut rows = Vec::new();
    for state in states() {
        for policy in [JoinPolicy::AllOf, JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun }] {
            for edges in [[Pending, Pending], [Holds, Pending], [Dead, Pending], [Dead, Dead]] {
                for decision in [GroupDecision::Pending, GroupDecision::Satisfied, GroupDecision::Impossible]
                {
                    for delay in [None, Some(When::AfterMs(1))] {
                        let edges = edges.map(|resolution| Edge { resolution, generation: 0 }).to_vec();
                        rows.push(wired(state.clone(), Join { policy, edges, decision }, delay));
                    }
                }
            }
        }
    }
    rows
}

fn wired(state: State, join: Join, delay: Option<When>) -> Execution {
    let node = Node { delay, ..node(NODE, None) };
    let upstreams = UPSTREAMS.map(|execution| Upstream { execution, when: EdgeCondition::Success });
    let row = row(state, Policy::default(), 0, None);
    Execution {
        spec: Arc::new(Spec { node: Some(node), ..Spec::default() }),
        flow: Some(FLOW),
        wiring: Some(Arc::new(Wiring { upstreams: upstreams.to_vec(), ..Wiring::default() })),
        join: Some(join),
        ..row
    }
}

/// Returns a node that an earlier version may have added.
fn node(name: &str, parent: Option<ExecutionId>) -> Node {
    let (name, tells_if_awaited) = (Name::trusted(name), false);
    Node { name, depth: 1, parent, tells_if_awaited, delay: None, flow_deadline_at: None }
}

/// Returns the child of the execution, with this outcome or live. Its end is always enqueued.
pub fn child(outcome: Option<Outcome>) -> Execution {
    let state = outcome.map_or(State::Waiting, State::Terminal);
    let spec = Arc::new(Spec { node: Some(node("child", Some(ID))), ..Spec::default() });
    Execution { id: CHILD, spec, flow: Some(FLOW), ..row(state, Policy::default(), 0, None) }
}

/// Returns a parent of the execution that is suspended until its children have ended.
pub fn parent() -> Execution {
    static ROW: LazyLock<Execution> = LazyLock::new(|| {
        let waits = |row: &Execution| row.state.suspension().is_some_and(|one| one.waits_for_children());
        let row =
            rows().into_iter().flatten().find(waits).expect("there is a row that waits for its children");
        let child = Child { execution: ID, detached: false };
        let wiring = Wiring { children: vec![child], ..Wiring::default() };
        Execution { id: PARENT, wiring: Some(Arc::new(wiring)), ..row }
    });
    ROW.clone()
}

/// Returns the upstream at this index in this generation, with this outcome or live.
pub fn upstream(index: usize, generation: u32, outcome: Option<Outcome>) -> Execution {
    let state = outcome.map_or(State::Waiting, State::Terminal);
    let downstreams = vec![Downstream { execution: ID, edge: index as u32 }];
    let row = row(state, Policy::default(), 0, None);
    Execution {
        id: UPSTREAMS[index],
        flow: Some(FLOW),
        wiring: Some(Arc::new(Wiring { downstreams, ..Wiring::default() })),
        detail: Detail { generation, ..Detail::default() },
        ..row
    }
}
