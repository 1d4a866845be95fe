//! Compares what is recorded beside executions, and what claims carry of it, with what the reference model knows.
//!
//! `exact` is the store's time at which the model's began, where the clock can be moved: else times are not compared.

use super::command::Shape;
use super::compare::{Differ, same};
use super::recorded::{Arrived, Key, Noted, Outcome, Stands};
use super::reference::{Known, Place, Reference, ms};
use super::rules::{self, name, payload};
use super::waiting::Waiting;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::step::{Step, StepKind};
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, ResumedBy};
use selvedge_core::token::TokenKey;
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::{Execution, Signal, State, Timestamp, Waitpoint};

/// A time of the model as one of the store; always the same where times are not compared.
fn at(exact: Option<Timestamp>, micros: i64) -> Timestamp {
    exact.map_or(Timestamp::default(), |start| Timestamp::from_micros(start.micros() + micros))
}

/// A time of the store, or always the same where times are not compared.
fn told(exact: Option<Timestamp>, at: Timestamp) -> Timestamp {
    exact.map_or(Timestamp::default(), |_| at)
}

/// Compares the counters of a row, and what it waits for.
pub fn compare_record(known: &Known, row: &Execution, exact: Option<Timestamp>) -> Differ {
    let (expected, got) = (&known.record, &row.detail.record);
    let what = |field: &'static str| move || format!("{} {field}", known.id);
    let count = |length: usize| length as u32;
    same(what("signals"), count(expected.signals.len()), got.signals)?;
    same(what("signals that are not taken"), count(expected.untaken()), got.untaken)?;
    same(what("waitpoints"), count(expected.waitpoints.len()), got.waitpoints)?;
    same(what("steps"), count(expected.steps.len()), got.steps)?;
    same(what("suspensions"), expected.suspensions, got.suspensions)?;
    same(what("bytes"), expected.bytes(), got.bytes)?;
    same(what("what it was resumed by"), expected.resumed_by, got.resumed_by)?;
    let expiry = expected.next_expiry().map(|micros| at(exact, micros));
    same(what("the next expiry"), expiry, got.expires_at.map(|at| told(exact, at)))?;
    let (Place::Suspended(waits), State::Suspended(suspension)) = (&known.place, &row.state) else {
        return Ok(());
    };
    same(what("the number of its suspension"), expected.suspensions, suspension.number)?;
    same(what("waits"), waits.len(), suspension.waits.len())?;
    for (expected, got) in waits.iter().zip(&suspension.waits) {
        let condition = condition(expected, &expected.spec.shape, &known.record.signals, exact);
        let mut stored = got.condition.clone();
        forget_times(&mut stored, exact);
        same(what("what it waits for"), condition, stored)?;
        same(what("the step of a wait"), expected.spec.step.map(|(step, _)| name(step)), got.step.clone())?;
        same(what("whether it was escalated"), expected.escalated, got.escalated)?;
        let timeout = expected.spec.timeout_ms.map(|wait| at(exact, expected.since + ms(wait)));
        same(what("the timeout"), timeout, got.timeout_at.map(|at| told(exact, at)))?;
    }
    Ok(())
}

/// What a wait should have heard, written as the store keeps it.
fn condition(wait: &Waiting, shape: &Shape, all: &[Arrived], exact: Option<Timestamp>) -> Condition {
    let parts = |parts: &[Shape]| parts.iter().map(|part| condition(wait, part, all, exact)).collect();
    match shape {
        Shape::Signal(called) => Condition::Signal { name: name(*called), heard: wait.first(*called, all) },
        Shape::Any(of) => Condition::Any(parts(of)),
        Shape::All(of) => Condition::All(parts(of)),
        Shape::Count { n, of, distinct } => Condition::Count {
            n: *n,
            of: of.iter().map(|called| name(*called)).collect(),
            distinct: *distinct,
            heard: wait
                .voices(*n, of, *distinct, all)
                .into_iter()
                .map(|(voice, number)| (name(voice), number))
                .collect(),
        },
        Shape::Until(after) => {
            let time = wait.since + ms(*after);
            Condition::Until { at: When::At(at(exact, time)), passed: time <= wait.looked_at }
        }
        Shape::Operator => Condition::Operator { said: wait.allowed },
        Shape::Children => Condition::Children { ended: wait.joined },
    }
}

fn forget_times(condition: &mut Condition, exact: Option<Timestamp>) {
    match condition {
        Condition::Any(parts) | Condition::All(parts) => {
            parts.iter_mut().for_each(|part| forget_times(part, exact));
        }
        Condition::Until { at: When::At(at), .. } => *at = told(exact, *at),
        _ => {}
    }
}

/// Compares the signals of an execution.
pub fn compare_signals(known: &Known, stored: &[Signal]) -> Differ {
    let expected = known.record.signals.iter().map(|one| {
        let waitpoint = one.waitpoint.map(|place| {
            let waitpoint = &known.record.waitpoints[place];
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
    same(|| format!("{} the signals", known.id), expected.collect::<Vec<_>>(), got.collect())
}

/// The result of a step as it is stored: of a wait, the numbers of its signals.
fn result(step: &Noted) -> Option<String> {
    step.outcome.as_ref().map(|outcome| match outcome {
        Outcome::Given(given) => text(&rules::result(*given)),
        Outcome::Waited(by, signals) => waited(*by, signals.iter().map(u32::to_string)),
    })
}

fn waited(by: ResumedBy, signals: impl Iterator<Item = String>) -> String {
    let signals: Vec<String> = signals.collect();
    format!("{{\"resumed_by\":\"{}\",\"signals\":[{}]}}", by.as_str(), signals.join(","))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Compares the steps of an execution.
pub fn compare_steps(known: &Known, stored: &[Step], exact: Option<Timestamp>) -> Differ {
    let expected = known.record.steps.iter().zip(1..).map(|(step, number)| {
        let began = exact.map(|_| (at(exact, step.started_at), step.attempt));
        (number, name(step.name), step.kind, result(step), step.outcome.is_some(), began)
    });
    let got = stored.iter().map(|step| {
        let began = exact.map(|_| (step.started_at, step.attempt));
        let result = step.result.as_deref().map(text);
        (step.number, step.name.clone(), step.kind, result, step.recorded_at.is_some(), began)
    });
    same(|| format!("{} the steps", known.id), expected.collect::<Vec<_>>(), got.collect())
}

/// Compares the waitpoints of an execution. The model learns from the store the ids of those that were made, and of the keys
/// that sign them, and holds the store to them from then on.
pub fn compare_waitpoints(
    known: &mut Known,
    keys: &mut [Key],
    stored: &[Waitpoint],
    exact: Option<Timestamp>,
) -> Differ {
    let what = |field: &'static str| move || format!("the waitpoints: {field}");
    same(what("how many"), known.record.waitpoints.len(), stored.len())?;
    for ((expected, got), number) in known.record.waitpoints.iter_mut().zip(stored).zip(1..) {
        let id = *expected.id.get_or_insert(got.id);
        let key = *keys[expected.key].id.get_or_insert(got.key);
        let stands = match expected.stands {
            Stands::Open => WaitpointState::Open,
            Stands::Delivered(number, effect) => WaitpointState::Delivered(number, effect),
            Stands::Expired => WaitpointState::Expired,
            Stands::Revoked => WaitpointState::Revoked,
        };
        same(what("ids and keys"), (id, number, key), (got.id, got.number, got.key))?;
        same(
            what("names"),
            (name(expected.name), name(expected.source)),
            (got.name.clone(), got.source.clone()),
        )?;
        same(what("states"), stands, got.state)?;
        let expiry = expected.expires_at.map(|micros| at(exact, micros));
        same(what("expiries"), expiry, got.expires_at.map(|at| told(exact, at)))?;
    }
    Ok(())
}

/// Compares the keys of tokens.
pub fn compare_keys(keys: &[Key], stored: &[TokenKey], exact: Option<Timestamp>) -> Differ {
    let kept = keys.iter().filter(|key| !key.gone);
    let mut expected: Vec<_> = kept.map(|key| key.retires_at.map(|micros| at(exact, micros))).collect();
    let mut got: Vec<_> = stored.iter().map(|key| key.retires_at.map(|at| told(exact, at))).collect();
    expected.sort();
    got.sort();
    same(|| "the keys of tokens".into(), expected, got)
}

/// Compares what a claim carries: the signals by which the newest suspension ended, and the recorded steps.
pub fn compare_claimed(reference: &Reference, claimed: &Claimed) -> Differ {
    let id = claimed.execution.id;
    let known = reference.executions.get(&id).ok_or("what is claimed is not known")?;
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
    same(|| format!("{id}: the signals that its claim carries"), signals, got.collect())?;
    let steps = record.steps.iter().filter(|step| step.outcome.is_some());
    let expected: Vec<_> = steps.map(|step| (name(step.name), step.kind, carried(step, record))).collect();
    let got = claimed
        .steps
        .iter()
        .map(|step| (step.name.clone(), step.kind, text(step.result.as_deref().unwrap_or_default())));
    same(|| format!("{id}: the steps that its claim carries"), expected, got.collect())
}

/// The result of a step as a claim carries it: of a wait, with the signals that it took.
fn carried(step: &Noted, record: &super::recorded::Record) -> String {
    let told = |number: &u32| {
        let signal = &record.signals[*number as usize - 1];
        let through =
            signal.through.map_or("null".to_owned(), |through| format!("\"{}\"", rules::word(through)));
        format!(
            "{{\"name\":\"{}\",\"payload\":{},\"source\":\"{}\",\"waitpoint\":{through}}}",
            rules::word(signal.name),
            text(&payload(signal.payload)),
            rules::word(signal.source)
        )
    };
    match &step.outcome {
        Some(Outcome::Waited(by, signals)) if step.kind != StepKind::Step => {
            waited(*by, signals.iter().map(told))
        }
        _ => result(step).unwrap_or_default(),
    }
}
