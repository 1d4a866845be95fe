//! Holding: an execution that a gate refuses leaves the claim order until the gate releases it.

use super::machine::GateStanding;
use super::{check_by, is_finite, record_held};
use crate::fact::{self, Fact};
use crate::gate::{GateName, Shut};
use crate::state::State;
use crate::{ExecutionId, Work};

/// Holds an execution that a gate refuses.
pub fn hold(work: &mut Work, id: ExecutionId, name: GateName, shut: &Shut) {
    let opens_at = shut.until.filter(is_finite);
    let fact = Fact::Held(fact::Held { reason: shut.describe(&name), gate: name.clone(), until: opens_at });
    let check_at = GateStanding::Full.check_at(name.kind, opens_at, work.now());
    // An execution to which the gate has promised a slot may never start.
    let promise_ends_at = work.gate(&name).promise_ends_at(work.now());
    if let Some(at) = check_at.into_iter().chain(promise_ends_at).min() {
        check_by(work, &name, at);
    }
    if let Ok(Some(row)) = work.find(id).map(|row| row.cloned()) {
        work.drop_promises(&row);
        record_held(work, &row, &name);
    }
    let gate = name.id();
    work.apply(id, fact, None, |row| {
        row.state = State::Held(name.into());
        // It was released before and did not start: it is held at its earlier place.
        row.ready_order = row.detail.place.unwrap_or(row.ready_order);
    });
    work.add_held(gate, id);
}
