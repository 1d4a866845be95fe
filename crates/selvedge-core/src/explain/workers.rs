//! Reasons that lie with the workers: none is live, none is capable, or none is free.

use super::{Code, ExplainContext, Reason, Reference, ReferenceKind};
use crate::{Execution, Session};
use std::collections::BTreeSet;

/// Explains which workers the execution lacks; none if a live worker could run it.
pub(super) fn missing(row: &Execution, around: &ExplainContext<'_>) -> Option<Reason> {
    able(row, around).err()
}

/// Explains that all workers that could run the execution are busy, and how many executions come before it.
pub(super) fn busy(row: &Execution, around: &ExplainContext<'_>) -> Reason {
    let ahead = match around.ahead {
        Some(0) => "it is next".to_owned(),
        Some(1) => "1 execution of its class comes before it".to_owned(),
        Some(count) => format!("{count} executions of its class come before it"),
        None => "other executions come before it".to_owned(),
    };
    let message = format!("it waits for a free worker: {}; {ahead}", able_in_words(row, around));
    Reason::new(Code::WaitingForWorker, message).about(lane(around))
}

/// Says how many workers died while they ran the execution, if it has not ended.
pub(super) fn died(row: &Execution) -> Option<Reason> {
    let count = row.detail.interruptions_without_progress();
    let limit = row.spec.policy.retry.max_interruptions;
    (count > 0 && row.state.outcome().is_none()).then(|| {
        let message =
            format!("{}; it expires if that happens {} times without progress", deaths(count), limit + 1);
        Reason::new(Code::WorkersDied, message)
    })
}

/// Says that workers died while they ran an execution.
pub fn deaths(count: u32) -> String {
    match count {
        1 => "1 worker died while running this".into(),
        count => format!("{count} workers died while running this"),
    }
}

/// Says when the worker that was seen last, of those that could run the execution, was seen; none if no session of such a
/// worker is known. A worker that said that it goes is not meant.
fn last_seen(row: &Execution, around: &ExplainContext<'_>) -> Option<String> {
    let sessions = around.sessions.iter().filter(|one| one.namespace() == row.namespace);
    let gone =
        sessions.filter(|one| !one.has_ended() && one.scope.covers(around.class) && !one.is_live(around.now));
    let last = gone.max_by_key(|one| one.seen_at)?;
    let seconds = around.now.ms_since(last.seen_at) / 1000;
    let ago = match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    };
    Some(format!("; worker {} was last seen {ago} ago", last.instance))
}

/// Says how many live workers can run executions of this class.
pub(super) fn able_in_words(row: &Execution, around: &ExplainContext<'_>) -> String {
    match able(row, around).unwrap_or_default() {
        0 => "no live worker can run it".into(),
        1 => "1 live worker can run it".into(),
        count => format!("{count} live workers can run it"),
    }
}

/// Returns the number of live workers that could run the execution, or the first thing that all of them lack.
fn able(row: &Execution, around: &ExplainContext<'_>) -> Result<usize, Reason> {
    let class = around.class;
    let lacks = |code, message: String| {
        let message = message + &last_seen(row, around).unwrap_or_default();
        Err(Reason::new(code, message).about(lane(around)))
    };
    let live = around.sessions.iter().filter(|one| one.namespace() == row.namespace);
    let live: Vec<&Session> = live.filter(|one| one.is_live(around.now)).collect();
    let mut found = live.clone();
    found.retain(|one| one.scope.lanes.contains(&class.lane));
    if found.is_empty() {
        let known = instances(&live);
        let message =
            format!("no live worker claims from lane {} ({known} are live in other lanes)", class.lane);
        return lacks(Code::NoWorkerInLane, message);
    }
    found.retain(|one| one.scope.kinds.as_ref().is_none_or(|kinds| kinds.contains(&class.kind)));
    if found.is_empty() {
        let message = format!("no live worker in lane {} runs kind {}", class.lane, class.kind);
        return lacks(Code::NoWorkerOfKind, message);
    }
    let offered: BTreeSet<_> = found.iter().flat_map(|one| one.scope.capabilities.iter()).collect();
    found.retain(|one| class.capabilities.is_subset(&one.scope.capabilities));
    if found.is_empty() {
        let missing = class.capabilities.iter().filter(|one| !offered.contains(one));
        let missing: Vec<&str> = missing.map(|one| one.as_str()).collect();
        let message = match missing.is_empty() {
            true => "no single live worker has all the capabilities it requires".to_owned(),
            false => format!("no live worker has the capability {}", missing.join(", ")),
        };
        return lacks(Code::NoCapableWorker, message);
    }
    if found.iter().all(|one| one.draining) {
        let message = format!("all {} workers that could run it are draining", instances(&found));
        return lacks(Code::WorkersDraining, message);
    }
    found.retain(|one| !one.draining);
    Ok(instances(&found))
}

/// Counts the instances: one instance may have several sessions.
fn instances(sessions: &[&Session]) -> usize {
    sessions.iter().map(|session| session.instance.as_str()).collect::<BTreeSet<_>>().len()
}

fn lane(around: &ExplainContext<'_>) -> Reference {
    Reference::new(ReferenceKind::Lane, &around.class.lane)
}
