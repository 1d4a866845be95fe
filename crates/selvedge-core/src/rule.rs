//! The [`Rule`] trait, which every operation implements as a type of its own, and [`Queued`], a rule on its way through a
//! batch.
//!
//! A rule names the rows it needs and decides with them. It never loads or saves: [`crate::driver`] does both, for the
//! engine, the conformance suite and the tests of core alike. `profile` has no default, so every new operation must
//! define how it is scheduled.

use crate::rows::Needs;
use crate::rules::report::Fence;
use crate::rules::worker::PutBack;
use crate::{ClaimScope, ClassId, ExecutionId, Work};
use std::convert::Infallible;

/// An operation: the rows it needs, and its decision.
pub trait Rule: Send + 'static {
    /// The answer to the caller.
    type Reply: Send + 'static;

    /// The phase in which the rule is decided, relative to the other rules of its transaction.
    const PHASE: Phase;

    /// Returns how the operation is scheduled and which cached rows may serve it. Must not depend on loaded rows.
    fn profile(&self) -> Profile;

    /// Adds the rows that the rule needs, given those loaded so far. Called again after every load until it adds
    /// nothing new, so it must be idempotent. Asking again for a loaded row costs nothing.
    fn needs(&self, work: &Work, needs: &mut Needs);

    /// Decides with all rows loaded. A refused operation changes nothing. Runs again, on a new [`Work`], if the save
    /// finds that a version has changed.
    fn decide(&self, work: &mut Work) -> Self::Reply;

    /// Adds the payloads that the reply carries to it, as far as they are loaded, and asks for the others. Called after
    /// all decisions, again after every load, until it asks for nothing new. Only for claims. Default: does nothing.
    fn carry(&self, _reply: &mut Self::Reply, _work: &Work, _needs: &mut Needs) {}

    /// Returns the leases to put back if the caller disconnects before the reply arrives. Default: none.
    fn undelivered(_reply: Self::Reply) -> Vec<PutBack> {
        Vec::new()
    }
}

/// The order in which the rules of one transaction are decided. Rules that make executions waiting precede the claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Reports of workers.
    Reports,
    /// Timers: delays, timeouts, lease expiry, retention.
    Timers,
    /// Leases that are put back.
    PutBacks,
    /// Operators' commands, signals, and the configuration of gates.
    Operators,
    /// New executions and flows.
    Submissions,
    /// Work that an earlier transaction enqueued in the outbox.
    Outbox,
    /// Flows that end or are deleted.
    FlowEnds,
    /// Heartbeats of workers.
    Heartbeats,
    /// Requests to workers to drain.
    Drains,
    /// Departures of workers.
    Departures,
    /// Deletion of sessions that were not seen for a long time.
    Cleanup,
    /// Claims. Decided last, after completions were propagated and opened gates have released executions.
    Claims,
}

/// The properties of an operation that the scheduler and the driver use before anything is loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The share of a batch that the operation fills.
    pub weight: usize,
    /// The executions that the operation names, with its effect on the lease of each.
    pub executions: Vec<Touch>,
    /// Classes of the executions that the operation makes waiting, one entry for each execution.
    pub makes_ready: Vec<ClassId>,
    /// The scope that the operation claims from; none if it does not claim.
    pub claims: Option<ClaimScope>,
    /// Number of waiting executions that the operation looks for in the store, besides those that its own transaction
    /// makes waiting.
    pub finds: usize,
    /// The operation may end leases of executions that it does not name.
    pub ends_unnamed_leases: bool,
    /// The reaction if another transaction has locked the operation's execution.
    pub if_locked: IfLocked,
    /// Locks that the operation takes besides those on the executions it names.
    pub locks: Locks,
    /// The operation finds the executions to lock only through loaded rows. Such rules are batched with each other and
    /// with no others, so that every batch locks its executions with one statement, in id order.
    pub runs_alone: bool,
}

impl Profile {
    /// Returns the profile of an operation that names no execution.
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

    /// Returns the profile of an operation on one execution, whose stored row it must read.
    pub fn on(execution: ExecutionId) -> Profile {
        Profile { executions: vec![Touch::of(execution)], ..Profile::weighing(1) }
    }

    /// Reports whether rows of the lease cache may serve the batch of this operation. A cached row is locked only when
    /// it is saved: too late if sessions or flows are locked before that, or if the operation skips or defers locked
    /// executions.
    pub fn allows_cached_rows(&self) -> bool {
        self.if_locked == IfLocked::Wait && !self.locks.sessions && !self.locks.flows
    }
}

/// An execution that an operation names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Touch {
    pub execution: ExecutionId,
    /// The fence that the operation presents, if any.
    pub fence: Option<Fence>,
    /// The effect on the execution's lease.
    pub lease: LeaseEffect,
    /// The operation may end the execution. Its downstreams are then locked with it, if the lease cache knows them.
    pub may_finish: bool,
}

impl Touch {
    /// Returns a touch that needs the stored row and may have any effect on its lease.
    pub fn of(execution: ExecutionId) -> Touch {
        Touch { execution, fence: None, lease: LeaseEffect::Any, may_finish: false }
    }
}

/// The effect of an operation on the lease of an execution that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEffect {
    /// Ends the lease unless its fence is stale. A cached row suffices: the guarded save checks it.
    Ends,
    /// Leaves the row unchanged. A cached row suffices if another rule of the transaction ends the lease.
    Unchanged,
    /// Keeps the lease. Needs the stored row.
    Keeps,
    /// May end the lease, or be refused although the fence is current. Needs the stored row.
    Any,
}

/// The reaction of an operation if another transaction has locked its execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfLocked {
    /// Waits for the lock.
    Wait,
    /// Does nothing. A reconciler repeats the operation.
    Skip,
    /// In a batch with others, does nothing and is retried alone; alone, waits for the lock. Signals and operators
    /// reach executions in any state: waiting in a batch could deadlock with a claim that saves a cached row.
    Defer(ExecutionId),
}

/// Locks that an operation takes besides those on the executions it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locks {
    /// Executions that the operation finds through loaded rows: a key, a node name, an outbox row.
    pub later_executions: bool,
    /// Flows that may have live members.
    pub flows: bool,
    /// Sessions of workers.
    pub sessions: bool,
}

/// The caller of a rule, who receives the reply after the commit.
pub trait Caller<R: Rule>: Send {
    /// The error of a failed transaction.
    type Error;

    /// Receives the reply, or the error. Returns a reply that nobody waits for any more.
    fn answer(self, reply: Result<R::Reply, Self::Error>) -> Option<R::Reply>;
}

/// No caller: a test takes the reply out with [`Queued::into_reply`].
impl<R: Rule> Caller<R> for () {
    type Error = Infallible;

    fn answer(self, _reply: Result<R::Reply, Infallible>) -> Option<R::Reply> {
        None
    }
}

/// A queued operation: a rule with its profile and its caller and, once it was decided, its reply.
#[derive(Debug)]
pub struct Queued<R: Rule, C = ()> {
    rule: R,
    profile: Profile,
    reply: Option<R::Reply>,
    caller: C,
}

impl<R: Rule> Queued<R> {
    /// Queues a rule without a caller.
    pub fn new(rule: R) -> Self {
        Queued::of(rule, ())
    }

    /// Returns the reply of the last try, if the rule was decided in it.
    pub fn into_reply(self) -> Option<R::Reply> {
        self.reply
    }
}

impl<R: Rule, C: Caller<R>> Queued<R, C> {
    /// Queues a rule of a caller.
    pub fn of(rule: R, caller: C) -> Self {
        Queued { profile: rule.profile(), rule, reply: None, caller }
    }
}

/// A [`Queued`] rule of any kind, so that one batch can hold all of them.
pub trait Task: Send {
    /// The error of a failed transaction.
    type Error;
    fn phase(&self) -> Phase;
    fn profile(&self) -> &Profile;
    /// Adds the rows that the rule needs; see [`Rule::needs`].
    fn needs(&self, work: &Work, needs: &mut Needs);
    /// Decides, and keeps the reply until the transaction has committed. Replaces the reply of an earlier try.
    fn decide(&mut self, work: &mut Work);
    /// Adds payloads to the reply; see [`Rule::carry`].
    fn carry(&mut self, work: &Work, needs: &mut Needs);
    /// Drops the reply of an earlier try.
    fn reset(&mut self);
    /// Reports whether there is a reply. After a commit, a task without a reply was deferred.
    fn is_decided(&self) -> bool;
    /// Sends the reply to the caller. Returns the leases to put back if the caller no longer waits.
    fn deliver(self: Box<Self>) -> Vec<PutBack>;
    /// Sends the error of a failed transaction to the caller.
    fn fail(self: Box<Self>, error: Self::Error);
}

impl<R: Rule, C: Caller<R>> Task for Queued<R, C> {
    type Error = C::Error;

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
    fn carry(&mut self, work: &Work, needs: &mut Needs) {
        if let Some(reply) = &mut self.reply {
            self.rule.carry(reply, work, needs);
        }
    }
    fn reset(&mut self) {
        self.reply = None;
    }
    fn is_decided(&self) -> bool {
        self.reply.is_some()
    }
    fn deliver(self: Box<Self>) -> Vec<PutBack> {
        let Queued { reply, caller, .. } = *self;
        let undelivered = reply.and_then(|reply| caller.answer(Ok(reply)));
        undelivered.map(R::undelivered).unwrap_or_default()
    }
    fn fail(self: Box<Self>, error: C::Error) {
        self.caller.answer(Err(error));
    }
}

impl<T: Task + ?Sized> Task for Box<T> {
    type Error = T::Error;

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
    fn carry(&mut self, work: &Work, needs: &mut Needs) {
        (**self).carry(work, needs);
    }
    fn reset(&mut self) {
        (**self).reset();
    }
    fn is_decided(&self) -> bool {
        (**self).is_decided()
    }
    fn deliver(self: Box<Self>) -> Vec<PutBack> {
        T::deliver(*self)
    }
    fn fail(self: Box<Self>, error: T::Error) {
        T::fail(*self, error);
    }
}
