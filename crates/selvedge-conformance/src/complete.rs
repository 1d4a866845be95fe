//! Whether a store has every kind of row: a fixture that misses one must not pass for complete.
#![allow(missing_docs)]

use super::copy::Names;
use selvedge_core::fact::{EVENT_TYPES, Fact, Notice};
use selvedge_core::filter::Filter;
use selvedge_core::flow::{FlowFilter, FlowState};
use selvedge_core::gate::{BudgetScope, Config, GateKind, LaneState, OnHard};
use selvedge_core::join::JoinPolicy;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::rows::KeyScope;
use selvedge_core::signal::Effect;
use selvedge_core::state::StateName;
use selvedge_core::step::StepKind;
use selvedge_core::stream::{Frame, FrameKind, StreamName};
use selvedge_core::suspension::{OnTimeout, ResumedBy};
use selvedge_core::transition::Cause;
use selvedge_core::{DueKind, Execution, Flow, Signal, State, Step, Waitpoint, log};
use selvedge_store::Store;
use std::collections::BTreeSet;
use std::fmt::Debug;

/// More than any fixture has of anything.
const ALL: u32 = 100_000;

/// Asserts that every state, outcome, cause, event type and kind that this build knows occurs.
pub async fn check(store: &dyn Store, names: &Names) {
    let mut missing = Missing::default();
    let (mut executions, mut flows): (Vec<Execution>, Vec<Flow>) = Default::default();
    let namespaces = store.namespaces().await.expect("namespaces are read");
    missing.unless("second namespace", namespaces.len() > 1);
    for (namespace, _) in namespaces {
        let found = store.list(&Filter::all(namespace), None, ALL).await.expect("executions are read");
        executions.extend(found.into_iter().map(|stored| stored.execution));
        let found = store.list_flows(&FlowFilter::all(namespace), None, ALL).await;
        flows.extend(found.expect("flows are read"));
    }
    missing.every("state", StateName::ALL, executions.iter().map(|row| row.state.name()));
    missing.every("due", DueKind::ALL, executions.iter().filter_map(|row| Some(row.due()?.kind)));
    missing.every("state of a flow", FlowState::ALL, flows.iter().map(|flow| flow.state));
    check_executions(&executions, &mut missing);
    check_outbox(store, &mut missing).await;
    check_records(store, &executions, &mut missing).await;
    check_gates(store, names, &executions, &mut missing).await;
    check_facts(store, &mut missing).await;
    assert!(missing.0.is_empty(), "the fixture is not complete: {:#?}", missing.0);
}

/// What a fixture lacks.
#[derive(Default)]
struct Missing(Vec<String>);

impl Missing {
    /// Notes those of `all` that were not found.
    fn every<T: Debug + PartialEq>(
        &mut self,
        what: &str,
        all: impl IntoIterator<Item = T>,
        found: impl Iterator<Item = T>,
    ) {
        let found: Vec<T> = found.collect();
        let missing = all.into_iter().filter(|one| !found.contains(one));
        self.0.extend(missing.map(|one| format!("{what}: {one:?}")));
    }

    /// Notes it unless it is there.
    fn unless(&mut self, what: &str, is_there: bool) {
        if !is_there {
            self.0.push(what.to_owned());
        }
    }
}

fn check_executions(executions: &[Execution], missing: &mut Missing) {
    let mut has = |what: &str, is_so: &dyn Fn(&Execution) -> bool| {
        missing.unless(&format!("an execution that {what}"), executions.iter().any(is_so));
    };
    has("is suspended by a gate", &|row| matches!(&row.state, State::Suspended(of) if of.gate().is_some()));
    has("is suspended in a step", &|row| {
        let waits = row.state.suspension().map(|suspension| suspension.waits.as_slice()).unwrap_or_default();
        waits.iter().any(|wait| wait.step.is_some())
    });
    has("waits for children", &|row| row.state.suspension().is_some_and(|of| of.waits_for_children()));
    has("has pages of history", &|row| row.detail.history_pages > 0);
    has("was replayed", &|row| row.detail.generation > 0);
    has("was retried", &|row| row.detail.retries > 0 && row.detail.error.is_some());
    has("was interrupted", &|row| row.detail.interruptions > 0);
    has("is interrupted", &|row| row.detail.interrupted.is_some());
    has("is asked to cancel", &|row| row.detail.cancel.is_some());
    has("has progress", &|row| row.detail.progress.is_some());
    has("has slots", &|row| row.detail.slots.drawn && row.state.lease().is_some());
    has("is the head of a line", &|row| row.detail.head.is_some());
    has("has signals that no wait took", &|row| row.detail.record.untaken > 0);
    has("has an open waitpoint that expires", &|row| row.detail.record.expires_at.is_some());
    has("has a priority", &|row| row.priority != 0);
    has("has tags", &|row| !row.tags.is_empty());
    has("has children", &|row| row.wiring().children.iter().any(|child| !child.detached));
    has("has detached children", &|row| row.wiring().children.iter().any(|child| child.detached));
    has("joins all", &|row| row.join.as_ref().is_some_and(|join| join.policy == JoinPolicy::AllOf));
    has("joins any", &|row| {
        row.join.as_ref().is_some_and(|join| matches!(join.policy, JoinPolicy::AnyOf { .. }))
    });
    has("joins a quorum", &|row| {
        row.join.as_ref().is_some_and(|join| matches!(join.policy, JoinPolicy::Quorum { .. }))
    });
}

async fn check_outbox(store: &dyn Store, missing: &mut Missing) {
    for kind in OutboxKind::ALL {
        let rows = store.outbox(kind, 0, None, ALL).await.expect("the outbox is read");
        missing.unless(&format!("outbox: {kind:?}"), !rows.is_empty());
    }
}

async fn check_records(store: &dyn Store, executions: &[Execution], missing: &mut Missing) {
    let (mut signals, mut steps): (Vec<Signal>, Vec<Step>) = Default::default();
    let (mut waitpoints, mut frames): (Vec<Waitpoint>, Vec<Frame>) = Default::default();
    for row in executions {
        signals.extend(store.signals(row.id, 0, ALL).await.expect("signals are read"));
        steps.extend(store.steps(row.id, 0, ALL).await.expect("steps are read"));
        waitpoints.extend(store.waitpoints(row.id, 0, ALL).await.expect("waitpoints are read"));
        for attempt in 0..row.epoch {
            let name = StreamName { execution: row.id, attempt };
            frames.extend(store.frames(name, 0, ALL).await.expect("frames are read"));
        }
    }
    missing.every("effect of a signal", Effect::ALL, signals.iter().map(|signal| signal.effect));
    missing.unless("signal with a key", signals.iter().any(|signal| signal.key.is_some()));
    missing.unless("signal through a waitpoint", signals.iter().any(|signal| signal.waitpoint.is_some()));
    missing.every("step of kind", StepKind::ALL, steps.iter().map(|step| step.kind));
    missing.unless("open step", steps.iter().any(|step| step.recorded_at.is_none()));
    let states = ["open", "delivered", "expired", "revoked"];
    missing.every("waitpoint that is", states, waitpoints.iter().map(|waitpoint| waitpoint.state.as_str()));
    missing.every("frame of kind", FrameKind::ALL, frames.iter().map(|frame| frame.kind));
    let keys = store.token_keys().await.expect("the keys of tokens are read");
    missing.unless("rotated key of tokens", keys.iter().any(|key| key.retires_at.is_some()));
}

/// Gates of every kind, configured in every way, and something held by each kind that holds.
async fn check_gates(store: &dyn Store, names: &Names, executions: &[Execution], missing: &mut Missing) {
    let gates = store.fetch_gates(&names.gates).await.expect("gates are read");
    missing.every("gate of kind", GateKind::ALL, gates.iter().map(|gate| gate.name.kind));
    // A lane holds nothing: what waits in it stays ready.
    let holding = GateKind::ALL.into_iter().filter(|kind| *kind != GateKind::Lane);
    let held = executions.iter().filter_map(|row| match &row.state {
        State::Held(gate) => Some(gate.kind),
        _ => None,
    });
    missing.every("execution that is held by a gate of kind", holding, held);
    let configs: Vec<&Config> = gates.iter().filter_map(|gate| gate.config.as_ref()).collect();
    missing.every("lane that is", LaneState::ALL, configs.iter().map(|config| config.state));
    missing.every("budget for each", BudgetScope::ALL, configs.iter().map(|config| config.scope));
    missing.every("what a breach does", OnHard::ALL, configs.iter().map(|config| config.on_hard));
    missing.unless(
        "part of a budget that was spent",
        gates.iter().any(|gate| gate.name.part.is_some() && !gate.state.used.is_empty()),
    );
    missing.unless("reserve of a budget", gates.iter().any(|gate| !gate.state.reserved.is_empty()));
    missing.unless("budget that was reset", gates.iter().any(|gate| gate.state.period > 0));
    let scopes = (1..).map_while(KeyScope::from_code);
    missing.every("key of scope", scopes, names.keys.iter().map(|key| key.scope));
}

/// Every cause and every event type stands in the log, which tells of all commits.
async fn check_facts(store: &dyn Store, missing: &mut Missing) {
    let entries = store.log_after(0, ALL).await.expect("the log is read").entries;
    let facts: Vec<Fact> = entries
        .iter()
        .flat_map(|entry| log::unpack(&entry.body).expect("an entry is read"))
        .map(|event| event.fact)
        .collect();
    missing.every("fact with the cause", Cause::ALL, facts.iter().filter_map(Fact::cause));
    let types: BTreeSet<&str> = facts.iter().flat_map(|fact| fact.tell()).map(|(kind, _)| kind).collect();
    missing.every("event", EVENT_TYPES.iter().copied(), types.into_iter());
    let ended = facts.iter().filter_map(|fact| match fact {
        Fact::SuspensionTimedOut { on_timeout, .. } => Some(*on_timeout),
        Fact::Resumed { by: ResumedBy::Timeout, .. } => Some(OnTimeout::Resume),
        Fact::Noticed { notice: Notice::Escalated(_) } => Some(OnTimeout::Escalate),
        _ => None,
    });
    missing.every("suspension that timed out with", OnTimeout::ALL, ended);
}
