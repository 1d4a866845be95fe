//! A scene: an execution in one situation, and everything around it.

use selvedge_core::execution::{Detail, Spec};
use selvedge_core::explain::{ExplainContext, Explanation, explain};
use selvedge_core::fact::{self, Fact, Failure, LeaseRef};
use selvedge_core::gate::draws::{fairness_line, lane_gate};
use selvedge_core::gate::{Gate, GateKind, GateName, RequiredGates};
use selvedge_core::history::HistoryLine;
use selvedge_core::join::{Edge, EdgeCondition, GroupDecision, JoinPolicy, Resolution};
use selvedge_core::session::SessionDetail;
use selvedge_core::submission::Debounce;
use selvedge_core::suspension::{Condition, WaitDraft};
use selvedge_core::wiring::{Node, Upstream};
use selvedge_core::{
    ClaimScope, Class, ClassId, Execution, ExecutionId, FailureClass, FlowId, History, Join, Lease, LeaseId,
    Name, NamespaceId, Outcome, Session, SessionId, State, Suspension, Timestamp, Wiring,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

const NAMESPACE: NamespaceId = NamespaceId(1);
const CLASS: ClassId = ClassId(1);
const TTL_MS: i64 = 30_000;
/// The lease of an active execution.
pub const LEASE: &str = "00000000-0000-0000-0000-0000000000aa";

/// Returns the current time.
pub fn now() -> Timestamp {
    Timestamp::from_millis(1_000_000_000)
}

/// Returns the id with this number.
pub fn id(number: u128) -> ExecutionId {
    ExecutionId(Uuid::from_u128(number))
}

fn name(text: &str) -> Name {
    Name::trusted(text)
}

/// The state of the execution, as far as explanations distinguish it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Situation {
    Waiting,
    WaitingForUpstreams,
    Delayed,
    /// Debounced.
    WaitingForQuiet,
    BackingOff,
    /// Held by its fairness line.
    InLine,
    /// Held by a gate that has room.
    HeldByOpenGate,
    Suspended,
    Active,
    Completed,
    Failed,
    Cancelled,
    Expired,
    Skipped,
}

impl Situation {
    pub const ALL: [Situation; 14] = [
        Self::Waiting,
        Self::WaitingForUpstreams,
        Self::Delayed,
        Self::WaitingForQuiet,
        Self::BackingOff,
        Self::InLine,
        Self::HeldByOpenGate,
        Self::Suspended,
        Self::Active,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Expired,
        Self::Skipped,
    ];
}

/// An execution and the rows around it.
pub struct Scene {
    pub row: Execution,
    pub class: Class,
    pub sessions: Vec<Session>,
    pub upstreams: Vec<Execution>,
    pub origin: Option<Execution>,
    pub gates: Vec<Gate>,
    pub head: Option<Execution>,
    pub running: Vec<Execution>,
}

impl Scene {
    /// Returns an execution in this situation that a live worker could run, and that no gate refuses.
    pub fn new(situation: Situation) -> Scene {
        let class = Class {
            namespace: NAMESPACE,
            lane: name("default"),
            kind: name("kind"),
            capabilities: BTreeSet::from([name("gpu")]),
            pool: None,
        };
        let mut scene = Scene {
            row: execution(1, State::Waiting),
            class,
            sessions: vec![session()],
            upstreams: Vec::new(),
            origin: None,
            gates: Vec::new(),
            head: None,
            running: Vec::new(),
        };
        scene.enter(situation);
        scene
    }

    fn enter(&mut self, situation: Situation) {
        let state = match situation {
            Situation::Waiting => State::Waiting,
            Situation::WaitingForUpstreams => {
                self.join(Resolution::Pending, GroupDecision::Pending);
                State::WaitingDependencies
            }
            Situation::Delayed => State::Delayed { until: now().plus_ms(5_000) },
            Situation::WaitingForQuiet => {
                let debounce = Debounce { key: name("quiet"), delay_ms: 5_000, max_ms: None };
                Arc::make_mut(&mut self.row.spec).debounce = Some(debounce);
                State::Delayed { until: now().plus_ms(5_000) }
            }
            Situation::BackingOff => {
                self.row.detail.retries = 1;
                self.row.detail.error = Some(error("boom"));
                State::Delayed { until: now().plus_ms(5_000) }
            }
            Situation::InLine => {
                self.required_gates().fairness_key = Some(name("tenant"));
                let line = fairness_line(NAMESPACE, CLASS, &name("tenant"));
                self.gate_named(line.clone()).active = 1;
                State::Held(line.into())
            }
            Situation::HeldByOpenGate => {
                self.required_gates().quotas.push(name("open"));
                State::Held(GateName::new(NAMESPACE, GateKind::Quota, name("open")).into())
            }
            Situation::Suspended => {
                let wait = WaitDraft::new(Condition::signal(name("go"))).begin(now(), None);
                let suspension =
                    Suspension { number: 1, since: now(), lease: lease_ref(), waits: vec![wait] };
                State::Suspended(suspension.into())
            }
            Situation::Active => State::Active(lease()),
            Situation::Completed => State::Terminal(Outcome::Completed),
            Situation::Failed => {
                self.row.detail.error = Some(error("boom"));
                State::Terminal(Outcome::Failed)
            }
            Situation::Cancelled => {
                self.record(
                    Fact::Cancelled(fact::Cancelled { lease: None, reason: Some("a typing error".into()) }),
                    Some("ada"),
                );
                State::Terminal(Outcome::Cancelled)
            }
            Situation::Expired => {
                self.record(Fact::StartByPassed(fact::StartByPassed {}), None);
                State::Terminal(Outcome::Expired)
            }
            Situation::Skipped => {
                self.join(Resolution::Dead, GroupDecision::Impossible);
                State::Terminal(Outcome::Skipped)
            }
        };
        self.row.ended_at = state.outcome().map(|_| now());
        self.row.epoch = u32::from(!matches!(
            situation,
            Situation::Waiting | Situation::WaitingForQuiet | Situation::Skipped
        ));
        self.row.state = state;
    }

    /// Gives the execution one upstream with this edge.
    fn join(&mut self, resolution: Resolution, decision: GroupDecision) {
        let edges = vec![Edge { resolution, generation: 0 }];
        let upstreams = vec![Upstream { execution: id(3), when: EdgeCondition::Success }];
        self.row.flow = Some(FlowId(Uuid::from_u128(2)));
        self.row.join = Some(Join { policy: JoinPolicy::AllOf, edges, decision });
        self.row.wiring = Some(Arc::new(Wiring { upstreams, ..Wiring::default() }));
    }

    /// Adds a line to the history of the execution.
    pub fn record(&mut self, fact: Fact, actor: Option<&str>) {
        let version = self.row.version + 1;
        self.row.version = version;
        self.row.history.push(&HistoryLine { version, at: now(), actor: actor.map(name), fact });
    }

    pub fn spec(&mut self) -> &mut Spec {
        Arc::make_mut(&mut self.row.spec)
    }

    pub fn required_gates(&mut self) -> &mut RequiredGates {
        &mut self.spec().required_gates
    }

    pub fn lane(&mut self) -> &mut Gate {
        self.gate_named(lane_gate(NAMESPACE, &name("default")))
    }

    pub fn gate(&mut self, kind: GateKind, text: &str) -> &mut Gate {
        self.gate_named(GateName::new(NAMESPACE, kind, name(text)))
    }

    fn gate_named(&mut self, name: GateName) -> &mut Gate {
        let known = self.gates.iter().position(|gate| gate.name == name);
        let index = known.unwrap_or_else(|| {
            self.gates.push(Gate::new(name));
            self.gates.len() - 1
        });
        &mut self.gates[index]
    }

    pub fn explain(&self) -> Explanation {
        let around = ExplainContext {
            class: &self.class,
            sessions: &self.sessions,
            ahead: Some(0),
            upstreams: &self.upstreams,
            origin: self.origin.as_ref(),
            gates: &self.gates,
            head: self.head.as_ref(),
            running: &self.running,
            now: now(),
        };
        explain(&self.row, &around)
    }
}

pub fn error(message: &str) -> Failure {
    Failure { message: message.into(), class: FailureClass::Transient }
}

/// Returns an execution in this state, without anything around it.
pub fn execution(number: u128, state: State) -> Execution {
    Execution {
        id: id(number),
        namespace: NAMESPACE,
        class: CLASS,
        flow: None,
        submitted_at: now(),
        spec: Arc::new(Spec::default()),
        tags: Default::default(),
        version: 1,
        priority: 0,
        ready_order: now(),
        epoch: u32::from(state.lease().is_some()),
        started_at: None,
        ended_at: state.outcome().map(|_| now()),
        state,
        detail: Detail::default(),
        history: History::default(),
        wiring: None,
        join: None,
    }
}

/// Returns a member of a flow with this node name.
pub fn member(number: u128, node: &str, state: State) -> Execution {
    let mut row = execution(number, state);
    let node = Node {
        name: name(node),
        depth: 0,
        parent: None,
        tells_if_awaited: false,
        delay: None,
        flow_deadline_at: None,
    };
    Arc::make_mut(&mut row.spec).node = Some(node);
    Execution { flow: Some(FlowId(Uuid::from_u128(2))), ..row }
}

fn lease_ref() -> LeaseRef {
    LeaseRef { id: lease().id, epoch: 1, worker: name("w"), instance: name("i") }
}

/// Returns the lease of an active execution.
pub fn lease() -> Lease {
    Lease {
        id: LeaseId(LEASE.parse().expect("a lease id")),
        session: session().id,
        worker: name("w"),
        instance: name("i"),
        claimed_at: now(),
        ttl_ms: TTL_MS,
    }
}

/// Returns the session of a live worker that can run the execution.
pub fn session() -> Session {
    Session {
        id: SessionId::of(NAMESPACE, "i", TTL_MS),
        worker: name("w"),
        instance: name("i"),
        ttl_ms: TTL_MS,
        scope: ClaimScope {
            namespace: NAMESPACE,
            lanes: vec![name("default")],
            kinds: None,
            capabilities: BTreeSet::from([name("gpu")]),
        },
        registered_at: now(),
        seen_at: now(),
        renewed_at: None,
        draining: false,
        life: 0,
        detail: SessionDetail::default(),
    }
}
