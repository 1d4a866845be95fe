//! The model's commands as commands of core, and core's replies as the model's answers.

use super::command::{Action, Content, Op, Point, Shape, Wait};
use super::reference::Answer;
use crate::rule::{Collect, Together};
use crate::signal_harness::{self, secret};
use bytes::Bytes;
use selvedge_core::rule::{Rule, Task};
use selvedge_core::rules::clock::{Tick, Ticked};
use selvedge_core::rules::operator::{self, Operate};
use selvedge_core::rules::report::{self, Report, Reported};
use selvedge_core::rules::signal::Deliver;
use selvedge_core::rules::step::StepDraft;
use selvedge_core::rules::submit::Submit;
use selvedge_core::rules::suspend::Suspend;
use selvedge_core::rules::waitpoint::{Rotate, WaitpointDraft};
use selvedge_core::rules::worker::{Drain, PutBack};
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, WaitDraft};
use selvedge_core::{Backoff, Draft, FailureClass, Name, Policy, Refusal, Retry, WaitpointId};
use std::collections::BTreeMap;
use uuid::Uuid;

/// A command of any kind that may share its transaction.
pub enum Shared {
    Submit(Submit),
    Report(Report),
    PutBack(PutBack),
    Operate(Operate),
    Tick(Tick),
    Drain(Drain),
    Deliver(Deliver),
    Rotate(Rotate),
}

/// Posts a rule whose reply is told as the model's answer.
fn told<R: Rule>(
    rule: R,
    tasks: &mut Vec<Box<dyn Task>>,
    tell: impl FnOnce(R::Reply) -> Answer + Send + 'static,
) -> Collect<Answer> {
    let reply = rule.post(tasks);
    Box::new(move || tell(reply()))
}

impl Together for Shared {
    type Replies = Answer;

    fn post(self, tasks: &mut Vec<Box<dyn Task>>) -> Collect<Answer> {
        match self {
            Shared::Submit(rule) => told(rule, tasks, |mut done| {
                answer(done.remove(0), |done| Answer::Submitted {
                    id: done.execution.id,
                    duplicate: done.duplicate,
                })
            }),
            Shared::Report(rule) => told(rule, tasks, |done| answer(done, reported)),
            Shared::PutBack(rule) => told(rule, tasks, |done| {
                answer(done, |done| match done {
                    true => Answer::Yes,
                    false => Answer::No,
                })
            }),
            Shared::Operate(rule) => {
                told(rule, tasks, |done| answer(done, |row| Answer::Version(row.version)))
            }
            Shared::Tick(rule) => told(rule, tasks, |done| answer(done, ticked)),
            Shared::Drain(rule) => told(rule, tasks, |done| answer(done, |()| Answer::Yes)),
            Shared::Deliver(rule) => told(rule, tasks, |done| {
                answer(done, |done| Answer::Delivered {
                    number: done.number,
                    name: number(&done.name),
                    source: number(&done.source),
                    duplicate: done.duplicate,
                    effect: done.effect,
                })
            }),
            Shared::Rotate(rule) => told(rule, tasks, |done| answer(done, |_| Answer::Yes)),
        }
    }
}

fn reported(done: Reported) -> Answer {
    match done.waitpoints.is_empty() {
        true => Answer::State(done.state),
        false => Answer::Made(done.state, done.waitpoints.iter().map(|one| one.number).collect()),
    }
}

fn answer<T>(reply: Result<T, Refusal>, accepted: impl FnOnce(T) -> Answer) -> Answer {
    reply.map_or_else(|refusal| Answer::Refused(refusal.code()), accepted)
}

fn ticked(done: Ticked) -> Answer {
    match done {
        Ticked::Done => Answer::Acted,
        Ticked::Lost => Answer::Lost,
        Ticked::NotDue => Answer::NotDue,
    }
}

/// What a worker's result looks like.
pub fn result(number: u8) -> Bytes {
    format!("{{\"result\":{number}}}").into()
}

/// What the payload of a signal looks like.
pub fn payload(number: u8) -> Bytes {
    format!("[{}]", "7,".repeat(number.into()) + "8").into()
}

/// A name of anything, or the value of a tag.
pub fn word(number: u8) -> String {
    format!("w{number}")
}

/// The same as a name.
pub fn name(number: u8) -> Name {
    Name::trusted(&word(number))
}

/// The number whose word this is.
pub fn number(word: &str) -> u8 {
    word.strip_prefix('w').and_then(|number| number.parse().ok()).unwrap_or(u8::MAX)
}

/// The draft of a content.
pub fn draft(id: Option<Uuid>, content: &Content) -> Draft {
    let mut retry_on = Retry::default().retry_on;
    if content.retry_permanent {
        retry_on.push(FailureClass::Permanent);
    }
    Draft {
        id,
        lane: if content.second_lane { "second" } else { "first" }.into(),
        priority: content.priority.into(),
        idempotency_key: content.idempotency.map(|(key, _)| word(key)),
        idempotency_window_ms: content.idempotency.map(|(_, window)| window),
        unique_while_active: content.unique.map(word),
        delay: content.delay_ms.map(When::AfterMs),
        policy: Policy {
            retry: Retry {
                max_retries: content.max_retries,
                max_interruptions: content.max_interruptions,
                retry_on,
                backoff: Backoff::Fixed { delay_ms: content.backoff_ms },
            },
            attempt_timeout_ms: content.attempt_timeout_ms,
            deadline_ms: content.deadline_ms,
            start_by_ms: content.start_by_ms,
            retention_ms: content.retention_ms,
        },
        ..Draft::new("kind")
    }
}

/// A report's content.
pub fn op(op: &Op) -> report::Op {
    match op {
        Op::Complete(number) => report::Op::Complete { result: result(*number) },
        Op::Fail { class, message, retry_after_ms } => {
            report::Op::Fail { message: word(*message), class: *class, retry_after_ms: *retry_after_ms }
        }
        Op::Progress(percent) => report::Op::Progress { percent: Some(f64::from(*percent)), message: None },
        Op::Delay(wait) => report::Op::Delay { until: When::AfterMs(*wait) },
        Op::Release => report::Op::Release,
        Op::Suspend { waits, waitpoints } => {
            let waits = waits.iter().map(wait).collect();
            let waitpoints = waitpoints.iter().map(point).collect();
            let fingerprint = secret(1).fingerprint();
            report::Op::Suspend(Box::new(Suspend { waits, waitpoints, fingerprint }))
        }
        Op::Waitpoint(asked) => signal_harness::make(point(asked)),
        Op::Step { name: called, kind, result: given } => report::Op::Step(StepDraft {
            name: name(*called),
            kind: *kind,
            result: result(*given),
            duration_ms: 0,
        }),
    }
}

fn point(point: &Point) -> WaitpointDraft {
    WaitpointDraft { name: name(point.name), source: point.source.map(name), expires_ms: point.expires_ms }
}

fn wait(wait: &Wait) -> WaitDraft {
    WaitDraft {
        step: wait.step.map(|(called, kind)| (name(called), kind)),
        condition: condition(&wait.shape),
        timeout_ms: wait.timeout_ms,
        on_timeout: wait.on_timeout,
    }
}

fn condition(shape: &Shape) -> Condition {
    match shape {
        Shape::Signal(called) => Condition::signal(name(*called)),
        Shape::Any(parts) => Condition::Any(parts.iter().map(condition).collect()),
        Shape::All(parts) => Condition::All(parts.iter().map(condition).collect()),
        Shape::Count { n, of, distinct } => {
            Condition::count(*n, of.iter().map(|called| name(*called)).collect(), *distinct)
        }
        Shape::Until(wait) => Condition::until(When::AfterMs(*wait)),
        Shape::Operator => Condition::operator(),
        Shape::Children => Condition::children(),
    }
}

/// An operator's action.
pub fn action(action: &Action) -> operator::Action {
    let reason = None;
    match action {
        Action::Cancel { grace_ms } => operator::Action::Cancel { reason, grace_ms: *grace_ms },
        Action::Revoke => operator::Action::Revoke { reason },
        Action::Prioritise(priority) => operator::Action::Prioritise { priority: (*priority).into() },
        Action::Reschedule(wait) => operator::Action::Reschedule { until: When::AfterMs(*wait) },
        Action::Replay => operator::Action::Replay,
        Action::Resume => operator::Action::Resume,
        // The caller puts the one that is meant in its place.
        Action::RevokeWaitpoint(_) => {
            operator::Action::RevokeWaitpoint { waitpoint: WaitpointId(Uuid::nil()) }
        }
        Action::Tag { name, value: Some(value) } => {
            operator::Action::Tag { set: [(word(*name), word(*value))].into(), remove: vec![] }
        }
        Action::Tag { name, value: None } => {
            operator::Action::Tag { set: BTreeMap::new(), remove: vec![word(*name)] }
        }
    }
}
