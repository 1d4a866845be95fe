//! Explains why an execution does not run and when that may change. The API, the command line and the pages all show
//! this text.

use crate::execution::DueKind;
use crate::gate::draws::{Taken, lane_gate, taken};
use crate::gate::{Gate, GateKind, GateName, HoldReason, LaneState, Shut};
use crate::join::{JoinPolicy, Resolution};
use crate::state::StateName;
use crate::{Class, Execution, Lease, Name, Session, State, Suspension, Timestamp};
use std::collections::BTreeSet;

/// The most executions named as holders of one gate.
const HOLDERS_MAX: usize = 10;

/// A reason why an execution does not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// The stable code.
    pub code: &'static str,
    /// The reason as a sentence.
    pub message: String,
    /// The subject: the name of a lane or gate, or the id of a lease or execution.
    pub reference: Option<String>,
    /// The time at which the reason ends, if known.
    pub until: Option<Timestamp>,
}

/// The explanation of an execution's state.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The public name of the state.
    pub state: &'static str,
    /// The reasons why it does not run.
    pub reasons: Vec<Reason>,
    /// The earliest time at which something changes by itself, if known.
    pub next_change: Option<Timestamp>,
}

/// The rows around an execution that its explanation uses.
#[derive(Clone, Debug)]
pub struct ExplainContext<'a> {
    /// The execution's class.
    pub class: &'a Class,
    /// The sessions of the namespace.
    pub sessions: &'a [Session],
    /// The number of waiting executions of its class before it, counted up to a bound; none if it was not counted.
    pub ahead: Option<u64>,
    /// Upstreams that have not ended, up to a bound.
    pub upstreams: &'a [Execution],
    /// The rows of its lane and of the gate that holds it, if they exist.
    pub gates: &'a [Gate],
    /// Active executions that may have taken slots of these gates, up to a bound.
    pub running: &'a [Execution],
    /// The current time.
    pub now: Timestamp,
}

/// Explains why `row` does not run.
pub fn explain(row: &Execution, around: &ExplainContext<'_>) -> Explanation {
    let mut reasons = Vec::new();
    match &row.state {
        State::WaitingDependencies => reasons.extend(upstreams(row, around)),
        State::Waiting => {
            reasons.extend(lane(row, around));
            let worker = worker(row, around);
            // While the lane refuses, a free worker would not help.
            if reasons.is_empty() || worker.code != FREE_WORKER {
                reasons.push(worker);
            }
        }
        State::Delayed { until } => reasons.push(delayed(row, *until)),
        State::Active(lease) => reasons.extend(active(row, lease, around)),
        State::Held(gate) => reasons.extend(held(row, gate, around)),
        State::Suspended(suspension) => reasons.extend(suspended(row, suspension, around)),
        State::Terminal(outcome) => reasons.push(Reason {
            code: "ended",
            message: format!("it ended as {outcome}"),
            reference: None,
            until: row.delete_at(),
        }),
    }
    if let Some(due) = row.due().filter(|due| due.kind == DueKind::Deadline && row.detail.cancel.is_none()) {
        reasons.push(Reason {
            code: "deadline",
            message:
                "it expires at that time unless it has ended by then, or started, if only start_by_ms is set"
                    .into(),
            reference: None,
            until: Some(due.at),
        });
    }
    let next_change =
        reasons.iter().filter_map(|reason| reason.until).chain(row.due().map(|due| due.at)).min();
    let lane = lane_gate(row.namespace, &around.class.lane);
    let paused = around.gates.iter().any(|gate| gate.name == lane && is_paused(gate));
    Explanation { state: shown_state(&row.state, paused).as_str(), reasons, next_change }
}

/// Reports whether a gate is a paused lane.
pub fn is_paused(gate: &Gate) -> bool {
    gate.name.kind == GateKind::Lane
        && gate.config.as_ref().is_some_and(|config| config.state == LaneState::Paused)
}

/// Returns the state that callers see. A waiting execution in a paused lane is shown as held; its row does not change.
pub fn shown_state(state: &State, lane_is_paused: bool) -> StateName {
    match state {
        State::Waiting if lane_is_paused => StateName::Held,
        state => state.name(),
    }
}

impl ExplainContext<'_> {
    fn gate(&self, name: &GateName) -> Gate {
        let known = self.gates.iter().find(|gate| gate.name == *name);
        known.cloned().unwrap_or_else(|| Gate::new(name.clone()))
    }
}

/// Explains which worker runs an active execution.
fn active(row: &Execution, lease: &Lease, around: &ExplainContext<'_>) -> Vec<Reason> {
    let session = around.sessions.iter().find(|session| session.id == lease.session);
    let renewed = session.and_then(Session::renewed_until).unwrap_or_default();
    let mut reasons = vec![Reason {
        code: "active",
        message: format!(
            "it is active: worker {} (instance {}) runs attempt {} under epoch {}",
            lease.worker,
            lease.instance,
            row.attempt().unwrap_or_default(),
            row.epoch
        ),
        reference: Some(lease.id.to_string()),
        until: Some(lease.first_term().max(renewed)),
    }];
    reasons.extend(row.detail.cancel.as_ref().map(|cancel| Reason {
        code: "cancel_requested",
        message: "its worker was asked to cancel and has until the end of the grace period".into(),
        reference: None,
        until: Some(cancel.until),
    }));
    reasons
}

/// Explains the waits of a suspended execution.
fn suspended(row: &Execution, suspension: &Suspension, around: &ExplainContext<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for wait in &suspension.waits {
        reasons.push(Reason {
            code: "suspended",
            message: format!("it waits for {}", wait.condition.describe()),
            reference: wait.step.as_ref().map(Name::to_string),
            until: wait.next_time(),
        });
        if let Some(at) = wait.timeout_at {
            let message = match wait.escalated {
                true => "the wait timed out and was escalated; it continues".to_owned(),
                false => format!("action when the wait times out: {}", wait.on_timeout.as_str()),
            };
            let until = Some(at).filter(|_| !wait.escalated);
            reasons.push(Reason { code: "suspension_timeout", message, reference: None, until });
        }
    }
    reasons.extend(suspension.gate().into_iter().flat_map(|gate| held(row, gate, around)));
    reasons
}

/// Explains why the lane refuses a waiting execution, and which executions have the lane's slots.
fn lane(row: &Execution, around: &ExplainContext<'_>) -> Vec<Reason> {
    let name = lane_gate(row.namespace, &around.class.lane);
    let shut = refuses(row, &name, around);
    shut.map_or_else(Vec::new, |shut| refused(&name, &shut, around))
}

/// Explains why a gate holds an execution, and which executions have its slots.
fn held(row: &Execution, name: &GateName, around: &ExplainContext<'_>) -> Vec<Reason> {
    if let Some(shut) = refuses(row, name, around) {
        return refused(name, &shut, around);
    }
    let (code, message) = match name.kind {
        GateKind::Fair => ("fairness_turn", format!("another execution comes before it in {name}")),
        GateKind::Lane | GateKind::Key | GateKind::Quota | GateKind::Budget => {
            ("gate_open", format!("{name} has room again and will release it in order"))
        }
    };
    vec![Reason { code, message, reference: Some(name.name.to_string()), until: None }]
}

/// Returns the reason why a gate refuses an execution now; none if it would admit it.
fn refuses(row: &Execution, name: &GateName, around: &ExplainContext<'_>) -> Option<Shut> {
    let whole = around.gate(&GateName { part: None, ..name.clone() });
    let (gate, config) = (around.gate(name), whole.config.unwrap_or_default());
    let required_gates = &row.spec.required_gates;
    match name.kind {
        GateKind::Lane | GateKind::Quota => gate.refuses(&config, None, Some(row.id), around.now),
        GateKind::Key => {
            let own = required_gates.concurrency.as_ref().filter(|(key, _)| *key == name.name);
            gate.refuses(&config, own.map(|(_, limit)| *limit), Some(row.id), around.now)
        }
        GateKind::Budget => {
            let drawn = required_gates.budgets.iter().find(|(budget, _)| *budget == name.name);
            let reserve = drawn.map(|(_, reserve)| reserve.clone()).unwrap_or_default();
            if let Some(why) = gate.never_admits(&config.limits, &reserve) {
                return Some(Shut { why, until: None });
            }
            let why = gate.refuses_to_spend(&config.limits, &reserve, Some(row.id), around.now)?;
            Some(Shut { why, until: gate.state.resets_at })
        }
        GateKind::Fair => None,
    }
}

/// Returns the gate's reason, and the holders of its slots if the end of one of them would free room.
fn refused(name: &GateName, shut: &Shut, around: &ExplainContext<'_>) -> Vec<Reason> {
    let (code, freed_by_an_end) = match shut.why {
        HoldReason::Paused => ("lane_paused", false),
        HoldReason::Counting => ("lane_counting", false),
        HoldReason::Concurrency { .. } => ("concurrency_limit", true),
        HoldReason::Rate(_) => ("rate_limit", false),
        // No end and no reset of the budget lets it start.
        HoldReason::Budget { wanted, hard, .. } if wanted > hard => ("reserve_exceeds_limit", false),
        HoldReason::Budget { .. } => ("budget_limit", true),
    };
    // A rate of zero never has room.
    let until = shut.until.filter(|until| *until < Timestamp::from_micros(i64::MAX));
    let reference = Some(name.name.to_string());
    let mut reasons = vec![Reason { code, message: shut.describe(name), reference, until }];
    let holders = around.running.iter().filter(|one| freed_by_an_end && holds(one, name));
    for (one, lease) in holders.filter_map(|one| Some((one, one.state.lease()?))).take(HOLDERS_MAX) {
        let what = match name.kind {
            GateKind::Budget => "has reserved an amount of",
            GateKind::Lane | GateKind::Key | GateKind::Quota | GateKind::Fair => "has a slot of",
        };
        let (worker, instance) = (&lease.worker, &lease.instance);
        let message =
            format!("execution {} {what} {name}; worker {worker} (instance {instance}) runs it", one.id);
        reasons.push(Reason { code: "holder", message, reference: Some(one.id.to_string()), until: None });
    }
    reasons
}

/// Reports whether the claim of an active execution took a slot or reserved an amount of a gate.
fn holds(row: &Execution, name: &GateName) -> bool {
    taken(row, &row.detail.slots).iter().any(|taken| match taken {
        Taken::Slot(of) | Taken::Reserve(of, _) => of == name,
    })
}

/// Explains which upstreams an execution waits for, and how far its edge group is.
fn upstreams(row: &Execution, around: &ExplainContext<'_>) -> Vec<Reason> {
    let Some(join) = &row.join else { return Vec::new() };
    let [holds, dead, pending] =
        [Resolution::Holds, Resolution::Dead, Resolution::Pending].map(|one| join.count(one));
    let wants = match join.policy {
        JoinPolicy::AllOf => format!("all of {}", join.edges.len()),
        JoinPolicy::AnyOf { .. } => format!("any of {}", join.edges.len()),
        JoinPolicy::Quorum { k, .. } => format!("{k} of {}", join.edges.len()),
    };
    let message =
        format!("it waits for {wants} upstreams: {holds} edges hold, {dead} are dead, {pending} are pending");
    let mut reasons = vec![Reason { code: "waiting_for_upstreams", message, reference: None, until: None }];
    for upstream in around.upstreams {
        let name = upstream.node().unwrap_or("an upstream");
        let state = upstream.state.name().as_str();
        let message = match upstream.state.outcome() {
            None => format!("{name} is {state}"),
            Some(_) => format!("{name} is {state}; its edge is about to be updated"),
        };
        let reference = Some(upstream.id.to_string());
        reasons.push(Reason { code: "upstream_open", message, reference, until: None });
    }
    reasons
}

fn delayed(row: &Execution, until: Timestamp) -> Reason {
    let (code, message) = if row.detail.interrupted.is_some() {
        ("backoff", format!("it backs off after interruption {}", row.detail.interruptions))
    } else if row.detail.retries > 0 && row.detail.error.is_some() {
        let limit = row.spec.policy.retry.max_retries;
        ("backoff", format!("it backs off before retry {} of {limit}", row.detail.retries))
    } else {
        ("delayed", "its start was delayed by request".into())
    };
    Reason { code, message, reference: None, until: Some(until) }
}

/// The code for an execution that lacks nothing but a free worker.
const FREE_WORKER: &str = "waiting_for_worker";

/// Explains which workers a waiting execution lacks.
fn worker(row: &Execution, around: &ExplainContext<'_>) -> Reason {
    let class = around.class;
    let reason =
        |code, message| Reason { code, message, reference: Some(class.lane.to_string()), until: None };
    let live: Vec<&Session> = around
        .sessions
        .iter()
        .filter(|session| session.namespace() == row.namespace && session.is_live(around.now))
        .collect();
    let in_lane: Vec<&&Session> =
        live.iter().filter(|session| session.scope.lanes.contains(&class.lane)).collect();
    if in_lane.is_empty() {
        let known = live.len();
        let message =
            format!("no live worker claims from lane {} ({known} are live in other lanes)", class.lane);
        return reason("no_worker_in_lane", message);
    }
    let of_kind = in_lane
        .iter()
        .filter(|session| session.scope.kinds.as_ref().is_none_or(|kinds| kinds.contains(&class.kind)));
    let of_kind: Vec<_> = of_kind.collect();
    if of_kind.is_empty() {
        return reason(
            "no_worker_of_kind",
            format!("no live worker in lane {} runs kind {}", class.lane, class.kind),
        );
    }
    let capable = of_kind.iter().filter(|session| class.capabilities.is_subset(&session.scope.capabilities));
    let capable: Vec<_> = capable.collect();
    if capable.is_empty() {
        let offered: BTreeSet<_> =
            of_kind.iter().flat_map(|session| session.scope.capabilities.iter()).collect();
        let missing: Vec<&str> =
            class.capabilities.iter().filter(|one| !offered.contains(one)).map(|one| one.as_str()).collect();
        let message = match missing.is_empty() {
            true => "no single live worker has all the capabilities it requires".to_owned(),
            false => format!("no live worker has the capability {}", missing.join(", ")),
        };
        return reason("no_capable_worker", message);
    }
    if capable.iter().all(|session| session.draining) {
        return reason(
            "workers_draining",
            format!("all {} workers that could run it are draining", capable.len()),
        );
    }
    let ahead = match around.ahead {
        Some(0) => "it is next".to_owned(),
        Some(count) => format!("{count} executions of its class come before it"),
        None => "other executions come before it".to_owned(),
    };
    let instances: BTreeSet<&str> = capable.iter().map(|session| session.instance.as_str()).collect();
    let message = format!("it waits for a free worker: {} live workers can run it; {ahead}", instances.len());
    reason(FREE_WORKER, message)
}
