//! Compares the rows of the store with the reference model.

use super::super::compare::{Comparison, expect_equal};
use super::compare_records::compare_record;
use super::convert;
use super::reference::{ModelExecution, ModelState, Reference};
use selvedge_core::rules::report::Fence;
use selvedge_core::{ExecutionId, State, Timestamp};
use selvedge_store::Stored;
use std::collections::HashMap;

/// Compares every row. The model takes the claim order of newly waiting executions from the store and expects it from
/// then on. `start` is the store's time at time zero of the model.
pub fn compare(
    reference: &mut Reference,
    start: Timestamp,
    rows: &HashMap<ExecutionId, Stored>,
) -> Comparison {
    let unknown = rows.keys().find(|id| !reference.executions.contains_key(id));
    expect_equal(|| "an execution that should be deleted".into(), None, unknown)?;
    let (manual, now) = (reference.manual, reference.now);
    let exact = |micros: i64| Timestamp::from_micros(start.micros() + micros);
    for known in reference.executions.values_mut() {
        let stored = rows.get(&known.id).ok_or(format!("{} is missing", known.id))?;
        compare_row(known, stored)?;
        compare_record(known, &stored.execution, manual.then_some(start))?;
        match (&known.state, &stored.execution.state) {
            (ModelState::Delayed(at), State::Delayed { until }) if manual => {
                expect_equal(|| format!("{} is delayed until", known.id), exact(*at), *until)?;
            }
            (ModelState::Waiting, State::Waiting) => {
                let stored_order = stored.execution.ready_order;
                if known.ready_order.is_none() && manual && stored_order < exact(now) {
                    return Err(format!("{} became waiting at {stored_order:?}, before now", known.id));
                }
                let order = *known.ready_order.get_or_insert(stored_order);
                expect_equal(|| format!("{} became waiting at", known.id), order, stored_order)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn compare_row(known: &ModelExecution, stored: &Stored) -> Comparison {
    let row = &stored.execution;
    let what = |field: &'static str| move || format!("{} {field}", known.id);
    expect_equal(what("state"), known.state.name(), row.state.name())?;
    expect_equal(what("version"), known.version, row.version)?;
    expect_equal(what("epoch"), known.epoch, row.epoch)?;
    expect_equal(what("generation"), known.generation, row.detail.generation)?;
    expect_equal(what("retries"), known.retries, row.detail.retries)?;
    expect_equal(what("interruptions"), known.interruptions, row.detail.interruptions)?;
    expect_equal(what("priority"), known.priority, row.priority)?;
    expect_equal(what("cancel requested"), known.cancel_until.is_some(), row.detail.cancel.is_some())?;
    let tags = known.tags.iter().map(|(name, value)| (convert::word(*name), convert::word(*value)));
    expect_equal(what("tags"), tags.collect(), row.tags.clone())?;
    expect_equal(what("result"), known.result.map(convert::result), stored.result.clone())?;
    expect_equal(what("fence"), fence_of(&known.state), Fence::of(row))
}

fn fence_of(place: &ModelState) -> Option<Fence> {
    match place {
        ModelState::Active { fence, .. } => Some(*fence),
        ModelState::Waiting | ModelState::Delayed(_) | ModelState::Suspended(_) | ModelState::Ended(_) => {
            None
        }
    }
}
