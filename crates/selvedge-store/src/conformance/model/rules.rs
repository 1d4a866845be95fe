//! The model's commands as commands of core, and core's replies as the model's answers.

use super::command::{Action, Content, Op};
use super::reference::Answer;
use crate::conformance::rule::Rule;
use bytes::Bytes;
use selvedge_core::rules::clock::{Tick, Ticked};
use selvedge_core::rules::operator::{self, Operate};
use selvedge_core::rules::report::{self, Report};
use selvedge_core::rules::submit::Submit;
use selvedge_core::rules::worker::{Drain, PutBack};
use selvedge_core::submission::When;
use selvedge_core::{Backoff, Draft, FailureClass, Needs, Policy, Refusal, Retry, Work};
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
}

impl Rule for Shared {
    type Reply = Answer;

    fn needs(&self, again: bool, needs: &mut Needs) {
        match self {
            Shared::Submit(command) => command.needs(again, needs),
            Shared::Report(command) => command.needs(needs),
            Shared::PutBack(command) => command.needs(needs),
            Shared::Operate(command) => command.needs(needs),
            Shared::Tick(command) => command.needs(needs),
            Shared::Drain(command) => command.needs(needs),
        }
    }

    fn needs_more(&self, work: &Work, needs: &mut Needs) {
        match self {
            Shared::Submit(command) => command.needs_more(work, needs),
            Shared::Tick(command) => command.needs_more(work, needs),
            Shared::Operate(command) => command.needs_more(work, needs),
            Shared::Report(_) | Shared::PutBack(_) | Shared::Drain(_) => {}
        }
    }

    fn decide(&self, again: bool, work: &mut Work) -> Answer {
        match self {
            Shared::Submit(command) => answer(command.decide(again, work).remove(0), |done| {
                Answer::Submitted { id: done.execution.id, duplicate: done.duplicate }
            }),
            Shared::Report(command) => answer(command.decide(work), |done| Answer::State(done.state)),
            Shared::PutBack(command) => answer(command.decide(work), |done| match done {
                true => Answer::Yes,
                false => Answer::No,
            }),
            Shared::Operate(command) => answer(command.decide(work), |row| Answer::Version(row.version)),
            Shared::Tick(command) => answer(command.decide(work), ticked),
            Shared::Drain(command) => answer(command.decide(work), |()| Answer::Yes),
        }
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

/// A tag's name or value.
pub fn word(number: u8) -> String {
    format!("w{number}")
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
        Action::Tag { name, value: Some(value) } => {
            operator::Action::Tag { set: [(word(*name), word(*value))].into(), remove: vec![] }
        }
        Action::Tag { name, value: None } => {
            operator::Action::Tag { set: BTreeMap::new(), remove: vec![word(*name)] }
        }
    }
}
