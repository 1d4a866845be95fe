//! What happened: one fact for each change, recorded in the execution's own history and in the event log.
//!
//! A fact is stored compactly and told as one or more public events: a claim, for instance, is one fact and is told as
//! `lease.acquired` and `execution.started`. The names and data of the public events stand in [`Fact::public_events`] and nowhere
//! else.
//!
//! Facts are stored with postcard, which has no field names. So: append variants, never change, reorder or remove one.

mod public;

pub use public::{EVENT_TYPES, EventBody};

use crate::amount::Amount;
use crate::flow::{CancelMode, FlowState};
use crate::gate::{Amounts, GateName};
use crate::join::{Edge, GroupDecision, JoinPolicy};
use crate::signal::Effect;
use crate::step::StepKind;
use crate::suspension::{OnTimeout, ResumedBy};
use crate::token::TokenKeyId;
use crate::{
    ExecutionId, FailureClass, LeaseId, Name, Outcome, Suspension, Timestamp, WaitpointId, transition::Cause,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which lease, of which attempt, and whose: what every lease event carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseRef {
    /// The lease.
    pub id: LeaseId,
    /// Its epoch.
    pub epoch: u32,
    /// The worker.
    pub worker: Name,
    /// Its instance.
    pub instance: Name,
}

impl LeaseRef {
    /// The attempt that ran under it.
    pub fn attempt(&self) -> u32 {
        self.epoch - 1
    }
}

/// An error as a worker or the engine reported it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What went wrong.
    pub message: String,
    /// Its class.
    pub class: FailureClass,
}

/// What followed the end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Next {
    /// Waits for a worker again.
    Waiting,
    /// Delayed until then.
    Delayed(Timestamp),
    /// The execution ended.
    Terminal(Outcome),
    /// Suspended.
    Suspended,
}

/// What came that a suspended execution waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SuspensionNotice {
    /// A time.
    Time,
    /// The word of an operator.
    Operator,
    /// The end of its children.
    Children,
    /// Nothing: the wait at this place has waited for too long, and goes on.
    Escalated(u32),
    /// Room in the gate that it waits for.
    Gate,
}

/// An edge that heard of its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EdgeUpdate {
    /// The upstream.
    pub upstream: ExecutionId,
    /// Where the edge stands now.
    pub edge: Edge,
}

/// One lease in a renewal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RenewedLease {
    /// The execution.
    pub execution: ExecutionId,
    /// The lease.
    pub id: LeaseId,
    /// Its epoch.
    pub epoch: u32,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Fact {
    /// It was submitted.
    Submitted {
        /// Not before this time.
        delayed_until: Option<Timestamp>,
    },
    /// Its delay is over.
    DelayOver,
    /// A worker claimed it.
    Claimed {
        /// The new lease.
        lease: LeaseRef,
        /// Its time to live.
        ttl_ms: i64,
        /// The interrupted lease before it, if that is why it could be claimed.
        after: Option<LeaseRef>,
    },
    /// Its worker completed it.
    Completed {
        /// The attempt.
        attempt: u32,
        /// Digest of the report, by which a repeat is known.
        digest: u64,
    },
    /// Its worker failed it.
    Failed {
        /// The lease that ended.
        lease: LeaseRef,
        /// What went wrong.
        error: Failure,
        /// What followed.
        next: Next,
        /// Digest of the report.
        digest: u64,
    },
    /// The attempt ran beyond its timeout.
    TimedOut {
        /// The lease that ended.
        lease: LeaseRef,
        /// What followed.
        next: Next,
    },
    /// Its lease expired.
    LeaseExpired {
        /// The lease that ended.
        lease: LeaseRef,
        /// What followed.
        next: Next,
    },
    /// Its worker put it back until a time.
    Delayed {
        /// The lease that ended.
        lease: LeaseRef,
        /// What followed.
        next: Next,
        /// Digest of the report.
        digest: u64,
    },
    /// Its worker put it back, or has gone.
    Released {
        /// The lease that ended.
        lease: LeaseRef,
        /// What followed.
        next: Next,
        /// Digest of the report; none when the worker has gone.
        digest: Option<u64>,
    },
    /// The answer to its claim was lost.
    Orphaned {
        /// The lease that ended.
        lease: LeaseRef,
        /// What followed.
        next: Next,
    },
    /// An operator took the lease away.
    Revoked {
        /// The lease that ended.
        lease: LeaseRef,
        /// Why.
        reason: Option<String>,
        /// What followed.
        next: Next,
    },
    /// It was cancelled.
    Cancelled {
        /// The lease that ended with it.
        lease: Option<LeaseRef>,
        /// Why.
        reason: Option<String>,
    },
    /// Its worker was asked to cancel.
    CancelRequested {
        /// Why.
        reason: Option<String>,
        /// The end of the grace period.
        until: Timestamp,
    },
    /// Its deadline passed.
    DeadlinePassed {
        /// The lease that ended with it.
        lease: Option<LeaseRef>,
    },
    /// It did not start in time.
    StartByPassed,
    /// An operator moved its time.
    Rescheduled {
        /// What followed.
        next: Next,
    },
    /// An operator ran it again.
    Replayed {
        /// Its new generation.
        generation: u32,
    },
    /// Its worker reported progress.
    Progressed {
        /// How far, 0 to 100.
        percent: Option<f64>,
        /// In words.
        message: Option<String>,
    },
    /// An operator changed its priority.
    Prioritised {
        /// Before.
        from: i16,
        /// After.
        to: i16,
    },
    /// An operator changed its tags.
    Tagged {
        /// Set to these.
        set: BTreeMap<String, String>,
        /// Removed.
        remove: Vec<String>,
    },
    /// A heartbeat renewed these leases.
    Renewed {
        /// The worker.
        worker: Name,
        /// Its instance.
        instance: Name,
        /// The leases.
        leases: Vec<RenewedLease>,
    },
    /// An operator asked a worker to drain.
    DrainRequested {
        /// Its instance.
        instance: Name,
    },
    /// It was submitted as a node that waits for others.
    SubmittedWaitingDependencies {
        /// For how many.
        upstreams: u32,
    },
    /// It heard of upstreams, and that decided nothing.
    UpstreamChanged {
        /// The edges that changed.
        edges: Vec<EdgeUpdate>,
    },
    /// Its group of edges decided.
    Joined {
        /// The edges that changed.
        edges: Vec<EdgeUpdate>,
        /// The policy.
        policy: JoinPolicy,
        /// What was decided.
        decision: GroupDecision,
        /// What followed.
        next: Next,
    },
    /// It was skipped, and what made it so may be different now.
    Reopened {
        /// The edges that changed.
        edges: Vec<EdgeUpdate>,
        /// Its new generation.
        generation: u32,
    },
    /// An operator ran it again, and it waits for its upstreams again.
    ReplayedWaitingDependencies {
        /// Its new generation.
        generation: u32,
    },
    /// Edges or children were added to it.
    Wired {
        /// How many edges into it.
        upstreams: u32,
        /// How many edges from it.
        downstreams: u32,
        /// How many children.
        children: u32,
    },
    /// A flow was submitted.
    FlowSubmitted {
        /// Its name.
        name: Option<Name>,
        /// How many nodes.
        nodes: u32,
        /// How many edges.
        edges: u32,
    },
    /// A flow grew.
    FlowGrown {
        /// How many nodes were added.
        nodes: u32,
        /// How many edges were added.
        edges: u32,
        /// The execution that spawned them.
        parent: Option<ExecutionId>,
    },
    /// A flow ended.
    FlowEnded {
        /// How.
        state: FlowState,
    },
    /// A flow that had ended runs again.
    FlowReopened {
        /// The execution that was replayed.
        execution: ExecutionId,
    },
    /// An operator asked for the cancel of a flow.
    FlowCancelRequested {
        /// Which members.
        mode: CancelMode,
        /// Why.
        reason: Option<String>,
    },
    /// Its worker suspended it.
    Suspended {
        /// What it waits for, as far as that has not come before.
        suspension: Suspension,
        /// What followed: ready, where all of it had come before.
        next: Next,
        /// Digest of the report.
        digest: u64,
    },
    /// A signal was delivered to it.
    Signalled {
        /// Its number.
        number: u32,
        /// Its name.
        name: Name,
        /// Who sent it.
        source: Name,
        /// The waitpoint through which it came, and its name.
        waitpoint: Option<(WaitpointId, Name)>,
        /// How many bytes its payload has.
        bytes: u32,
        /// What the delivery did.
        effect: Effect,
    },
    /// Something that it waits for came, and that was not all.
    Noticed {
        /// What.
        notice: SuspensionNotice,
    },
    /// It goes on.
    Resumed {
        /// Which suspension ended.
        suspension: u32,
        /// What ended it.
        by: ResumedBy,
        /// The signals that were taken.
        signals: Vec<u32>,
        /// The steps that were recorded.
        steps: Vec<Name>,
    },
    /// It waited for too long.
    SuspensionTimedOut {
        /// Which suspension ended.
        suspension: u32,
        /// What was to happen then.
        on_timeout: OnTimeout,
        /// What followed.
        next: Next,
    },
    /// A waitpoint was made, or its token is signed with another key.
    WaitpointCreated {
        /// Which.
        waitpoint: WaitpointId,
        /// Its name.
        name: Name,
        /// Whose word a delivery through it is.
        source: Name,
        /// Until when it takes one.
        expires_at: Option<Timestamp>,
    },
    /// A waitpoint's time was over.
    WaitpointExpired {
        /// Which.
        waitpoint: WaitpointId,
        /// Its name.
        name: Name,
    },
    /// An operator revoked the token of a waitpoint.
    WaitpointRevoked {
        /// Which.
        waitpoint: WaitpointId,
        /// Its name.
        name: Name,
    },
    /// Its worker recorded a step.
    Stepped {
        /// Its name.
        name: Name,
        /// What it is.
        kind: StepKind,
        /// The attempt.
        attempt: u32,
        /// How long it took.
        duration_ms: i64,
        /// How many bytes its result has.
        bytes: u32,
    },
    /// An operator changed the key that tokens are signed with.
    TokenKeysRotated {
        /// The new one.
        key: TokenKeyId,
        /// How long tokens of the old ones are still accepted.
        grace_ms: i64,
    },
    /// A gate refused it.
    Held {
        /// Which.
        gate: GateName,
        /// Why.
        reason: String,
        /// When the gate may be open.
        until: Option<Timestamp>,
    },
    /// The gate that held it is open.
    Admitted {
        /// Which.
        gate: GateName,
    },
    /// An operator configured a gate.
    GateConfigured {
        /// Which.
        gate: GateName,
    },
    /// An operator removed the configuration of a gate.
    GateRemoved {
        /// Which.
        gate: GateName,
    },
    /// A budget that it draws on is used up, and it was stopped.
    Breached {
        /// The lease that ended.
        lease: LeaseRef,
        /// The budget.
        gate: GateName,
        /// What followed.
        next: Next,
        /// What it waits for, where it is suspended.
        suspension: Option<Suspension>,
    },
    /// Something was spent of a budget.
    Spent {
        /// The budget.
        gate: GateName,
        /// Who spent it.
        execution: Option<ExecutionId>,
        /// How much.
        amounts: Amounts,
    },
    /// A limit of a budget is reached.
    LimitReached {
        /// The budget.
        gate: GateName,
        /// The dimension.
        dimension: String,
        /// The limit.
        limit: Amount,
        /// What was spent.
        used: Amount,
        /// Whether it is the hard one.
        hard: bool,
    },
    /// The usage of a budget was set back to nothing.
    BudgetReset {
        /// The budget.
        gate: GateName,
        /// The period that begins.
        period: u32,
    },
}

impl Fact {
    /// Why the state changed; none for facts that are not about one execution.
    pub fn cause(&self) -> Option<Cause> {
        Some(match self {
            Fact::Submitted { .. } => Cause::Submit,
            Fact::DelayOver => Cause::DelayOver,
            Fact::Claimed { .. } => Cause::Claim,
            Fact::Completed { .. } => Cause::Complete,
            Fact::Failed { .. } => Cause::Fail,
            Fact::TimedOut { .. } => Cause::AttemptTimeout,
            Fact::LeaseExpired { .. } => Cause::LeaseExpiry,
            Fact::Delayed { .. } => Cause::Delay,
            Fact::Released { .. } => Cause::Release,
            Fact::Orphaned { .. } => Cause::Orphan,
            Fact::Revoked { .. } => Cause::Revoke,
            Fact::Cancelled { .. } => Cause::Cancel,
            Fact::CancelRequested { .. } => Cause::RequestCancel,
            Fact::DeadlinePassed { .. } => Cause::Deadline,
            Fact::StartByPassed => Cause::StartBy,
            Fact::Rescheduled { .. } => Cause::Reschedule,
            Fact::Replayed { .. } => Cause::Replay,
            Fact::Progressed { .. } => Cause::Progress,
            Fact::Prioritised { .. } => Cause::Prioritise,
            Fact::Tagged { .. } => Cause::Tag,
            Fact::SubmittedWaitingDependencies { .. } => Cause::Submit,
            Fact::UpstreamChanged { .. } => Cause::UpstreamChange,
            Fact::Joined { .. } => Cause::Join,
            Fact::Reopened { .. } => Cause::Reopen,
            Fact::ReplayedWaitingDependencies { .. } => Cause::Replay,
            Fact::Wired { .. } => Cause::Wire,
            Fact::Suspended { .. } => Cause::Suspend,
            Fact::Signalled { .. } => Cause::Signal,
            Fact::Noticed { .. } => Cause::Notice,
            Fact::Resumed { .. } => Cause::Resume,
            Fact::SuspensionTimedOut { .. } => Cause::SuspensionTimeout,
            Fact::WaitpointCreated { .. } | Fact::WaitpointExpired { .. } | Fact::WaitpointRevoked { .. } => {
                Cause::Waitpoint
            }
            Fact::Stepped { .. } => Cause::Step,
            Fact::Held { .. } => Cause::Hold,
            Fact::Admitted { .. } => Cause::Admit,
            Fact::Breached { .. } => Cause::Breach,
            Fact::Renewed { .. }
            | Fact::DrainRequested { .. }
            | Fact::FlowSubmitted { .. }
            | Fact::FlowGrown { .. }
            | Fact::FlowEnded { .. }
            | Fact::FlowReopened { .. }
            | Fact::FlowCancelRequested { .. }
            | Fact::TokenKeysRotated { .. }
            | Fact::GateConfigured { .. }
            | Fact::GateRemoved { .. }
            | Fact::Spent { .. }
            | Fact::LimitReached { .. }
            | Fact::BudgetReset { .. } => return None,
        })
    }

    /// Whether it is a line of the execution's own history: every change but progress, news of upstreams that decided
    /// nothing, and what has rows of its own; of these there may be thousands.
    pub fn is_history(&self) -> bool {
        self.cause().is_some()
            && !matches!(
                self,
                Fact::Progressed { .. }
                    | Fact::UpstreamChanged { .. }
                    | Fact::Signalled { .. }
                    | Fact::WaitpointCreated { .. }
                    | Fact::Stepped { .. }
            )
    }
}
