//! The reference model's answers: one function per command.

use super::command::{Action, Content, Expect, Op};
use super::recorded::Record;
use super::reference::{Answer, Known, Place, Reference, Said, ms, ttl_ms};
use selvedge_core::rules::report::Fence;
use selvedge_core::state::StateName;
use selvedge_core::{DueKind, ExecutionId, FailureClass, Outcome};
use std::collections::BTreeMap;

impl Reference {
    /// A submission: a repeat of an id or a key is the first execution, with other content a conflict.
    pub fn submit(&mut self, id: ExecutionId, content: &Content) -> Answer {
        let duplicate = |known: &Known, checked: bool| match checked && known.content != *content {
            true => Answer::Refused("idempotency_mismatch"),
            false => Answer::Submitted { id: known.id, duplicate: true },
        };
        if let Some(known) = self.executions.get(&id) {
            return duplicate(known, true);
        }
        let by_key = content.idempotency.and_then(|(key, _)| self.idempotency.get(&key));
        if let Some((of, with, until)) = by_key
            && let Some(first) = self.executions.get(of)
            && (!first.has_ended() || self.now < *until)
        {
            return match with == content {
                true => Answer::Submitted { id: first.id, duplicate: true },
                false => Answer::Refused("idempotency_mismatch"),
            };
        }
        let by_unique = content.unique.and_then(|key| self.unique.get(&key));
        if let Some(first) = by_unique.and_then(|id| self.executions.get(id))
            && !first.has_ended()
        {
            let answer = duplicate(first, false);
            let first = first.id;
            self.stand_for(first, content);
            return answer;
        }
        self.create(id, content);
        Answer::Submitted { id, duplicate: false }
    }

    /// The idempotency key of a submission stands for the execution that it was answered with.
    fn stand_for(&mut self, id: ExecutionId, content: &Content) {
        if let Some((key, window)) = content.idempotency {
            self.idempotency.insert(key, (id, content.clone(), self.now + ms(window)));
        }
    }

    fn create(&mut self, id: ExecutionId, content: &Content) {
        self.stand_for(id, content);
        if let Some(key) = content.unique {
            self.unique.insert(key, id);
        }
        let delay = content.delay_ms.filter(|delay| *delay > 0);
        let known = Known {
            id,
            content: content.clone(),
            place: delay.map_or(Place::Waiting, |delay| Place::Delayed(self.now + ms(delay))),
            version: 1,
            epoch: 0,
            generation: 0,
            retries: 0,
            interruptions: 0,
            priority: content.priority,
            tags: BTreeMap::new(),
            progress: None,
            result: None,
            submitted_at: self.now,
            opened_at: self.now,
            started_at: None,
            ended_at: 0,
            cancel_until: None,
            endings: Vec::new(),
            ready_order: None,
            record: Record::default(),
        };
        self.executions.insert(id, known);
    }

    /// A report: of the current lease it is done; of another it is refused, unless it is the one that ended that lease.
    pub fn report(&mut self, fence: &Fence, op_id: Option<u8>, op: &Op) -> Answer {
        let now = self.now;
        let keys = &mut self.keys;
        let Some(known) = self.executions.get_mut(&fence.execution) else {
            return Answer::Refused("not_found");
        };
        let said = op_id.map_or_else(|| Said::Content(op.clone()), Said::Named);
        if !known.holds(fence) {
            let before = known.endings.iter().find(|(of, what, _)| of == fence && *what == said);
            let made = known.record.newest(op);
            return before.map_or(Answer::Refused("stale_lease"), |(_, _, state)| reported(*state, made));
        }
        let place = match op {
            Op::Waitpoint(point) => {
                return match known.make(std::slice::from_ref(point), keys, now) {
                    Ok(made) => reported(known.place.name(), made),
                    Err(code) => Answer::Refused(code),
                };
            }
            Op::Step { name, kind, result } => {
                return match known.note(*name, *kind, *result, now) {
                    Ok(()) => Answer::State(known.place.name()),
                    Err(code) => Answer::Refused(code),
                };
            }
            Op::Suspend { waits, waitpoints } => {
                return match known.suspend(waits, waitpoints, keys, now) {
                    Ok((state, made)) => {
                        known.endings.push((*fence, said, state));
                        reported(state, made)
                    }
                    Err(code) => Answer::Refused(code),
                };
            }
            Op::Progress(percent) => {
                known.version += u32::from(known.progress != Some(*percent));
                known.progress = Some(*percent);
                return Answer::State(known.place.name());
            }
            Op::Complete(result) => {
                known.result = Some(*result);
                Place::Ended(Outcome::Completed)
            }
            Op::Fail { class, retry_after_ms, .. } => {
                let retried = *class != FailureClass::Permanent || known.content.retry_permanent;
                let wait = retry_after_ms.unwrap_or(known.content.backoff_ms);
                known.after_failure(retried, wait, now)
            }
            Op::Delay(wait) => known.back(*wait, now),
            Op::Release => known.back(0, now),
        };
        known.put(place, now);
        let state = known.place.name();
        known.endings.push((*fence, said, state));
        Answer::State(state)
    }

    /// A lease that is put back for a worker that has gone or never knew of it.
    pub fn put_back(&mut self, fence: &Fence) -> Answer {
        let now = self.now;
        let Some(known) = self.executions.get_mut(&fence.execution) else {
            return Answer::Refused("not_found");
        };
        if !known.holds(fence) {
            return Answer::No;
        }
        let place = known.back(0, now);
        known.put(place, now);
        Answer::Yes
    }

    /// What an operator does.
    pub fn operate(&mut self, id: ExecutionId, action: &Action, expect: Expect) -> Answer {
        let now = self.now;
        let Some(known) = self.executions.get(&id) else {
            return Answer::Refused("not_found");
        };
        if matches!(expect, Expect::Another) {
            return Answer::Refused("version_mismatch");
        }
        let replayed = matches!(action, Action::Replay) && known.has_ended();
        let unique = known.content.unique.filter(|_| replayed);
        let holder = unique.and_then(|key| self.unique.get(&key)).filter(|holder| **holder != id).copied();
        if holder.and_then(|holder| self.executions.get(&holder)).is_some_and(|other| !other.has_ended()) {
            return Answer::Refused("wrong_state");
        }
        self.unique.extend(unique.map(|key| (key, id)));
        let Some(known) = self.executions.get_mut(&id) else {
            return Answer::Refused("not_found");
        };
        match act(known, action, now) {
            Ok(()) => Answer::Version(known.version),
            Err(code) => Answer::Refused(code),
        }
    }

    /// A lease lapses when its first term and its session's renewal are both over.
    pub fn lapse(&mut self, id: ExecutionId) -> Answer {
        let (now, manual) = (self.now, self.manual);
        let Some(known) = self.executions.get_mut(&id) else {
            return Answer::Lost;
        };
        let Place::Active { worker, claimed_at, .. } = known.place else {
            return Answer::Lost;
        };
        let renewed_at = self.sessions.get(&worker).and_then(|session| session.renewed_at);
        let latest = renewed_at.map_or(claimed_at, |renewed| renewed.max(claimed_at));
        if latest + ms(ttl_ms(manual, worker)) > now {
            return Answer::NotDue;
        }
        let place = known.after_interruption(now);
        known.put(place, now);
        Answer::Acted
    }

    /// What time does to an execution, if it is the turn of this kind.
    pub fn due(&mut self, id: ExecutionId, kind: DueKind) -> Answer {
        let now = self.now;
        let Some(known) = self.executions.get_mut(&id) else {
            return Answer::Lost;
        };
        if known.next_due().is_none_or(|(at, of)| of != kind || at > now) {
            return Answer::NotDue;
        }
        if known.is_suspended() && matches!(kind, DueKind::Delay | DueKind::SuspensionTimeout) {
            known.wait_is_over(kind, now);
            return Answer::Acted;
        }
        let place = match kind {
            DueKind::Delay => Place::Waiting,
            DueKind::AttemptTimeout => {
                let wait = known.content.backoff_ms;
                known.after_failure(true, wait, now)
            }
            DueKind::Deadline => {
                let deadline = known.content.deadline_ms.map(|limit| known.opened_at + ms(limit));
                let passed = |at: Option<i64>| at.is_some_and(|at| at <= now);
                match !passed(deadline) && passed(known.cancel_until) {
                    true => Place::Ended(Outcome::Cancelled),
                    false => Place::Ended(Outcome::Expired),
                }
            }
            DueKind::WaitpointExpiry => {
                known.expire_waitpoints(now);
                return Answer::Acted;
            }
            DueKind::SuspensionTimeout => return Answer::NotDue,
            DueKind::Retention => {
                self.delete(id);
                return Answer::Acted;
            }
        };
        known.put(place, now);
        Answer::Acted
    }

    /// A worker is asked to drain.
    pub fn drain(&mut self, worker: usize) -> Answer {
        match self.sessions.get_mut(&worker) {
            Some(session) => {
                session.draining = true;
                Answer::Yes
            }
            None => Answer::Refused("not_found"),
        }
    }
}

/// The answer to a report that made waitpoints, or none.
fn reported(state: StateName, made: Vec<u32>) -> Answer {
    match made.is_empty() {
        true => Answer::State(state),
        false => Answer::Made(state, made),
    }
}

fn act(known: &mut Known, action: &Action, now: i64) -> Result<(), &'static str> {
    let leased = matches!(known.place, Place::Active { .. });
    let ended = known.has_ended();
    match action {
        Action::Cancel { .. } if known.place == Place::Ended(Outcome::Cancelled) => {}
        Action::Cancel { .. } | Action::Prioritise(_) | Action::Reschedule(_) | Action::Resume if ended => {
            return Err("already_terminal");
        }
        Action::Cancel { grace_ms } if leased && *grace_ms > 0 => {
            let until = now + ms(*grace_ms);
            if known.cancel_until.is_none_or(|asked| until < asked) {
                known.cancel_until = Some(until);
                known.version += 1;
            }
        }
        Action::Cancel { .. } => known.put(Place::Ended(Outcome::Cancelled), now),
        Action::Revoke if !leased => return Err("wrong_state"),
        Action::Revoke => {
            let place = known.back(0, now);
            known.put(place, now);
        }
        Action::Prioritise(priority) => {
            known.version += u32::from(known.priority != *priority);
            known.priority = *priority;
        }
        Action::Reschedule(_) if leased || known.is_suspended() => return Err("wrong_state"),
        Action::Resume if !known.is_suspended() => return Err("wrong_state"),
        Action::Resume => known.resume(now),
        Action::RevokeWaitpoint(index) => known.revoke_waitpoint(*index)?,
        Action::Reschedule(wait) => {
            let place = known.back(*wait, now);
            known.put(place, now);
        }
        Action::Replay if !ended => return Err("wrong_state"),
        Action::Replay => {
            known.put(Place::Waiting, now);
            known.generation += 1;
            known.opened_at = now;
            known.started_at = None;
            (known.retries, known.interruptions) = (0, 0);
            (known.progress, known.result) = (None, None);
            known.record.resumed_by = None;
        }
        Action::Tag { name, value } => {
            let before = known.tags.clone();
            match value {
                Some(value) => known.tags.insert(*name, *value),
                None => known.tags.remove(name),
            };
            known.version += u32::from(known.tags != before);
        }
    }
    Ok(())
}
