//! What happened: one fact for each change, recorded in the execution's own history and in the event log.
//!
//! A fact is stored compactly and told as one or more public events: a claim, for instance, is one fact and is told as
//! `lease.acquired` and `execution.started`. The names and data of the public events stand in [`Fact::tell`] and nowhere
//! else.
//!
//! Facts are stored with postcard, which has no field names. So: append variants, never change, reorder or remove one.

use crate::flow::{CancelMode, FlowState};
use crate::join::{Edge, JoinPolicy, Verdict};
use crate::{ExecutionId, FailureClass, LeaseId, Name, Outcome, Timestamp, transition::Cause};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
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
    /// Ready again.
    Ready,
    /// Delayed until then.
    Delayed(Timestamp),
    /// The execution ended.
    Terminal(Outcome),
}

/// An edge that heard of its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeardEdge {
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
    /// The lease lapsed.
    Lapsed {
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
    SubmittedBlocked {
        /// For how many.
        upstreams: u32,
    },
    /// It heard of upstreams, and that decided nothing.
    Heard {
        /// The edges that changed.
        edges: Vec<HeardEdge>,
    },
    /// Its group of edges decided.
    Joined {
        /// The edges that changed.
        edges: Vec<HeardEdge>,
        /// The policy.
        policy: JoinPolicy,
        /// What was decided.
        decision: Verdict,
        /// What followed.
        next: Next,
    },
    /// It was skipped, and what made it so may be different now.
    Reopened {
        /// The edges that changed.
        edges: Vec<HeardEdge>,
        /// Its new generation.
        generation: u32,
    },
    /// An operator ran it again, and it waits for its upstreams again.
    ReplayedBlocked {
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
}

/// A public event: its type and its data.
pub type Told = (&'static str, Value);

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
            Fact::Lapsed { .. } => Cause::Lapse,
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
            Fact::SubmittedBlocked { .. } => Cause::Submit,
            Fact::Heard { .. } => Cause::Hear,
            Fact::Joined { .. } => Cause::Join,
            Fact::Reopened { .. } => Cause::Reopen,
            Fact::ReplayedBlocked { .. } => Cause::Replay,
            Fact::Wired { .. } => Cause::Wire,
            Fact::Renewed { .. }
            | Fact::DrainRequested { .. }
            | Fact::FlowSubmitted { .. }
            | Fact::FlowGrown { .. }
            | Fact::FlowEnded { .. }
            | Fact::FlowReopened { .. }
            | Fact::FlowCancelRequested { .. } => return None,
        })
    }

    /// Whether it is a line of the execution's own history: every change but progress and news of upstreams that decided
    /// nothing, of which there may be thousands.
    pub fn is_history(&self) -> bool {
        self.cause().is_some() && !matches!(self, Fact::Progressed { .. } | Fact::Heard { .. })
    }

    /// The public events that tell this fact, in order.
    pub fn tell(&self) -> Vec<Told> {
        match self {
            Fact::Submitted { delayed_until } => {
                vec![("execution.submitted", timed("delayed_until_at", *delayed_until))]
            }
            Fact::DelayOver => vec![("execution.ready", json!({}))],
            Fact::Claimed { lease, ttl_ms, after } => {
                let mut data = lease_data(lease);
                data.insert("ttl_ms".into(), json!(ttl_ms));
                let kind = match after {
                    None => "lease.acquired",
                    Some(previous) => {
                        data.insert("previous".into(), Value::Object(lease_data(previous)));
                        "lease.reclaimed"
                    }
                };
                vec![
                    (kind, Value::Object(data)),
                    ("execution.started", json!({ "attempt": lease.attempt() })),
                ]
            }
            Fact::Completed { attempt, .. } => vec![
                ("attempt.ended", json!({ "attempt": attempt, "outcome": "success" })),
                ("execution.succeeded", json!({ "attempt": attempt })),
            ],
            Fact::Failed { lease, error, next, .. } => {
                ended(lease, "failed", Some(error), *next, "execution.retry_scheduled")
            }
            Fact::TimedOut { lease, next } => {
                ended(lease, "timeout", None, *next, "execution.retry_scheduled")
            }
            Fact::Lapsed { lease, next } => with_lease(
                "lease.expired",
                lease,
                None,
                ended(lease, "interrupted", None, *next, "execution.delayed"),
            ),
            Fact::Delayed { lease, next, .. } => ended(lease, "delayed", None, *next, "execution.delayed"),
            Fact::Released { lease, next, .. } => with_lease(
                "lease.released",
                lease,
                None,
                ended(lease, "released", None, *next, "execution.delayed"),
            ),
            Fact::Orphaned { lease, next } => with_lease(
                "lease.orphaned",
                lease,
                None,
                ended(lease, "orphaned", None, *next, "execution.delayed"),
            ),
            Fact::Revoked { lease, reason, next } => {
                let after = ended(lease, "revoked", None, *next, "execution.delayed");
                with_lease("lease.revoked", lease, reason.as_deref(), after)
            }
            Fact::Cancelled { lease, reason } => {
                let last = ("execution.cancelled", json!({ "reason": reason }));
                taken_away(lease.as_ref(), "cancelled", reason.as_deref().unwrap_or("cancelled"), last)
            }
            Fact::CancelRequested { reason, until } => {
                let mut data = timed("until_at", Some(*until));
                data["reason"] = json!(reason);
                vec![("execution.cancel_requested", data)]
            }
            Fact::DeadlinePassed { lease } => {
                let last = ("execution.expired", json!({ "reason": "deadline" }));
                taken_away(lease.as_ref(), "expired", "deadline", last)
            }
            Fact::StartByPassed => vec![("execution.expired", json!({ "reason": "start_by" }))],
            Fact::Rescheduled { next } => {
                let mut told = vec![("operator.rescheduled", json!({}))];
                told.extend(followed(*next, "execution.delayed", json!({})));
                told
            }
            Fact::Replayed { generation } => {
                vec![
                    ("execution.replayed", json!({ "generation": generation })),
                    ("execution.ready", json!({})),
                ]
            }
            Fact::Progressed { percent, message } => {
                vec![("execution.progressed", json!({ "percent": percent, "message": message }))]
            }
            Fact::Prioritised { from, to } => {
                vec![("operator.prioritised", json!({ "from": from, "to": to }))]
            }
            Fact::Tagged { set, remove } => {
                vec![("operator.tagged", json!({ "set": set, "remove": remove }))]
            }
            Fact::Renewed { worker, instance, leases } => {
                let leases: Vec<Value> = leases
                    .iter()
                    .map(|lease| {
                        json!({
                            "execution": lease.execution, "lease_id": lease.id, "epoch": lease.epoch,
                            "attempt": lease.epoch - 1,
                        })
                    })
                    .collect();
                vec![("lease.renewed", json!({ "worker": worker, "instance": instance, "leases": leases }))]
            }
            Fact::DrainRequested { instance } => {
                vec![("operator.drain_requested", json!({ "instance": instance }))]
            }
            Fact::SubmittedBlocked { upstreams } => {
                vec![("execution.submitted", json!({ "upstreams": upstreams }))]
            }
            Fact::Heard { edges } => heard(edges),
            Fact::Joined { edges, policy, decision, next } => {
                let mut told = heard(edges);
                let data = json!({ "policy": policy.as_str(), "decision": decision.as_str() });
                told.push(("group.decided", data));
                told.extend(followed(*next, "execution.delayed", json!({})));
                told
            }
            Fact::Reopened { edges, generation } => {
                let mut told = heard(edges);
                told.push(("execution.reopened", json!({ "generation": generation })));
                told
            }
            Fact::ReplayedBlocked { generation } => {
                vec![("execution.replayed", json!({ "generation": generation }))]
            }
            Fact::Wired { upstreams, downstreams, children } => {
                let data =
                    json!({ "upstreams": upstreams, "downstreams": downstreams, "children": children });
                vec![("execution.wired", data)]
            }
            Fact::FlowSubmitted { name, nodes, edges } => {
                vec![("flow.submitted", json!({ "name": name, "nodes": nodes, "edges": edges }))]
            }
            Fact::FlowGrown { nodes, edges, parent } => {
                vec![("flow.grown", json!({ "nodes": nodes, "edges": edges, "parent": parent }))]
            }
            Fact::FlowEnded { state } => vec![match state {
                FlowState::Running | FlowState::Completed => ("flow.completed", json!({})),
                FlowState::Failed => ("flow.failed", json!({})),
                FlowState::Cancelled => ("flow.cancelled", json!({})),
            }],
            Fact::FlowReopened { execution } => {
                vec![("flow.reopened", json!({ "execution": execution }))]
            }
            Fact::FlowCancelRequested { mode, reason } => {
                vec![("flow.cancel_requested", json!({ "mode": mode.as_str(), "reason": reason }))]
            }
        }
    }
}

/// `edge.resolved`, for each edge.
fn heard(edges: &[HeardEdge]) -> Vec<Told> {
    let tell = |heard: &HeardEdge| {
        let data = json!({
            "upstream": heard.upstream, "generation": heard.edge.generation,
            "resolution": heard.edge.resolution.as_str(),
        });
        ("edge.resolved", data)
    };
    edges.iter().map(tell).collect()
}

/// Every type of public event that the facts of this file are told as, for filters to be checked against.
pub const EVENT_TYPES: &[&str] = &[
    "execution.submitted",
    "execution.ready",
    "execution.started",
    "execution.succeeded",
    "execution.failed",
    "execution.cancelled",
    "execution.expired",
    "execution.skipped",
    "execution.retry_scheduled",
    "execution.delayed",
    "execution.cancel_requested",
    "execution.progressed",
    "execution.replayed",
    "execution.reopened",
    "execution.wired",
    "attempt.ended",
    "lease.acquired",
    "lease.renewed",
    "lease.expired",
    "lease.reclaimed",
    "lease.revoked",
    "lease.orphaned",
    "lease.released",
    "operator.rescheduled",
    "operator.prioritised",
    "operator.tagged",
    "operator.drain_requested",
    "edge.resolved",
    "group.decided",
    "flow.submitted",
    "flow.grown",
    "flow.completed",
    "flow.failed",
    "flow.cancelled",
    "flow.reopened",
    "flow.cancel_requested",
];

/// A time inside event data, in milliseconds; the edge writes it as text.
fn timed(field: &str, time: Option<Timestamp>) -> Value {
    match time {
        Some(time) => json!({ field: time.millis() }),
        None => json!({}),
    }
}

fn lease_data(lease: &LeaseRef) -> Map<String, Value> {
    let Value::Object(data) = json!({
        "lease_id": lease.id, "epoch": lease.epoch, "attempt": lease.attempt(),
        "worker": lease.worker, "instance": lease.instance,
    }) else {
        unreachable!("an object literal is an object")
    };
    data
}

/// `attempt.ended`, and what followed it; `delayed` is the type told when it was put off.
fn ended(
    lease: &LeaseRef,
    outcome: &str,
    error: Option<&Failure>,
    next: Next,
    delayed: &'static str,
) -> Vec<Told> {
    let mut data = json!({ "attempt": lease.attempt(), "outcome": outcome });
    if let Some(error) = error {
        data["error"] = json!(error);
    }
    let mut told = vec![("attempt.ended", data.clone())];
    told.extend(followed(next, delayed, data));
    told
}

fn followed(next: Next, delayed: &'static str, data: Value) -> Vec<Told> {
    match next {
        Next::Ready => vec![("execution.ready", json!({}))],
        Next::Delayed(until) => vec![(delayed, timed("until_at", Some(until)))],
        Next::Terminal(Outcome::Success) => vec![("execution.succeeded", data)],
        Next::Terminal(Outcome::Failed) => vec![("execution.failed", data)],
        Next::Terminal(Outcome::Cancelled) => vec![("execution.cancelled", data)],
        Next::Terminal(Outcome::Expired) => vec![("execution.expired", data)],
        Next::Terminal(Outcome::Skipped) => vec![("execution.skipped", data)],
    }
}

fn with_lease(kind: &'static str, lease: &LeaseRef, reason: Option<&str>, after: Vec<Told>) -> Vec<Told> {
    let mut data = lease_data(lease);
    if let Some(reason) = reason {
        data.insert("reason".into(), json!(reason));
    }
    let mut told = vec![(kind, Value::Object(data))];
    told.extend(after);
    told
}

/// The end of an execution that may have been running: the lease is revoked and its attempt ends with it.
fn taken_away(lease: Option<&LeaseRef>, outcome: &str, reason: &str, last: Told) -> Vec<Told> {
    let Some(lease) = lease else { return vec![last] };
    let ended = ("attempt.ended", json!({ "attempt": lease.attempt(), "outcome": outcome }));
    with_lease("lease.revoked", lease, Some(reason), vec![ended, last])
}
