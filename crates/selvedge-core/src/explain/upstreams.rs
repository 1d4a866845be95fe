//! Reasons that lie with the upstreams of an execution: its edge group is undecided, or became impossible.

use super::{Code, ExplainContext, Reason, Reference, counted, state_in_words};
use crate::headline::headline;
use crate::join::{Join, JoinPolicy, Resolution};
use crate::{Execution, Outcome};

/// Explains which upstreams an execution waits for, and how far its edge group is.
pub(super) fn pending(row: &Execution, around: &ExplainContext<'_>) -> Vec<Reason> {
    let Some(join) = &row.join else { return Vec::new() };
    let group = Reason::new(Code::WaitingForUpstreams, format!("it waits for {}", group(join)));
    let open = around.upstreams.iter().map(|upstream| {
        let (name, state) = (name(upstream), state_in_words(upstream.state.name()));
        let message = match upstream.state.outcome() {
            None => format!("{name} is {state}"),
            Some(_) => format!("{name} is {state}; its edge is about to be updated"),
        };
        Reason::new(Code::UpstreamOpen, message).about(Reference::execution(upstream.id))
    });
    [group].into_iter().chain(open).collect()
}

/// Explains which upstreams made the edge group of a skipped execution impossible, with their outcomes and errors.
pub(super) fn impossible(row: &Execution, around: &ExplainContext<'_>) -> Vec<Reason> {
    let Some(join) = &row.join else { return Vec::new() };
    let group = Reason::new(Code::Skipped, format!("it needed {}", group(join)));
    let decided = around.upstreams.iter().map(|upstream| {
        let when = row.wiring().upstreams.iter().find(|edge| edge.execution == upstream.id);
        let wanted = when.map_or("success", |edge| edge.when.as_str());
        let message = match upstream.state.outcome() {
            Some(outcome) => {
                format!("upstream {} {}; its edge needs {wanted}", name(upstream), end(upstream, outcome))
            }
            None => format!("upstream {} runs again, and its edge is about to be updated", name(upstream)),
        };
        Reason::new(Code::UpstreamEnded, message).about(Reference::execution(upstream.id))
    });
    let origin = around.origin.and_then(|origin| Some((origin, origin.state.outcome()?)));
    let origin = origin.map(|(origin, outcome)| {
        let message = format!("the skipping began with {}, which {}", name(origin), end(origin, outcome));
        Reason::new(Code::SkipOrigin, message).about(Reference::execution(origin.id))
    });
    [group].into_iter().chain(decided).chain(origin).collect()
}

/// Describes what the group needs, and the state of its edges.
fn group(join: &Join) -> String {
    let [holds, dead, pending] =
        [Resolution::Holds, Resolution::Dead, Resolution::Pending].map(|one| join.count(one) as usize);
    let upstreams = counted(join.edges.len(), "upstream");
    let wanted = match join.policy {
        JoinPolicy::AllOf if join.edges.len() == 1 => upstreams,
        JoinPolicy::AllOf => format!("all of {upstreams}"),
        JoinPolicy::AnyOf { .. } => format!("any of {upstreams}"),
        JoinPolicy::Quorum { k, .. } => format!("{k} of {upstreams}"),
    };
    let edges =
        [(holds, "holds", "hold"), (dead, "is dead", "are dead"), (pending, "is pending", "are pending")];
    let edges = edges.into_iter().filter(|(count, ..)| *count > 0);
    let edges: Vec<String> = edges
        .map(|(count, one, many)| {
            format!("{} {}", counted(count, "edge"), if count == 1 { one } else { many })
        })
        .collect();
    format!("{wanted}: {}", edges.join(", "))
}

fn name(upstream: &Execution) -> String {
    upstream.node().map_or_else(|| "an upstream".to_owned(), |node| format!("“{node}”"))
}

/// Describes the end of an upstream, with its error.
fn end(upstream: &Execution, outcome: Outcome) -> String {
    match &upstream.detail.error {
        Some(error) if outcome != Outcome::Completed => {
            format!("ended as {outcome} ({})", headline(&error.message))
        }
        Some(_) | None => format!("ended as {outcome}"),
    }
}
