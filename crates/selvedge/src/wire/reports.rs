//! Reports of the worker protocol: the operations with their fences, and the answers.

use super::claims::{ClaimBody, ClaimItem};
use super::submissions::{GraphBody, split};
use super::values::{raw, time};
use crate::worker::protocol::{Claim, ClaimAnswer, IssuedWaitpoint, Op, Report, ReportAnswers, Reported};
use crate::{Error, Timestamp, WaitpointId};
use selvedge_api::times;
use selvedge_client::Problem;
use selvedge_core::Name;
use selvedge_core::gate::Amounts;
use selvedge_core::rules::claim::ClaimDraft;
use selvedge_core::rules::report::Fence;
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::suspension::{Condition, WaitDraft};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::time::Duration;

/// The body of a report.
#[derive(Serialize)]
pub struct ReportBody<'a> {
    ops: Vec<OpBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<ClaimBody<'a>>,
}

impl<'a> ReportBody<'a> {
    /// Returns the body of these operations. Fails if a payload is not JSON.
    pub fn new(reports: &'a [Report], claim: Option<&'a ClaimDraft>) -> Result<Self, Error> {
        let ops = reports.iter().map(|(fence, op_id, op)| {
            Ok(OpBody { fence: *fence, op_id: op_id.as_deref(), op: OpFields::new(op)? })
        });
        Ok(ReportBody {
            ops: ops.collect::<Result<_, Error>>()?,
            claim: claim.map(|claim| ClaimBody::new(claim, Duration::ZERO)),
        })
    }
}

#[derive(Serialize)]
struct OpBody<'a> {
    #[serde(flatten)]
    fence: Fence,
    #[serde(skip_serializing_if = "Option::is_none")]
    op_id: Option<&'a str>,
    #[serde(flatten)]
    op: OpFields<'a>,
}

#[derive(Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum OpFields<'a> {
    Complete {
        result: &'a RawValue,
    },
    Fail {
        message: &'a str,
        class: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<i64>,
    },
    Delay {
        #[serde(skip_serializing_if = "Option::is_none")]
        delay_ms: Option<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        until_at: Option<String>,
    },
    Release {},
    Cancelled {
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
    },
    Suspend {
        waits: Vec<Value>,
    },
    Progress {
        percent: f64,
        message: &'a str,
    },
    Frame {
        kind: &'static str,
        mode: &'static str,
        data: &'a RawValue,
    },
    Waitpoint(WaitpointBody<'a>),
    Step {
        name: &'a Name,
        kind: &'static str,
        result: &'a RawValue,
        duration_ms: i64,
    },
    Spawn {
        #[serde(flatten)]
        graph: GraphBody<'a>,
        detach: bool,
    },
    Usage {
        budget: &'a Name,
        usage: &'a Amounts,
        #[serde(skip_serializing_if = "Option::is_none")]
        dedup_key: Option<&'a Name>,
    },
}

#[derive(Serialize)]
struct WaitpointBody<'a> {
    name: &'a Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signals: Option<&'a [Name]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a str>,
}

impl<'a> OpFields<'a> {
    fn new(op: &'a Op) -> Result<OpFields<'a>, Error> {
        let json = |pointer: &str, json: &'a [u8]| {
            raw(json).map_err(|error| Error::field(pointer, format!("is not JSON: {error}")))
        };
        Ok(match op {
            Op::Complete { result } => OpFields::Complete { result: json("/result", result)? },
            Op::Fail { message, class, retry_after_ms } => {
                OpFields::Fail { message, class: class.as_str(), retry_after_ms: *retry_after_ms }
            }
            Op::Delay { until } => {
                let (delay_ms, until_at) = split(Some(*until));
                OpFields::Delay { delay_ms, until_at }
            }
            Op::Release => OpFields::Release {},
            Op::Cancelled { message } => OpFields::Cancelled { message: message.as_deref() },
            Op::Suspend { waits } => OpFields::Suspend { waits: waits.iter().map(wait).collect() },
            Op::Progress { percent, message } => OpFields::Progress { percent: *percent, message },
            Op::Frame { kind, mode, data } => {
                OpFields::Frame { kind: kind.as_str(), mode: mode.as_str(), data: json("/data", data)? }
            }
            Op::Waitpoint(WaitpointDraft { name, source, expires_ms, signals, prompt }) => {
                OpFields::Waitpoint(WaitpointBody {
                    name,
                    source: source.as_ref(),
                    expires_ms: *expires_ms,
                    signals: signals.as_deref(),
                    prompt: prompt.as_deref(),
                })
            }
            Op::Step(step) => OpFields::Step {
                name: &step.name,
                kind: step.kind.as_str(),
                result: json("/result", &step.result)?,
                duration_ms: step.duration_ms,
            },
            Op::Spawn { graph, detach } => OpFields::Spawn { graph: GraphBody::new(graph)?, detach: *detach },
            Op::Usage { budget, usage, dedup_key } => {
                OpFields::Usage { budget, usage, dedup_key: dedup_key.as_ref() }
            }
        })
    }
}

fn wait(wait: &WaitDraft) -> Value {
    let mut fields = json!({
        "condition": condition(&wait.condition),
        "on_timeout": wait.on_timeout.as_str(),
    });
    if let Some(timeout_ms) = wait.timeout_ms {
        fields["timeout_ms"] = timeout_ms.into();
    }
    if let Some((name, kind)) = &wait.step {
        fields["step"] = name.as_str().into();
        fields["kind"] = kind.as_str().into();
    }
    fields
}

fn condition(wanted: &Condition) -> Value {
    let all = |parts: &[Condition]| parts.iter().map(condition).collect::<Vec<_>>();
    match wanted {
        Condition::Signal { name, .. } => json!({ "signal": name }),
        Condition::Any(parts) => json!({ "any": all(parts) }),
        Condition::All(parts) => json!({ "all": all(parts) }),
        Condition::Count { n, of, distinct, .. } => {
            json!({ "count": { "n": n, "of": of, "distinct": distinct.as_str() } })
        }
        Condition::Until { at, .. } => match split(Some(*at)) {
            (Some(delay_ms), _) => json!({ "delay_ms": delay_ms }),
            (None, until_at) => json!({ "until_at": until_at }),
        },
        Condition::Children { .. } => json!({ "children": true }),
        // Only the engine itself waits for a gate.
        Condition::Operator { .. } | Condition::Gate { .. } => json!({ "operator": true }),
    }
}

/// The answer to a report.
#[derive(Deserialize)]
pub struct ReportReply {
    results: Vec<ResultItem>,
    claims: Vec<ClaimItem>,
    #[serde(default)]
    drain: bool,
    #[serde(default)]
    claim_error: Option<Problem>,
}

#[derive(Deserialize)]
struct ResultItem {
    #[serde(default)]
    error: Option<Problem>,
    #[serde(default)]
    waitpoints: Vec<IssuedItem>,
    #[serde(default)]
    breached: Vec<String>,
}

#[derive(Deserialize)]
struct IssuedItem {
    id: WaitpointId,
    name: String,
    token: String,
}

impl ReportReply {
    /// Returns the answers to this many operations.
    pub fn answers(self, reports: usize) -> Result<ReportAnswers, Error> {
        if self.results.len() != reports {
            return Err(Error::Failed(format!(
                "{} of {reports} operations were answered",
                self.results.len()
            )));
        }
        let superseded = match &self.claim_error {
            Some(problem) if problem.code != "superseded" => {
                tracing::warn!(%problem, "a claim after reports was refused");
                false
            }
            error => error.is_some(),
        };
        let claims = self.claims.into_iter().map(Claim::from).collect();
        let results = self.results.into_iter().map(ResultItem::answer).collect();
        Ok((results, ClaimAnswer { claims, drain: self.drain, superseded }))
    }
}

impl ResultItem {
    fn answer(self) -> Result<Reported, Error> {
        if let Some(problem) = self.error {
            return Err(problem.into());
        }
        let issued = |IssuedItem { id, name, token }| IssuedWaitpoint { id, name, source: None, token };
        Ok(Reported {
            waitpoints: self.waitpoints.into_iter().map(issued).collect(),
            breached: self.breached,
        })
    }
}

/// A waitpoint in a list.
#[derive(Deserialize)]
pub struct WaitpointItem {
    id: WaitpointId,
    name: String,
    source: String,
    state: String,
    #[serde(deserialize_with = "time")]
    created_at: Timestamp,
}

impl WaitpointItem {
    /// Returns the waitpoint if it was created since this time and accepts no delivery any more.
    pub fn settled_since(self, since: Timestamp) -> Option<IssuedWaitpoint> {
        // Times in answers are cut to milliseconds.
        let since = times::parse(&times::text(since)).unwrap_or(since);
        let is_settled = self.state != "open" && self.created_at >= since;
        is_settled.then(|| IssuedWaitpoint {
            id: self.id,
            name: self.name,
            source: Some(self.source),
            token: String::new(),
        })
    }
}
