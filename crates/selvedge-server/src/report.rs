//! Reports of workers, each on its own, and the next claim in the same round trip.

use crate::Answer;
use crate::amounts::read_amounts;
use crate::auth::Caller;
use crate::body::{LARGE, Sent};
use crate::fields::Fields;
use crate::filter::no_such;
use crate::graph::{read_graph, word};
use crate::json;
use crate::problem::Problem;
use crate::query::Instance;
use crate::submission::{Defaults, failure_class};
use crate::suspension::{read_suspend, read_waitpoint};
use crate::views;
use crate::waitpoints;
use crate::workers::{claim_views, read_claim};
use axum::http::StatusCode;
use bytes::Bytes;
use selvedge_core::gate::Amounts;
use selvedge_core::name::KEY_LIMIT;
use selvedge_core::plan::GraphDraft;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::gates::budget::Spend;
use selvedge_core::rules::report::{Fence, Op, Reported};
use selvedge_core::rules::step::StepDraft;
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::step::StepKind;
use selvedge_core::stream::{FrameKind, FrameMode};
use selvedge_core::suspension::WaitDraft;
use selvedge_core::{ExecutionId, FailureClass, LeaseId, Name, Refusal};
use selvedge_engine::{ClaimWait, Error, Namespace, ReportItem};
use std::collections::BTreeMap;

/// The op of a report, as it is named in a request.
#[derive(Clone, Copy)]
enum OpName {
    Complete,
    Fail,
    Progress,
    Delay,
    Release,
    Waitpoint,
    Suspend,
    Step,
    Frame,
    Usage,
    Spawn,
}

impl OpName {
    /// Every op.
    const ALL: [OpName; 11] = [
        OpName::Complete,
        OpName::Fail,
        OpName::Progress,
        OpName::Delay,
        OpName::Release,
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

/// The payload where none is given.
const NULL: Bytes = Bytes::from_static(b"null");

/// `POST /v1/workers/{instance}/report`
pub async fn report(caller: Caller, Instance(instance): Instance, sent: Sent<LARGE>) -> Answer {
    let mut fields = sent.fields()?;
    let ops = fields.items("ops")?;
    let ops = fields.require("ops", ops)?;
    let next = fields.object("claim")?;
    let next = next.map(|fields| read_claim(fields, instance)).transpose()?;
    fields.finish()?;
    let read: Vec<_> = ops.into_iter().map(|raw| Fields::of(raw, "").and_then(read_op)).collect();
    drop(sent);
    let mut ops = Vec::with_capacity(read.len());
    for one in read {
        ops.push(planned(&caller.namespace, one).await?);
    }
    let makes_waitpoints: Vec<bool> = ops.iter().map(makes_waitpoints).collect();
    let (results, claimed) = report_and_claim(&caller, ops, next).await?;
    let claims = claim_views(&caller.namespace, claimed).await?;
    Ok(json::answer(StatusCode::OK, |object| {
        object.array("results", results.iter().zip(makes_waitpoints).enumerate(), |out, (index, result)| {
            write_result(out, &caller.namespace, index, result);
        });
        object.array("claims", &claims, views::claim);
    }))
}

/// An op as it was read.
enum Read {
    /// Nothing is left to look up.
    Op(Op),
    /// The engine makes a plan of it.
    Spawn { graph: GraphDraft, detach: bool },
    /// The engine knows the secret that its token is signed under.
    Waitpoint(WaitpointDraft),
    /// The namespace is that of the caller, and who spent it that of the fence.
    Usage { budget: Name, usage: Amounts, dedup_key: Option<Name> },
    /// The engine knows the secret that the tokens of its waitpoints are signed under.
    Suspend { waits: Vec<WaitDraft>, waitpoints: Vec<WaitpointDraft> },
}

/// An op as the engine takes it. A graph that is refused refuses only its own op.
async fn planned(
    namespace: &Namespace,
    read: Result<(Fence, Option<String>, Read), Refusal>,
) -> Result<ReportItem, Error> {
    let (fence, op_id, op) = match read {
        Ok((fence, op_id, op)) => (fence, op_id, op),
        Err(refusal) => return Ok(Err(refusal)),
    };
    let op = match op {
        Read::Op(op) => Ok(op),
        Read::Spawn { graph, detach } => namespace.spawn(graph, detach).await,
        Read::Waitpoint(draft) => Ok(namespace.waitpoint(draft)),
        Read::Usage { budget, usage, dedup_key } => {
            let execution = Some(fence.execution);
            Ok(Op::Usage(Spend { namespace: namespace.id(), budget, usage, dedup_key, execution }))
        }
        Read::Suspend { waits, waitpoints } => Ok(namespace.suspend(waits, waitpoints)),
    };
    match op {
        Ok(op) => Ok(Ok((fence, op_id, op))),
        Err(Error::Refused(refusal)) => Ok(Err(refusal)),
        Err(error) => Err(error),
    }
}

/// Whether the answer names waitpoints, also where there are none.
fn makes_waitpoints(item: &ReportItem) -> bool {
    matches!(item, Ok((_, _, Op::Waitpoint { .. } | Op::Suspend(_))))
}

/// The reports are done at once; only the claim after them waits for work, and stops waiting when the server closes.
async fn report_and_claim(
    caller: &Caller,
    ops: Vec<ReportItem>,
    next: Option<ClaimWait>,
) -> Result<(Vec<Result<Reported, Refusal>>, Vec<Claimed>), Problem> {
    let at_once = next.as_ref().map(|next| next.claim.clone());
    let reported = caller.namespace.report(ops, at_once).await;
    // Reports are refused one by one; what is refused whole is the claim.
    let (results, mut claimed) = reported.map_err(|error| match error {
        Error::Refused(refusal) => Problem::refused_at("/claim", refusal),
        error => error.into(),
    })?;
    if let Some(next) = next.filter(|next| claimed.is_empty() && !next.wait.is_zero()) {
        match caller.closing.cut(caller.namespace.claim(next)).await {
            Some(Ok(later)) => claimed = later,
            // The reports are done: their answer is worth more than the news that the claim failed.
            Some(Err(error)) => tracing::warn!(%error, "a claim after reports failed"),
            None => {}
        }
    }
    Ok((results, claimed))
}

fn write_result(
    out: &mut Vec<u8>,
    namespace: &Namespace,
    index: usize,
    (result, makes_waitpoints): (&Result<Reported, Refusal>, bool),
) {
    json::object(out, |object| match result {
        Ok(reported) => {
            object.value("ok", &true);
            object.value("state", reported.state.public());
            if reported.delayed_until.is_some() {
                object.time("delayed_until_at", reported.delayed_until);
            }
            if !reported.spawned.is_empty() {
                let spawned: BTreeMap<&str, ExecutionId> =
                    reported.spawned.iter().map(|(name, id)| (name.as_str(), *id)).collect();
                object.value("executions", &spawned);
            }
            if makes_waitpoints {
                object.array("waitpoints", &reported.waitpoints, |out, waitpoint| {
                    waitpoints::write_with_token(out, namespace, waitpoint);
                });
            }
        }
        Err(refusal) => {
            let problem = Problem::refused_at(&format!("/ops/{index}"), refusal.clone());
            problem.write(object.field("error"));
        }
    });
}

/// Reads the fields of a fence.
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

fn read_op(mut fields: Fields<'_>) -> Result<(Fence, Option<String>, Read), Refusal> {
    let word = fields.text("op")?;
    let word = fields.require("op", word)?;
    let Some(name) = OpName::parse(&word) else {
        return Err(fields.refuse("op", no_such(&word, OpName::ALL.into_iter().map(OpName::as_str))));
    };
    let fence = read_fence(&mut fields)?;
    let op_id = fields.text("op_id")?;
    let op = match name {
        OpName::Complete => Read::Op(Op::Complete { result: fields.payload("result")?.unwrap_or(NULL) }),
        OpName::Fail => Read::Op(read_fail(&mut fields)?),
        OpName::Progress => {
            Read::Op(Op::Progress { percent: fields.number("percent")?, message: fields.text("message")? })
        }
        OpName::Delay => {
            let until = fields.when("until_at", "delay_ms")?;
            let missing = || fields.refuse("until_at", "is missing; give until_at or delay_ms");
            Read::Op(Op::Delay { until: until.ok_or_else(missing)? })
        }
        OpName::Frame => Read::Op(read_frame(&mut fields)?),
        OpName::Spawn => {
            let graph = read_graph(&mut fields, &Defaults::default())?;
            Read::Spawn { graph, detach: fields.flag("detach")?.unwrap_or(false) }
        }
        OpName::Usage => read_usage(&mut fields)?,
        OpName::Waitpoint => Read::Waitpoint(read_waitpoint(&mut fields)?),
        OpName::Suspend => {
            let (waits, waitpoints) = read_suspend(&mut fields)?;
            Read::Suspend { waits, waitpoints }
        }
        OpName::Step => Read::Op(Op::Step(read_step(&mut fields)?)),
        OpName::Release => Read::Op(Op::Release),
    };
    fields.finish()?;
    Ok((fence, op_id, op))
}

fn read_usage(fields: &mut Fields<'_>) -> Result<Read, Refusal> {
    let budget = fields.name("budget")?;
    let budget = fields.require("budget", budget)?;
    let usage = read_amounts(fields, "usage")?;
    let usage = fields.require("usage", usage)?;
    let key = fields.text("dedup_key")?;
    let dedup_key = key.map(|key| Name::parse(&fields.pointer("dedup_key"), &key, KEY_LIMIT)).transpose()?;
    Ok(Read::Usage { budget, usage, dedup_key })
}

fn read_step(fields: &mut Fields<'_>) -> Result<StepDraft, Refusal> {
    let name = fields.name("name")?;
    let kind = word(fields, "kind", StepKind::parse, StepKind::ALL.map(StepKind::as_str))?;
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
    let class = fields.text("class")?;
    let class = class.map(|word| failure_class(&fields.pointer("class"), None, &word));
    Ok(Op::Fail {
        message: fields.require("message", message)?,
        class: class.transpose()?.unwrap_or(FailureClass::Transient),
        retry_after_ms: fields.integer("retry_after_ms")?,
    })
}

fn read_frame(fields: &mut Fields<'_>) -> Result<Op, Refusal> {
    let kind = fields.text("kind")?;
    let kind = fields.require("kind", kind)?;
    let kinds = || FrameKind::ALL.map(FrameKind::as_str).join(", ");
    let unknown = || fields.refuse("kind", format!("is {kind:?}; it must be one of {}", kinds()));
    let kind = FrameKind::parse(&kind).ok_or_else(unknown)?;
    let mode = match fields.text("mode")? {
        None => FrameMode::default(),
        Some(word) => {
            let modes = || FrameMode::ALL.map(FrameMode::as_str).join(", ");
            let unknown = || fields.refuse("mode", format!("is {word:?}; it must be one of {}", modes()));
            FrameMode::parse(&word).ok_or_else(unknown)?
        }
    };
    let data = fields.payload("data")?;
    Ok(Op::Frame { kind, mode, data: fields.require("data", data)? })
}
