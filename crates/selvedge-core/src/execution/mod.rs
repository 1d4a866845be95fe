//! An execution: its specification, its state, and the next timer that is due for it.

pub mod history;
pub mod policy;
pub mod state;
pub mod submission;
pub mod transition;

use crate::fact::{Failure, LeaseRef};
use crate::gate::RequiredGates;
use crate::join::Join;
use crate::refusal::{LeaseHolder, StaleLease};
use crate::schedule::Scheduled;
use crate::submission::Debounce;
use crate::suspension::ResumedBy;
use crate::wiring::{Node, Wiring};
use crate::{
    ClassId, ExecutionId, FlowId, History, Name, NamespaceId, Outcome, Policy, Refusal, State, Timestamp,
    TraceParent,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// The waiting time that one level of priority is worth, in milliseconds. An execution that has waited this much longer
/// comes before one of the next higher priority, so low priorities are late but never starve. The order does not change
/// while time passes, so an index can serve it.
pub const AGEING_MS: i64 = 3_600_000;

/// The order in which claims take waiting executions and gates release held ones: by rank, then by id.
pub type ClaimOrder = (i64, ExecutionId);

/// The row of an execution: one unit of work, from its submission to its outcome. Input and result are stored beside
/// the row and loaded only when needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Execution {
    pub id: ExecutionId,
    /// The namespace that owns it.
    pub namespace: NamespaceId,
    /// The claim class: lane, kind and capabilities.
    pub class: ClassId,
    /// The flow it belongs to; none for an execution that was submitted alone and has spawned nothing.
    pub flow: Option<FlowId>,
    /// The time of submission.
    pub submitted_at: Timestamp,
    /// The specification, fixed at submission.
    pub spec: Arc<Spec>,
    /// The tags, by name.
    pub tags: BTreeMap<String, String>,
    /// The version of the row. Every change raises it by one.
    pub version: u32,
    /// The current state.
    pub state: State,
    /// The priority. Higher first: each level is worth [`AGEING_MS`] of waiting.
    pub priority: i16,
    /// The position among waiting executions of the same priority: the time at which it began to wait for a worker,
    /// made distinct within a batch.
    pub ready_order: Timestamp,
    /// The epoch of the current or last lease: the number of leases so far. An attempt's index is its epoch less one.
    pub epoch: u32,
    /// The start of the first attempt of this generation.
    pub started_at: Option<Timestamp>,
    /// The time at which the execution ended.
    pub ended_at: Option<Timestamp>,
    /// Fields that most executions leave at their defaults.
    pub detail: Detail,
    /// The newest part of the execution's history.
    pub history: History,
    /// The edges and children of the execution; none if it has neither.
    pub wiring: Option<Arc<Wiring>>,
    /// The group of the edges into it; none if it has no upstreams.
    pub join: Option<Join>,
}

/// The part of an execution that is fixed at submission.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// Retries, timeouts, deadline and retention.
    #[serde(skip_serializing_if = "is_default")]
    pub policy: Policy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Name>,
    /// The time from submission during which the idempotency key returns this execution, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_window_ms: Option<i64>,
    /// The uniqueness key: at most one execution that has not ended has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_while_active: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debounce: Option<Debounce>,
    /// The digest of the submission. Kept only where the submission may be repeated: with an id from the caller, and
    /// for spawned children.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<u64>,
    /// The node of a flow that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// The gates that must admit it.
    #[serde(skip_serializing_if = "RequiredGates::is_empty", rename = "draws")]
    pub required_gates: RequiredGates,
    /// The span that submitted it, if the submission named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceParent>,
    /// The schedule and the time that submitted it, or its flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<Scheduled>,
}

/// Changing fields that most executions leave at their defaults.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Detail {
    /// The number of times the execution was replayed or reopened.
    #[serde(skip_serializing_if = "is_default")]
    pub generation: u32,
    /// The start of the current generation; none in the first, which begins at submission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed_at: Option<Timestamp>,
    /// The retries charged in this generation.
    #[serde(skip_serializing_if = "is_default")]
    pub retries: u32,
    /// The interruptions charged in this generation.
    #[serde(skip_serializing_if = "is_default")]
    pub interruptions: u32,
    /// The part of them before the last progress: a recorded step or the end of a wait that has a step. The policy limits the rest.
    #[serde(skip_serializing_if = "is_default")]
    pub interruptions_before_progress: u32,
    /// The expired lease whose interruption made the execution claimable again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<LeaseRef>,
    /// A cancellation requested from its worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelRequest>,
    /// The operator who cancelled it; none unless it ended by that cancellation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<Name>,
    /// The latest error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// The latest progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The number of history pages that were moved out of the row.
    #[serde(skip_serializing_if = "is_default")]
    pub history_pages: u32,
    /// A summary of the signals, waitpoints and steps stored beside the row.
    #[serde(skip_serializing_if = "is_default")]
    pub record: RecordSummary,
    /// The slots and reservations that its claim took and the end of the attempt gives back.
    #[serde(skip_serializing_if = "is_default")]
    pub slots: Slots,
    /// The lease that a used-up budget ended by suspending the execution. Until the next claim, the worker may still end
    /// the attempt under it, so that a result that was paid for is not lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breached: Option<LeaseRef>,
    /// The `ready_order` that it had when a gate released it first. If it is held again, it returns to this place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Timestamp>,
    /// The own priority of the head of a fairness line: the one execution of the line that may be claimed. Claims ignore
    /// it, because lines take turns regardless of priority; none for all other executions. Stored as `head`.
    #[serde(rename = "head", skip_serializing_if = "Option::is_none")]
    pub own_priority: Option<i16>,
    /// True if its parent awaits its end: see `rules/flows/children.rs`.
    #[serde(skip_serializing_if = "is_default")]
    pub end_awaited: bool,
}

impl Detail {
    /// Returns the interruptions since the last progress, which the policy limits.
    pub fn interruptions_without_progress(&self) -> u32 {
        self.interruptions.saturating_sub(self.interruptions_before_progress)
    }

    pub(crate) fn note_progress(&mut self) {
        self.interruptions_before_progress = self.interruptions;
    }

    /// Replaces the character U+0000 in texts of callers: Postgres cannot convert JSON that contains it to text, so one such
    /// text would fail every query of a view. Names never contain it.
    pub(crate) fn replace_nul(&mut self) {
        let Detail { error, progress, cancel, .. } = self;
        let error = error.as_mut().map(|error| &mut error.message);
        let progress = progress.as_mut().and_then(|progress| progress.message.as_mut());
        let reason = cancel.as_mut().and_then(|cancel| cancel.reason.as_mut());
        [error, progress, reason].into_iter().flatten().for_each(crate::text::replace_nul);
    }
}

/// The slots and reservations that a claim took.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Slots {
    /// The lane of which it took a slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<Name>,
    /// True if it took slots of its concurrency key and quotas and reserved amounts of its budgets.
    #[serde(skip_serializing_if = "is_default")]
    pub drawn: bool,
    /// The part of each of its budgets that holds the reservation, in the order of the budgets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Option<Name>>,
}

/// A summary of the signals, waitpoints and steps that are stored beside an execution. Every change of them also raises
/// the execution's version, so the lock on its row covers them all.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordSummary {
    /// The number of delivered signals.
    #[serde(skip_serializing_if = "is_default")]
    pub signals: u32,
    /// The number of signals that no wait has taken yet.
    #[serde(skip_serializing_if = "is_default")]
    pub untaken: u32,
    /// The number of waitpoints.
    #[serde(skip_serializing_if = "is_default")]
    pub waitpoints: u32,
    /// The number of steps, open ones included.
    #[serde(skip_serializing_if = "is_default")]
    pub steps: u32,
    /// The number of suspensions.
    #[serde(skip_serializing_if = "is_default")]
    pub suspensions: u32,
    /// The total size of signal payloads and step results, in bytes.
    #[serde(skip_serializing_if = "is_default")]
    pub bytes: u64,
    /// The end of the latest suspension. Later claims carry the signals that it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_by: Option<ResumedBy>,
    /// The earliest expiry of an open waitpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl RecordSummary {
    /// Reports whether a claim carries steps or signals.
    pub fn is_carried(&self) -> bool {
        self.steps > 0 || self.signals > 0
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The node name of an execution that was submitted alone, in the flow that it created by spawning.
pub const ROOT: &str = "root";

/// A cancellation requested from a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CancelRequest {
    /// The operator who requested it.
    pub actor: Option<Name>,
    /// The operator's reason.
    pub reason: Option<String>,
    /// The end of the grace period.
    pub until: Timestamp,
}

/// Progress reported by a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The percentage done, 0 to 100.
    pub percent: Option<f64>,
    /// The progress in words.
    pub message: Option<String>,
    /// Digests of the `op_id`s of the lease's latest reports of progress, oldest first; at most [`Progress::REPORTS_MAX`].
    /// A repeated report changes nothing, even if a newer one has arrived since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<u32>,
}

impl Progress {
    /// Maximum number of reports of progress that are remembered.
    pub const REPORTS_MAX: usize = 32;
}

/// A kind of timer, and the reconciler that fires it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DueKind {
    /// A delay ends, or a suspended execution reaches a time it waits for: `delay_promoter`.
    Delay,
    /// A deadline, a start-by time or a grace period passes: `execution_deadline`.
    Deadline,
    /// An attempt exceeds its timeout: `attempt_timeout`.
    AttemptTimeout,
    /// The retention of an ended execution passes: `retention`.
    Retention,
    /// A wait of a suspension times out: `suspension_timeout`.
    SuspensionTimeout,
    /// A waitpoint expires: `waitpoint_expiry`.
    WaitpointExpiry,
}

impl DueKind {
    pub const ALL: [DueKind; 6] = [
        Self::Delay,
        Self::Deadline,
        Self::AttemptTimeout,
        Self::Retention,
        Self::SuspensionTimeout,
        Self::WaitpointExpiry,
    ];

    /// Returns the number under which stores keep this kind. Never changes.
    pub fn code(self) -> i16 {
        match self {
            Self::Delay => 1,
            Self::Deadline => 2,
            Self::AttemptTimeout => 3,
            Self::Retention => 4,
            Self::SuspensionTimeout => 5,
            Self::WaitpointExpiry => 6,
        }
    }
}

/// The next timer of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// The time at which it is due.
    pub at: Timestamp,
    /// The kind of timer.
    pub kind: DueKind,
}

/// Returns the rank of an execution with this `ready_order`, in microseconds, and this priority.
pub fn rank(ready_order: i64, priority: i16) -> i64 {
    ready_order - i64::from(priority) * AGEING_MS * 1000
}

impl Execution {
    /// Reports whether the execution was skipped: the only end that an update of its upstreams undoes.
    pub fn is_skipped(&self) -> bool {
        self.state == State::Terminal(Outcome::Skipped)
    }

    /// Returns the priority that claims see. The heads of fairness lines all have priority 0; inside a line priorities
    /// count.
    pub fn claim_priority(&self) -> i16 {
        if self.detail.own_priority.is_some() { 0 } else { self.priority }
    }

    /// Returns the rank, in microseconds: `ready_order`, moved forward by the priority. Claims take the smallest first.
    pub fn rank(&self) -> i64 {
        rank(self.ready_order.micros(), self.claim_priority())
    }

    /// Returns the position in the order of claims and of gates.
    pub fn claim_order(&self) -> ClaimOrder {
        (self.rank(), self.id)
    }

    /// Returns the flow it belongs to. An execution that was submitted alone is a flow of its own, with the same id.
    pub fn flow(&self) -> FlowId {
        self.flow.unwrap_or(FlowId(self.id.0))
    }

    /// Returns the name of its node; `root` for an execution that was submitted alone and then spawned others.
    pub fn node(&self) -> Option<&str> {
        match &self.spec.node {
            Some(node) => Some(&node.name),
            None => self.flow.map(|_| ROOT),
        }
    }

    /// Reports whether its end or its reopening, which has just happened, is enqueued for its parent. A parent that looks
    /// through many children in several transactions must learn that one of them reopened.
    pub(crate) fn tells_parent(&self) -> bool {
        let node = self.spec.node.as_ref().filter(|node| node.parent.is_some());
        let reopened = self.state.outcome().is_none();
        node.is_some_and(|node| reopened || self.detail.end_awaited || !node.tells_if_awaited)
    }

    /// Returns its edges and children.
    pub fn wiring(&self) -> &Wiring {
        static NONE: Wiring = Wiring { upstreams: Vec::new(), downstreams: Vec::new(), children: Vec::new() };
        self.wiring.as_deref().unwrap_or(&NONE)
    }

    /// Returns the start of the current generation: the submission or the last replay.
    pub fn opened_at(&self) -> Timestamp {
        self.detail.replayed_at.unwrap_or(self.submitted_at)
    }

    /// Returns the index of the current or last attempt.
    pub fn attempt(&self) -> Option<u32> {
        self.epoch.checked_sub(1)
    }

    /// Reports whether it waits until no further submission with its debounce key has come for a while: it has not been
    /// claimed yet, and its delay is not over.
    pub fn waits_for_quiet(&self) -> bool {
        self.spec.debounce.is_some() && self.epoch == 0 && matches!(self.state, State::Delayed { .. })
    }

    /// Returns the time after which further submissions delay it no more.
    pub fn debounced_until(&self) -> Option<Timestamp> {
        self.spec.debounce.as_ref()?.max_ms.map(|max_ms| self.submitted_at.plus_ms(max_ms))
    }

    /// Returns the earlier of its own and its flow's deadline. After a replay, its flow's deadline no longer applies.
    pub fn deadline_at(&self) -> Option<Timestamp> {
        let own = self.spec.policy.deadline_ms.map(|ms| self.opened_at().plus_ms(ms));
        let flow = self.spec.node.as_ref().and_then(|node| node.flow_deadline_at);
        own.into_iter().chain(flow.filter(|_| self.detail.replayed_at.is_none())).min()
    }

    /// Returns the time by which the first attempt must start; none once it has started.
    pub fn start_by_at(&self) -> Option<Timestamp> {
        let unstarted = self.started_at.is_none();
        self.spec.policy.start_by_ms.filter(|_| unstarted).map(|ms| self.opened_at().plus_ms(ms))
    }

    /// Returns the time at which the current attempt times out.
    pub fn attempt_timeout_at(&self) -> Option<Timestamp> {
        let lease = self.state.lease()?;
        self.spec.policy.attempt_timeout_ms.map(|ms| lease.claimed_at.plus_ms(ms))
    }

    /// Returns the time at which it may be deleted: after its retention and after the window of its idempotency key. A
    /// member of a flow is deleted with its flow.
    pub fn delete_at(&self) -> Option<Timestamp> {
        let ended_at = self.ended_at.filter(|_| self.flow.is_none())?;
        let kept = ended_at.plus_ms(self.spec.policy.retention_ms);
        Some(self.key_until().map_or(kept, |until| until.max(kept)))
    }

    /// Returns the end of the window in which its idempotency key returns it, even after it has ended.
    pub fn key_until(&self) -> Option<Timestamp> {
        self.spec.idempotency_window_ms.map(|ms| self.submitted_at.plus_ms(ms))
    }

    /// Returns its next timer.
    pub fn due(&self) -> Option<Due> {
        let due = |kind: DueKind, at: Option<Timestamp>| at.map(|at| Due { at, kind });
        let deadline = due(DueKind::Deadline, self.deadline_at());
        let start_by = due(DueKind::Deadline, self.start_by_at());
        let expiry = due(DueKind::WaitpointExpiry, self.detail.record.expires_at);
        match &self.state {
            State::WaitingDependencies | State::Waiting | State::Held(_) => {
                [deadline, start_by, expiry, None]
            }
            State::Delayed { until } => [deadline, start_by, expiry, due(DueKind::Delay, Some(*until))],
            State::Active(_) => [
                deadline,
                due(DueKind::AttemptTimeout, self.attempt_timeout_at()),
                due(DueKind::Deadline, self.detail.cancel.as_ref().map(|cancel| cancel.until)),
                expiry,
            ],
            State::Suspended(suspension) => [
                deadline,
                due(DueKind::Delay, suspension.next_time()),
                due(DueKind::SuspensionTimeout, suspension.times_out_at()),
                expiry,
            ],
            State::Terminal(_) => [due(DueKind::Retention, self.delete_at()), None, None, None],
        }
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns the current lease in the form that facts carry.
    pub fn lease_ref(&self) -> Option<LeaseRef> {
        self.state.lease().map(|lease| LeaseRef {
            id: lease.id,
            epoch: self.epoch,
            worker: lease.worker.clone(),
            instance: lease.instance.clone(),
        })
    }

    /// Returns the refusal for a report whose fence is not the current one.
    pub fn stale(&self) -> Refusal {
        Refusal::StaleLease(Box::new(StaleLease {
            execution: self.id,
            state: self.state.name().as_str().into(),
            outcome: self.state.outcome(),
            holder: self.state.lease().map(|lease| LeaseHolder {
                worker: lease.worker.to_string(),
                instance: lease.instance.to_string(),
                lease_id: lease.id,
                epoch: self.epoch,
                claimed_at: lease.claimed_at,
            }),
        }))
    }
}
