//! A small in-memory table that serves the loads of a driver, and the record of those loads.

use bytes::Bytes;
use selvedge_core::driver::{Demand, Driver, Host};
use selvedge_core::execution::{Detail, Spec};
use selvedge_core::gate::draws::lane_gate;
use selvedge_core::join::{Edge, EdgeCondition, GroupDecision, JoinPolicy};
use selvedge_core::rows::{Candidates, HeldBy, Payload, Updated};
use selvedge_core::table::Access;
use selvedge_core::wiring::{Downstream, Node, Upstream};
use selvedge_core::{
    Changes, Class, ClassId, Execution, ExecutionId, FlowId, Gate, GateId, History, Join, Lease, LeaseId,
    Name, NamespaceId, Needs, Rows, SessionId, State, Timestamp, Wiring,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

/// The namespace of every row.
pub const NAMESPACE: NamespaceId = NamespaceId(1);
/// The class of every row.
pub const CLASS: ClassId = ClassId(1);
/// The flow of the rows that have one.
pub const FLOW: FlowId = FlowId(Uuid::from_u128(99));

/// Returns an execution id.
pub fn id(number: u128) -> ExecutionId {
    ExecutionId(Uuid::from_u128(number))
}

/// Returns a name.
pub fn name(text: &str) -> Name {
    Name::trusted(text)
}

/// Returns the class of every row.
pub fn class() -> Class {
    let (lane, kind) = (name("default"), name("kind"));
    Class { namespace: NAMESPACE, lane, kind, capabilities: Default::default(), pool: None }
}

/// Returns the gate of the lane of every row.
pub fn lane() -> GateId {
    lane_gate(NAMESPACE, &class().lane).id()
}

/// Returns an execution in this state.
pub fn execution(number: u128, state: State) -> Execution {
    Execution {
        id: id(number),
        namespace: NAMESPACE,
        class: CLASS,
        flow: None,
        submitted_at: Timestamp::from_millis(1),
        spec: Arc::new(Spec::default()),
        tags: Default::default(),
        version: 7,
        priority: 0,
        ready_order: Timestamp::from_millis(1),
        epoch: u32::from(state.lease().is_some()),
        started_at: None,
        ended_at: None,
        state,
        detail: Detail::default(),
        history: History::default(),
        wiring: None,
        join: None,
    }
}

/// Returns an active execution.
pub fn active(number: u128) -> Execution {
    let [worker, instance] = ["worker", "instance"].map(name);
    let (ttl_ms, claimed_at) = (60_000, Timestamp::from_millis(2));
    let session = SessionId::of(NAMESPACE, &instance, ttl_ms);
    let lease_id = LeaseId(Uuid::from_u128(1_000 + number));
    execution(number, State::Active(Lease { id: lease_id, session, worker, instance, claimed_at, ttl_ms }))
}

/// Returns an active execution of a flow, and its downstream, which waits for it to complete.
pub fn joined(upstream: u128, downstream: u128) -> [Execution; 2] {
    let node = |text: &str| Node {
        name: name(text),
        depth: 0,
        parent: None,
        tells_if_awaited: false,
        delay: None,
        flow_deadline_at: None,
    };
    let spec = |text: &str| Arc::new(Spec { node: Some(node(text)), ..Spec::default() });
    let below = Downstream { execution: id(downstream), edge: 0 };
    let above = Upstream { execution: id(upstream), when: EdgeCondition::Success };
    let first = Execution {
        spec: spec("upstream"),
        flow: Some(FLOW),
        wiring: Some(Wiring { downstreams: vec![below], ..Wiring::default() }.into()),
        ..active(upstream)
    };
    let edges = vec![Edge::default()];
    let second = Execution {
        spec: spec("downstream"),
        flow: Some(FLOW),
        wiring: Some(Wiring { upstreams: vec![above], ..Wiring::default() }.into()),
        join: Some(Join { policy: JoinPolicy::AllOf, edges, decision: GroupDecision::Pending }),
        ..execution(downstream, State::WaitingDependencies)
    };
    [first, second]
}

/// The rows of a store.
#[derive(Debug, Default)]
pub struct Table {
    pub executions: BTreeMap<ExecutionId, Execution>,
    pub gates: Vec<Gate>,
    /// Executions that another transaction has locked.
    pub locked: BTreeSet<ExecutionId>,
    /// Executions whose rows cannot be read.
    pub unreadable: BTreeSet<ExecutionId>,
    /// The sizes of large inputs. All others are `null`.
    pub large: BTreeMap<ExecutionId, usize>,
    /// Executions whose large inputs cannot be read.
    pub unreadable_inputs: BTreeSet<ExecutionId>,
}

impl Table {
    /// Creates a table of these executions.
    pub fn of(executions: impl IntoIterator<Item = Execution>) -> Table {
        let executions = executions.into_iter().map(|row| (row.id, row)).collect();
        Table { executions, ..Table::default() }
    }

    /// Returns the rows that a load requests, at this time.
    fn rows(&self, needs: &Needs, now: Timestamp) -> Rows {
        let mut rows = Rows { now, ..Rows::default() };
        let mut asked: BTreeSet<ExecutionId> = BTreeSet::new();
        asked.extend(needs.executions.iter(Access::Lock).chain(needs.executions.iter(Access::Read)));
        asked.extend(needs.executions.iter(Access::LockIfFree).filter(|id| !self.locked.contains(id)));
        rows.skipped.extend(needs.executions.iter(Access::LockIfFree).filter(|id| self.locked.contains(id)));
        for candidates in &needs.queries.candidates {
            rows.found.candidates.extend(self.candidates(candidates, &needs.queries.except));
        }
        for held in &needs.queries.held {
            rows.found.held.push((*held, self.held(held)));
        }
        asked.extend(&rows.found.candidates);
        asked.extend(rows.found.held.iter().flat_map(|(_, held)| held));
        let unreadable = asked.intersection(&self.unreadable);
        rows.unreadable.extend(unreadable.map(|id| (*id, "a bit has flipped".to_owned())));
        rows.found.candidates.retain(|id| !self.unreadable.contains(id));
        let readable = asked.difference(&self.unreadable);
        rows.executions.extend(readable.filter_map(|id| self.executions.get(id).cloned()));
        let inputs = rows.found.candidates.iter().chain(needs.inputs.keys());
        rows.inputs.extend(inputs.map(|id| (*id, self.input(id))));
        for id in needs.whole_inputs.keys() {
            match self.unreadable_inputs.contains(id) {
                true => rows.unreadable.push((*id, "a bit has flipped".to_owned())),
                false => rows.inputs.push((*id, Bytes::from(vec![b'1'; self.large[id]]).into())),
            }
        }
        let gates: Vec<GateId> =
            needs.lanes.keys().chain(needs.gates.keys()).chain(needs.parts.keys()).copied().collect();
        rows.gates.extend(self.gates.iter().filter(|gate| gates.contains(&gate.id())).cloned());
        rows.found.members.extend(needs.queries.members.iter().map(|asked| (*asked, Vec::new())));
        rows.found
            .classes
            .extend(needs.queries.classes_after.filter(|after| *after < CLASS).map(|_| (CLASS, class())));
        rows
    }

    fn input(&self, id: &ExecutionId) -> Payload {
        let large = self.large.get(id).map(|size| Payload::Size(*size));
        large.unwrap_or_else(|| Bytes::from_static(b"null").into())
    }

    /// Returns the first waiting executions that no other transaction has locked, in claim order.
    fn candidates(&self, asked: &Candidates, except: &[ExecutionId]) -> Vec<ExecutionId> {
        let is_candidate = |row: &&Execution| {
            row.state == State::Waiting
                && asked.classes.contains(&row.class)
                && !except.contains(&row.id)
                && !self.locked.contains(&row.id)
        };
        self.first(asked.limit, is_candidate)
    }

    /// Returns the first executions that a gate holds, in claim order.
    fn held(&self, asked: &HeldBy) -> Vec<ExecutionId> {
        self.first(asked.limit, |row| row.state.gate().is_some_and(|gate| gate.id() == asked.gate))
    }

    fn first(&self, limit: u32, is_wanted: impl Fn(&&Execution) -> bool) -> Vec<ExecutionId> {
        let mut rows: Vec<&Execution> = self.executions.values().filter(is_wanted).collect();
        rows.sort_by_key(|row| row.claim_order());
        rows.into_iter().map(|row| row.id).take(limit as usize).collect()
    }
}

/// A finished transaction.
#[derive(Debug)]
pub struct Run {
    /// The loads, and the time that the store reported with each.
    pub loads: Vec<(Needs, Timestamp)>,
    /// The changes, or the reason why the transaction was rolled back.
    pub end: Result<Changes, String>,
}

impl Run {
    /// Returns the changes of a transaction that was not rolled back.
    pub fn changes(&self) -> &Changes {
        self.end.as_ref().expect("the transaction is saved")
    }

    /// Returns the changed row of an execution.
    pub fn updated(&self, id: ExecutionId) -> &Updated {
        let mut updated = self.changes().executions.updated.iter();
        updated.find(|row| row.execution.id == id).expect("the execution has changed")
    }

    /// Returns the reason why the transaction was rolled back.
    pub fn aborted(&self) -> &str {
        self.end.as_ref().expect_err("the transaction is rolled back")
    }

    /// Returns the executions that a load locks and waits for.
    pub fn locks(&self, load: usize) -> Vec<ExecutionId> {
        self.loads[load].0.executions.with(Access::Lock)
    }

    /// Returns the indices of the loads for which `asks_for` returns true.
    pub fn loads_of(&self, asks_for: impl Fn(&Needs) -> bool) -> Vec<usize> {
        let asks = |(place, (needs, _)): (usize, &(Needs, Timestamp))| asks_for(needs).then_some(place);
        self.loads.iter().enumerate().filter_map(asks).collect()
    }
}

/// Runs a transaction to its end. Every load takes a second.
pub fn run<H: Host>(driver: &mut Driver<H>, table: &Table) -> Run {
    drive(driver, table, 0, |_| {})
}

/// Runs a transaction again, as a retry.
pub fn run_again<H: Host>(driver: &mut Driver<H>, table: &Table) -> Run {
    drive(driver, table, 1, |_| {})
}

/// Runs a transaction to its end. `watch` sees every load before it is served.
pub fn run_watched<H: Host>(driver: &mut Driver<H>, table: &Table, watch: impl FnMut(&Needs)) -> Run {
    drive(driver, table, 0, watch)
}

fn drive<H: Host>(driver: &mut Driver<H>, table: &Table, again: u32, mut watch: impl FnMut(&Needs)) -> Run {
    let mut now = Timestamp::from_millis(1_000_000);
    let mut loads = Vec::new();
    let mut needs = driver.begin(again);
    loop {
        now = now.plus_ms(1_000);
        watch(&needs);
        let rows = table.rows(&needs, now);
        loads.push((needs, now));
        match driver.next(rows) {
            Demand::Load(more) => needs = more,
            Demand::Save(changes) => return Run { loads, end: Ok(*changes) },
            Demand::Abort(why) => return Run { loads, end: Err(why) },
        }
    }
}
