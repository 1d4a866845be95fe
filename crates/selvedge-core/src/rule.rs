//! One operation, one type: the [`Rule`] trait that every operation implements, and the erased form in which a batch holds it.
//!
//! A rule names the rows it needs and decides over them. It never loads or saves: [`crate::driver`] does both, for the engine,
//! for the conformance suite and for the tests of core alike. `profile` has no default, so every new operation must say how it
//! is scheduled.

use crate::rows::Needs;
use crate::rules::report::Fence;
use crate::rules::worker::PutBack;
use crate::{ClaimScope, ClassId, ExecutionId, Work};

/// An operation: what it needs to see and what it decides.
pub trait Rule: Send + 'static {
    /// The answer to the caller.
    type Reply: Send + 'static;

    /// When it is decided, relative to the other rules of its transaction.
    const PHASE: Phase;

    /// How the operation is scheduled and which cached rows may serve it. Known before anything is loaded.
    fn profile(&self) -> Profile;

    /// Adds the rows the rule needs, given those loaded so far. Called again after every load until it adds nothing new, so it
    /// must be idempotent: asking again for something already loaded costs nothing.
    fn needs(&self, work: &Work, needs: &mut Needs);

    /// Decides with all rows loaded. A refused operation changes nothing. Runs again, from an empty [`Work`], when the save
    /// fails its guards.
    fn decide(&self, work: &mut Work) -> Self::Reply;

    /// Leases to put back because the caller left before the reply arrived. Default: none.
    fn undelivered(_reply: Self::Reply) -> Vec<PutBack> {
        Vec::new()
    }
}

/// The order in which the rules of one transaction are decided: everything that makes an execution ready precedes the claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Reports of workers.
    Reports,
    /// Timers: delays, timeouts, lapsed leases, retention.
    Timers,
    /// Leases that are put back.
    PutBacks,
    /// Operators, signals and the configuration of gates.
    Operators,
    /// New executions and flows.
    Submissions,
    /// Work that an earlier commit left in the outbox.
    Outbox,
    /// Flows that end or are deleted.
    FlowEnds,
    /// Heartbeats.
    Heartbeats,
    /// Workers that are asked to drain.
    Drains,
    /// Workers that leave.
    Departures,
    /// Sessions that are forgotten.
    Cleanup,
    /// Claims. Decided last, after completions were propagated and gates were opened.
    Claims,
}

/// What the scheduler and the driver must know of an operation before anything is loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The share of a batch it fills.
    pub weight: usize,
    /// Executions it names, and what it does to the lease of each.
    pub executions: Vec<Touch>,
    /// Classes of the executions that it makes ready, one entry for each execution.
    pub makes_ready: Vec<ClassId>,
    /// The scope it claims from.
    pub claims: Option<ClaimScope>,
    /// How many ready executions it looks for in the store, beyond those that its own transaction makes ready.
    pub finds: usize,
    /// Whether it may end leases of executions it does not name.
    pub ends_unnamed_leases: bool,
    /// What happens when another transaction holds its execution.
    pub if_locked: IfLocked,
    /// Locks it takes besides those on the executions it names.
    pub locks: Locks,
    /// Whether it learns only from loaded rows which executions to lock. Such rules are batched with each other and with no
    /// others, so that every batch locks its executions with one statement, in order.
    pub runs_alone: bool,
}

impl Profile {
    /// The profile of an operation that names no execution.
    pub fn weighing(weight: usize) -> Profile {
        Profile {
            weight,
            executions: Vec::new(),
            makes_ready: Vec::new(),
            claims: None,
            finds: 0,
            ends_unnamed_leases: false,
            if_locked: IfLocked::Wait,
            locks: Locks::default(),
            runs_alone: false,
        }
    }

    /// The profile of an operation on one execution, whose stored row it must read.
    pub fn on(execution: ExecutionId) -> Profile {
        Profile { executions: vec![Touch::of(execution)], ..Profile::weighing(1) }
    }

    /// Whether a row in the lease cache may serve the batch of this operation. A cached row is locked only when it is saved:
    /// too late where sessions or flows are locked before that, or where others lock executions out of order.
    pub fn allows_cached_rows(&self) -> bool {
        self.if_locked == IfLocked::Wait && !self.locks.sessions && !self.locks.flows
    }
}

/// An execution that an operation names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Touch {
    /// The execution.
    pub execution: ExecutionId,
    /// The fence it presents, where it presents one.
    pub fence: Option<Fence>,
    /// What becomes of the execution's lease.
    pub lease: LeaseEffect,
    /// Whether the execution may end by this. Its downstreams are then loaded with it, where they are known.
    pub may_finish: bool,
}

impl Touch {
    /// A touch that needs the stored row and may do anything to its lease.
    pub fn of(execution: ExecutionId) -> Touch {
        Touch { execution, fence: None, lease: LeaseEffect::Any, may_finish: false }
    }
}

/// What an operation does to the lease of an execution it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEffect {
    /// Ends the lease unless its fence is stale. A cached row suffices: the guarded save checks it.
    Ends,
    /// Leaves the row unchanged. A cached row suffices where another rule of the transaction ends the lease.
    Unchanged,
    /// Keeps the lease. Needs the stored row.
    Keeps,
    /// May end the lease, or be refused although the fence is current. Needs the stored row.
    Any,
}

/// What happens to an operation whose execution another transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfLocked {
    /// It waits.
    Wait,
    /// It does nothing: reconcilers come again.
    Skip,
    /// It does nothing in a batch with others, and is retried alone, where it waits. Signals and operators reach executions in
    /// any state: waiting in a batch could deadlock with a claim that saves a cached row.
    Defer(ExecutionId),
}

/// Locks that an operation takes besides those on the executions it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locks {
    /// Executions it learns of from loaded rows: by a key, by a node's name, by an outbox row.
    pub later_executions: bool,
    /// Flows that may have live members.
    pub flows: bool,
    /// Sessions.
    pub sessions: bool,
}

/// A rule whose reply type is hidden, so that one batch holds rules of every kind.
pub trait Task: Send {
    /// See [`Rule::PHASE`].
    fn phase(&self) -> Phase;
    /// See [`Rule::profile`].
    fn profile(&self) -> &Profile;
    /// See [`Rule::needs`].
    fn needs(&self, work: &Work, needs: &mut Needs);
    /// Decides, and keeps the reply until the transaction has committed. Replaces the reply of an earlier try.
    fn decide(&mut self, work: &mut Work);
    /// Drops the reply of an earlier try.
    fn reset(&mut self);
    /// Whether there is a reply. There is none after a commit if the rule was deferred.
    fn is_decided(&self) -> bool;
}

impl<T: Task + ?Sized> Task for Box<T> {
    fn phase(&self) -> Phase {
        (**self).phase()
    }
    fn profile(&self) -> &Profile {
        (**self).profile()
    }
    fn needs(&self, work: &Work, needs: &mut Needs) {
        (**self).needs(work, needs);
    }
    fn decide(&mut self, work: &mut Work) {
        (**self).decide(work);
    }
    fn reset(&mut self) {
        (**self).reset();
    }
    fn is_decided(&self) -> bool {
        (**self).is_decided()
    }
}

/// A rule with its profile and, once it was decided, its reply.
#[derive(Debug)]
pub struct Envelope<R: Rule> {
    rule: R,
    profile: Profile,
    reply: Option<R::Reply>,
}

impl<R: Rule> Envelope<R> {
    /// Wraps a rule.
    pub fn new(rule: R) -> Self {
        Envelope { profile: rule.profile(), rule, reply: None }
    }

    /// The reply of the last try, if the rule was decided in it.
    pub fn into_reply(self) -> Option<R::Reply> {
        self.reply
    }
}

impl<R: Rule> Task for Envelope<R> {
    fn phase(&self) -> Phase {
        R::PHASE
    }
    fn profile(&self) -> &Profile {
        &self.profile
    }
    fn needs(&self, work: &Work, needs: &mut Needs) {
        self.rule.needs(work, needs);
    }
    fn decide(&mut self, work: &mut Work) {
        self.reply = Some(self.rule.decide(work));
    }
    fn reset(&mut self) {
        self.reply = None;
    }
    fn is_decided(&self) -> bool {
        self.reply.is_some()
    }
}
