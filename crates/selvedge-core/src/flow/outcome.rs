//! The outcome of a flow: decides which members count as failed, and whether a failure was handled.
//!
//! A flow fails if one of its members failed and nothing handled that failure. A failure is handled in exactly two ways:
//! a downstream behind a `failure` or `failure_or_skipped` edge of the member completed, or every edge group that the
//! member feeds is satisfied without needing all of its edges. Neither a clean-up behind a `finished` edge nor a handler
//! that was skipped handles anything.

use crate::join::GroupDecision;
use crate::{Execution, ExecutionId, Outcome};

/// The handling of a failure.
#[derive(Clone, Debug, PartialEq)]
pub enum Handling<'a> {
    /// A downstream behind a failure edge completed.
    Handler(&'a Execution),
    /// Every edge group that the member feeds is satisfied without it.
    Groups,
}

/// Reports whether a member ended in a way that makes its flow fail unless it is handled: it failed, expired, or was
/// cancelled by an operator. A member that a decided group, its parent or the cancellation of its flow cancelled did
/// not fail.
pub fn has_failed(row: &Execution) -> bool {
    match row.state.outcome() {
        Some(Outcome::Failed | Outcome::Expired) => true,
        Some(Outcome::Cancelled) => row.detail.cancelled_by.is_some(),
        Some(Outcome::Completed | Outcome::Skipped) | None => false,
    }
}

/// Returns the handling of the failure of `row`; none if nothing handled it. `find` returns a downstream.
pub fn handling<'a>(
    row: &Execution,
    find: impl Fn(ExecutionId) -> Option<&'a Execution>,
) -> Option<Handling<'a>> {
    let downstreams = &row.wiring().downstreams;
    let handler = downstreams.iter().find_map(|downstream| {
        let other = find(downstream.execution)?;
        let edge = other.wiring().upstreams.get(downstream.edge as usize)?;
        (edge.when.handles() && other.state.outcome() == Some(Outcome::Completed)).then_some(other)
    });
    if let Some(handler) = handler {
        return Some(Handling::Handler(handler));
    }
    let is_satisfied = |id: ExecutionId| {
        let join = find(id).and_then(|other| other.join.as_ref());
        join.is_some_and(|join| join.policy.tolerates_failures() && join.decision == GroupDecision::Satisfied)
    };
    let all_satisfied = downstreams.iter().all(|downstream| is_satisfied(downstream.execution));
    (!downstreams.is_empty() && all_satisfied).then_some(Handling::Groups)
}
