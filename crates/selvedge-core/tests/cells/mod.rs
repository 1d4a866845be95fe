//! Rows of every state, the commands of every cause, and what becomes of the one under the other.

mod rows;

pub use rows::rows;

use bytes::Bytes;
use rows::{CLASS, FLOW, ID, LEASE, NAMESPACE, NODE, TTL_MS, UPSTREAMS, flow, now, session, upstream};
use selvedge_core::fact::Fact;
use selvedge_core::join::Condition;
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::plan::{EdgeDraft, GraphDraft, NodeDraft, Onto};
use selvedge_core::rows::Members;
use selvedge_core::rules::claim::Claim;
use selvedge_core::rules::clock::{Tick, Ticked, What};
use selvedge_core::rules::dispatch::{Dispatch, Dispatched};
use selvedge_core::rules::graft::Planned;
use selvedge_core::rules::grow::{Grow, Spawn};
use selvedge_core::rules::operator::{Action, Operate};
use selvedge_core::rules::report::{Fence, Op, Report};
use selvedge_core::rules::submit::{Item, Submit};
use selvedge_core::rules::submit_flow::{FlowDraft, SubmitFlow};
use selvedge_core::rules::worker::{PutBack, Why};
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::transition::Cause;
use selvedge_core::{
    Changes, Draft, DueKind, Entropy, Execution, ExecutionId, FailureClass, FlowId, Name, Outcome, Rows, Work,
};
use uuid::Uuid;

/// From (none: it does not exist), by, to.
pub type Cell = (Option<StateName>, Cause, StateName);

/// An execution, or none where it does not exist yet.
pub type Row = Option<Execution>;

/// A command.
#[derive(Clone, Debug)]
pub enum Command {
    Submit(Option<When>),
    Claim,
    Report(Op),
    PutBack(Why),
    Operate(Action),
    Tick(What),
    /// It is submitted as a node that waits for another.
    SubmitFlow,
    /// An upstream at this place, in this generation, ended like this or is live, and tells its downstreams.
    Dispatch(usize, u32, Option<Outcome>),
    /// Its flow grows by a node that waits for it, or for which it waits.
    Grow {
        into: bool,
    },
}

/// The state of a row.
pub fn name(row: &Row) -> Option<StateName> {
    row.as_ref().map(|row| row.state.name())
}

/// The commands that may change a state by this cause.
pub fn commands(cause: Cause) -> Vec<Command> {
    let waits = || [When::AfterMs(0), When::AfterMs(1)];
    let tick = |kind| vec![Command::Tick(What::Due(kind))];
    let operate = |action| vec![Command::Operate(action)];
    let cancel = |grace_ms| Action::Cancel { reason: None, grace_ms };
    match cause {
        Cause::Submit => {
            vec![Command::Submit(None), Command::Submit(Some(When::AfterMs(1))), Command::SubmitFlow]
        }
        Cause::DelayOver => tick(DueKind::Delay),
        Cause::Claim => vec![Command::Claim],
        Cause::Complete => vec![Command::Report(Op::Complete { result: Bytes::from_static(b"1") })],
        Cause::Fail => {
            let mut fails = Vec::new();
            for class in FailureClass::ALL {
                for retry_after_ms in [None, Some(0), Some(1)] {
                    fails.push(Command::Report(Op::Fail { message: "failed".into(), class, retry_after_ms }));
                }
            }
            fails
        }
        Cause::AttemptTimeout => tick(DueKind::AttemptTimeout),
        Cause::Lapse => vec![Command::Tick(What::Lapse)],
        Cause::Delay => waits().map(|until| Command::Report(Op::Delay { until })).to_vec(),
        Cause::Release => vec![Command::Report(Op::Release), Command::PutBack(Why::Gone)],
        Cause::Orphan => vec![Command::PutBack(Why::Orphaned)],
        Cause::Revoke => operate(Action::Revoke { reason: None }),
        Cause::Cancel => {
            let by_time = tick(DueKind::Deadline);
            operate(cancel(0)).into_iter().chain(by_time).collect()
        }
        Cause::RequestCancel => operate(cancel(1)),
        Cause::Deadline | Cause::StartBy => tick(DueKind::Deadline),
        Cause::Reschedule => waits().map(|until| Command::Operate(Action::Reschedule { until })).to_vec(),
        Cause::Replay => operate(Action::Replay),
        Cause::Progress => vec![Command::Report(Op::Progress { percent: Some(1.0), message: None })],
        Cause::Prioritise => operate(Action::Prioritise { priority: 1 }),
        Cause::Tag => operate(Action::Tag { set: [("name".into(), "value".into())].into(), remove: vec![] }),
        Cause::Hear | Cause::Join | Cause::Reopen => news(),
        Cause::Wire => {
            let (planned, detach) = (planned("", "child", None), false);
            let spawn = Op::Spawn(Box::new(Spawn { planned, detach }));
            vec![Command::Grow { into: false }, Command::Grow { into: true }, Command::Report(spawn)]
        }
    }
}

/// Everything that an upstream may tell.
fn news() -> Vec<Command> {
    let mut news = Vec::new();
    for place in 0..UPSTREAMS.len() {
        for generation in 0..=1 {
            let outcomes = Outcome::ALL.into_iter().map(Some).chain([None]);
            news.extend(outcomes.map(|outcome| Command::Dispatch(place, generation, outcome)));
        }
    }
    news
}

/// A node, with an edge from `from` to `to` where one is named.
fn planned(from: &str, to: &str, id: Option<ExecutionId>) -> Planned {
    let node = |name: &str, id: Option<Uuid>| NodeDraft {
        name: name.into(),
        draft: Draft { id, ..Draft::new("kind") },
    };
    let edge = EdgeDraft { from: from.into(), to: to.into(), when: Condition::Success };
    let nodes = [from, to].into_iter().filter(|name| !name.is_empty() && *name != NODE);
    let mut graph = GraphDraft {
        nodes: nodes.map(|name| node(name, None)).collect(),
        edges: vec![edge].into_iter().filter(|edge| !edge.from.is_empty()).collect(),
        groups: vec![],
    };
    graph.nodes.extend(id.map(|id| node(NODE, Some(id.0))));
    let plan = graph.check(Onto::Flow).expect("it is valid");
    let ids = plan.ids().map(|id| id.unwrap_or(ExecutionId(Uuid::from_u128(9)))).collect();
    Planned { classes: vec![CLASS; plan.nodes().len()], ids, plan }
}

/// Runs a command on a row. What it changed, if it changed anything; then the row's version has risen by one for each of
/// these, and the facts that were recorded tell them. If it did not, there is nothing to save.
pub fn run(row: &Row, command: &Command) -> Vec<Cell> {
    let mut work = Work::new(Entropy::seeded(1));
    work.load(Rows {
        now: now(),
        executions: row.clone().into_iter().collect(),
        candidates: vec![ID],
        inputs: vec![(ID, Bytes::from_static(b"null"))],
        sessions: vec![session()],
        ..Rows::default()
    });
    if row.as_ref().is_some_and(|row| row.flow.is_some()) || matches!(command, Command::Grow { .. }) {
        let nodes = row.iter().map(|_| (FLOW, Name::trusted(NODE), ID)).collect();
        let members = vec![(Members { flow: FLOW, skip: 0, limit: u32::MAX }, vec![ID])];
        work.load(Rows { flows: vec![flow()], nodes, members, ..Rows::default() });
    }
    if let Command::Dispatch(place, generation, outcome) = command {
        let executions = vec![upstream(*place, *generation, *outcome)];
        work.load(Rows { executions, outbox: vec![left(*place)], ..Rows::default() });
    }
    let accepted = decide(command, &mut work);
    let changes = work.finish();
    let events: Vec<_> = changes.events.iter().filter(|event| event.execution == Some(ID)).collect();
    let Some(last) = events.last() else {
        assert!(is_nothing(&changes, command), "{command:?} on {row:?} told nothing and left {changes:?}");
        return vec![];
    };
    assert!(accepted, "{command:?} on {row:?} was refused and left {changes:?}");
    let inserted = changes.inserted.iter().map(|inserted| &inserted.execution);
    let updated = changes.updated.iter().map(|updated| &updated.execution);
    let after = inserted.chain(updated).find(|row| row.id == ID).expect("what is told is saved");
    let (mut version, mut from) = (row.as_ref().map_or(0, |row| row.version), name(row));
    let mut cells = Vec::new();
    for event in &events {
        let to = if std::ptr::eq(*event, *last) { after.state.name() } else { passed(&event.fact, from) };
        cells.push((from, event.fact.cause().expect("a change has a cause"), to));
        (version, from) = (version + 1, Some(to));
        assert_eq!(event.version, Some(version), "each change is one version and one fact");
    }
    assert_eq!(after.version, version);
    cells
}

/// The state that a fact leads to which another one follows in the same transaction.
fn passed(fact: &Fact, from: Option<StateName>) -> StateName {
    match (fact, from) {
        (Fact::SubmittedBlocked { .. } | Fact::Reopened { .. } | Fact::ReplayedBlocked { .. }, _) => {
            StateName::Blocked
        }
        (Fact::Wired { .. }, Some(from)) => from,
        (fact, _) => panic!("nothing follows {fact:?}"),
    }
}

/// Whether there is nothing to save, but for the row of the outbox that a dispatch works off.
fn is_nothing(changes: &Changes, command: &Command) -> bool {
    match command {
        Command::Dispatch(place, ..) => {
            let rest = Changes { outbox_removed: vec![], ..changes.clone() };
            changes.outbox_removed == [left(*place).name] && rest.is_empty()
        }
        _ => changes.is_empty(),
    }
}

/// The row of the outbox of an upstream.
fn left(place: usize) -> OutboxRow {
    OutboxRow {
        name: OutboxName { id: UPSTREAMS[place].0, kind: OutboxKind::Edges },
        at: now(),
        position: 0,
        namespace: NAMESPACE,
        tags: Default::default(),
    }
}

/// Whether the command was accepted and did something.
fn decide(command: &Command, work: &mut Work) -> bool {
    let fence = Fence { execution: ID, attempt: 0, lease_id: LEASE, epoch: 1 };
    let namespace = NAMESPACE;
    match command {
        Command::Submit(delay) => {
            let draft = Draft { id: Some(ID.0), delay: *delay, ..Draft::new("kind") };
            let submit = Submit {
                namespace,
                items: vec![Item { submission: draft.check(), class: CLASS, id: ID }],
                operation: None,
            };
            submit.decide(false, work).remove(0).is_ok_and(|done| !done.duplicate)
        }
        Command::Claim => {
            let claim = Claim {
                scope: session().scope,
                worker: Name::trusted("worker"),
                instance: Name::trusted("instance"),
                max: 1,
                ttl_ms: TTL_MS,
                operation: None,
            };
            claim.decide(&[CLASS], work).is_ok_and(|claimed| !claimed.is_empty())
        }
        Command::Report(op) => {
            let (op_id, op) = (None, op.clone());
            let report = Report { namespace, fence, op_id, op };
            report.decide(work).is_ok()
        }
        Command::PutBack(why) => {
            let put_back = PutBack { namespace, fence, why: *why };
            put_back.decide(work).is_ok_and(|done| done)
        }
        Command::Operate(action) => {
            let operate = Operate {
                namespace,
                execution: ID,
                actor: Name::trusted("operator"),
                if_version: None,
                action: action.clone(),
            };
            operate.decide(work).is_ok()
        }
        Command::SubmitFlow => {
            let (submission, _) =
                FlowDraft { graph: lone_graph(), ..FlowDraft::default() }.check().expect("it is valid");
            let planned = planned("other", NODE, Some(ID));
            let id = FlowId(Uuid::from_u128(10));
            let submit = SubmitFlow { namespace, id, submission, planned, operation: None };
            submit.decide(false, work).is_ok_and(|done| !done.duplicate)
        }
        Command::Dispatch(place, ..) => {
            let dispatch = Dispatch { row: left(*place), only_close: false };
            matches!(dispatch.decide(work), Ok(Dispatched::Advanced { changed: 1, .. }))
        }
        Command::Grow { into } => {
            let (from, to) = if *into { ("new", NODE) } else { (NODE, "new") };
            let planned = planned(from, to, None);
            Grow { namespace, flow: FLOW, planned, operation: None }.decide(false, work).is_ok()
        }
        Command::Tick(what) => {
            let tick = Tick { execution: ID, what: *what };
            tick.decide(work) == Ok(Ticked::Done)
        }
    }
}

fn lone_graph() -> GraphDraft {
    GraphDraft {
        nodes: vec![NodeDraft { name: NODE.into(), draft: Draft::new("kind") }],
        ..GraphDraft::default()
    }
}
