//! Compares rows of the store with what the reference model knows.

use super::compare_records::compare_record;
use super::reference::{Known, Place, Reference};
use super::rules;
use selvedge_core::rules::report::Fence;
use selvedge_core::{ExecutionId, State, Timestamp};
use selvedge_store::Stored;
use std::collections::HashMap;
use std::fmt::Debug;

/// What store and model differ in.
pub type Differ = Result<(), String>;

/// Says so where two things differ.
pub fn same<T: PartialEq + Debug>(what: impl Fn() -> String, expected: T, got: T) -> Differ {
    match expected == got {
        true => Ok(()),
        false => Err(format!("{}: expected {expected:?}, got {got:?}", what())),
    }
}

/// Compares every row. The model learns from the store the place among the ready ones of those that became ready, and
/// holds the store to it from then on. `start` is the store's time at which the model's began.
pub fn compare(reference: &mut Reference, start: Timestamp, rows: &HashMap<ExecutionId, Stored>) -> Differ {
    let unknown = rows.keys().find(|id| !reference.executions.contains_key(id));
    same(|| "an execution that should be gone".into(), None, unknown)?;
    let (manual, now) = (reference.manual, reference.now);
    let exact = |micros: i64| Timestamp::from_micros(start.micros() + micros);
    for known in reference.executions.values_mut() {
        let stored = rows.get(&known.id).ok_or(format!("{} is missing", known.id))?;
        compare_row(known, stored)?;
        compare_record(known, &stored.execution, manual.then_some(start))?;
        match (&known.place, &stored.execution.state) {
            (Place::Delayed(at), State::Delayed { until }) if manual => {
                same(|| format!("{} is delayed until", known.id), exact(*at), *until)?;
            }
            (Place::Waiting, State::Waiting) => {
                let told = stored.execution.ready_order;
                if known.ready_order.is_none() && manual && told < exact(now) {
                    return Err(format!("{} was ready at {told:?}, before now", known.id));
                }
                let order = *known.ready_order.get_or_insert(told);
                same(|| format!("{} became ready", known.id), order, told)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn compare_row(known: &Known, stored: &Stored) -> Differ {
    let row = &stored.execution;
    let what = |field: &'static str| move || format!("{} {field}", known.id);
    same(what("state"), known.place.name(), row.state.name())?;
    same(what("version"), known.version, row.version)?;
    same(what("epoch"), known.epoch, row.epoch)?;
    same(what("generation"), known.generation, row.detail.generation)?;
    same(what("retries"), known.retries, row.detail.retries)?;
    same(what("interruptions"), known.interruptions, row.detail.interruptions)?;
    same(what("priority"), known.priority, row.priority)?;
    same(what("asked to cancel"), known.cancel_until.is_some(), row.detail.cancel.is_some())?;
    let tags = known.tags.iter().map(|(name, value)| (rules::word(*name), rules::word(*value)));
    same(what("tags"), tags.collect(), row.tags.clone())?;
    same(what("result"), known.result.map(rules::result), stored.result.clone())?;
    same(what("fence"), fence_of(&known.place), Fence::of(row))
}

fn fence_of(place: &Place) -> Option<Fence> {
    match place {
        Place::Active { fence, .. } => Some(*fence),
        Place::Waiting | Place::Delayed(_) | Place::Suspended(_) | Place::Ended(_) => None,
    }
}
