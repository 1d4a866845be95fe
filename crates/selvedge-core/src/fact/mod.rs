//! Facts: the compact record of changes, one fact per change, in the execution's history and in the event log.
//!
//! A fact is published as one or more public events: a claim, for instance, is one fact and two events,
//! `lease.acquired` and `execution.started`. [`Fact::public_events`] alone defines the names and data of the public
//! events.
//!
//! Facts are stored with postcard, which stores neither names of variants nor of fields. So append variants; never
//! change, reorder or remove one.

mod parts;
mod public;

pub use parts::{EdgeUpdate, Failure, LeaseRef, Next, RenewedLease, SuspensionNotice, WebhookChange};
pub use public::{EVENT_TYPES, EventBody};

use crate::amount::Amount;
use crate::api_key::ApiKeyId;
use crate::bulk_job::BulkJobId;
use crate::flow::{CancelMode, FlowState};
use crate::gate::{Amounts, GateName};
use crate::headline::shortened_error;
use crate::history::LINE_MESSAGE_LIMIT;
use crate::join::{GroupDecision, JoinPolicy};
use crate::schedule::RunSubject;
use crate::signal::Effect;
use crate::step::StepKind;
use crate::suspension::{OnTimeout, ResumedBy};
use crate::text::{replace_nul, shortened};
use crate::token::TokenKeyId;
use crate::{ExecutionId, Name, Suspension, Timestamp, WaitpointId, transition::Cause};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;

/// A recorded change of an execution, a flow, a session or a gate. In the variants about an execution, "its" means the
/// execution's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Fact {
    /// The execution was submitted without upstreams.
    Submitted {
        /// The time until which it is delayed; none if it waits for a worker at once.
        delayed_until: Option<Timestamp>,
    },
    /// Its delay ended.
    DelayOver,
    /// A worker claimed the execution.
    Claimed {
        /// The new lease.
        lease: LeaseRef,
        /// The lease's time to live, in milliseconds.
        ttl_ms: i64,
        /// The expired lease whose interruption made the execution claimable, if one did.
        after: Option<LeaseRef>,
    },
    /// Its worker completed the execution.
    Completed {
        /// The index of the attempt.
        attempt: u32,
        /// The digest of the report, by which a repeat is recognised.
        digest: u64,
    },
    /// Its worker reported a failure.
    Failed {
        /// The lease that ended.
        lease: LeaseRef,
        /// The reported error.
        error: Failure,
        /// The state that follows.
        next: Next,
        /// The digest of the report.
        digest: u64,
    },
    /// Its attempt exceeded the attempt timeout.
    TimedOut {
        /// The lease that ended.
        lease: LeaseRef,
        /// The state that follows.
        next: Next,
    },
    LeaseExpired {
        /// The lease that ended.
        lease: LeaseRef,
        /// The state that follows.
        next: Next,
    },
    /// Its worker put the execution back until a time.
    Delayed {
        /// The lease that ended.
        lease: LeaseRef,
        /// The state that follows.
        next: Next,
        /// The digest of the report.
        digest: u64,
    },
    /// Its worker put the execution back, or departed.
    Released {
        /// The lease that ended.
        lease: LeaseRef,
        /// The state that follows.
        next: Next,
        /// The digest of the report; none if the worker departed.
        digest: Option<u64>,
    },
    /// Its lease was orphaned: the reply to the claim never reached the worker.
    Orphaned {
        /// The lease that ended.
        lease: LeaseRef,
        /// The state that follows.
        next: Next,
    },
    /// An operator revoked the lease.
    Revoked {
        /// The lease that ended.
        lease: LeaseRef,
        /// The operator's reason.
        reason: Option<String>,
        /// The state that follows.
        next: Next,
    },
    /// The execution was cancelled.
    Cancelled {
        /// The lease that ended with it, if the execution was active.
        lease: Option<LeaseRef>,
        /// The operator's reason.
        reason: Option<String>,
    },
    /// An operator asked its worker to cancel.
    CancelRequested {
        /// The operator's reason.
        reason: Option<String>,
        /// The end of the grace period.
        until: Timestamp,
    },
    DeadlinePassed {
        /// The lease that ended with it, if the execution was active.
        lease: Option<LeaseRef>,
    },
    /// Its first attempt did not start in time.
    StartByPassed,
    /// An operator rescheduled the execution.
    Rescheduled {
        /// The state that follows.
        next: Next,
    },
    /// An operator replayed the execution, which waits for a worker.
    Replayed {
        /// The new generation.
        generation: u32,
    },
    /// Its worker reported progress.
    Progressed {
        /// The percentage done, 0 to 100.
        percent: Option<f64>,
        /// The progress in words.
        message: Option<String>,
    },
    /// An operator changed its priority.
    Prioritised {
        /// The old priority.
        from: i16,
        /// The new priority.
        to: i16,
    },
    /// An operator changed its tags.
    Tagged {
        /// The tags that were set.
        set: BTreeMap<String, String>,
        /// The names of the tags that were removed.
        remove: Vec<String>,
    },
    /// A heartbeat renewed leases.
    Renewed {
        worker: Name,
        /// The worker's instance.
        instance: Name,
        leases: Vec<RenewedLease>,
    },
    /// An operator asked a worker to drain.
    DrainRequested {
        /// The worker's instance.
        instance: Name,
    },
    /// The execution was submitted as a node with upstreams.
    SubmittedWaitingDependencies {
        /// The number of upstreams.
        upstreams: u32,
    },
    /// Upstreams ended or reopened, and its edge group remains undecided.
    UpstreamChanged {
        /// The changed edges.
        edges: Vec<EdgeUpdate>,
    },
    /// Its edge group decided.
    Joined {
        /// The changed edges.
        edges: Vec<EdgeUpdate>,
        /// The group's policy.
        policy: JoinPolicy,
        decision: GroupDecision,
        /// The state that follows.
        next: Next,
    },
    /// The skipped execution waits for its upstreams again, because one of them reopened.
    Reopened {
        /// The changed edges.
        edges: Vec<EdgeUpdate>,
        /// The new generation.
        generation: u32,
    },
    /// An operator replayed the execution, which waits for its upstreams again.
    ReplayedWaitingDependencies {
        /// The new generation.
        generation: u32,
    },
    /// Edges or children were added to the execution.
    Wired {
        /// The number of added edges into it.
        upstreams: u32,
        /// The number of added edges from it.
        downstreams: u32,
        /// The number of added children.
        children: u32,
    },
    /// A flow was submitted.
    FlowSubmitted {
        /// The flow's name.
        name: Option<Name>,
        /// The number of nodes.
        nodes: u32,
        /// The number of edges.
        edges: u32,
    },
    /// Nodes and edges were added to a flow.
    FlowGrown {
        /// The number of added nodes.
        nodes: u32,
        /// The number of added edges.
        edges: u32,
        /// The execution that spawned them, if one did.
        parent: Option<ExecutionId>,
    },
    FlowEnded {
        /// The flow's final state.
        state: FlowState,
    },
    /// An ended flow runs again.
    FlowReopened {
        /// The replayed execution.
        execution: ExecutionId,
    },
    /// An operator cancelled a flow.
    FlowCancelRequested {
        /// The members to cancel.
        mode: CancelMode,
        /// The operator's reason.
        reason: Option<String>,
    },
    /// Its worker suspended the execution.
    Suspended {
        /// The suspension as requested, before earlier signals and elapsed times are applied.
        suspension: Suspension,
        /// The state that follows: waiting, if the suspension was fulfilled at once.
        next: Next,
        /// The digest of the report.
        digest: u64,
    },
    /// A signal was delivered to the execution.
    Signalled {
        /// The signal's number.
        number: u32,
        /// The signal's name.
        name: Name,
        source: Name,
        /// The id and name of the waitpoint through which it was delivered, if it was.
        waitpoint: Option<(WaitpointId, Name)>,
        /// The size of the payload, in bytes.
        bytes: u32,
        /// The effect of the delivery.
        effect: Effect,
    },
    /// Part of its suspension was fulfilled, and it remains suspended.
    Noticed {
        /// The fulfilled part.
        notice: SuspensionNotice,
    },
    /// The execution was resumed and waits for a worker.
    Resumed {
        /// The number of the suspension that ended.
        suspension: u32,
        /// The reason for the resumption.
        by: ResumedBy,
        /// The numbers of the signals that its waits took.
        signals: Vec<u32>,
        /// The names of the steps that were recorded.
        steps: Vec<Name>,
    },
    /// A wait of its suspension timed out and ended the execution.
    SuspensionTimedOut {
        /// The number of the suspension that ended.
        suspension: u32,
        /// The action set for the timeout.
        on_timeout: OnTimeout,
        /// The state that follows.
        next: Next,
    },
    /// A waitpoint was created, or its token was signed with another key.
    WaitpointCreated {
        /// The waitpoint's id.
        waitpoint: WaitpointId,
        /// The waitpoint's name.
        name: Name,
        /// The source of signals delivered through it.
        source: Name,
        /// The time at which it expires; none if it does not.
        expires_at: Option<Timestamp>,
    },
    WaitpointExpired {
        /// The waitpoint's id.
        waitpoint: WaitpointId,
        /// The waitpoint's name.
        name: Name,
    },
    /// An operator revoked the token of a waitpoint.
    WaitpointRevoked {
        /// The waitpoint's id.
        waitpoint: WaitpointId,
        /// The waitpoint's name.
        name: Name,
    },
    /// Its worker recorded a step.
    Stepped {
        /// The step's name.
        name: Name,
        /// The step's kind.
        kind: StepKind,
        /// The index of the attempt that recorded it.
        attempt: u32,
        /// The duration of the step, in milliseconds.
        duration_ms: i64,
        /// The size of the result, in bytes.
        bytes: u32,
    },
    /// An operator rotated the key that signs tokens.
    TokenKeysRotated {
        /// The new key.
        key: TokenKeyId,
        /// The time during which tokens of the old keys are still accepted, in milliseconds.
        grace_ms: i64,
    },
    /// A gate refused the execution and holds it.
    Held {
        gate: GateName,
        /// The gate's reason.
        reason: String,
        /// The time at which the gate may admit it, if known.
        until: Option<Timestamp>,
    },
    /// The gate that held the execution released it.
    Admitted {
        gate: GateName,
    },
    /// An operator configured a gate.
    GateConfigured {
        gate: GateName,
    },
    /// An operator removed the configuration of a gate.
    GateRemoved {
        gate: GateName,
    },
    /// A budget that the execution spends from is exhausted, and the execution was stopped.
    Breached {
        /// The lease that ended.
        lease: LeaseRef,
        gate: GateName,
        /// The state that follows.
        next: Next,
        /// The suspension that waits for the budget, if the execution is suspended.
        suspension: Option<Suspension>,
    },
    /// Usage was charged to a budget.
    Spent {
        gate: GateName,
        /// The execution that spent it, if one did.
        execution: Option<ExecutionId>,
        /// The amounts, by dimension.
        amounts: Amounts,
    },
    /// A budget reached a limit.
    LimitReached {
        gate: GateName,
        dimension: String,
        limit: Amount,
        used: Amount,
        /// True for the hard limit, false for the soft limit.
        hard: bool,
    },
    /// The usage of a budget was reset to zero.
    BudgetReset {
        gate: GateName,
        /// The new period.
        period: u32,
    },
    /// A lane whose limit was set counts the active execution.
    Adopted {
        gate: GateName,
    },
    /// Its worker acknowledged the request to cancel, which ended the execution.
    CancelAcknowledged {
        /// The lease that ended.
        lease: LeaseRef,
        /// The operator's reason.
        reason: Option<String>,
        /// The worker's message.
        message: Option<String>,
        /// The digest of the report.
        digest: u64,
    },
    /// An operator issued a new token of a waitpoint, which is open again.
    WaitpointReissued {
        /// The waitpoint's id.
        waitpoint: WaitpointId,
        /// The waitpoint's name.
        name: Name,
        /// The time at which it expires; none if it does not.
        expires_at: Option<Timestamp>,
    },
    /// Its parent is suspended until its children have ended, and awaits the end of this one.
    EndAwaited,
    /// An administrator created an API key.
    ApiKeyCreated {
        /// The key's id.
        key: ApiKeyId,
        /// The key's name.
        name: Name,
        /// The key's role.
        role: String,
        /// The namespaces in which the role applies.
        namespaces: Vec<Name>,
        /// The time from which the key is refused, if it expires.
        expires_at: Option<Timestamp>,
    },
    /// An administrator revoked an API key.
    ApiKeyRevoked {
        /// The key's id.
        key: ApiKeyId,
        /// The key's name.
        name: Name,
    },
    /// An operator started a bulk job.
    BulkJobStarted {
        job: BulkJobId,
        /// The name of its action.
        action: String,
    },
    /// A bulk job has met all its executions, or was stopped.
    BulkJobEnded {
        job: BulkJobId,
        /// The name of its state.
        state: String,
        /// The number of executions that it changed.
        changed: u64,
        /// The number of executions that needed no change.
        unchanged: u64,
        /// The number of executions that refused the action.
        refused: u64,
    },
    /// A further submission with its debounce key replaced its input and restarted its delay.
    Debounced {
        /// The new end of the delay.
        until: Timestamp,
    },
    WebhookChanged {
        webhook: Name,
        change: WebhookChange,
    },
    /// An operator created or changed a schedule.
    ScheduleSaved {
        /// The schedule's name.
        schedule: Name,
        /// True if it is paused.
        paused: bool,
    },
    /// An operator deleted a schedule.
    ScheduleDeleted {
        /// The schedule's name.
        schedule: Name,
    },
    /// A time of a schedule submitted an execution or a flow.
    ScheduleFired {
        /// The schedule's name.
        schedule: Name,
        /// The time that fired.
        scheduled_at: Timestamp,
        /// True if a caller asked for it.
        manual: bool,
        /// The execution or flow.
        run: RunSubject,
    },
    /// A time of a schedule started no run, because one lived or too many waited.
    ScheduleSkipped {
        /// The schedule's name.
        schedule: Name,
        scheduled_at: Timestamp,
    },
    /// The submission of a schedule was refused.
    ScheduleRefused {
        /// The schedule's name.
        schedule: Name,
        scheduled_at: Timestamp,
        /// The code of the refusal.
        code: String,
        /// The message of the refusal.
        detail: String,
    },
    /// A submission from SQL was refused when a server took it in.
    InboxRefused {
        /// The number of its row in the inbox.
        number: i64,
        /// The id that the caller got, of the execution or the flow.
        id: Uuid,
        /// The stable code of the reason.
        code: String,
        detail: String,
        /// The JSON pointer to the refused field.
        pointer: Option<String>,
    },
}

/// Shortens a message for a history line.
fn shorten(message: &mut String) {
    *message = shortened(std::mem::take(message), LINE_MESSAGE_LIMIT);
}

impl Fact {
    /// Returns the cause of the change; none for facts that are not about one execution.
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
            Fact::Cancelled { .. } | Fact::CancelAcknowledged { .. } => Cause::Cancel,
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
            Fact::WaitpointCreated { .. }
            | Fact::WaitpointExpired { .. }
            | Fact::WaitpointRevoked { .. }
            | Fact::WaitpointReissued { .. } => Cause::Waitpoint,
            Fact::Stepped { .. } => Cause::Step,
            Fact::Held { .. } => Cause::Hold,
            Fact::Admitted { .. } => Cause::Admit,
            Fact::Breached { .. } => Cause::Breach,
            Fact::Adopted { .. } => Cause::Adopt,
            Fact::EndAwaited => Cause::Await,
            Fact::Debounced { .. } => Cause::Debounce,
            Fact::Renewed { .. }
            | Fact::DrainRequested { .. }
            | Fact::FlowSubmitted { .. }
            | Fact::FlowGrown { .. }
            | Fact::FlowEnded { .. }
            | Fact::FlowReopened { .. }
            | Fact::FlowCancelRequested { .. }
            | Fact::TokenKeysRotated { .. }
            | Fact::ApiKeyCreated { .. }
            | Fact::ApiKeyRevoked { .. }
            | Fact::BulkJobStarted { .. }
            | Fact::BulkJobEnded { .. }
            | Fact::WebhookChanged { .. }
            | Fact::ScheduleSaved { .. }
            | Fact::ScheduleDeleted { .. }
            | Fact::ScheduleFired { .. }
            | Fact::ScheduleSkipped { .. }
            | Fact::ScheduleRefused { .. }
            | Fact::InboxRefused { .. }
            | Fact::GateConfigured { .. }
            | Fact::GateRemoved { .. }
            | Fact::Spent { .. }
            | Fact::LimitReached { .. }
            | Fact::BudgetReset { .. } => return None,
        })
    }

    /// Returns the error of the attempt that failed, without U+0000, also if it was stored with it. No other end has an error.
    pub fn error(&self) -> Option<Failure> {
        let Fact::Failed { error, .. } = self else { return None };
        let mut error = error.clone();
        replace_nul(&mut error.message);
        Some(error)
    }

    /// Returns the fact as the execution's history keeps it: with at most [`LINE_MESSAGE_LIMIT`] bytes of each message.
    pub fn shortened(mut self) -> Fact {
        match &mut self {
            Fact::Failed { error: Failure { message, .. }, .. } => {
                *message = shortened_error(message, LINE_MESSAGE_LIMIT);
            }
            Fact::CancelAcknowledged { reason, message, .. } => {
                reason.iter_mut().chain(message).for_each(shorten);
            }
            Fact::Revoked { reason, .. }
            | Fact::Cancelled { reason, .. }
            | Fact::CancelRequested { reason, .. } => reason.iter_mut().for_each(shorten),
            // No other fact has a message.
            _ => {}
        }
        self
    }

    /// Reports whether the fact is a line of the execution's history. Left out are facts that can occur thousands of
    /// times: progress, further submissions, undecided changes of upstreams, and signals, waitpoints and steps, which have rows of their
    /// own; and that a parent awaits its end, which changes nothing for the execution itself.
    pub fn is_history(&self) -> bool {
        self.cause().is_some()
            && !matches!(
                self,
                Fact::Progressed { .. }
                    | Fact::Debounced { .. }
                    | Fact::UpstreamChanged { .. }
                    | Fact::Signalled { .. }
                    | Fact::WaitpointCreated { .. }
                    | Fact::Stepped { .. }
                    | Fact::EndAwaited
            )
    }
}
