//! Actions of operators on an execution. Their events name the actor.

use super::graft::join_again;
use super::submit::key_names;
use super::waitpoint::{self, Reissue};
use super::{follow, open_again, put_back, suspend};
use crate::execution::CancelRequest;
use crate::fact::{Fact, Next};
use crate::gate::draws::fairness_line_of;
use crate::join::GroupDecision;
use crate::rows::{KeyName, KeyRow, KeyScope, KeySubject, Needs, ResultChange};
use crate::rule::{IfLocked, Locks, Phase, Profile, Rule};
use crate::submission::{When, check_duration, check_priority, check_tags};
use crate::{Execution, ExecutionId, Name, NamespaceId, Outcome, Refusal, State, WaitpointId, Work};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The longest reason of an operator, in bytes.
const REASON_LIMIT: usize = 4096;

/// An action of an operator on an execution.
#[derive(Clone, Debug)]
pub struct Operate {
    /// The namespace.
    pub namespace: NamespaceId,
    /// The execution.
    pub execution: ExecutionId,
    /// The operator.
    pub actor: Name,
    /// The version that the execution must have. Default: any.
    pub if_version: Option<u32>,
    /// The action.
    pub action: Action,
}

/// The actions of operators.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Cancel the execution, at once or after a grace period for its worker.
    Cancel {
        /// The operator's reason.
        reason: Option<String>,
        /// The time that its worker has to clean up, in milliseconds.
        grace_ms: i64,
    },
    /// Revoke the lease. The execution waits for a worker again; neither a retry nor an interruption is charged.
    Revoke {
        /// The operator's reason.
        reason: Option<String>,
    },
    /// Change the priority.
    Prioritise {
        /// The new priority.
        priority: i64,
    },
    /// Change the earliest start.
    Reschedule {
        /// The new earliest start.
        until: When,
    },
    /// Replay an ended execution in a new generation.
    Replay,
    /// Resume a suspended execution.
    Resume,
    /// Revoke the token of a waitpoint.
    RevokeWaitpoint {
        /// The waitpoint.
        waitpoint: WaitpointId,
    },
    /// Issue a new token of a waitpoint.
    ReissueWaitpoint(Reissue),
    /// Change the tags.
    Tag {
        /// The tags to set.
        set: BTreeMap<String, String>,
        /// The names of the tags to remove.
        remove: Vec<String>,
    },
}

impl Rule for Operate {
    type Reply = Result<Execution, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        let replays = self.action == Action::Replay;
        let if_locked = if replays { IfLocked::Wait } else { IfLocked::Defer(self.execution) };
        let locks = Locks { later_executions: replays, flows: replays, sessions: false };
        Profile { if_locked, locks, ..Profile::on(self.execution) }
    }

    /// Needs the row. A replay also needs the flow, the uniqueness key, and the execution that has the key now.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        needs.executions.lock([self.execution]);
        if self.action == Action::Replay
            && let Ok(row) = work.execution(self.namespace, self.execution)
        {
            needs.flows.lock(row.flow);
            needs.gates.lock(fairness_line_of(row).map(|line| line.id()));
        }
        match (&self.action, work.execution(self.namespace, self.execution)) {
            (Action::Resume, Ok(row)) => suspend::needs(row, needs),
            (Action::RevokeWaitpoint { .. }, Ok(row)) => needs.queries.waitpoints.push(row.id),
            (Action::ReissueWaitpoint(_), Ok(row)) => {
                needs.queries.waitpoints.push(row.id);
                needs.queries.token_keys = true;
            }
            _ => {}
        }
        let Some(name) = self.unique_key(work) else { return };
        match work.key(&name) {
            None => needs.keys.read([name]),
            Some(key) => needs.executions.lock(key.execution().filter(|id| !work.is_loaded(*id))),
        }
    }

    /// Applies the action; returns the changed execution.
    fn decide(&self, work: &mut Work) -> Result<Execution, Refusal> {
        let row = work.execution(self.namespace, self.execution)?.clone();
        if let Some(expected) = self.if_version.filter(|expected| *expected != row.version) {
            return Err(Refusal::VersionMismatch { execution: row.id, expected, actual: row.version });
        }
        match &self.action {
            Action::Cancel { reason, grace_ms } => self.cancel(&row, reason, *grace_ms, work)?,
            Action::Revoke { reason } => self.revoke(&row, reason, work)?,
            Action::Prioritise { priority } => self.prioritise(&row, *priority, work)?,
            Action::Reschedule { until } => self.reschedule(&row, *until, work)?,
            Action::Replay => self.replay(&row, work)?,
            Action::Resume => self.resume(&row, work)?,
            Action::RevokeWaitpoint { waitpoint } => {
                waitpoint::revoke(&row, *waitpoint, self.actor.clone(), work)?;
            }
            Action::ReissueWaitpoint(reissue) => reissue.decide(&row, self.actor.clone(), work)?,
            Action::Tag { set, remove } => self.tag(&row, set, remove, work)?,
        }
        work.execution(self.namespace, self.execution).cloned()
    }
}

impl Operate {
    /// Returns the uniqueness key of the execution to replay, even if it ends only later in the same transaction.
    fn unique_key(&self, work: &Work) -> Option<KeyName> {
        let row =
            work.execution(self.namespace, self.execution).ok().filter(|_| self.action == Action::Replay)?;
        key_names(row).find(|name| name.scope == KeyScope::Unique)
    }

    fn apply(&self, work: &mut Work, fact: Fact, edit: impl FnOnce(&mut Execution)) {
        work.apply(self.execution, fact, Some(self.actor.clone()), edit);
    }

    fn cancel(
        &self,
        row: &Execution,
        reason: &Option<String>,
        grace_ms: i64,
        work: &mut Work,
    ) -> Result<(), Refusal> {
        check_reason(reason)?;
        check_duration("/grace_ms", grace_ms)?;
        let until = work.now().plus_ms(grace_ms);
        match &row.state {
            State::Terminal(Outcome::Cancelled) => Ok(()),
            State::Terminal(_) => Err(terminal(row)),
            State::Active(_) if grace_ms > 0 => {
                if row.detail.cancel.as_ref().is_none_or(|asked| until < asked.until) {
                    let fact = Fact::CancelRequested { reason: reason.clone(), until };
                    let request =
                        CancelRequest { actor: Some(self.actor.clone()), reason: reason.clone(), until };
                    self.apply(work, fact, |row| row.detail.cancel = Some(request));
                }
                Ok(())
            }
            State::WaitingDependencies
            | State::Waiting
            | State::Delayed { .. }
            | State::Active(_)
            | State::Held(_)
            | State::Suspended(_) => {
                let fact = Fact::Cancelled { lease: row.lease_ref(), reason: reason.clone() };
                self.apply(work, fact, |row| follow(row, Next::Terminal(Outcome::Cancelled)));
                Ok(())
            }
        }
    }

    fn revoke(&self, row: &Execution, reason: &Option<String>, work: &mut Work) -> Result<(), Refusal> {
        check_reason(reason)?;
        let Some(lease) = row.lease_ref() else {
            return Err(self.wrong_state(row, "only an active execution has a lease to revoke"));
        };
        let next = put_back(row, None, work.now());
        let fact = Fact::Revoked { lease, reason: reason.clone(), next };
        self.apply(work, fact, |row| follow(row, next));
        Ok(())
    }

    fn prioritise(&self, row: &Execution, priority: i64, work: &mut Work) -> Result<(), Refusal> {
        let to = check_priority(priority)?;
        if row.state.outcome().is_some() {
            return Err(terminal(row));
        }
        if to != row.priority {
            let fact = Fact::Prioritised { from: row.priority, to };
            self.apply(work, fact, |row| {
                row.priority = to;
                row.detail.own_priority = row.detail.own_priority.map(|_| to);
            });
        }
        Ok(())
    }

    fn reschedule(&self, row: &Execution, until: When, work: &mut Work) -> Result<(), Refusal> {
        let until = until.check("/delay_ms")?.at(work.now());
        match &row.state {
            State::Terminal(_) => Err(terminal(row)),
            State::Active(_) => {
                Err(self
                    .wrong_state(row, "an active execution cannot be rescheduled; revoke its lease first"))
            }
            State::WaitingDependencies => {
                let detail = "it waits for its upstreams; wait until they have ended, or cancel it";
                Err(self.wrong_state(row, detail))
            }
            State::Suspended(_) => {
                Err(self.wrong_state(row, "a suspended execution cannot be rescheduled; resume it instead"))
            }
            State::Waiting | State::Delayed { .. } | State::Held(_) => {
                let next = put_back(row, Some(until), work.now());
                self.apply(work, Fact::Rescheduled { next }, |row| follow(row, next));
                Ok(())
            }
        }
    }

    fn resume(&self, row: &Execution, work: &mut Work) -> Result<(), Refusal> {
        match &row.state {
            State::Suspended(suspension) => {
                suspend::resume_by_operator(row, suspension, self.actor.clone(), work);
                Ok(())
            }
            State::Terminal(_) => Err(terminal(row)),
            State::WaitingDependencies
            | State::Waiting
            | State::Delayed { .. }
            | State::Held(_)
            | State::Active(_) => Err(self.wrong_state(row, "only a suspended execution can be resumed")),
        }
    }

    fn replay(&self, row: &Execution, work: &mut Work) -> Result<(), Refusal> {
        if row.state.outcome().is_none() {
            return Err(self.wrong_state(row, "only an execution that has ended can be replayed"));
        }
        if row.state.outcome() == Some(Outcome::Skipped) {
            let detail =
                "it never ran because of the outcomes of its upstreams; replay one of them to reopen it";
            return Err(self.wrong_state(row, detail));
        }
        if let Some(name) = self.unique_key(work) {
            self.take_unique_key(row, name, work)?;
        }
        self.reopen_flow(row, work)?;
        let now = work.now();
        let waits = row.join.as_ref().is_some_and(|join| join.decision == GroupDecision::Pending);
        let generation = row.detail.generation + 1;
        let fact = if waits {
            Fact::ReplayedWaitingDependencies { generation }
        } else {
            Fact::Replayed { generation }
        };
        self.apply(work, fact, |row| {
            row.state = if waits { State::WaitingDependencies } else { State::Waiting };
            open_again(row, now);
        });
        work.set_result(row.id, ResultChange::Clear);
        if waits {
            join_again(work, row.id);
        }
        Ok(())
    }

    /// Reopens the flow of the replayed execution, if it had ended.
    fn reopen_flow(&self, row: &Execution, work: &mut Work) -> Result<(), Refusal> {
        let Some(id) = row.flow else { return Ok(()) };
        let flow = work.flow(self.namespace, id)?.clone();
        if flow.detail.cancel.as_ref().is_some_and(|cancel| cancel.draining) {
            return Err(self.wrong_state(
                row,
                "its flow is being cancelled; replay it after the cancellation has finished",
            ));
        }
        work.reopen_flow(id, row.id, Some(self.actor.clone()));
        if flow.detail.cancel.is_some() {
            work.apply_flow(id, None, None, |flow| flow.detail.cancel = None);
        }
        Ok(())
    }

    /// Gives the uniqueness key back to the execution. Refuses if another execution that has not ended has it now.
    fn take_unique_key(&self, row: &Execution, name: KeyName, work: &mut Work) -> Result<(), Refusal> {
        let holder = work.key(&name).and_then(KeyRow::execution);
        if let Some(other) = holder.filter(|other| *other != row.id)
            && work.find(other)?.is_some_and(|other| other.state.outcome().is_none())
        {
            let detail = format!(
                "execution {other} has the same unique_while_active key and has not ended; wait until it ends, or cancel it"
            );
            return Err(self.wrong_state(row, &detail));
        }
        if holder != Some(row.id) {
            let (subject, answer) = (Some(KeySubject::Execution(row.id)), Bytes::new());
            work.put_key(KeyRow { name, subject, digest: 0, answer, expires_at: None });
        }
        Ok(())
    }

    fn tag(
        &self,
        row: &Execution,
        set: &BTreeMap<String, String>,
        remove: &[String],
        work: &mut Work,
    ) -> Result<(), Refusal> {
        check_tags("/set", set.clone())?;
        let mut tags = row.tags.clone();
        remove.iter().for_each(|name| drop(tags.remove(name)));
        tags.extend(set.clone());
        check_tags("/set", tags.clone())?;
        if tags != row.tags {
            let fact = Fact::Tagged { set: set.clone(), remove: remove.to_vec() };
            self.apply(work, fact, |row| row.tags = tags);
        }
        Ok(())
    }

    fn wrong_state(&self, row: &Execution, detail: &str) -> Refusal {
        Refusal::WrongState {
            execution: row.id,
            state: row.state.name().as_str().into(),
            detail: detail.into(),
        }
    }
}

fn terminal(row: &Execution) -> Refusal {
    match row.state.outcome() {
        Some(outcome) => Refusal::AlreadyTerminal { execution: row.id, outcome },
        None => row.stale(),
    }
}

/// Reports whether an execution was never claimed in this generation.
pub(super) fn is_unstarted(row: &Execution) -> bool {
    row.started_at.is_none()
        && matches!(
            row.state,
            State::WaitingDependencies | State::Waiting | State::Delayed { .. } | State::Held(_)
        )
}

pub(super) fn check_reason(reason: &Option<String>) -> Result<(), Refusal> {
    reason.as_deref().map_or(Ok(()), |reason| crate::name::check_text("/reason", reason, REASON_LIMIT))
}
