//! Messages between a worker and the engine: claims, operations on leases, and their answers. The same for an embedded
//! engine and for a server over HTTP.

use crate::{Error, FailureClass, FlowId, FrameKind, FrameMode, Relative, Timestamp, TraceParent};
use bytes::Bytes;
use selvedge_core::Name;
use selvedge_core::gate::Amounts;
use selvedge_core::plan::GraphDraft;
use selvedge_core::rules::report::Fence;
use selvedge_core::rules::step::StepDraft;
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::step::StepKind;
use selvedge_core::submission::When;
use selvedge_core::suspension::WaitDraft;
use std::collections::BTreeMap;

/// A claimed execution with everything that its handler needs.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The proof of the lease, which every report presents.
    pub fence: Fence,
    /// The kind of the execution.
    pub kind: String,
    /// The lane of the execution.
    pub lane: String,
    /// How many times the execution has been replayed.
    pub generation: u32,
    /// The start of the current generation.
    pub opened_at: Timestamp,
    /// The tags of the execution.
    pub tags: BTreeMap<String, String>,
    /// The flow of the execution.
    pub flow: FlowId,
    /// The name of the execution's node; none if it was submitted alone.
    pub node: Option<String>,
    /// The parent of the handler's spans.
    pub trace: Option<TraceParent>,
    /// The input, as the JSON text that was submitted.
    pub input: Bytes,
    /// The upstreams, in the order of their edges.
    pub upstreams: Vec<Relative>,
    /// The children, in the order of their spawning.
    pub children: Vec<Relative>,
    /// The recorded steps, in the order in which they began.
    pub steps: Vec<RecordedStep>,
}

/// A step that an earlier attempt recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedStep {
    /// The name, unique in its execution.
    pub name: String,
    /// The kind of step.
    pub kind: StepKind,
    /// The index of the attempt that recorded it.
    pub attempt: u32,
    /// The result as JSON.
    pub result: Bytes,
}

/// The answer to a claim.
#[derive(Debug, Default)]
pub struct ClaimAnswer {
    /// The claimed executions, in claim order.
    pub claims: Vec<Claim>,
    /// True if the worker is asked to drain.
    pub drain: bool,
    /// True if a newer process has the worker's instance: this one gets nothing more.
    pub superseded: bool,
}

/// The answer to a heartbeat.
#[derive(Debug, Default)]
pub struct HeartbeatAnswer {
    /// The leases that are no longer held, each with the reason.
    pub lost: Vec<(Fence, String)>,
    /// The leases whose executions should stop.
    pub cancel_requested: Vec<Fence>,
    /// True if the worker is asked to drain.
    pub drain: bool,
}

/// An operation on a lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// The execution is completed with this result, JSON.
    Complete { result: Bytes },
    /// The attempt failed.
    Fail { message: String, class: FailureClass, retry_after_ms: Option<i64> },
    /// Puts the execution back until a time.
    Delay { until: When },
    /// Puts the execution back at once.
    Release,
    /// Acknowledges a request to cancel.
    Cancelled { message: Option<String> },
    /// Suspends the execution until one of these waits ends.
    Suspend { waits: Vec<WaitDraft> },
    /// The attempt made progress.
    Progress { percent: f64, message: String },
    /// Appends a frame to the stream of the attempt.
    Frame { kind: FrameKind, mode: FrameMode, data: Bytes },
    /// Creates a waitpoint.
    Waitpoint(WaitpointDraft),
    /// Records a step.
    Step(StepDraft),
    /// Adds children to the flow.
    Spawn { graph: Box<GraphDraft>, detach: bool },
    /// Charges usage to a budget.
    Usage { budget: Name, usage: Amounts, dedup_key: Option<Name> },
}

/// An operation with its fence and the worker's id for it, by which a repeat is recognised.
pub type Report = (Fence, Option<String>, Op);

/// The answer to one accepted operation.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    /// The waitpoints that the operation created.
    pub waitpoints: Vec<IssuedWaitpoint>,
    /// The dimensions of reported usage whose hard limit is reached.
    pub breached: Vec<String>,
}

/// A waitpoint with its token.
#[derive(Clone, Debug)]
pub struct IssuedWaitpoint {
    pub id: crate::WaitpointId,
    pub name: String,
    /// The source of the delivered signal; none if the answer leaves it out, because the worker chose it.
    pub source: Option<String>,
    /// The token. Empty for a waitpoint that accepts no delivery any more and was read over HTTP.
    pub token: String,
}

/// The answers to a report, one for each operation, and to the claim that went with it.
pub type ReportAnswers = (Vec<Result<Reported, Error>>, ClaimAnswer);
