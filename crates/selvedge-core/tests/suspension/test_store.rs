//! An in-memory store with the rows of a few executions, on which the real rules run.
//!
//! The rules run through the real transaction driver. The store serves the rows that the driver requests and no others.
//! It saves changes only if the rows still have the versions that the decision saw. After every save it compares the
//! signals, steps and waitpoints with the counts in the rows of their executions.

use bytes::Bytes;
use selvedge_core::driver::{Alone, Demand, Driver};
use selvedge_core::log::Event;
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::rows::{Candidates, Relative, ResultChange, StoredRelative};
use selvedge_core::rule::Queued;
use selvedge_core::rules::claim::{Claim, Claimed};
use selvedge_core::rules::flows::dispatch::{Dispatch, Dispatched};
use selvedge_core::rules::operator::{Action, Operate};
use selvedge_core::rules::report::{Fence, Op, Report, Reported};
use selvedge_core::rules::submit::{Submit, SubmitItem};
use selvedge_core::rules::timer::{FireTimer, Timer, TimerReply};
use selvedge_core::table::{Access, Request};
use selvedge_core::token::{TokenKey, TokenKeyId};
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::{
    Changes, ClaimScope, Class, ClassId, Draft, DueKind, Execution, ExecutionId, Flow, FlowId, Name,
    NamespaceId, Needs, Policy, Refusal, Rows, Rule, Session, SessionId, Signal, State, Step, Timestamp,
    Waitpoint,
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The namespace of every row.
pub const NAMESPACE: NamespaceId = NamespaceId(1);
const CLASS: ClassId = ClassId(1);

/// Returns a name.
pub fn name(text: &str) -> Name {
    Name::trusted(text)
}

/// Returns the class of every execution.
fn class() -> Class {
    Class {
        namespace: NAMESPACE,
        lane: name("default"),
        kind: name("kind"),
        capabilities: Default::default(),
        pool: None,
    }
}

/// The rows of the store.
#[derive(Clone, Debug, Default)]
pub struct TestStore {
    pub now: Timestamp,
    pub executions: BTreeMap<ExecutionId, Execution>,
    pub signals: BTreeMap<(ExecutionId, u32), Signal>,
    pub steps: BTreeMap<(ExecutionId, u32), Step>,
    pub waitpoints: BTreeMap<(ExecutionId, u32), Waitpoint>,
    pub keys: BTreeMap<TokenKeyId, TokenKey>,
    pub outbox: BTreeMap<OutboxName, OutboxRow>,
    pub flows: BTreeMap<FlowId, Flow>,
    pub events: Vec<Event>,
    inputs: BTreeMap<ExecutionId, Bytes>,
    results: BTreeMap<ExecutionId, Bytes>,
    sessions: BTreeMap<SessionId, Session>,
}

impl TestStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        TestStore { now: Timestamp::from_millis(1_000_000), ..TestStore::default() }
    }

    /// Advances the clock.
    pub fn advance_ms(&mut self, ms: i64) {
        self.now = self.now.plus_ms(ms);
    }

    /// Runs a rule and saves its changes.
    pub fn run<R: Rule + Clone>(&mut self, rule: &R) -> R::Reply {
        let (reply, changes) = self.decide(rule);
        assert!(self.save(changes), "no row has changed meanwhile");
        reply
    }

    /// Returns the reply of a rule and its changes, without saving them: a test may save them later.
    pub fn decide<R: Rule + Clone>(&self, rule: &R) -> (R::Reply, Changes) {
        let mut driver = Driver::new(Alone::default(), vec![Queued::new(rule.clone())]);
        let mut needs = driver.begin(0);
        loop {
            match driver.next(self.rows(&needs)) {
                Demand::Load(more) => needs = more,
                Demand::Save(changes) => {
                    let reply = driver.take_tasks().0.pop().and_then(Queued::into_reply);
                    return (reply.expect("a rule that runs alone is decided"), *changes);
                }
                Demand::Abort(why) => panic!("{why}"),
            }
        }
    }

    /// Returns the rows that a load requests. No other transaction has locked any.
    fn rows(&self, needs: &Needs) -> Rows {
        refuse_unserved(needs);
        let mut rows = Rows { now: self.now, ..Rows::default() };
        for id in needs.executions.returned() {
            rows.executions.extend(self.executions.get(id).cloned());
        }
        for asked in &needs.queries.candidates {
            for row in self.candidates(asked, &needs.queries.except) {
                rows.executions.push(row.clone());
                rows.found.candidates.push(row.id);
                rows.inputs.push((row.id, self.inputs[&row.id].clone().into()));
            }
        }
        for id in needs.inputs.keys() {
            rows.inputs.extend(self.inputs.get(id).map(|input| (*id, input.clone().into())));
        }
        rows.relatives
            .extend(needs.relatives.keys().filter_map(|id| self.relative(*id)).map(StoredRelative::whole));
        // No gate is configured, and none holds anything.
        rows.found.held.extend(needs.queries.held.iter().map(|asked| (*asked, Vec::new())));
        rows.outbox.extend(needs.outbox.keys().filter_map(|name| self.outbox.get(name).cloned()));
        let flows = needs.flows.keys();
        rows.flows.extend(flows.filter_map(|id| self.flows.get(id).cloned()));
        rows.sessions.extend(needs.sessions.keys().filter_map(|id| self.sessions.get(id).cloned()));
        rows.found
            .classes
            .extend(needs.queries.classes_after.filter(|after| *after < CLASS).map(|_| (CLASS, class())));
        self.add_recorded(needs, &mut rows);
        rows
    }

    /// Adds the signals, steps, waitpoints and token keys that a load requests.
    fn add_recorded(&self, needs: &Needs, rows: &mut Rows) {
        for id in &needs.queries.records {
            rows.found.records.push(*id);
            rows.signals.extend(self.signals_of(*id).cloned());
            rows.steps.extend(self.steps_of(*id).cloned());
        }
        let bare = |signal: &Signal| Signal { payload: None, ..signal.clone() };
        for id in &needs.queries.untaken {
            rows.signals.extend(self.signals_of(*id).filter(|signal| signal.taken.is_none()).map(bare));
        }
        for (id, key) in &needs.queries.signal_keys {
            rows.signals
                .extend(self.signals_of(*id).find(|signal| signal.key.as_ref() == Some(key)).map(bare));
        }
        for (id, name) in needs.steps.keys() {
            rows.steps.extend(self.steps_of(*id).find(|step| step.name == *name).cloned());
        }
        for id in &needs.queries.waitpoints {
            rows.waitpoints.extend(self.waitpoints_of(*id).cloned());
        }
        if needs.queries.token_keys {
            rows.token_keys.extend(self.keys.values());
        }
    }

    /// Returns the first waiting executions of the classes, in claim order.
    fn candidates(&self, asked: &Candidates, except: &[ExecutionId]) -> Vec<&Execution> {
        let is_candidate = |row: &&Execution| {
            row.state == State::Waiting && asked.classes.contains(&row.class) && !except.contains(&row.id)
        };
        let mut waiting: Vec<&Execution> = self.executions.values().filter(is_candidate).collect();
        waiting.sort_by_key(|row| row.claim_order());
        waiting.truncate(asked.limit as usize);
        waiting
    }

    fn relative(&self, id: ExecutionId) -> Option<Relative> {
        let row = self.executions.get(&id)?;
        let (error, result) = (row.detail.error.clone(), self.results.get(&id).cloned());
        let (name, outcome) = (name(row.node()?), row.state.outcome());
        Some(Relative { execution: id, name, outcome, error, result, left_out: false })
    }

    /// Saves changes unless a row has changed meanwhile. Returns true if they were saved.
    pub fn save(&mut self, changes: Changes) -> bool {
        let still = |id: &ExecutionId, version: u32| {
            self.executions.get(id).is_some_and(|row| row.version == version)
        };
        let updated = changes.executions.updated.iter();
        let same = updated.clone().all(|updated| still(&updated.execution.id, updated.expected_version));
        let new =
            changes.executions.inserted.iter().all(|one| !self.executions.contains_key(&one.execution.id));
        if !same || !new || !changes.executions.deleted.iter().all(|(id, version)| still(id, *version)) {
            return false;
        }
        for (id, _) in &changes.executions.deleted {
            self.executions.remove(id);
            self.signals.retain(|(of, _), _| of != id);
            self.steps.retain(|(of, _), _| of != id);
            self.waitpoints.retain(|(of, _), _| of != id);
        }
        for one in changes.executions.inserted {
            self.inputs.insert(one.execution.id, one.input);
            self.executions.insert(one.execution.id, one.execution);
        }
        for updated in changes.executions.updated {
            let id = updated.execution.id;
            match updated.result {
                ResultChange::Keep => {}
                ResultChange::Set(result) => drop(self.results.insert(id, result)),
                ResultChange::Clear => drop(self.results.remove(&id)),
            }
            self.executions.insert(id, updated.execution);
        }
        for signal in changes.signals {
            let key = (signal.execution, signal.number);
            assert!(self.signals.insert(key, signal).is_none(), "signals have unique numbers");
        }
        for (id, number, by) in changes.unread.signals_taken {
            let signal = self.signals.get_mut(&(id, number)).expect("a taken signal exists");
            signal.taken = Some(by);
        }
        for step in changes.steps {
            let known = self.steps.insert((step.execution, step.number), step.clone());
            assert!(known.is_none_or(|known| known.name == step.name), "steps have unique numbers");
        }
        for waitpoint in changes.waitpoints {
            let known = self.waitpoints.insert((waitpoint.execution, waitpoint.number), waitpoint.clone());
            assert!(known.is_none_or(|known| known.id == waitpoint.id), "waitpoints have unique numbers");
        }
        self.keys.extend(changes.token_keys.written.into_iter().map(|key| (key.id, key)));
        self.keys.retain(|id, _| !changes.token_keys.removed.contains(id));
        self.sessions.extend(changes.sessions.written.into_iter().map(|session| (session.id, session)));
        self.outbox.extend(changes.outbox.written.into_iter().map(|row| (row.name, row)));
        self.outbox.retain(|name, _| !changes.outbox.removed.contains(name));
        self.events.extend(changes.events);
        self.check();
        true
    }

    /// Checks that the records match the summaries in the rows, and that no fulfilled suspension remains.
    fn check(&self) {
        for row in self.executions.values() {
            let (id, record) = (row.id, &row.detail.record);
            let signals: Vec<&Signal> = self.signals_of(id).collect();
            let numbers: Vec<u32> = signals.iter().map(|signal| signal.number).collect();
            assert_eq!(
                numbers,
                (1..=record.signals).collect::<Vec<u32>>(),
                "signals are numbered without gaps"
            );
            let untaken = signals.iter().filter(|signal| signal.taken.is_none()).count();
            assert_eq!(record.untaken as usize, untaken, "signals that no wait has taken");
            assert!(signals.iter().all(|signal| signal.taken.is_none_or(|by| by <= record.suspensions)));
            let steps: Vec<u32> = self.steps_of(id).map(|step| step.number).collect();
            assert_eq!(steps, (1..=record.steps).collect::<Vec<u32>>(), "steps are numbered without gaps");
            let waitpoints: Vec<u32> = self.waitpoints_of(id).map(|one| one.number).collect();
            assert_eq!(
                waitpoints,
                (1..=record.waitpoints).collect::<Vec<u32>>(),
                "waitpoints are numbered without gaps"
            );
            let open = self.waitpoints_of(id).filter(|one| one.state == WaitpointState::Open);
            let expiry = open.filter_map(|one| one.expires_at).min();
            assert_eq!(record.expires_at, expiry, "the next open waitpoint to expire");
            if let Some(suspension) = row.state.suspension() {
                assert!(!suspension.holds(), "a fulfilled suspension must resume: {suspension:?}");
            }
        }
    }

    pub fn signals_of(&self, id: ExecutionId) -> impl Iterator<Item = &Signal> {
        self.signals.range((id, 0)..=(id, u32::MAX)).map(|(_, signal)| signal)
    }

    pub fn steps_of(&self, id: ExecutionId) -> impl Iterator<Item = &Step> {
        self.steps.range((id, 0)..=(id, u32::MAX)).map(|(_, step)| step)
    }

    pub fn waitpoints_of(&self, id: ExecutionId) -> impl Iterator<Item = &Waitpoint> {
        self.waitpoints.range((id, 0)..=(id, u32::MAX)).map(|(_, waitpoint)| waitpoint)
    }

    /// Returns the row of an execution.
    pub fn row(&self, id: ExecutionId) -> &Execution {
        &self.executions[&id]
    }

    /// Returns the step with this name.
    pub fn step(&self, id: ExecutionId, name: &str) -> &Step {
        self.steps_of(id).find(|step| step.name.as_str() == name).expect("the step exists")
    }

    /// Returns the suspension that took each signal, in the order of the signals.
    pub fn taken(&self, id: ExecutionId) -> Vec<Option<u32>> {
        self.signals_of(id).map(|signal| signal.taken).collect()
    }

    /// Submits an execution.
    pub fn submit(&mut self, policy: Policy) -> ExecutionId {
        let id = ExecutionId(Uuid::from_u128(self.executions.len() as u128 + 1));
        let draft = Draft { id: Some(id.0), policy, ..Draft::new("kind") };
        let items = vec![SubmitItem { submission: draft.check(), class: CLASS, id }];
        let submit = Submit { namespace: NAMESPACE, items, actor: None, call_key: None, repeated: false };
        self.run(&submit).remove(0).expect("it is accepted").execution.id
    }

    /// Claims the next execution.
    pub fn claim(&mut self) -> Claimed {
        let lanes = vec![name("default")];
        let scope = ClaimScope { namespace: NAMESPACE, lanes, kinds: None, capabilities: Default::default() };
        let [worker, instance] = ["worker", "instance"].map(Name::trusted);
        let (max, ttl_ms, call_key, handed_only) = (1, 60_000, None, false);
        let (incarnation, life) = (None, None);
        let claim = Claim {
            scope,
            worker,
            instance,
            incarnation,
            max,
            ttl_ms,
            call_key,
            across: vec![],
            handed_only,
            life,
        };
        self.run(&claim).expect("it is accepted").claimed.pop().expect("an execution is waiting")
    }

    /// Submits an execution and claims it.
    pub fn active(&mut self) -> ExecutionId {
        let id = self.submit(Policy::default());
        assert_eq!(self.claim().execution.id, id);
        id
    }

    /// Returns a report of the worker that holds the lease.
    pub fn report_command(&self, id: ExecutionId, op: Op) -> Report {
        let fence = Fence::of(self.row(id)).expect("it is active");
        Report { namespace: NAMESPACE, fence, op_id: None, op }
    }

    /// Reports as the worker that holds the lease.
    pub fn report(&mut self, id: ExecutionId, op: Op) -> Result<Reported, Refusal> {
        self.run(&self.report_command(id, op))
    }

    /// Returns an action of an operator.
    pub fn operate_command(&self, id: ExecutionId, action: Action) -> Operate {
        let actor = name("operator");
        Operate { namespace: NAMESPACE, execution: id, actor, if_version: None, action }
    }

    /// Applies an action of an operator.
    pub fn operate(&mut self, id: ExecutionId, action: Action) -> Result<Execution, Refusal> {
        self.run(&self.operate_command(id, action))
    }

    /// Fires a timer if it is due.
    pub fn fire(&mut self, id: ExecutionId, kind: DueKind) -> TimerReply {
        self.run(&FireTimer { execution: id, timer: Timer::Due(kind) }).expect("the row can be read")
    }

    /// Processes the outbox row about the children of an execution, if there is one.
    pub fn dispatch_parent(&mut self, id: ExecutionId) -> Dispatched {
        let row = self.outbox.get(&OutboxName { id: id.0, kind: OutboxKind::Parent }).cloned();
        let Some(row) = row else { return Dispatched::Nothing };
        self.run(&Dispatch { row, only_close: false }).expect("the row can be read")
    }
}

/// Fails a test whose rules request rows that the store does not keep: it would answer as if there were none.
fn refuse_unserved(needs: &Needs) {
    let mut served = Needs {
        growing: Request::default(),
        nodes: Request::default(),
        keys: Request::default(),
        streams: Request::default(),
        summaries: Request::default(),
        ..needs.clone()
    };
    served.sessions.retain(|_, access| access == Access::Read);
    served.queries.members.clear();
    served.queries.instances.clear();
    assert_eq!(*needs, served, "the store does not keep these rows");
}
