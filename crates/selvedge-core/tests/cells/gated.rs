//! Rows that require gates, in every variation that a rule distinguishes, and the gates.

use super::record::suspended;
use super::rows::{LEASE, NAMESPACE, cancel_requests, now, row, states};
use selvedge_core::amount::Amount;
use selvedge_core::execution::{Slots, Spec};
use selvedge_core::fact::LeaseRef;
use selvedge_core::gate::{
    Adoption, Amounts, Config, GateId, GateKind, GateName, Limit, OnHard, RequiredGates,
};
use selvedge_core::suspension::{Condition, OnTimeout, Wait};
use selvedge_core::{Execution, Gate, Name, Policy, State};
use std::sync::{Arc, LazyLock};

/// Returns a concurrency key with no slot taken.
pub fn open_key() -> GateName {
    GateName::new(NAMESPACE, GateKind::Key, Name::trusted("open"))
}

/// Returns a concurrency key whose only slot is taken.
fn full_key() -> GateName {
    GateName::new(NAMESPACE, GateKind::Key, Name::trusted("full"))
}

/// Returns the budget with this action on active executions when it is exhausted.
fn budget(on_hard: OnHard) -> GateName {
    GateName::new(NAMESPACE, GateKind::Budget, Name::trusted(on_hard.as_str()))
}

/// Returns every gate that a row may require or be held by.
pub fn gates() -> &'static [GateName] {
    static GATES: LazyLock<Vec<GateName>> =
        LazyLock::new(|| [open_key(), full_key()].into_iter().chain(OnHard::ALL.map(budget)).collect());
    &GATES
}

fn one_token() -> Amounts {
    [("tokens".to_owned(), Amount::whole(1))].into()
}

/// Returns the rows of the gates. The open key has no row, because nothing has passed it.
pub fn gate_rows() -> &'static [Gate] {
    static ROWS: LazyLock<Vec<Gate>> = LazyLock::new(|| {
        let full = Gate { version: 3, active: 1, ..Gate::new(full_key()) };
        [full].into_iter().chain(OnHard::ALL.map(exhausted)).collect()
    });
    &ROWS
}

/// Returns the lane of every row with a limit that was just set.
pub fn limited_lane() -> Gate {
    let mut lane =
        Gate { version: 3, ..Gate::new(GateName::new(NAMESPACE, GateKind::Lane, Name::trusted("default"))) };
    lane.config = Some(Config { concurrency: Some(1), ..Config::default() });
    lane.state.adoption = Some(Adoption::Counting);
    lane
}

/// Returns the row of an exhausted budget with this action.
fn exhausted(on_hard: OnHard) -> Gate {
    let limit = Limit { hard: Some(Amount::whole(1)), soft: None };
    let limits = [("tokens".to_owned(), limit)].into();
    let mut gate = Gate { version: 3, ..Gate::new(budget(on_hard)) };
    gate.config = Some(Config { limits, on_hard, ..Config::default() });
    (gate.state.used, gate.state.reserved) = (one_token(), one_token());
    gate
}

/// Returns the gate that holds a row or for which it waits.
pub fn held_by(row: &Execution) -> Option<GateId> {
    row.state.gate().map(GateName::id)
}

/// Returns a state that is suspended until this gate admits it.
fn waits_for(gate: GateName) -> State {
    let condition = Condition::Any(vec![Condition::operator(), Condition::Gate { gate, open: false }]);
    let on_timeout = OnTimeout::Fail;
    suspended(vec![Wait { step: None, condition, timeout_at: None, on_timeout, escalated: false }])
}

/// Returns rows of every state that require each of the gates. Active ones have taken a slot or reserved an amount.
pub fn gated_rows() -> Vec<Execution> {
    let key =
        |name: GateName| RequiredGates { concurrency: Some((name.name, 1)), ..RequiredGates::default() };
    let spending = |on_hard| RequiredGates {
        budgets: vec![(budget(on_hard).name, one_token())],
        ..RequiredGates::default()
    };
    let required_gates = [key(open_key()), key(full_key())].into_iter().chain(OnHard::ALL.map(spending));
    let more = [State::Held(full_key().into()), waits_for(open_key()), waits_for(budget(OnHard::Suspend))];
    let mut rows = Vec::new();
    for required_gates in required_gates {
        for state in states().chain(more.clone()) {
            for cancel_until in cancel_requests(&state) {
                let mut row =
                    row(state.clone(), Policy { retention_ms: 0, ..Policy::default() }, 0, cancel_until);
                row.spec =
                    Arc::new(Spec { required_gates: required_gates.clone(), ..Spec::clone(&row.spec) });
                if row.state.lease().is_some() {
                    let parts = required_gates.budgets.iter().map(|_| None).collect();
                    row.detail.slots = Slots { lane: None, drawn: true, parts };
                }
                rows.push(row);
            }
        }
    }
    rows.extend(breached_rows());
    rows
}

/// Returns rows that a used-up budget has suspended and that were not claimed since, in every state that may follow.
fn breached_rows() -> Vec<Execution> {
    let states = [
        waits_for(budget(OnHard::Suspend)),
        State::Waiting,
        State::Delayed { until: now().plus_ms(1) },
        State::Held(open_key().into()),
    ];
    let breached = |state| {
        let mut row = row(state, Policy { retention_ms: 0, ..Policy::default() }, 0, None);
        let [worker, instance] = ["worker", "instance"].map(Name::trusted);
        row.detail.breached = Some(LeaseRef { id: LEASE, epoch: 1, worker, instance });
        row.epoch = 1;
        row
    };
    states.map(breached).to_vec()
}
