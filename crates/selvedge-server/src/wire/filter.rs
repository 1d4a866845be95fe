//! The filter of executions that lists and bulk actions share, resolved in a namespace.

use crate::wire::problem::Problem;
use selvedge_api::filter::{Conditions, ExecutionFilter};
use selvedge_core::filter::Filter;
use selvedge_engine::Namespace;

/// Checks the conditions of a filter and resolves them to a filter of `namespace`.
pub async fn resolve(filter: ExecutionFilter, namespace: &Namespace) -> Result<Filter, Problem> {
    let conditions = filter.check()?;
    let mut filter = namespace.filter(conditions.lane.as_deref(), conditions.kind.as_deref()).await?;
    let Conditions { states, flow, worker, tags, error, .. } = conditions;
    let Conditions { submitted_after, submitted_before, ended_after, ended_before, .. } = conditions;
    match states {
        None => {}
        // An empty list of states would match every state; an empty list of classes matches nothing.
        Some(states) if states.is_empty() => filter.classes = Some(Vec::new()),
        Some(states) => filter.states = states,
    }
    Ok(Filter {
        flow,
        worker,
        tags,
        error,
        submitted_after,
        submitted_before,
        ended_after,
        ended_before,
        ..filter
    })
}
