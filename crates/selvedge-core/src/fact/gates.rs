//! Facts about gates, and about the executions that they hold.

use super::declaration::declare;
use super::events::attempt_ended;
use super::{LeaseRef, Next};
use crate::amount::Amount;
use crate::gate::{Amounts, GateName};
use crate::state::StateName;
use crate::{ExecutionId, Suspension, Timestamp};
use serde_json::{Value, json};

declare! {
    /// A gate refused the execution and holds it.
    pub struct Held {
        gate: GateName,
        /// The gate's reason.
        reason: String,
        /// The time at which the gate may admit it, if known.
        until: Option<Timestamp>,
    }
    publishes "execution.held" { "gate": data_of(gate), "reason": reason } with "until_at" = until;
    then StateName::Held;

    /// The gate that held the execution released it.
    pub struct Admitted { gate: GateName, }
    publishes "execution.released" { "gate": data_of(gate) }, "execution.ready" {};
    then StateName::Waiting;

    /// A lane whose limit was set counts the active execution.
    pub struct Adopted { gate: GateName, }
    publishes "execution.adopted" { "gate": data_of(gate) };

    /// A budget that the execution spends from is exhausted, and the execution was stopped.
    pub struct Breached {
        /// The lease that ended.
        lease: LeaseRef,
        gate: GateName,
        next: Next,
        /// The suspension that waits for the budget, if the execution is suspended.
        suspension: Option<Suspension>,
    }
    events {
        let mut events = attempt_ended(lease, "breached", None, *next, "execution.delayed");
        if let Some((_, data)) = events.last_mut() {
            *data = match suspension {
                Some(suspension) => suspension.public_data(),
                None => json!({ "reason": "budget", "gate": data_of(gate) }),
            };
        }
        events
    };
    ends lease.attempt(), "breached", *next, None;

    /// An operator configured a gate.
    pub struct GateConfigured { gate: GateName, }
    publishes "operator.gate_configured" { "gate": data_of(gate) };

    /// An operator removed the configuration of a gate.
    pub struct GateRemoved { gate: GateName, }
    publishes "operator.gate_removed" { "gate": data_of(gate) };

    /// Usage was charged to a budget.
    pub struct Spent {
        gate: GateName,
        /// The execution that spent it, if one did.
        execution: Option<ExecutionId>,
        /// The amounts, by dimension.
        amounts: Amounts,
    }
    publishes "budget.used" { "gate": data_of(gate), "execution": execution, "usage": amounts };

    /// A budget reached a limit.
    pub struct LimitReached {
        gate: GateName,
        dimension: String,
        limit: Amount,
        used: Amount,
        /// True for the hard limit, false for the soft limit.
        hard: bool,
    }
    events {
        let kind = if *hard { "budget.hard_breach" } else { "budget.soft_breach" };
        vec![(kind, json!({ "gate": data_of(gate), "dimension": dimension, "limit": limit, "used": used }))]
    };

    /// The usage of a budget was reset to zero.
    pub struct BudgetReset {
        gate: GateName,
        /// The number of the period that begins, which later entries of the ledger carry.
        period: u32,
    }
    publishes "budget.reset" { "gate": data_of(gate), "period": period };
}

fn data_of(gate: &GateName) -> Value {
    json!({ "kind": gate.kind.as_str(), "name": gate.name, "part": gate.part })
}
