//! Applies the commands to the reference model and returns the expected replies: one function per command.

use super::command::{Content, ExpectedVersion, OperatorAction, ReportSpec};
use super::records::Record;
use super::reference::{Answer, ModelExecution, ModelState, Reference, ReportKey, ms, ttl_ms};
use selvedge_core::rules::report::Fence;
use selvedge_core::state::StateName;
use selvedge_core::{DueKind, ExecutionId, FailureClass, Outcome};
use std::collections::BTreeMap;

impl Reference {
    /// Applies a submission. Repeating an id or a key returns the first execution; with other content it is refused.
    pub fn submit(&mut self, id: ExecutionId, content: &Content) -> Answer {
        let duplicate = |known: &ModelExecution, checked: bool| match checked && known.content != *content {
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
            self.bind_key(first, content);
            return answer;
        }
        if let Some(answer) = self.debounce(content) {
            return answer;
        }
        self.create(id, content);
        Answer::Submitted { id, duplicate: false }
    }

    /// Restarts the delay of the execution that waits for quiet with the key of a submission, if there is one.
    fn debounce(&mut self, content: &Content) -> Option<Answer> {
        let (key, delay, _) = content.debounce?;
        let now = self.now;
        let first = self.executions.get_mut(self.debounced.get(&key)?)?;
        if first.epoch > 0 || !matches!(first.state, ModelState::Delayed(_)) {
            return None;
        }
        if first.content.second_lane != content.second_lane {
            return Some(Answer::Refused("idempotency_mismatch"));
        }
        let limit =
            first.content.debounce.and_then(|(_, _, max)| max).map(|max| first.submitted_at + ms(max));
        let quiet_at = now + ms(delay);
        first.state = ModelState::Delayed(limit.map_or(quiet_at, |limit| quiet_at.min(limit)));
        first.version += 1;
        let id = first.id;
        self.bind_key(id, content);
        Some(Answer::Submitted { id, duplicate: true })
    }

    /// Binds the idempotency key of a submission to the execution that the reply names.
    fn bind_key(&mut self, id: ExecutionId, content: &Content) {
        if let Some((key, window)) = content.idempotency {
            self.idempotency.insert(key, (id, content.clone(), self.now + ms(window)));
        }
    }

    fn create(&mut self, id: ExecutionId, content: &Content) {
        self.bind_key(id, content);
        if let Some(key) = content.unique {
            self.unique.insert(key, id);
        }
        if let Some((key, ..)) = content.debounce {
            self.debounced.insert(key, id);
        }
        let debounced = content.debounce.map(|(_, delay, _)| delay);
        let delay = content.delay_ms.or(debounced).filter(|delay| *delay > 0);
        let known = ModelExecution {
            id,
            content: content.clone(),
            state: delay.map_or(ModelState::Waiting, |delay| ModelState::Delayed(self.now + ms(delay))),
            version: 1,
            epoch: 0,
            generation: 0,
            retries: 0,
            interruptions: 0,
            interruptions_before_progress: 0,
            priority: content.priority,
            tags: BTreeMap::new(),
            progress: None,
            progress_ids: Vec::new(),
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

    /// Applies a report. Under a lease that is not live it is refused, unless it repeats the report that ended that
    /// lease.
    pub fn report(&mut self, fence: &Fence, op_id: Option<u8>, op: &ReportSpec) -> Answer {
        let now = self.now;
        let keys = &mut self.keys;
        let Some(known) = self.executions.get_mut(&fence.execution) else {
            return Answer::Refused("not_found");
        };
        let report_key = op_id.map_or_else(|| ReportKey::Content(op.clone()), ReportKey::Named);
        if !known.holds(fence) {
            let before = known.endings.iter().find(|(of, what, _)| of == fence && *what == report_key);
            let created = known.record.newest(op);
            return before.map_or(Answer::Refused("stale_lease"), |(_, _, state)| reported(*state, created));
        }
        let next = match op {
            ReportSpec::Waitpoint(point) => {
                return match known.create_waitpoints(std::slice::from_ref(point), keys, now) {
                    Ok(created) => reported(known.state.name(), created),
                    Err(code) => Answer::Refused(code),
                };
            }
            ReportSpec::Step { name, kind, result } => {
                return match known.record_step(*name, *kind, *result, now) {
                    Ok(()) => Answer::State(known.state.name()),
                    Err(code) => Answer::Refused(code),
                };
            }
            ReportSpec::Suspend { waits, waitpoints } => {
                return match known.suspend(waits, waitpoints, keys, now) {
                    Ok((state, created)) => {
                        known.endings.push((*fence, report_key, state));
                        reported(state, created)
                    }
                    Err(code) => Answer::Refused(code),
                };
            }
            ReportSpec::Progress(percent) => {
                let repeats = op_id.is_some_and(|op_id| known.progress_ids.contains(&op_id));
                if !repeats {
                    known.version += u32::from(op_id.is_some() || known.progress != Some(*percent));
                    known.progress = Some(*percent);
                    known.progress_ids.extend(op_id);
                }
                return Answer::State(known.state.name());
            }
            ReportSpec::Cancelled if known.cancel_until.is_none() => return Answer::Refused("wrong_state"),
            ReportSpec::Cancelled => ModelState::Ended(Outcome::Cancelled),
            ReportSpec::Complete(result) => {
                known.result = Some(*result);
                ModelState::Ended(Outcome::Completed)
            }
            ReportSpec::Fail { class, retry_after_ms, .. } => {
                let is_retried = *class != FailureClass::Permanent || known.content.retry_permanent;
                let wait = retry_after_ms.unwrap_or(known.content.backoff_ms);
                known.after_failure(is_retried, wait, now)
            }
            ReportSpec::Delay(wait) => known.after_attempt(*wait, now),
            ReportSpec::Release => known.after_attempt(0, now),
        };
        known.move_to(next, now);
        let state = known.state.name();
        known.endings.push((*fence, report_key, state));
        Answer::State(state)
    }

    /// Puts back the lease of a worker that has departed or never received it.
    pub fn put_back(&mut self, fence: &Fence) -> Answer {
        let now = self.now;
        let Some(known) = self.executions.get_mut(&fence.execution) else {
            return Answer::Refused("not_found");
        };
        if !known.holds(fence) {
            return Answer::No;
        }
        let next = known.after_attempt(0, now);
        known.move_to(next, now);
        Answer::Yes
    }

    /// Applies an action of an operator.
    pub fn operate(&mut self, id: ExecutionId, action: &OperatorAction, expect: ExpectedVersion) -> Answer {
        let now = self.now;
        let Some(known) = self.executions.get(&id) else {
            return Answer::Refused("not_found");
        };
        if matches!(expect, ExpectedVersion::Another) {
            return Answer::Refused("version_mismatch");
        }
        let replayed = matches!(action, OperatorAction::Replay) && known.has_ended();
        let unique = known.content.unique.filter(|_| replayed);
        let holder = unique.and_then(|key| self.unique.get(&key)).filter(|holder| **holder != id).copied();
        if holder.and_then(|holder| self.executions.get(&holder)).is_some_and(|other| !other.has_ended()) {
            return Answer::Refused("wrong_state");
        }
        self.unique.extend(unique.map(|key| (key, id)));
        let Some(known) = self.executions.get_mut(&id) else {
            return Answer::Refused("not_found");
        };
        let applied = match action {
            OperatorAction::ReissueWaitpoint { waitpoint, expires_ms } => {
                known.reissue_waitpoint(*waitpoint, *expires_ms, &mut self.keys, now)
            }
            action => apply_action(known, action, now),
        };
        match applied {
            Ok(()) => Answer::Version(known.version),
            Err(code) => Answer::Refused(code),
        }
    }

    /// Expires a lease if its first term and its session's last renewal are both over.
    pub fn expire_lease(&mut self, id: ExecutionId) -> Answer {
        let (now, manual) = (self.now, self.manual);
        let Some(known) = self.executions.get_mut(&id) else {
            return Answer::Lost;
        };
        let ModelState::Active { worker, claimed_at, .. } = known.state else {
            return Answer::Lost;
        };
        let renewed_at = self.sessions.get(&worker).and_then(|session| session.renewed_at);
        let latest = renewed_at.map_or(claimed_at, |renewed| renewed.max(claimed_at));
        if latest + ms(ttl_ms(manual, worker)) > now {
            return Answer::NotDue;
        }
        let next = known.after_interruption(now);
        known.move_to(next, now);
        Answer::Acted
    }

    /// Applies the due action of this kind, if it is the earliest and its time has come.
    pub fn due(&mut self, id: ExecutionId, kind: DueKind) -> Answer {
        let now = self.now;
        let Some(known) = self.executions.get_mut(&id) else {
            return Answer::Lost;
        };
        if known.next_due().is_none_or(|(at, of)| of != kind || at > now) {
            return Answer::NotDue;
        }
        if known.is_suspended() && matches!(kind, DueKind::Delay | DueKind::SuspensionTimeout) {
            known.apply_due_wait(kind, now);
            return Answer::Acted;
        }
        let next = match kind {
            DueKind::Delay => ModelState::Waiting,
            DueKind::AttemptTimeout => {
                let wait = known.content.backoff_ms;
                known.after_failure(true, wait, now)
            }
            DueKind::Deadline => {
                let deadline = known.content.deadline_ms.map(|limit| known.opened_at + ms(limit));
                let passed = |at: Option<i64>| at.is_some_and(|at| at <= now);
                match !passed(deadline) && passed(known.cancel_until) {
                    true => ModelState::Ended(Outcome::Cancelled),
                    false => ModelState::Ended(Outcome::Expired),
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
        known.move_to(next, now);
        Answer::Acted
    }

    /// Requests a worker to drain.
    pub fn drain(&mut self, worker: usize) -> Answer {
        match self.sessions.get_mut(&worker).filter(|session| !session.ended) {
            Some(session) => {
                session.draining = true;
                Answer::Yes
            }
            None => Answer::Refused("not_found"),
        }
    }
}

/// Returns the reply to a report, with the waitpoints that it created.
fn reported(state: StateName, created: Vec<u32>) -> Answer {
    match created.is_empty() {
        true => Answer::State(state),
        false => Answer::Waitpoints(state, created),
    }
}

fn apply_action(known: &mut ModelExecution, action: &OperatorAction, now: i64) -> Result<(), &'static str> {
    let active = matches!(known.state, ModelState::Active { .. });
    let ended = known.has_ended();
    match action {
        OperatorAction::Cancel { .. } if known.state == ModelState::Ended(Outcome::Cancelled) => {}
        OperatorAction::Cancel { .. }
        | OperatorAction::Prioritise(_)
        | OperatorAction::Reschedule(_)
        | OperatorAction::Resume
            if ended =>
        {
            return Err("already_terminal");
        }
        OperatorAction::Cancel { grace_ms } if active && *grace_ms > 0 => {
            let until = now + ms(*grace_ms);
            if known.cancel_until.is_none_or(|before| until < before) {
                known.cancel_until = Some(until);
                known.version += 1;
            }
        }
        OperatorAction::Cancel { .. } => known.move_to(ModelState::Ended(Outcome::Cancelled), now),
        OperatorAction::Revoke if !active => return Err("wrong_state"),
        OperatorAction::Revoke => {
            let next = known.after_attempt(0, now);
            known.move_to(next, now);
        }
        OperatorAction::Prioritise(priority) => {
            known.version += u32::from(known.priority != *priority);
            known.priority = *priority;
        }
        OperatorAction::Reschedule(_) if active || known.is_suspended() => return Err("wrong_state"),
        OperatorAction::Resume if !known.is_suspended() => return Err("wrong_state"),
        OperatorAction::Resume => known.resume(now),
        OperatorAction::RevokeWaitpoint(index) => known.revoke_waitpoint(*index)?,
        // The caller applies it, because it needs the keys.
        OperatorAction::ReissueWaitpoint { .. } => {}
        OperatorAction::Reschedule(wait) => {
            let next = known.after_attempt(*wait, now);
            known.move_to(next, now);
        }
        OperatorAction::Replay if !ended => return Err("wrong_state"),
        OperatorAction::Replay => {
            known.move_to(ModelState::Waiting, now);
            known.generation += 1;
            known.opened_at = now;
            known.started_at = None;
            (known.retries, known.interruptions, known.interruptions_before_progress) = (0, 0, 0);
            (known.progress, known.result) = (None, None);
            known.progress_ids.clear();
            known.record.resumed_by = None;
        }
        OperatorAction::Tag { name, value } => {
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
