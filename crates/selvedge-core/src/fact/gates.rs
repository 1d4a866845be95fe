//! Facts about gates, and about the executions that they hold.

use super::events::{EventBody, attempt_ended, time_data};
use super::{LeaseRef, Next, Recorded};
use crate::amount::Amount;
use crate::gate::{Amounts, GateName};
use crate::history::AttemptEnd;
use crate::state::StateName;
use crate::{ExecutionId, Suspension, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A gate refused the execution and holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    pub gate: GateName,
    /// The gate's reason.
    pub reason: String,
    /// The time at which the gate may admit it, if known.
    pub until: Option<Timestamp>,
}

impl Recorded for Held {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { gate, reason, until } = self;
        let mut data = time_data("until_at", *until);
        data["gate"] = gate_data(gate);
        data["reason"] = json!(reason);
        vec![("execution.held", data)]
    }

    fn state_after(&self) -> Option<StateName> {
        Some(StateName::Held)
    }
}

/// The gate that held the execution released it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Admitted {
    pub gate: GateName,
}

impl Recorded for Admitted {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { gate } = self;
        vec![("execution.released", json!({ "gate": gate_data(gate) })), ("execution.ready", json!({}))]
    }

    fn state_after(&self) -> Option<StateName> {
        Some(StateName::Waiting)
    }
}

/// A lane whose limit was set counts the active execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adopted {
    pub gate: GateName,
}

impl Recorded for Adopted {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { gate } = self;
        vec![("execution.adopted", json!({ "gate": gate_data(gate) }))]
    }
}

/// A budget that the execution spends from is exhausted, and the execution was stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Breached {
    /// The lease that ended.
    pub lease: LeaseRef,
    pub gate: GateName,
    /// The state that follows.
    pub next: Next,
    /// The suspension that waits for the budget, if the execution is suspended.
    pub suspension: Option<Suspension>,
}

impl Recorded for Breached {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { lease, gate, next, suspension } = self;
        let mut events = attempt_ended(lease, "breached", None, *next, "execution.delayed");
        if let Some((_, data)) = events.last_mut() {
            *data = match suspension {
                Some(suspension) => suspension.public_data(),
                None => json!({ "reason": "budget", "gate": gate_data(gate) }),
            };
        }
        events
    }

    fn attempt_end(&self) -> Option<(u32, AttemptEnd)> {
        Some((self.lease.attempt(), AttemptEnd { outcome: "breached", next: self.next, digest: None }))
    }
}

/// An operator configured a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateConfigured {
    pub gate: GateName,
}

impl Recorded for GateConfigured {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { gate } = self;
        vec![("operator.gate_configured", json!({ "gate": gate_data(gate) }))]
    }
}

/// An operator removed the configuration of a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateRemoved {
    pub gate: GateName,
}

impl Recorded for GateRemoved {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { gate } = self;
        vec![("operator.gate_removed", json!({ "gate": gate_data(gate) }))]
    }
}

/// Usage was charged to a budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    pub gate: GateName,
    /// The execution that spent it, if one did.
    pub execution: Option<ExecutionId>,
    /// The amounts, by dimension.
    pub amounts: Amounts,
}

impl Recorded for Spent {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { gate, execution, amounts } = self;
        let data = json!({ "gate": gate_data(gate), "execution": execution, "usage": amounts });
        vec![("budget.used", data)]
    }
}

/// A budget reached a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitReached {
    pub gate: GateName,
    pub dimension: String,
    pub limit: Amount,
    pub used: Amount,
    /// True for the hard limit, false for the soft limit.
    pub hard: bool,
}

impl Recorded for LimitReached {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { gate, dimension, limit, used, hard } = self;
        let data = json!({
            "gate": gate_data(gate), "dimension": dimension, "limit": limit, "used": used,
        });
        vec![(if *hard { "budget.hard_breach" } else { "budget.soft_breach" }, data)]
    }
}

/// The usage of a budget was reset to zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetReset {
    pub gate: GateName,
    /// The new period.
    pub period: u32,
}

impl Recorded for BudgetReset {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { gate, period } = self;
        vec![("budget.reset", json!({ "gate": gate_data(gate), "period": period }))]
    }
}

pub(super) fn gate_data(gate: &GateName) -> Value {
    json!({ "kind": gate.kind.as_str(), "name": gate.name, "part": gate.part })
}
