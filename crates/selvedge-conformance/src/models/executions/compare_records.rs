//! Compares signals, steps, waitpoints and token keys, and the parts of them that claims carry, with the reference model.
//!
//! `exact` is the store's time at time zero of the model; none on the system clock, where times are not compared.

use super::super::compare::{Comparison, expect_equal};
use super::command::ConditionSpec;
use super::convert::{self, name, payload};
use super::records::{ModelKey, ModelSignal, ModelStep, StepResult, WaitpointStatus};
use super::reference::{ModelExecution, ModelState, Reference, ms};
use super::waits::ModelWait;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::step::{Step, StepKind};
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, ResumedBy};
use selvedge_core::token::TokenKey;
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::{Execution, Name, Signal, State, Timestamp, Waitpoint};

/// Converts a time of the model to one of the store; a constant if times are not compared.
fn store_time(exact: Option<Timestamp>, micros: i64) -> Timestamp {
    exact.map_or(Timestamp::default(), |start| Timestamp::from_micros(start.micros() + micros))
}

/// Returns a time of the store; a constant if times are not compared.
fn comparable(exact: Option<Timestamp>, at: Timestamp) -> Timestamp {
    exact.map_or(Timestamp::default(), |_| at)
}

/// Compares the counters of a row and the waits of its suspension.
pub fn compare_record(known: &ModelExecution, row: &Execution, exact: Option<Timestamp>) -> Comparison {
    let (expected, got) = (&known.record, &row.detail.record);
    let what = |field: &'static str| move || format!("{} {field}", known.id);
    let count = |length: usize| length as u32;
    expect_equal(what("signals"), count(expected.signals.len()), got.signals)?;
    expect_equal(what("untaken signals"), count(expected.untaken()), got.untaken)?;
    expect_equal(what("waitpoints"), count(expected.waitpoints.len()), got.waitpoints)?;
    expect_equal(what("steps"), count(expected.steps.len()), got.steps)?;
    expect_equal(what("suspensions"), expected.suspensions, got.suspensions)?;
    expect_equal(what("bytes"), expected.bytes(), got.bytes)?;
    expect_equal(what("resumed by"), expected.resumed_by, got.resumed_by)?;
    let expiry = expected.next_expiry().map(|micros| store_time(exact, micros));
    expect_equal(what("the next expiry"), expiry, got.expires_at.map(|at| comparable(exact, at)))?;
    let (ModelState::Suspended(waits), State::Suspended(suspension)) = (&known.state, &row.state) else {
        return Ok(());
    };
    expect_equal(what("suspension number"), expected.suspensions, suspension.number)?;
    expect_equal(what("waits"), waits.len(), suspension.waits.len())?;
    for (expected, got) in waits.iter().zip(&suspension.waits) {
        let condition = condition(expected, &expected.spec.condition, &known.record.signals, exact);
        let mut stored = got.condition.clone();
        erase_times(&mut stored, exact);
        expect_equal(what("resume condition"), condition, stored)?;
        expect_equal(
            what("step of a wait"),
            expected.spec.step.map(|(step, _)| name(step)),
            got.step.clone(),
        )?;
        expect_equal(what("escalated"), expected.escalated, got.escalated)?;
        let timeout = expected.spec.timeout_ms.map(|wait| store_time(exact, expected.since + ms(wait)));
        expect_equal(what("the timeout"), timeout, got.timeout_at.map(|at| comparable(exact, at)))?;
    }
    Ok(())
}

/// Returns the condition of a wait, with the signals that it has matched, in the store's form.
fn condition(
    wait: &ModelWait,
    spec: &ConditionSpec,
    all: &[ModelSignal],
    exact: Option<Timestamp>,
) -> Condition {
    let parts =
        |parts: &[ConditionSpec]| parts.iter().map(|part| condition(wait, part, all, exact)).collect();
    match spec {
        ConditionSpec::Signal(named) => {
            Condition::Signal { name: name(*named), received: wait.first(*named, all) }
        }
        ConditionSpec::Any(of) => Condition::Any(parts(of)),
        ConditionSpec::All(of) => Condition::All(parts(of)),
        ConditionSpec::Count { n, of, distinct } => Condition::Count {
            n: *n,
            of: of.iter().map(|named| name(*named)).collect(),
            distinct: *distinct,
            received: wait
                .distinct_signals(*n, of, *distinct, all)
                .into_iter()
                .map(|(value, number)| (name(value), number))
                .collect(),
        },
        ConditionSpec::Until(after) => {
            let time = wait.since + ms(*after);
            Condition::Until { at: When::At(store_time(exact, time)), passed: time <= wait.time_reached }
        }
        ConditionSpec::Operator => Condition::Operator { resumed: wait.allowed },
        ConditionSpec::Children => Condition::Children { ended: wait.children_ended },
    }
}

fn erase_times(condition: &mut Condition, exact: Option<Timestamp>) {
    match condition {
        Condition::Any(parts) | Condition::All(parts) => {
            parts.iter_mut().for_each(|part| erase_times(part, exact));
        }
        Condition::Until { at: When::At(at), .. } => *at = comparable(exact, *at),
        _ => {}
    }
}

pub fn compare_signals(known: &ModelExecution, stored: &[Signal]) -> Comparison {
    let expected = known.record.signals.iter().map(|one| {
        let waitpoint = one.waitpoint.map(|index| {
            let waitpoint = &known.record.waitpoints[index];
            (waitpoint.id, name(waitpoint.name))
        });
        let key = one.key.map(name);
        (
            one.number,
            name(one.name),
            name(one.source),
            waitpoint,
            key,
            one.effect,
            one.taken,
            payload(one.payload),
        )
    });
    let got = stored.iter().map(|one| {
        let waitpoint = one.waitpoint.clone().map(|(id, name)| (Some(id), name));
        let payload = one.payload.clone().unwrap_or_default();
        (
            one.number,
            one.name.clone(),
            one.source.clone(),
            waitpoint,
            one.key.clone(),
            one.effect,
            one.taken,
            payload,
        )
    });
    expect_equal(|| format!("{} the signals", known.id), expected.collect::<Vec<_>>(), got.collect())
}

/// Returns the result of a step as it is stored; that of a wait has the numbers of its signals.
fn result(step: &ModelStep) -> Option<String> {
    step.result.as_ref().map(|outcome| match outcome {
        StepResult::Given(given) => text(&convert::result(*given)),
        StepResult::Waited(by, signals) => waited(*by, signals.iter().map(u32::to_string)),
    })
}

fn waited(by: ResumedBy, signals: impl Iterator<Item = String>) -> String {
    let signals: Vec<String> = signals.collect();
    format!("{{\"resumed_by\":\"{}\",\"signals\":[{}]}}", by.as_str(), signals.join(","))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn compare_steps(known: &ModelExecution, stored: &[Step], exact: Option<Timestamp>) -> Comparison {
    let expected = known.record.steps.iter().zip(1..).map(|(step, number)| {
        let began = exact.map(|_| (store_time(exact, step.started_at), step.attempt));
        (number, name(step.name), step.kind, result(step), step.result.is_some(), began)
    });
    let got = stored.iter().map(|step| {
        let began = exact.map(|_| (step.started_at, step.attempt));
        let result = step.result.as_deref().map(text);
        (step.number, step.name.clone(), step.kind, result, step.recorded_at.is_some(), began)
    });
    expect_equal(|| format!("{} the steps", known.id), expected.collect::<Vec<_>>(), got.collect())
}

/// Compares the waitpoints of an execution. The model takes the ids of new waitpoints and of the keys that sign them
/// from the store, and expects them from then on.
pub fn compare_waitpoints(
    known: &mut ModelExecution,
    keys: &mut [ModelKey],
    stored: &[Waitpoint],
    exact: Option<Timestamp>,
) -> Comparison {
    let what = |field: &'static str| move || format!("waitpoints: {field}");
    expect_equal(what("count"), known.record.waitpoints.len(), stored.len())?;
    for ((expected, got), number) in known.record.waitpoints.iter_mut().zip(stored).zip(1..) {
        let id = *expected.id.get_or_insert(got.id);
        let key = *keys[expected.key].id.get_or_insert(got.key);
        let status = match expected.status {
            WaitpointStatus::Open => WaitpointState::Open,
            WaitpointStatus::Delivered(number, effect) => WaitpointState::Delivered(number, effect),
            WaitpointStatus::Expired => WaitpointState::Expired,
            WaitpointStatus::Revoked => WaitpointState::Revoked,
        };
        expect_equal(what("ids and keys"), (id, number, key), (got.id, got.number, got.key))?;
        expect_equal(
            what("names"),
            (name(expected.name), name(expected.source)),
            (got.name.clone(), got.source.clone()),
        )?;
        expect_equal(what("states"), status, got.state)?;
        let signals: Vec<Name> = expected.signals.iter().map(|signal| name(*signal)).collect();
        expect_equal(what("signals"), (Some(signals), expected.issue), (got.signals.clone(), got.issue))?;
        let expiry = expected.expires_at.map(|micros| store_time(exact, micros));
        expect_equal(what("expiries"), expiry, got.expires_at.map(|at| comparable(exact, at)))?;
    }
    Ok(())
}

pub fn compare_keys(keys: &[ModelKey], stored: &[TokenKey], exact: Option<Timestamp>) -> Comparison {
    let kept = keys.iter().filter(|key| !key.removed);
    let mut expected: Vec<_> =
        kept.map(|key| key.retires_at.map(|micros| store_time(exact, micros))).collect();
    let mut got: Vec<_> = stored.iter().map(|key| key.retires_at.map(|at| comparable(exact, at))).collect();
    expected.sort();
    got.sort();
    expect_equal(|| "the keys of tokens".into(), expected, got)
}

/// Compares what a claim carries: the signals that the newest suspension took, and the recorded steps.
pub fn compare_claimed(reference: &Reference, claimed: &Claimed) -> Comparison {
    let id = claimed.execution.id;
    let known = reference.executions.get(&id).ok_or("the model does not know the claimed execution")?;
    let record = &known.record;
    let taken = record.signals.iter().filter(|one| one.taken == Some(record.suspensions));
    let mut signals: Vec<_> = taken
        .filter(|_| record.resumed_by.is_some())
        .map(|one| {
            (one.number, name(one.name), name(one.source), one.through.map(name), payload(one.payload))
        })
        .collect();
    if record.resumed_by == Some(ResumedBy::Timeout) {
        let word = selvedge_core::Name::trusted;
        signals.push((0, word("timeout"), word("selvedge"), None, "null".into()));
    }
    let got = claimed.signals.iter().map(|one| {
        let through = one.waitpoint.as_ref().map(|(_, name)| name.clone());
        (one.number, one.name.clone(), one.source.clone(), through, one.payload.clone().unwrap_or_default())
    });
    expect_equal(|| format!("{id}: the signals that its claim carries"), signals, got.collect())?;
    let steps = record.steps.iter().filter(|step| step.result.is_some());
    let expected: Vec<_> =
        steps.map(|step| (name(step.name), step.kind, carried_result(step, record))).collect();
    let got = claimed
        .steps
        .iter()
        .map(|step| (step.name.clone(), step.kind, text(step.result.as_deref().unwrap_or_default())));
    expect_equal(|| format!("{id}: the steps that its claim carries"), expected, got.collect())
}

/// Returns the result of a step as a claim carries it; that of a wait has the signals that it took.
fn carried_result(step: &ModelStep, record: &super::records::Record) -> String {
    let carried_signal = |number: &u32| {
        let signal = &record.signals[*number as usize - 1];
        let through =
            signal.through.map_or("null".to_owned(), |through| format!("\"{}\"", convert::word(through)));
        format!(
            "{{\"name\":\"{}\",\"payload\":{},\"source\":\"{}\",\"waitpoint\":{through}}}",
            convert::word(signal.name),
            text(&payload(signal.payload)),
            convert::word(signal.source)
        )
    };
    match &step.result {
        Some(StepResult::Waited(by, signals)) if step.kind != StepKind::Step => {
            waited(*by, signals.iter().map(carried_signal))
        }
        _ => result(step).unwrap_or_default(),
    }
}
