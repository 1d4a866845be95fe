//! One execution: what was submitted, where it stands, and what time will do to it next.

use crate::fact::{Failure, LeaseRef};
use crate::gate::RequiredGates;
use crate::join::Join;
use crate::refusal::{LeaseHolder, StaleLease};
use crate::suspension::ResumedBy;
use crate::wiring::{Node, Wiring};
use crate::{ClassId, ExecutionId, FlowId, History, Name, NamespaceId, Policy, Refusal, State, Timestamp};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// A level of priority is worth so much waiting: what is ready this much earlier comes first all the same. So a low priority
/// is late, and not never; and since nothing about the order changes while time passes, an index can serve it.
pub const AGEING_MS: i64 = 3_600_000;

/// The order in which claims take what is ready, and gates what they hold: by rank, then by id.
pub type ClaimOrder = (i64, ExecutionId);

/// An execution's row, without its payloads: input and result are carried beside it where they are needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Execution {
    /// Its id.
    pub id: ExecutionId,
    /// Its namespace.
    pub namespace: NamespaceId,
    /// Its claim class, which names lane, kind and capabilities.
    pub class: ClassId,
    /// Its flow; none where it is its own and has spawned nothing.
    pub flow: Option<FlowId>,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// What was settled at submission.
    pub spec: Arc<Spec>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Grows by one with every change.
    pub version: u32,
    /// Where it stands.
    pub state: State,
    /// Higher first: each level counts as [`AGEING_MS`] of waiting.
    pub priority: i16,
    /// Its place among the ready ones of the same priority: the time it became ready, made distinct within a batch.
    pub ready_order: Timestamp,
    /// How many leases it has had; the current or last one's epoch. Attempt indices are one less.
    pub epoch: u32,
    /// When the first attempt of this generation started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// What is rarely there.
    pub detail: Detail,
    /// Its history, the newest part.
    pub history: History,
    /// How it is wired into its flow; none where it is alone.
    pub wiring: Option<Arc<Wiring>>,
    /// The group of the edges into it; none where there are none.
    pub join: Option<Join>,
}

/// What was settled at submission and never changes.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// Its policy.
    #[serde(skip_serializing_if = "is_default")]
    pub policy: Policy,
    /// Its idempotency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Name>,
    /// How long that key stands for it, from submission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_window_ms: Option<i64>,
    /// Its uniqueness key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_while_active: Option<Name>,
    /// Digest of the submission, kept where a repeat could come: with a caller's id, and for what was spawned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<u64>,
    /// Its place in a flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// The gates that it goes through.
    #[serde(skip_serializing_if = "RequiredGates::is_empty", rename = "draws")]
    pub required_gates: RequiredGates,
}

/// What changes and is rarely there.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Detail {
    /// How often it was replayed.
    #[serde(skip_serializing_if = "is_default")]
    pub generation: u32,
    /// When the current generation began, where that is not the submission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed_at: Option<Timestamp>,
    /// Retries charged in this generation.
    #[serde(skip_serializing_if = "is_default")]
    pub retries: u32,
    /// Interruptions charged in this generation.
    #[serde(skip_serializing_if = "is_default")]
    pub interruptions: u32,
    /// The interrupted lease that made it ready again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<LeaseRef>,
    /// A cancel its worker was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelRequest>,
    /// The newest error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// The newest progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// How many pages of history were moved out of the row.
    #[serde(skip_serializing_if = "is_default")]
    pub history_pages: u32,
    /// What was recorded beside it: signals, waitpoints, steps.
    #[serde(skip_serializing_if = "is_default")]
    pub record: RecordSummary,
    /// What its claim has taken, and its end gives back.
    #[serde(skip_serializing_if = "is_default")]
    pub slots: Slots,
    /// Of the one of its fairness key that may be claimed: its priority. Keys take turns whatever their priorities are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<i16>,
}

/// What a claim has taken.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Slots {
    /// A slot of this lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<Name>,
    /// Slots of its key and its quotas, and what it may spend of its budgets.
    #[serde(skip_serializing_if = "is_default")]
    pub drawn: bool,
    /// Of which part of each of its budgets, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Option<Name>>,
}

/// How much was recorded beside an execution. Whatever is recorded there raises the execution's version, so its row is the
/// lock for all of it.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordSummary {
    /// Signals that were delivered.
    #[serde(skip_serializing_if = "is_default")]
    pub signals: u32,
    /// Those of them that no wait has taken yet.
    #[serde(skip_serializing_if = "is_default")]
    pub untaken: u32,
    /// Waitpoints that were made.
    #[serde(skip_serializing_if = "is_default")]
    pub waitpoints: u32,
    /// Steps that were begun.
    #[serde(skip_serializing_if = "is_default")]
    pub steps: u32,
    /// Suspensions.
    #[serde(skip_serializing_if = "is_default")]
    pub suspensions: u32,
    /// The bytes of payloads and results.
    #[serde(skip_serializing_if = "is_default")]
    pub bytes: u64,
    /// What ended the newest suspension: its claims carry the signals that it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_by: Option<ResumedBy>,
    /// When the next open waitpoint expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl RecordSummary {
    /// Whether a claim carries something of it.
    pub fn is_carried(&self) -> bool {
        self.steps > 0 || self.signals > 0
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What an execution that was alone is called in the flow of what it spawned.
pub const ROOT: &str = "root";

/// A cancel that a worker was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CancelRequest {
    /// Who asked.
    pub actor: Option<Name>,
    /// Why.
    pub reason: Option<String>,
    /// The end of the grace period.
    pub until: Timestamp,
}

/// How far a worker has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// 0 to 100.
    pub percent: Option<f64>,
    /// In words.
    pub message: Option<String>,
}

/// What time does next, and to which reconciler it falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DueKind {
    /// A delay ends, or a time comes that a suspended one waits for: `delay_promoter`.
    Delay,
    /// A deadline, a start-by or a grace period ends: `execution_deadline`.
    Deadline,
    /// An attempt has run too long: `attempt_timeout`.
    AttemptTimeout,
    /// It may be deleted: `retention`.
    Retention,
    /// It has been suspended for too long: `suspension_timeout`.
    SuspensionTimeout,
    /// One of its waitpoints expires: `waitpoint_expiry`.
    WaitpointExpiry,
}

impl DueKind {
    /// Every kind.
    pub const ALL: [DueKind; 6] = [
        Self::Delay,
        Self::Deadline,
        Self::AttemptTimeout,
        Self::Retention,
        Self::SuspensionTimeout,
        Self::WaitpointExpiry,
    ];

    /// The number a store keeps. Stable for ever.
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

/// The next thing time does to an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// When.
    pub at: Timestamp,
    /// What.
    pub kind: DueKind,
}

/// The rank of one that became ready at this time, in microseconds.
pub fn rank(ready_order: i64, priority: i16) -> i64 {
    ready_order - i64::from(priority) * AGEING_MS * 1000
}

impl Execution {
    /// The priority that claims see. The heads of fairness keys are alike; in the line of a key priorities count.
    pub fn claim_priority(&self) -> i16 {
        if self.detail.head.is_some() { 0 } else { self.priority }
    }

    /// Smaller first: when it became ready, in microseconds, and earlier by its priority.
    pub fn rank(&self) -> i64 {
        rank(self.ready_order.micros(), self.claim_priority())
    }

    /// Its place among those that claims, or gates, let go on.
    pub fn claim_order(&self) -> ClaimOrder {
        (self.rank(), self.id)
    }

    /// The flow it belongs to: its own, where it is alone.
    pub fn flow(&self) -> FlowId {
        self.flow.unwrap_or(FlowId(self.id.0))
    }

    /// Its name in its flow; an execution that was alone when it spawned others is called `root`.
    pub fn node(&self) -> Option<&str> {
        match &self.spec.node {
            Some(node) => Some(&node.name),
            None => self.flow.map(|_| ROOT),
        }
    }

    /// Its wiring.
    pub fn wiring(&self) -> &Wiring {
        static NONE: Wiring = Wiring { upstreams: Vec::new(), downstreams: Vec::new(), children: Vec::new() };
        self.wiring.as_deref().unwrap_or(&NONE)
    }

    /// When its current generation began: submission, or the last replay.
    pub fn opened_at(&self) -> Timestamp {
        self.detail.replayed_at.unwrap_or(self.submitted_at)
    }

    /// The attempt that is running or ran last.
    pub fn attempt(&self) -> Option<u32> {
        self.epoch.checked_sub(1)
    }

    /// Its deadline: its own, or its flow's. One that an operator opened again is no longer under its flow's.
    pub fn deadline_at(&self) -> Option<Timestamp> {
        let own = self.spec.policy.deadline_ms.map(|ms| self.opened_at().plus_ms(ms));
        let flow = self.spec.node.as_ref().and_then(|node| node.flow_deadline_at);
        own.into_iter().chain(flow.filter(|_| self.detail.replayed_at.is_none())).min()
    }

    /// When it must have started first, while it has not.
    pub fn start_by_at(&self) -> Option<Timestamp> {
        let waits = self.started_at.is_none();
        self.spec.policy.start_by_ms.filter(|_| waits).map(|ms| self.opened_at().plus_ms(ms))
    }

    /// When its running attempt times out.
    pub fn attempt_timeout_at(&self) -> Option<Timestamp> {
        let lease = self.state.lease()?;
        self.spec.policy.attempt_timeout_ms.map(|ms| lease.claimed_at.plus_ms(ms))
    }

    /// When it may be deleted: after its retention, and not before its idempotency key stops standing for it. A member of
    /// a flow goes with its flow.
    pub fn delete_at(&self) -> Option<Timestamp> {
        let ended_at = self.ended_at.filter(|_| self.flow.is_none())?;
        let kept = ended_at.plus_ms(self.spec.policy.retention_ms);
        Some(self.key_until().map_or(kept, |until| until.max(kept)))
    }

    /// Until when its idempotency key stands for it even after its end.
    pub fn key_until(&self) -> Option<Timestamp> {
        self.spec.idempotency_window_ms.map(|ms| self.submitted_at.plus_ms(ms))
    }

    /// The next thing time does to it.
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

    /// The current lease in the form facts carry.
    pub fn lease_ref(&self) -> Option<LeaseRef> {
        self.state.lease().map(|lease| LeaseRef {
            id: lease.id,
            epoch: self.epoch,
            worker: lease.worker.clone(),
            instance: lease.instance.clone(),
        })
    }

    /// What a worker with another fence is told.
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
