//! Rows of every state, the commands of every cause, and what becomes of the one under the other.

mod rows;

pub use rows::rows;

use bytes::Bytes;
use rows::{CLASS, ID, LEASE, NAMESPACE, TTL_MS, now, session};
use selvedge_core::rules::claim::Claim;
use selvedge_core::rules::clock::{Tick, Ticked, What};
use selvedge_core::rules::operator::{Action, Operate};
use selvedge_core::rules::report::{Fence, Op, Report};
use selvedge_core::rules::submit::{Item, Submit};
use selvedge_core::rules::worker::{PutBack, Why};
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::transition::Cause;
use selvedge_core::{Draft, DueKind, Entropy, Execution, FailureClass, Name, Rows, Work};

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
        Cause::Submit => vec![Command::Submit(None), Command::Submit(Some(When::AfterMs(1)))],
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
    }
}

/// Runs a command on a row. What it changed, if it changed anything; then the row's version has risen by one, and the
/// one fact that was recorded tells it. If it did not, there is nothing to save.
pub fn run(row: &Row, command: &Command) -> Option<Cell> {
    let mut work = Work::new(Entropy::seeded(1));
    work.load(Rows {
        now: now(),
        executions: row.clone().into_iter().collect(),
        candidates: vec![ID],
        inputs: vec![(ID, Bytes::from_static(b"null"))],
        sessions: vec![session()],
        ..Rows::default()
    });
    let accepted = decide(command, &mut work);
    let changes = work.finish();
    let Some(event) = changes.events.first() else {
        assert!(changes.is_empty(), "{command:?} on {row:?} told nothing and left {changes:?}");
        return None;
    };
    assert!(accepted, "{command:?} on {row:?} was refused and left {changes:?}");
    assert_eq!(changes.events.len(), 1, "one change is one fact");
    let inserted = changes.inserted.iter().map(|inserted| &inserted.execution);
    let updated = changes.updated.iter().map(|updated| &updated.execution);
    let after = inserted.chain(updated).next().expect("what is told is saved");
    let before = row.as_ref().map_or(0, |row| row.version);
    assert_eq!((after.version, event.version), (before + 1, Some(before + 1)));
    let cause = event.fact.cause().expect("a change has a cause");
    Some((name(row), cause, after.state.name()))
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
        Command::Tick(what) => {
            let tick = Tick { execution: ID, what: *what };
            tick.decide(work) == Ok(Ticked::Done)
        }
    }
}
