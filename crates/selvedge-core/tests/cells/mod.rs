//! Rows of every state, commands of every cause, and the state changes that the commands make on the rows.

mod gated;
mod record;
mod rows;
mod scene;

pub use rows::rows;

use bytes::Bytes;
use gated::{gates, limited_lane};
use record::{EARLY, GO, NEVER, fingerprint, secret, waitpoints, waitpoints_of};
use rows::{CLASS, FLOW, ID, LEASE, NAMESPACE, NODE, PARENT, QUIET, TTL_MS, UPSTREAMS, now, session};
use scene::Scene;
use selvedge_core::fact::Fact;
use selvedge_core::flow::CancelMode;
use selvedge_core::gate::GateName;
use selvedge_core::join::EdgeCondition;
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::plan::{EdgeDraft, GraphDraft, GraphTarget, NodeDraft};
use selvedge_core::rules::claim::Claim;
use selvedge_core::rules::flows::dispatch::{Dispatch, Dispatched};
use selvedge_core::rules::flows::graft::PlannedGraph;
use selvedge_core::rules::flows::grow::{Grow, Spawn};
use selvedge_core::rules::flows::submit::{FlowDraft, SubmitFlow};
use selvedge_core::rules::gates::adopt::Adopt;
use selvedge_core::rules::gates::budget::Breach;
use selvedge_core::rules::gates::check::CheckGate;
use selvedge_core::rules::operator::{Action, Operate};
use selvedge_core::rules::report::{Fence, Op, Report};
use selvedge_core::rules::signal::{SignalDraft, SignalSender};
use selvedge_core::rules::step::StepDraft;
use selvedge_core::rules::submit::{Submit, SubmitItem, Submitted};
use selvedge_core::rules::suspend::Suspend;
use selvedge_core::rules::timer::{FireTimer, Timer, TimerReply};
use selvedge_core::rules::waitpoint::{Reissue, WaitpointDraft};
use selvedge_core::rules::worker::{PutBack, PutBackReason};
use selvedge_core::state::StateName;
use selvedge_core::step::StepKind;
use selvedge_core::submission::{Debounce, When};
use selvedge_core::suspension::{Condition as Resume, WaitDraft};
use selvedge_core::table::{Entries, Guarded};
use selvedge_core::transition::Cause;
use selvedge_core::{
    Changes, Draft, DueKind, Execution, ExecutionId, FailureClass, FlowId, Name, Outcome, Refusal, State,
};
use uuid::Uuid;

/// A state change: (state before, cause, state after). The state before is none if the execution does not exist yet.
pub type Cell = (Option<StateName>, Cause, StateName);

/// An execution, or none if it does not exist yet.
pub type Row = Option<Execution>;

/// A command on the execution.
#[derive(Clone, Debug)]
pub enum Command {
    Submit(Option<When>),
    Claim,
    Report(Op),
    PutBack(PutBackReason),
    Operate(Action),
    FireTimer(Timer),
    /// Submits the execution as a node with an upstream.
    SubmitFlow,
    /// Propagates from an upstream: its index, its generation, and its outcome if it has ended.
    Dispatch(usize, u32, Option<Outcome>),
    /// Cancels the members of its flow.
    CancelMembers(CancelMode),
    /// Adds a downstream of the execution to its flow or, with `into`, an upstream.
    Grow {
        into: bool,
    },
    /// Delivers a signal of this name.
    Signal(&'static str),
    /// Delivers a signal through the waitpoint at this index.
    Token(usize),
    /// Propagates from a child, which has this outcome or is live.
    DispatchToParent(Option<Outcome>),
    /// Updates a parent of the execution that is suspended until its children have ended.
    UpdateParent,
    /// Releases executions that a gate holds.
    CheckGate(GateName),
    /// Stops the execution if a budget is exhausted.
    Breach(GateName),
    /// Gives it a slot of its lane, whose limit was set.
    Adopt,
    /// Submits with the debounce key of the execution.
    Debounce,
}

/// Returns the state of a row.
pub fn name(row: &Row) -> Option<StateName> {
    row.as_ref().map(|row| row.state.name())
}

/// Returns the reports of failures of every class, with and without a time for the retry.
fn fails() -> Vec<Command> {
    let fail = |class, retry_after_ms| Op::Fail { message: "failed".into(), class, retry_after_ms };
    let of = |class| [None, Some(0), Some(1)].map(|retry| Command::Report(fail(class, retry)));
    FailureClass::ALL.into_iter().flat_map(of).collect()
}

/// Returns the commands that may change a state by this cause.
pub fn commands(cause: Cause) -> Vec<Command> {
    let waits = || [When::AfterMs(0), When::AfterMs(1)];
    let fire = |kind| vec![Command::FireTimer(Timer::Due(kind))];
    let operate = |action| vec![Command::Operate(action)];
    let cancel = |grace_ms| Action::Cancel { reason: None, grace_ms };
    match cause {
        Cause::Submit => {
            vec![Command::Submit(None), Command::Submit(Some(When::AfterMs(1))), Command::SubmitFlow]
        }
        Cause::DelayOver => fire(DueKind::Delay),
        Cause::Claim => vec![Command::Claim],
        Cause::Complete => vec![Command::Report(Op::Complete { result: Bytes::from_static(b"1") })],
        Cause::Fail => fails(),
        Cause::AttemptTimeout => fire(DueKind::AttemptTimeout),
        Cause::LeaseExpiry => vec![Command::FireTimer(Timer::LeaseExpiry)],
        Cause::Delay => waits().map(|until| Command::Report(Op::Delay { until })).to_vec(),
        Cause::Release => vec![Command::Report(Op::Release), Command::PutBack(PutBackReason::WorkerDeparted)],
        Cause::Orphan => vec![Command::PutBack(PutBackReason::Orphaned)],
        Cause::Revoke => operate(Action::Revoke { reason: None }),
        Cause::Cancel => {
            let by_flow = [CancelMode::All, CancelMode::Pending].map(Command::CancelMembers);
            operate(cancel(0)).into_iter().chain(fire(DueKind::Deadline)).chain(by_flow).collect()
        }
        Cause::RequestCancel => operate(cancel(1)),
        Cause::Deadline | Cause::StartBy => fire(DueKind::Deadline),
        Cause::Reschedule => waits().map(|until| Command::Operate(Action::Reschedule { until })).to_vec(),
        Cause::Replay => operate(Action::Replay),
        Cause::Progress => vec![Command::Report(Op::Progress { percent: Some(1.0), message: None })],
        Cause::Prioritise => operate(Action::Prioritise { priority: 1 }),
        Cause::Tag => operate(Action::Tag { set: [("name".into(), "value".into())].into(), remove: vec![] }),
        Cause::UpstreamChange | Cause::Join | Cause::Reopen => upstream_changes(),
        Cause::Wire => {
            let (planned, detach) = (planned("", "child", None), false);
            let spawn = Op::Spawn(Box::new(Spawn { planned, detach, actor: None }));
            vec![Command::Grow { into: false }, Command::Grow { into: true }, Command::Report(spawn)]
        }
        Cause::Suspend => suspends(),
        Cause::Signal => deliveries(),
        Cause::Notice | Cause::Resume => {
            let by_time =
                [DueKind::Delay, DueKind::SuspensionTimeout].map(|kind| Command::FireTimer(Timer::Due(kind)));
            let children = [Some(Outcome::Failed), None].map(Command::DispatchToParent);
            let resumptions = operate(Action::Resume).into_iter().chain(by_time).chain(children);
            resumptions.chain(deliveries()).chain(suspends()).chain(looks()).collect()
        }
        Cause::SuspensionTimeout => fire(DueKind::SuspensionTimeout),
        Cause::Waitpoint => {
            let revokes = waitpoints().into_iter().map(|one| Action::RevokeWaitpoint { waitpoint: one.id });
            let names = waitpoints().into_iter().map(|one| one.name).chain([Name::trusted("new")]);
            let fingerprint = fingerprint();
            let created = names
                .map(|name| Op::Waitpoint { draft: WaitpointDraft::new(name), fingerprint })
                .map(Command::Report);
            let expiry = fire(DueKind::WaitpointExpiry);
            let reissues = waitpoints().into_iter().map(|one| {
                Action::ReissueWaitpoint(Reissue { waitpoint: one.id, expires_ms: Some(1), fingerprint })
            });
            let operated = revokes.chain(reissues).map(Command::Operate);
            operated.chain(created).chain(expiry).chain(suspends()).collect()
        }
        Cause::Step => {
            let (name, kind) = (Name::trusted("step"), StepKind::Step);
            let step = StepDraft { name, kind, result: Bytes::from_static(b"1"), duration_ms: 1 };
            vec![Command::Report(Op::Step(step))]
        }
        Cause::Hold => vec![Command::Claim],
        Cause::Admit => looks(),
        Cause::Breach => gates().iter().cloned().map(Command::Breach).collect(),
        Cause::Adopt => vec![Command::Adopt],
        Cause::Await => vec![Command::UpdateParent],
        Cause::Debounce => vec![Command::Debounce],
    }
}

/// Returns a command for every gate.
fn looks() -> Vec<Command> {
    gates().iter().cloned().map(Command::CheckGate).collect()
}

/// Returns suspensions until something that has not happened, that has happened, or that happens at once; and one that
/// creates a waitpoint.
fn suspends() -> Vec<Command> {
    let signal = |name| Resume::signal(Name::trusted(name));
    let conditions = [
        signal(NEVER),
        signal(EARLY),
        Resume::All(vec![signal(EARLY), signal(NEVER)]),
        Resume::until(When::AfterMs(0)),
        Resume::until(When::AfterMs(1)),
        Resume::children(),
    ];
    let suspend = |condition, waitpoints| {
        let (waits, fingerprint) = (vec![WaitDraft::new(condition)], fingerprint());
        Command::Report(Op::Suspend(Box::new(Suspend {
            waits,
            waitpoints,
            fingerprint,
            default_timeout_ms: None,
        })))
    };
    let with_waitpoint = suspend(signal("new"), vec![WaitpointDraft::new(Name::trusted("new"))]);
    conditions.map(|condition| suspend(condition, vec![])).into_iter().chain([with_waitpoint]).collect()
}

/// Returns deliveries of expected and unexpected signals, directly and through waitpoints that accept or refuse them.
fn deliveries() -> Vec<Command> {
    vec![Command::Signal(GO), Command::Signal("other"), Command::Token(0), Command::Token(1)]
}

/// Returns every change that an upstream may propagate.
fn upstream_changes() -> Vec<Command> {
    let mut changes = Vec::new();
    for index in 0..UPSTREAMS.len() {
        for generation in 0..=1 {
            let outcomes = Outcome::ALL.into_iter().map(Some).chain([None]);
            changes.extend(outcomes.map(|outcome| Command::Dispatch(index, generation, outcome)));
        }
    }
    changes
}

/// Returns a graph of the new nodes among `from` and `to`, with an edge between them unless `from` is empty.
fn planned(from: &str, to: &str, id: Option<ExecutionId>) -> PlannedGraph {
    let node = |name: &str, id: Option<Uuid>| NodeDraft {
        name: name.into(),
        draft: Draft { id, ..Draft::new("kind") },
    };
    let edge = EdgeDraft { from: from.into(), to: to.into(), when: EdgeCondition::Success };
    let nodes = [from, to].into_iter().filter(|name| !name.is_empty() && *name != NODE);
    let mut graph = GraphDraft {
        nodes: nodes.map(|name| node(name, None)).collect(),
        edges: vec![edge].into_iter().filter(|edge| !edge.from.is_empty()).collect(),
        groups: vec![],
    };
    graph.nodes.extend(id.map(|id| node(NODE, Some(id.0))));
    let plan = graph.check(GraphTarget::ExistingFlow).expect("it is valid");
    let ids = plan.ids().map(|id| id.unwrap_or(ExecutionId(Uuid::from_u128(9)))).collect();
    PlannedGraph { classes: vec![CLASS; plan.nodes().len()], ids, plan }
}

/// Runs a command on a row. Returns its state changes in order. Checks that each change is one version and one fact,
/// and that a command without effect saves nothing.
pub fn run(row: &Row, command: &Command) -> Vec<Cell> {
    let (accepted, changes) = decide(&Scene { row, command });
    let events: Vec<_> = changes.events.iter().filter(|event| event.execution == Some(ID)).collect();
    // The waitpoints of an execution that ends are closed after its end, which keeps its state.
    let keeps = |fact: &Fact| matches!(fact, Fact::WaitpointExpired { .. });
    let last = events.iter().rposition(|event| !keeps(&event.fact)).or(events.len().checked_sub(1));
    let Some(last) = last else {
        assert!(
            saves_nothing(&changes, command),
            "{command:?} on {row:?} recorded nothing and saves {changes:?}"
        );
        return vec![];
    };
    assert!(accepted, "{command:?} on {row:?} was refused and saves {changes:?}");
    let inserted = changes.executions.inserted.iter().map(|inserted| &inserted.execution);
    let updated = changes.executions.updated.iter().map(|updated| &updated.execution);
    let after = inserted.chain(updated).find(|row| row.id == ID).expect("a recorded change is saved");
    let (mut version, mut from) = (row.as_ref().map_or(0, |row| row.version), name(row));
    let mut cells = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let to = if index >= last { after.state.name() } else { state_between(&event.fact, from) };
        cells.push((from, event.fact.cause().expect("a change has a cause"), to));
        (version, from) = (version + 1, Some(to));
        assert_eq!(event.version, Some(version), "each change is one version and one fact");
    }
    assert_eq!(after.version, version);
    cells
}

/// Returns the state after a fact that another fact follows in the same transaction.
fn state_between(fact: &Fact, from: Option<StateName>) -> StateName {
    match (fact, from) {
        (
            Fact::SubmittedWaitingDependencies { .. }
            | Fact::Reopened { .. }
            | Fact::ReplayedWaitingDependencies { .. },
            _,
        ) => StateName::WaitingDependencies,
        (Fact::Suspended { .. }, _) => StateName::Suspended,
        (
            Fact::Wired { .. }
            | Fact::Signalled { .. }
            | Fact::WaitpointCreated { .. }
            | Fact::WaitpointExpired { .. },
            Some(from),
        ) => from,
        (fact, _) => panic!("nothing follows {fact:?}"),
    }
}

/// Reports whether nothing is saved apart from bookkeeping: the processed outbox row of a dispatch, the flow whose
/// members it cancelled, and the next time a gate is checked.
fn saves_nothing(changes: &Changes, command: &Command) -> bool {
    if matches!(command, Command::UpdateParent) {
        // It may resume the parent.
        return changes.executions.updated.iter().all(|row| row.execution.id != ID);
    }
    if matches!(command, Command::CheckGate(_)) {
        return Changes { gates: Guarded::default(), ..changes.clone() }.is_empty();
    }
    let Some(processed) = outbox_row(command) else { return changes.is_empty() };
    let rest = Changes { outbox: Entries::removing([]), flows: Guarded::updating([]), ..changes.clone() };
    let flow_may_change = matches!(command, Command::CancelMembers(_)) || changes.flows.updated.is_empty();
    changes.outbox.removed == [processed.name] && flow_may_change && rest.is_empty()
}

/// Returns the outbox row that a command processes.
fn outbox_row(command: &Command) -> Option<OutboxRow> {
    let (id, kind) = match command {
        Command::Dispatch(index, ..) => (UPSTREAMS[*index].0, OutboxKind::Edges),
        Command::CancelMembers(_) => (FLOW.0, OutboxKind::Flow),
        Command::DispatchToParent(_) => (ID.0, OutboxKind::Parent),
        Command::UpdateParent => (PARENT.0, OutboxKind::Parent),
        _ => return None,
    };
    let name = OutboxName { id, kind };
    Some(OutboxRow { name, at: now(), position: 0, namespace: NAMESPACE, tags: Default::default() })
}

/// Delivers a signal. Returns true if it was accepted, and the changes.
fn deliver(name: Option<&str>, sender: SignalSender, scene: &Scene<'_>) -> (bool, Changes) {
    let name = name.map(str::to_owned);
    let draft = SignalDraft { name, payload: Bytes::from_static(b"1"), key: None };
    let (delivered, changes) = scene.run(draft.check(ID, sender).expect("it is valid"));
    (delivered.is_ok_and(|delivered| !delivered.duplicate), changes)
}

fn submit(delay: Option<When>, scene: &Scene<'_>) -> (bool, Changes) {
    let draft = Draft { id: Some(ID.0), delay, ..Draft::new("kind") };
    let (done, changes) = submit_one(draft, ID, scene);
    (done.is_ok_and(|done| !done.duplicate), changes)
}

fn debounce(scene: &Scene<'_>) -> (bool, Changes) {
    let debounce = Debounce { key: QUIET.to_owned(), delay_ms: 5, max_ms: None };
    let draft = Draft { debounce: Some(debounce), ..Draft::new("kind") };
    match submit_one(draft, ExecutionId(Uuid::from_u128(11)), scene) {
        (Ok(done), changes) if done.debounced => (true, changes),
        // It has created another execution.
        (Ok(_) | Err(_), _) => (false, Changes::default()),
    }
}

fn submit_one(draft: Draft, id: ExecutionId, scene: &Scene<'_>) -> (Result<Submitted, Refusal>, Changes) {
    let items = vec![SubmitItem { submission: draft.check(), class: CLASS, id }];
    let (mut submitted, changes) =
        scene.run(Submit { namespace: NAMESPACE, items, actor: None, call_key: None, repeated: false });
    (submitted.remove(0), changes)
}

fn claim(scene: &Scene<'_>) -> (bool, Changes) {
    let (claims, changes) = scene.run(Claim {
        scope: session().scope,
        worker: Name::trusted("worker"),
        instance: Name::trusted("instance"),
        incarnation: None,
        max: 1,
        ttl_ms: TTL_MS,
        call_key: None,
        across: vec![],
        handed_only: false,
        life: None,
    });
    let held = changes.executions.updated.iter().any(|one| matches!(one.execution.state, State::Held(_)));
    (claims.is_ok_and(|claims| held == claims.claimed.is_empty()), changes)
}

/// Runs the command. Returns true if it was accepted and had an effect, and the changes.
fn decide(scene: &Scene<'_>) -> (bool, Changes) {
    let fence = Fence { execution: ID, attempt: 0, lease_id: LEASE, epoch: 1 };
    let (namespace, call_key, repeated) = (NAMESPACE, None, false);
    match scene.command {
        Command::Submit(delay) => submit(*delay, scene),
        Command::Debounce => debounce(scene),
        Command::Claim => claim(scene),
        Command::CheckGate(gate) => {
            let (looked, changes) = scene.run(CheckGate { gate: gate.clone(), stopped: false, now: true });
            (looked.released == 1, changes)
        }
        Command::Breach(gate) => {
            let (breached, changes) = scene.run(Breach { execution: ID, gate: gate.clone() });
            (breached == Ok(true), changes)
        }
        Command::Adopt => {
            let (executions, ends) = (vec![ID], None);
            let (adopted, changes) = scene.run(Adopt { lane: limited_lane().name, executions, ends });
            (adopted > 0, changes)
        }
        Command::Report(op) => {
            let (reported, changes) = scene.run(Report { namespace, fence, op_id: None, op: op.clone() });
            (reported.is_ok(), changes)
        }
        Command::PutBack(why) => {
            let (done, changes) = scene.run(PutBack { namespace, fence, why: *why });
            (done == Ok(true), changes)
        }
        Command::Operate(action) => {
            let (actor, action) = (Name::trusted("operator"), action.clone());
            let (operated, changes) =
                scene.run(Operate { namespace, execution: ID, actor, if_version: None, action });
            (operated.is_ok(), changes)
        }
        Command::SubmitFlow => {
            let (submission, _) =
                FlowDraft { graph: lone_graph(), ..FlowDraft::default() }.check().expect("it is valid");
            let planned = planned("other", NODE, Some(ID));
            let id = FlowId(Uuid::from_u128(10));
            let (submitted, changes) =
                scene.run(SubmitFlow { namespace, id, submission, planned, actor: None, call_key, repeated });
            (submitted.is_ok_and(|done| !done.duplicate), changes)
        }
        Command::UpdateParent => {
            let row = outbox_row(scene.command).expect("it processes an outbox row");
            let (dispatched, changes) = scene.run(Dispatch { row, only_close: false });
            (matches!(dispatched, Ok(Dispatched::Advanced { changed: 0, .. })), changes)
        }
        Command::Dispatch(..) | Command::CancelMembers(_) | Command::DispatchToParent(_) => {
            let row = outbox_row(scene.command).expect("it processes an outbox row");
            let (dispatched, changes) = scene.run(Dispatch { row, only_close: false });
            (matches!(dispatched, Ok(Dispatched::Advanced { changed: 1, .. })), changes)
        }
        Command::Signal(name) => {
            deliver(Some(name), SignalSender::Caller { namespace, source: Name::trusted("somebody") }, scene)
        }
        Command::Token(index) => {
            let Some(row) = scene.row else { return (false, Changes::default()) };
            let waitpoint = waitpoints_of(row).remove(*index);
            let (token, secret) = (secret().sign(&waitpoint), secret());
            deliver(None, SignalSender::TokenHolder { waitpoint: waitpoint.id, token, secret }, scene)
        }
        Command::Grow { into } => {
            let (from, to) = if *into { ("new", NODE) } else { (NODE, "new") };
            let planned = planned(from, to, None);
            let (grown, changes) = scene.run(Grow { namespace, flow: FLOW, planned, actor: None, repeated });
            (grown.is_ok(), changes)
        }
        Command::FireTimer(timer) => {
            let (fired, changes) = scene.run(FireTimer { execution: ID, timer: *timer });
            (fired == Ok(TimerReply::Fired), changes)
        }
    }
}

fn lone_graph() -> GraphDraft {
    GraphDraft {
        nodes: vec![NodeDraft { name: NODE.into(), draft: Draft::new("kind") }],
        ..GraphDraft::default()
    }
}
