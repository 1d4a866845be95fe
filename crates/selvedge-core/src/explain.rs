//! Why something does not run, and when that will change. One function; API, command line and pages show its text.

use crate::execution::DueKind;
use crate::gate::draws::{Taken, lane_gate, taken};
use crate::gate::{Gate, GateKind, GateName, HoldReason, LaneState, Shut};
use crate::join::{JoinPolicy, Resolution};
use crate::state::StateName;
use crate::{Class, Execution, Name, Session, State, Timestamp};
use std::collections::BTreeSet;

/// How many of those that hold a gate are named.
const HOLDERS_MAX: usize = 10;

/// One fact that holds an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// A stable word.
    pub code: &'static str,
    /// A sentence for people.
    pub message: String,
    /// What it is about: a lane, a lease, an instance.
    pub reference: Option<String>,
    /// Until when it holds, where that is known.
    pub until: Option<Timestamp>,
}

/// Why an execution does not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Its public state.
    pub state: &'static str,
    /// What holds it.
    pub reasons: Vec<Reason>,
    /// When the next of these will change by itself, where that is known.
    pub next_change: Option<Timestamp>,
}

/// What is known around an execution.
#[derive(Clone, Debug)]
pub struct ExplainContext<'a> {
    /// Its class.
    pub class: &'a Class,
    /// The sessions of its namespace.
    pub sessions: &'a [Session],
    /// How many ready executions of its class come before it, counted up to a bound.
    pub ahead: Option<u64>,
    /// Upstreams that it waits for, some of them.
    pub upstreams: &'a [Execution],
    /// Its lane and the gate that it waits for, as far as they have rows.
    pub gates: &'a [Gate],
    /// Executions that run, some of them: those that may hold these gates.
    pub running: &'a [Execution],
    /// The time.
    pub now: Timestamp,
}

/// Explains `row`.
pub fn explain(row: &Execution, around: &ExplainContext<'_>) -> Explanation {
    let mut reasons = Vec::new();
    match &row.state {
        State::WaitingDependencies => reasons.extend(blocked(row, around)),
        State::Waiting => {
            reasons.extend(in_lane(row, around));
            let waiting = waiting(row, around);
            // A worker that is free is nothing to wait for while the lane gives nothing out.
            if reasons.is_empty() || waiting.code != FREE_WORKER {
                reasons.push(waiting);
            }
        }
        State::Delayed { until } => reasons.push(delayed(row, *until)),
        State::Active(lease) => {
            let session = around.sessions.iter().find(|session| session.id == lease.session);
            let renewed = session.and_then(Session::renewed_until).unwrap_or_default();
            let until = lease.first_term().max(renewed);
            reasons.push(Reason {
                code: "active",
                message: format!(
                    "it is running: worker {} (instance {}) holds attempt {} under epoch {}",
                    lease.worker,
                    lease.instance,
                    row.attempt().unwrap_or_default(),
                    row.epoch
                ),
                reference: Some(lease.id.to_string()),
                until: Some(until),
            });
            if let Some(cancel) = &row.detail.cancel {
                reasons.push(Reason {
                    code: "cancel_requested",
                    message: "its worker was asked to cancel and is in its grace period".into(),
                    reference: None,
                    until: Some(cancel.until),
                });
            }
        }
        State::Held(gate) => reasons.extend(held(row, gate, around)),
        State::Suspended(suspension) => {
            for wait in &suspension.waits {
                reasons.push(Reason {
                    code: "suspended",
                    message: format!("it waits for {}", wait.condition.describe()),
                    reference: wait.step.as_ref().map(Name::to_string),
                    until: wait.next_time(),
                });
                if let Some(at) = wait.timeout_at {
                    let message = match wait.escalated {
                        true => "it has waited for too long, which was escalated; it waits on".to_owned(),
                        false => {
                            format!("what happens if it waits for too long: {}", wait.on_timeout.as_str())
                        }
                    };
                    let until = Some(at).filter(|_| !wait.escalated);
                    reasons.push(Reason { code: "suspension_timeout", message, reference: None, until });
                }
            }
            reasons.extend(suspension.gate().into_iter().flat_map(|gate| held(row, gate, around)));
        }
        State::Terminal(outcome) => reasons.push(Reason {
            code: "ended",
            message: format!("it has ended as {outcome}"),
            reference: None,
            until: row.delete_at(),
        }),
    }
    if let Some(due) = row.due().filter(|due| due.kind == DueKind::Deadline && row.detail.cancel.is_none()) {
        reasons.push(Reason {
            code: "deadline",
            message: "it expires if it has not ended, or not started where only a start-by is set, by then"
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

/// Whether a gate is a lane that gives nothing out.
pub fn is_paused(gate: &Gate) -> bool {
    gate.name.kind == GateKind::Lane
        && gate.config.as_ref().is_some_and(|config| config.state == LaneState::Paused)
}

/// The state as callers are shown it: what is ready in a lane that is paused is held by it, without a change of its row.
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

/// Why the lane of a ready execution does not give it out, and who has its slots.
fn in_lane(row: &Execution, around: &ExplainContext<'_>) -> Vec<Reason> {
    let name = lane_gate(row.namespace, &around.class.lane);
    let shut = refuses(row, &name, around);
    shut.map_or_else(Vec::new, |shut| refused(&name, &shut, around))
}

/// Why the gate that an execution waits for does not let it go on, and who holds that.
fn held(row: &Execution, name: &GateName, around: &ExplainContext<'_>) -> Vec<Reason> {
    if let Some(shut) = refuses(row, name, around) {
        return refused(name, &shut, around);
    }
    let (code, message) = match name.kind {
        GateKind::Fair => ("fairness_turn", format!("another with its {name} comes first")),
        GateKind::Lane | GateKind::Key | GateKind::Quota | GateKind::Budget => {
            ("gate_open", format!("{name} has room again, and lets it go on in its turn"))
        }
    };
    vec![Reason { code, message, reference: Some(name.name.to_string()), until: None }]
}

/// Why a gate would not let an execution through now.
fn refuses(row: &Execution, name: &GateName, around: &ExplainContext<'_>) -> Option<Shut> {
    let whole = around.gate(&GateName { part: None, ..name.clone() });
    let (gate, config) = (around.gate(name), whole.config.unwrap_or_default());
    let required_gates = &row.spec.required_gates;
    match name.kind {
        GateKind::Lane | GateKind::Quota => gate.refuses(&config, None, around.now),
        GateKind::Key => {
            let own = required_gates.concurrency.as_ref().filter(|(key, _)| *key == name.name);
            gate.refuses(&config, own.map(|(_, limit)| *limit), around.now)
        }
        GateKind::Budget => {
            let drawn = required_gates.budgets.iter().find(|(budget, _)| *budget == name.name);
            let reserve = drawn.map(|(_, reserve)| reserve.clone()).unwrap_or_default();
            let why = gate.refuses_to_spend(&config.limits, &reserve)?;
            Some(Shut { why, until: gate.state.resets_at })
        }
        GateKind::Fair => None,
    }
}

/// The reason that a gate gives, and those that hold it where their end would open it.
fn refused(name: &GateName, shut: &Shut, around: &ExplainContext<'_>) -> Vec<Reason> {
    let (code, opens_with_an_end) = match shut.why {
        HoldReason::Paused => ("lane_paused", false),
        HoldReason::Concurrency { .. } => ("concurrency_limit", true),
        HoldReason::Rate(_) => ("rate_limit", false),
        HoldReason::Budget { .. } => ("budget_limit", true),
    };
    // A rate of nothing never has room.
    let until = shut.until.filter(|until| *until < Timestamp::from_micros(i64::MAX));
    let reference = Some(name.name.to_string());
    let mut reasons = vec![Reason { code, message: shut.describe(name), reference, until }];
    let holders = around.running.iter().filter(|one| opens_with_an_end && holds(one, name));
    for (one, lease) in holders.filter_map(|one| Some((one, one.state.lease()?))).take(HOLDERS_MAX) {
        let what = match name.kind {
            GateKind::Budget => "draws on",
            GateKind::Lane | GateKind::Key | GateKind::Quota | GateKind::Fair => "has a slot of",
        };
        let (worker, instance) = (&lease.worker, &lease.instance);
        let message =
            format!("execution {} {what} {name}; worker {worker} (instance {instance}) runs it", one.id);
        reasons.push(Reason { code: "holder", message, reference: Some(one.id.to_string()), until: None });
    }
    reasons
}

/// Whether the claim of a running execution has taken something of a gate.
fn holds(row: &Execution, name: &GateName) -> bool {
    taken(row, &row.detail.slots).iter().any(|taken| match taken {
        Taken::Slot(of) | Taken::Reserve(of, _) => of == name,
    })
}

/// The open edges: whom it waits for, and how far its group is.
fn blocked(row: &Execution, around: &ExplainContext<'_>) -> Vec<Reason> {
    let Some(join) = &row.join else { return Vec::new() };
    let [holds, dead, pending] =
        [Resolution::Holds, Resolution::Dead, Resolution::Pending].map(|one| join.count(one));
    let wants = match join.policy {
        JoinPolicy::AllOf => format!("all of {}", join.edges.len()),
        JoinPolicy::AnyOf { .. } => format!("any of {}", join.edges.len()),
        JoinPolicy::Quorum { k, .. } => format!("{k} of {}", join.edges.len()),
    };
    let message =
        format!("it waits for {wants} upstreams: {holds} hold, {dead} are dead, {pending} are open");
    let mut reasons = vec![Reason { code: "waiting_for_upstreams", message, reference: None, until: None }];
    for upstream in around.upstreams {
        let name = upstream.node().unwrap_or("an upstream");
        let state = upstream.state.name().as_str();
        let message = match upstream.state.outcome() {
            None => format!("{name} is {state}"),
            Some(_) => format!("{name} is {state}, and that is on its way here"),
        };
        let reference = Some(upstream.id.to_string());
        reasons.push(Reason { code: "upstream_open", message, reference, until: None });
    }
    reasons
}

fn delayed(row: &Execution, until: Timestamp) -> Reason {
    let (code, message) = if row.detail.interrupted.is_some() {
        ("backoff", format!("it waits after interruption {}", row.detail.interruptions))
    } else if row.detail.retries > 0 && row.detail.error.is_some() {
        let limit = row.spec.policy.retry.max_retries;
        ("backoff", format!("it waits before retry {} of {limit}", row.detail.retries))
    } else {
        ("delayed", "it was asked to start no earlier".into())
    };
    Reason { code, message, reference: None, until: Some(until) }
}

/// The code of what waits for nothing but a worker that is free.
const FREE_WORKER: &str = "waiting_for_worker";

fn waiting(row: &Execution, around: &ExplainContext<'_>) -> Reason {
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
        let message = format!("no live worker claims from lane {} ({known} live in other lanes)", class.lane);
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
        Some(count) => format!("{count} of the same class come before it"),
        None => "others come before it".to_owned(),
    };
    let instances: BTreeSet<&str> = capable.iter().map(|session| session.instance.as_str()).collect();
    let message = format!("it waits for a free worker: {} live can run it; {ahead}", instances.len());
    reason(FREE_WORKER, message)
}
