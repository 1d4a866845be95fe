//! Converts the model's commands to commands of core, and core's replies to the model's answers.

use super::command::{ConditionSpec, Content, OperatorAction, ReportSpec, WaitSpec, WaitpointSpec};
use super::reference::Answer;
use crate::harness::runner::{PendingReply, RuleGroup};
use crate::harness::signals::{self, secret};
use bytes::Bytes;
use selvedge_core::rule::Rule;
use selvedge_core::rules::operator::{self, Operate};
use selvedge_core::rules::report::{self, Report, Reported};
use selvedge_core::rules::signal::Deliver;
use selvedge_core::rules::step::StepDraft;
use selvedge_core::rules::submit::Submit;
use selvedge_core::rules::suspend::Suspend;
use selvedge_core::rules::timer::{FireTimer, TimerReply};
use selvedge_core::rules::waitpoint::{Reissue, RotateTokenKeys, WaitpointDraft};
use selvedge_core::rules::worker::{Drain, PutBack};
use selvedge_core::submission::{Debounce, When};
use selvedge_core::suspension::{Condition, WaitDraft};
use selvedge_core::{Backoff, Draft, FailureClass, Name, Policy, Refusal, Retry, WaitpointId};
use selvedge_store::BoxedTask;
use std::collections::BTreeMap;
use uuid::Uuid;

/// A command of core of any kind that may share its transaction.
pub enum CoreCommand {
    Submit(Submit),
    Report(Report),
    PutBack(PutBack),
    Operate(Operate),
    Tick(FireTimer),
    Drain(Drain),
    Deliver(Deliver),
    Rotate(RotateTokenKeys),
}

/// Adds a rule whose reply is converted to the model's answer.
fn add_rule<R: Rule>(
    rule: R,
    tasks: &mut Vec<BoxedTask>,
    convert: impl FnOnce(R::Reply) -> Answer + Send + 'static,
) -> PendingReply<Answer> {
    let reply = rule.add_tasks(tasks);
    Box::new(move || convert(reply()))
}

impl RuleGroup for CoreCommand {
    type Replies = Answer;

    fn add_tasks(self, tasks: &mut Vec<BoxedTask>) -> PendingReply<Answer> {
        match self {
            CoreCommand::Submit(rule) => add_rule(rule, tasks, |mut done| {
                answer(done.remove(0), |done| Answer::Submitted {
                    id: done.execution.id,
                    duplicate: done.duplicate,
                })
            }),
            CoreCommand::Report(rule) => add_rule(rule, tasks, |done| answer(done, reported)),
            CoreCommand::PutBack(rule) => add_rule(rule, tasks, |done| {
                answer(done, |done| match done {
                    true => Answer::Yes,
                    false => Answer::No,
                })
            }),
            CoreCommand::Operate(rule) => {
                add_rule(rule, tasks, |done| answer(done, |row| Answer::Version(row.version)))
            }
            CoreCommand::Tick(rule) => add_rule(rule, tasks, |done| answer(done, ticked)),
            CoreCommand::Drain(rule) => add_rule(rule, tasks, |done| answer(done, |()| Answer::Yes)),
            CoreCommand::Deliver(rule) => add_rule(rule, tasks, |done| {
                answer(done, |done| Answer::Delivered {
                    number: done.number,
                    name: number(&done.name),
                    source: number(&done.source),
                    duplicate: done.duplicate,
                    effect: done.effect,
                })
            }),
            CoreCommand::Rotate(rule) => add_rule(rule, tasks, |done| answer(done, |_| Answer::Yes)),
        }
    }
}

fn reported(done: Reported) -> Answer {
    match done.waitpoints.is_empty() {
        true => Answer::State(done.state),
        false => Answer::Waitpoints(done.state, done.waitpoints.iter().map(|one| one.number).collect()),
    }
}

fn answer<T>(reply: Result<T, Refusal>, accepted: impl FnOnce(T) -> Answer) -> Answer {
    reply.map_or_else(|refusal| Answer::Refused(refusal.code()), accepted)
}

fn ticked(done: TimerReply) -> Answer {
    match done {
        TimerReply::Fired => Answer::Acted,
        TimerReply::Superseded => Answer::Lost,
        TimerReply::NotDue => Answer::NotDue,
    }
}

/// Returns the result of a worker.
pub fn result(number: u8) -> Bytes {
    format!("{{\"result\":{number}}}").into()
}

/// Returns the payload of a signal.
pub fn payload(number: u8) -> Bytes {
    format!("[{}]", "7,".repeat(number.into()) + "8").into()
}

/// Returns a name, or the value of a tag.
pub fn word(number: u8) -> String {
    format!("w{number}")
}

/// Returns [`word`] as a name.
pub fn name(number: u8) -> Name {
    Name::trusted(&word(number))
}

/// Returns the number of a [`word`].
pub fn number(word: &str) -> u8 {
    word.strip_prefix('w').and_then(|number| number.parse().ok()).unwrap_or(u8::MAX)
}

/// Returns the draft of a submission.
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
        debounce: content.debounce.map(|(key, delay_ms, max_ms)| Debounce {
            key: word(key),
            delay_ms,
            max_ms,
        }),
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

/// Returns the report of core.
pub fn op(op: &ReportSpec) -> report::Op {
    match op {
        ReportSpec::Complete(number) => report::Op::Complete { result: result(*number) },
        ReportSpec::Fail { class, message, retry_after_ms } => {
            report::Op::Fail { message: word(*message), class: *class, retry_after_ms: *retry_after_ms }
        }
        ReportSpec::Progress(percent) => {
            report::Op::Progress { percent: Some(f64::from(*percent)), message: None }
        }
        ReportSpec::Delay(wait) => report::Op::Delay { until: When::AfterMs(*wait) },
        ReportSpec::Release => report::Op::Release,
        ReportSpec::Cancelled => report::Op::Cancelled { message: None },
        ReportSpec::Suspend { waits, waitpoints } => {
            let waits = waits.iter().map(wait).collect();
            let waitpoints = waitpoints.iter().map(point).collect();
            let fingerprint = secret(1).fingerprint();
            report::Op::Suspend(Box::new(Suspend {
                waits,
                waitpoints,
                fingerprint,
                default_timeout_ms: None,
            }))
        }
        ReportSpec::Waitpoint(waitpoint) => signals::create_waitpoint(point(waitpoint)),
        ReportSpec::Step { name: named, kind, result: given } => report::Op::Step(StepDraft {
            name: name(*named),
            kind: *kind,
            result: result(*given),
            duration_ms: 0,
        }),
    }
}

fn point(point: &WaitpointSpec) -> WaitpointDraft {
    WaitpointDraft {
        source: point.source.map(name),
        expires_ms: point.expires_ms,
        signals: point.signals.as_ref().map(|signals| signals.iter().map(|one| name(*one)).collect()),
        ..WaitpointDraft::new(name(point.name))
    }
}

fn wait(wait: &WaitSpec) -> WaitDraft {
    WaitDraft {
        step: wait.step.map(|(named, kind)| (name(named), kind)),
        condition: condition(&wait.condition),
        timeout_ms: wait.timeout_ms,
        on_timeout: wait.on_timeout,
    }
}

fn condition(spec: &ConditionSpec) -> Condition {
    match spec {
        ConditionSpec::Signal(named) => Condition::signal(name(*named)),
        ConditionSpec::Any(parts) => Condition::Any(parts.iter().map(condition).collect()),
        ConditionSpec::All(parts) => Condition::All(parts.iter().map(condition).collect()),
        ConditionSpec::Count { n, of, distinct } => {
            Condition::count(*n, of.iter().map(|named| name(*named)).collect(), *distinct)
        }
        ConditionSpec::Until(wait) => Condition::until(When::AfterMs(*wait)),
        ConditionSpec::Operator => Condition::operator(),
        ConditionSpec::Children => Condition::children(),
    }
}

/// Returns the operator action of core.
pub fn action(action: &OperatorAction) -> operator::Action {
    let reason = None;
    match action {
        OperatorAction::Cancel { grace_ms } => operator::Action::Cancel { reason, grace_ms: *grace_ms },
        OperatorAction::Revoke => operator::Action::Revoke { reason },
        OperatorAction::Prioritise(priority) => operator::Action::Prioritise { priority: (*priority).into() },
        OperatorAction::Reschedule(wait) => operator::Action::Reschedule { until: When::AfterMs(*wait) },
        OperatorAction::Replay => operator::Action::Replay,
        OperatorAction::Resume => operator::Action::Resume,
        // The caller sets the waitpoint.
        OperatorAction::RevokeWaitpoint(_) => {
            operator::Action::RevokeWaitpoint { waitpoint: WaitpointId(Uuid::nil()) }
        }
        OperatorAction::ReissueWaitpoint { expires_ms, .. } => {
            let (waitpoint, fingerprint) = (WaitpointId(Uuid::nil()), signals::secret(1).fingerprint());
            operator::Action::ReissueWaitpoint(Reissue { waitpoint, expires_ms: *expires_ms, fingerprint })
        }
        OperatorAction::Tag { name, value: Some(value) } => {
            operator::Action::Tag { set: [(word(*name), word(*value))].into(), remove: vec![] }
        }
        OperatorAction::Tag { name, value: None } => {
            operator::Action::Tag { set: BTreeMap::new(), remove: vec![word(*name)] }
        }
    }
}
