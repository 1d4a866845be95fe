//! The operations of a worker's report, and its fences.

use crate::wire::amounts::read_amounts;
use crate::wire::graph::read_graph;
use crate::wire::submission::Defaults;
use crate::wire::suspension::{read_suspend, read_waitpoint};
use bytes::Bytes;
use selvedge_api::fields::Fields;
use selvedge_core::gate::Amounts;
use selvedge_core::name::KEY_LIMIT;
use selvedge_core::plan::GraphDraft;
use selvedge_core::rules::report::{Fence, Op};
use selvedge_core::rules::step::StepDraft;
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::step::StepKind;
use selvedge_core::stream::{FrameKind, FrameMode};
use selvedge_core::suspension::WaitDraft;
use selvedge_core::{ExecutionId, FailureClass, LeaseId, Name, Refusal};

/// The value of the field `op` in a request.
#[derive(Clone, Copy)]
enum OpName {
    Complete,
    Fail,
    Progress,
    Delay,
    Release,
    Cancelled,
    Waitpoint,
    Suspend,
    Step,
    Frame,
    Usage,
    Spawn,
}

impl OpName {
    const ALL: [OpName; 12] = [
        OpName::Complete,
        OpName::Fail,
        OpName::Progress,
        OpName::Delay,
        OpName::Release,
        OpName::Cancelled,
        OpName::Waitpoint,
        OpName::Suspend,
        OpName::Step,
        OpName::Frame,
        OpName::Usage,
        OpName::Spawn,
    ];

    fn as_str(self) -> &'static str {
        match self {
            OpName::Complete => "complete",
            OpName::Fail => "fail",
            OpName::Progress => "progress",
            OpName::Delay => "delay",
            OpName::Release => "release",
            OpName::Cancelled => "cancelled",
            OpName::Waitpoint => "waitpoint",
            OpName::Suspend => "suspend",
            OpName::Step => "step",
            OpName::Frame => "frame",
            OpName::Usage => "usage",
            OpName::Spawn => "spawn",
        }
    }

    fn parse(word: &str) -> Option<OpName> {
        OpName::ALL.into_iter().find(|op| op.as_str() == word)
    }
}

/// The default of a payload.
const NULL: Bytes = Bytes::from_static(b"null");

/// An operation of a report with its fence and `op_id`.
pub struct ParsedOp {
    /// The fence of the lease that the operation belongs to.
    pub fence: Fence,
    /// The caller's id of the operation, by which repeats are recognised.
    pub op_id: Option<String>,
    pub op: OpRequest,
}

/// An operation as it was sent. The variants other than `Op` need the engine or the namespace to become an [`Op`].
pub enum OpRequest {
    /// An operation that needs nothing else.
    Op(Op),
    /// A graph of children, which the engine plans.
    Spawn { graph: GraphDraft, detach: bool },
    /// A waitpoint, whose token the engine signs.
    Waitpoint(WaitpointDraft),
    /// Usage of a budget of the caller's namespace by the execution of the fence.
    Usage { budget: Name, usage: Amounts, dedup_key: Option<Name> },
    /// A suspension; the engine signs the tokens of its waitpoints.
    Suspend { waits: Vec<WaitDraft>, waitpoints: Vec<WaitpointDraft> },
}

/// Reads an operation of a report.
pub fn read_op(mut fields: Fields<'_>) -> Result<ParsedOp, Refusal> {
    let name = fields.word("op", OpName::parse, OpName::ALL.map(OpName::as_str))?;
    let name = fields.require("op", name)?;
    let fence = read_fence(&mut fields)?;
    let op_id = fields.text("op_id")?;
    let op = match name {
        OpName::Complete => OpRequest::Op(Op::Complete { result: fields.payload("result")?.unwrap_or(NULL) }),
        OpName::Fail => OpRequest::Op(read_fail(&mut fields)?),
        OpName::Progress => {
            let (percent, message) = (fields.number("percent")?, fields.text("message")?);
            OpRequest::Op(Op::Progress { percent, message })
        }
        OpName::Delay => {
            let until = fields.time_or_delay("until_at", "delay_ms")?;
            let missing = || fields.refuse("until_at", "is missing; give until_at or delay_ms");
            OpRequest::Op(Op::Delay { until: until.ok_or_else(missing)? })
        }
        OpName::Frame => OpRequest::Op(read_frame(&mut fields)?),
        OpName::Spawn => {
            let graph = read_graph(&mut fields, &Defaults::default())?;
            OpRequest::Spawn { graph, detach: fields.flag("detach")?.unwrap_or(false) }
        }
        OpName::Usage => read_usage(&mut fields)?,
        OpName::Waitpoint => OpRequest::Waitpoint(read_waitpoint(&mut fields)?),
        OpName::Suspend => {
            let (waits, waitpoints) = read_suspend(&mut fields)?;
            OpRequest::Suspend { waits, waitpoints }
        }
        OpName::Step => OpRequest::Op(Op::Step(read_step(&mut fields)?)),
        OpName::Release => OpRequest::Op(Op::Release),
        OpName::Cancelled => OpRequest::Op(Op::Cancelled { message: fields.text("message")? }),
    };
    fields.finish()?;
    Ok(ParsedOp { fence, op_id, op })
}

pub fn read_fence(fields: &mut Fields<'_>) -> Result<Fence, Refusal> {
    let execution = fields.id("execution")?;
    let attempt = fields.count("attempt")?;
    let lease_id = fields.id("lease_id")?;
    let epoch = fields.count("epoch")?;
    Ok(Fence {
        execution: ExecutionId(fields.require("execution", execution)?),
        attempt: fields.require("attempt", attempt)?,
        lease_id: LeaseId(fields.require("lease_id", lease_id)?),
        epoch: fields.require("epoch", epoch)?,
    })
}

fn read_usage(fields: &mut Fields<'_>) -> Result<OpRequest, Refusal> {
    let budget = fields.name("budget")?;
    let budget = fields.require("budget", budget)?;
    let usage = read_amounts(fields, "usage")?;
    let usage = fields.require("usage", usage)?;
    let key = fields.text("dedup_key")?;
    let dedup_key = key.map(|key| Name::parse(&fields.pointer("dedup_key"), &key, KEY_LIMIT)).transpose()?;
    Ok(OpRequest::Usage { budget, usage, dedup_key })
}

fn read_step(fields: &mut Fields<'_>) -> Result<StepDraft, Refusal> {
    let name = fields.name("name")?;
    let kind = fields.word("kind", StepKind::parse, StepKind::ALL.map(StepKind::as_str))?;
    let result = fields.payload("result")?;
    let duration_ms = fields.integer("duration_ms")?;
    Ok(StepDraft {
        name: fields.require("name", name)?,
        kind: kind.unwrap_or_default(),
        result: result.unwrap_or(NULL),
        duration_ms: duration_ms.unwrap_or(0),
    })
}

fn read_fail(fields: &mut Fields<'_>) -> Result<Op, Refusal> {
    let message = fields.text("message")?;
    let class = fields.word("class", FailureClass::parse, FailureClass::ALL.map(FailureClass::as_str))?;
    Ok(Op::Fail {
        message: fields.require("message", message)?,
        class: class.unwrap_or(FailureClass::Transient),
        retry_after_ms: fields.integer("retry_after_ms")?,
    })
}

fn read_frame(fields: &mut Fields<'_>) -> Result<Op, Refusal> {
    let kind = fields.word("kind", FrameKind::parse, FrameKind::ALL.map(FrameKind::as_str))?;
    let kind = fields.require("kind", kind)?;
    let mode = fields.word("mode", FrameMode::parse, FrameMode::ALL.map(FrameMode::as_str))?;
    let data = fields.payload("data")?;
    let data = fields.require("data", data)?;
    let correlation_id = fields.text("correlation_id")?;
    let correlation_id = correlation_id
        .map(|id| Name::parse(&fields.pointer("correlation_id"), &id, KEY_LIMIT))
        .transpose()?;
    Ok(Op::Frame { kind, mode: mode.unwrap_or_default(), data, correlation_id })
}
