//! Explains why a flow has not ended, or how its final state came about. The members that decide it come first.

use super::{Code, Explanation, Reason, Reference, begin_as_sentences, counted, state_in_words};
use crate::execution::ROOT;
use crate::flow::outcome::{Handling, handling, has_failed};
use crate::flow::{CancelMode, Flow, FlowState};
use crate::headline::headline;
use crate::state::StateName;
use crate::{Execution, ExecutionId, Outcome};
use std::collections::HashMap;

/// The members of a flow that its explanation uses, up to a bound. They are read without locks.
#[derive(Clone, Debug, Default)]
pub struct FlowContext {
    /// Members that have not ended, each with its own explanation: those that wait only for their upstreams last.
    pub open: Vec<(Execution, Explanation)>,
    /// Members that may have failed.
    pub failed: Vec<Execution>,
    /// The downstreams of these, by id.
    pub downstreams: HashMap<ExecutionId, Execution>,
}

/// Explains the state of `flow`.
pub fn explain_flow(flow: &Flow, around: &FlowContext) -> Explanation {
    let failed = around.failed.iter().filter(|row| has_failed(row)).map(|row| failure(row, flow, around));
    let (unhandled, handled): (Vec<Reason>, Vec<Reason>) =
        failed.partition(|reason| reason.code == Code::MemberFailed);
    let mut reasons = Vec::new();
    match flow.state {
        FlowState::Running => {
            reasons.push(still_open(flow));
            reasons.extend(cancellation(flow));
            reasons.extend(around.open.iter().map(|(row, explanation)| open(row, explanation)));
            reasons.extend(unhandled.into_iter().chain(handled));
        }
        FlowState::Failed => reasons.extend(unhandled.into_iter().chain([ended(flow)]).chain(handled)),
        FlowState::Completed => reasons.extend([ended(flow)].into_iter().chain(handled)),
        FlowState::Cancelled => {
            reasons.extend(cancellation(flow));
            reasons.push(ended(flow));
        }
    }
    begin_as_sentences(&mut reasons);
    let next_change = around.open.iter().filter_map(|(_, explanation)| explanation.next_change).min();
    Explanation { state: flow.state.as_str(), reasons, next_change }
}

fn still_open(flow: &Flow) -> Reason {
    let (live, total) = (flow.counts.live(), flow.counts.total());
    let message = match live {
        1 => format!("1 of its {} has not ended", counted(total as usize, "member")),
        _ => format!("{live} of its {} have not ended", counted(total as usize, "member")),
    };
    Reason::new(Code::MembersOpen, message).until(flow.spec.deadline_at)
}

/// Names a member that has not ended, and the first reason of its own explanation.
fn open(row: &Execution, explanation: &Explanation) -> Reason {
    let state = StateName::ALL.into_iter().find(|state| state.as_str() == explanation.state);
    let state = state.map_or(explanation.state, state_in_words);
    let why = explanation.reasons.first().map(|reason| format!(". {}", reason.message)).unwrap_or_default();
    Reason::new(Code::MemberOpen, format!("{} is {state}{why}", name(row)))
        .about(Reference::execution(row.id))
        .until(explanation.next_change)
}

/// Names a member that failed, and what handled its failure or why nothing did.
fn failure(row: &Execution, flow: &Flow, around: &FlowContext) -> Reason {
    let end = describe_end(row);
    let reason = match handling(row, |id| around.downstreams.get(&id)) {
        Some(Handling::Handler(handler)) => {
            Reason::new(Code::FailureHandled, format!("{end}; {} handled that", name(handler)))
        }
        Some(Handling::Groups) => {
            let message = format!("{end}; every group that it feeds was satisfied without it");
            Reason::new(Code::FailureHandled, message)
        }
        None => {
            let yet = if flow.state == FlowState::Running { " yet" } else { "" };
            let message = format!("{end}; nothing handled that{yet}: {}", why_unhandled(row, around));
            Reason::new(Code::MemberFailed, message)
        }
    };
    reason.about(Reference::execution(row.id))
}

/// Returns how a failed member ended, as the beginning of a sentence.
fn describe_end(row: &Execution) -> String {
    let name = name(row);
    match (row.state.outcome(), &row.detail.cancelled_by, &row.detail.error) {
        (Some(Outcome::Cancelled), Some(operator), _) => format!("{name} was cancelled by {operator}"),
        (Some(outcome), _, Some(error)) => {
            format!("{name} {} ({})", ended_as(outcome), headline(&error.message))
        }
        (outcome, _, _) => format!("{name} {}", outcome.map_or("failed", ended_as)),
    }
}

fn ended_as(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "was cancelled",
        Outcome::Expired => "expired",
        Outcome::Skipped => "was skipped",
    }
}

/// Returns why none of the downstreams handled the failure of a member.
fn why_unhandled(row: &Execution, around: &FlowContext) -> String {
    let known = row.wiring().downstreams.iter().filter_map(|downstream| {
        let other = around.downstreams.get(&downstream.execution)?;
        Some((other, other.wiring().upstreams.get(downstream.edge as usize)?.when))
    });
    let reasons = known.map(|(other, when)| {
        let (name, state) = (name(other), state_in_words(other.state.name()));
        let policy = other.join.as_ref().map(|join| join.policy);
        if when.handles() {
            format!("{name}, behind its {} edge, is {state}", when.as_str())
        } else if policy.is_some_and(|policy| policy.tolerates_failures()) {
            let policy = policy.map_or("", |policy| policy.as_str());
            format!("the {policy} group of {name} ({state}) does not make up for it")
        } else {
            format!("{name}, behind a {} edge, does not handle failures", when.as_str())
        }
    });
    let reasons: Vec<String> = reasons.take(3).collect();
    match reasons.is_empty() {
        true => "no edge leads from it".to_owned(),
        false => reasons.join("; "),
    }
}

fn cancellation(flow: &Flow) -> Option<Reason> {
    let cancel = flow.detail.cancel.as_ref()?;
    let reason = cancel.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let members = match cancel.mode {
        CancelMode::All => "",
        CancelMode::Pending => ", without the members that run",
    };
    let message = format!("the flow was cancelled by {}{members}{reason}", cancel.actor);
    Some(Reason::new(Code::FlowCancelled, message))
}

fn ended(flow: &Flow) -> Reason {
    let members = counted(flow.counts.total() as usize, "member");
    let message = format!("it ended as {} with {members}", flow.state.as_str());
    Reason::new(Code::Ended, message).until(flow.delete_at())
}

/// Names a member.
fn name(row: &Execution) -> String {
    format!("“{}”", row.node().unwrap_or(ROOT))
}
