//! Actions of operators on an execution. Their events name the actor.

use super::flows::graft::join_again;
use super::gates::lock_gate;
use super::keyed::Repeatable;
use super::submit::key_names;
use super::waitpoint::{self, Reissue};
use super::{follow, open_again, put_back, suspend};
use crate::execution::CancelRequest;
use crate::fact::{self, Fact, Next};
use crate::gate::draws::fairness_line_of;
use crate::gate::{GateKind, GateName};
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
    pub namespace: NamespaceId,
    pub execution: ExecutionId,
    pub actor: Name,
    /// The version that the execution must have. Default: any.
    pub if_version: Option<u32>,
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
    RevokeWaitpoint { waitpoint: WaitpointId },
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
        let flows = replays || self.cancels();
        let locks = Locks { later_executions: replays, flows, sessions: false };
        Profile { if_locked, locks, ..Profile::on(self.execution) }
    }

    /// Needs the row. A cancellation also needs the flow. A change of priority also needs the gate that holds the
    /// execution. A replay also needs the flow, the uniqueness key, and the execution that has the key now.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        needs.executions.lock([self.execution]);
        if self.action == Action::Replay
            && let Ok(row) = work.execution(self.namespace, self.execution)
        {
            needs.flows.lock(row.flow);
            needs.gates.lock(fairness_line_of(row).map(|line| line.id()));
        }
        match (&self.action, work.execution(self.namespace, self.execution)) {
            (Action::Cancel { .. }, Ok(row)) => {
                needs.flows.lock(row.flow);
                waitpoint::needs_closed(row, needs);
            }
            // It ends an execution whose cancel was requested.
            (Action::Revoke { .. }, Ok(row)) => waitpoint::needs_closed(row, needs),
            (Action::Resume, Ok(row)) => suspend::needs(row, needs),
            (Action::Prioritise { .. }, Ok(row)) => {
                scanned_gate(row).into_iter().for_each(|gate| lock_gate(gate, needs));
            }
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
        if self.changes(&row, work)? {
            self.act(&row, work)?;
            // Before the reply, which has the version of the row.
            if matches!(self.action, Action::Cancel { .. } | Action::Revoke { .. } | Action::Resume) {
                waitpoint::close_unneeded(work, row.id);
            }
        }
        work.execution(self.namespace, self.execution).cloned()
    }
}

impl Repeatable for Operate {
    type Done = Execution;
    type Answer = ();

    fn namespace(&self) -> NamespaceId {
        self.namespace
    }

    fn answer(_done: &Execution) {}

    /// Returns the execution as it is now.
    fn repeat(&self, (): (), work: &Work) -> Result<Execution, Refusal> {
        work.execution(self.namespace, self.execution).cloned()
    }
}

impl Operate {
    /// Reports whether the action changes the execution. Refuses an action that is invalid or does not apply.
    fn changes(&self, row: &Execution, work: &Work) -> Result<bool, Refusal> {
        match &self.action {
            Action::Cancel { reason, grace_ms } => self.cancel_changes(row, reason, *grace_ms, work),
            Action::Revoke { reason } => {
                check_reason(reason)?;
                match row.lease_ref() {
                    Some(_) => Ok(true),
                    None => Err(self.wrong_state(row, "only an active execution has a lease to revoke")),
                }
            }
            Action::Prioritise { priority } => {
                let to = check_priority("/priority", *priority)?;
                if row.state.outcome().is_some() { Err(terminal(row)) } else { Ok(to != row.priority) }
            }
            Action::Reschedule { until } => self.reschedule_changes(row, *until),
            Action::Replay => self.replay_changes(row, work),
            Action::Resume => match &row.state {
                State::Suspended(_) => Ok(true),
                State::Terminal(_) => Err(terminal(row)),
                State::WaitingDependencies
                | State::Waiting
                | State::Delayed { .. }
                | State::Held(_)
                | State::Active(_) => Err(self.wrong_state(row, "only a suspended execution can be resumed")),
            },
            Action::RevokeWaitpoint { .. } | Action::ReissueWaitpoint(_) => Ok(true),
            Action::Tag { set, remove } => {
                check_tags("/set", set.clone())?;
                let tags = check_tags("/set", changed_tags(row, set, remove))?;
                Ok(tags != row.tags)
            }
        }
    }

    /// Applies an action that [changes](Operate::changes) the execution.
    fn act(&self, row: &Execution, work: &mut Work) -> Result<(), Refusal> {
        match &self.action {
            Action::Cancel { reason, grace_ms } => self.cancel(row, reason, *grace_ms, work),
            Action::Revoke { reason } => self.revoke(row, reason, work),
            Action::Prioritise { priority } => self.prioritise(*priority, row, work)?,
            Action::Reschedule { until } => {
                let next = put_back(row, Some(until.at(work.now())), work.now());
                self.apply(work, Fact::Rescheduled(fact::Rescheduled { next }), |row| follow(row, next));
            }
            Action::Replay => self.replay(row, work),
            Action::Resume => {
                if let State::Suspended(suspension) = &row.state {
                    suspend::resume_by_operator(row, suspension, self.actor.clone(), work);
                }
            }
            Action::RevokeWaitpoint { waitpoint } => {
                waitpoint::revoke(row, *waitpoint, self.actor.clone(), work)?;
            }
            Action::ReissueWaitpoint(reissue) => reissue.decide(row, self.actor.clone(), work)?,
            Action::Tag { set, remove } => {
                let fact = Fact::Tagged(fact::Tagged { set: set.clone(), remove: remove.clone() });
                self.apply(work, fact, |row| row.tags = changed_tags(row, set, remove));
            }
        }
        Ok(())
    }

    /// Returns the uniqueness key of the execution to replay, even if it ends only later in the same transaction.
    fn unique_key(&self, work: &Work) -> Option<KeyName> {
        let row =
            work.execution(self.namespace, self.execution).ok().filter(|_| self.action == Action::Replay)?;
        key_names(row).find(|name| name.scope == KeyScope::Unique)
    }

    fn cancels(&self) -> bool {
        matches!(self.action, Action::Cancel { .. })
    }

    fn apply(&self, work: &mut Work, fact: Fact, edit: impl FnOnce(&mut Execution)) {
        work.apply(self.execution, fact, Some(self.actor.clone()), edit);
    }

    fn cancel_changes(
        &self,
        row: &Execution,
        reason: &Option<String>,
        grace_ms: i64,
        work: &Work,
    ) -> Result<bool, Refusal> {
        check_reason(reason)?;
        check_duration("/grace_ms", grace_ms)?;
        let until = work.now().plus_ms(grace_ms);
        match &row.state {
            State::Terminal(Outcome::Cancelled) => Ok(false),
            State::Terminal(_) => Err(terminal(row)),
            State::Active(_) if grace_ms > 0 => {
                Ok(row.detail.cancel.as_ref().is_none_or(|asked| until < asked.until))
            }
            State::WaitingDependencies
            | State::Waiting
            | State::Delayed { .. }
            | State::Active(_)
            | State::Held(_)
            | State::Suspended(_) => Ok(true),
        }
    }

    fn cancel(&self, row: &Execution, reason: &Option<String>, grace_ms: i64, work: &mut Work) {
        if row.state.lease().is_some() && grace_ms > 0 {
            let until = work.now().plus_ms(grace_ms);
            let fact = Fact::CancelRequested(fact::CancelRequested { reason: reason.clone(), until });
            let request = CancelRequest { actor: Some(self.actor.clone()), reason: reason.clone(), until };
            self.apply(work, fact, |row| row.detail.cancel = Some(request));
        } else {
            let fact = Fact::Cancelled(fact::Cancelled { lease: row.lease_ref(), reason: reason.clone() });
            self.apply(work, fact, |row| {
                follow(row, Next::Terminal(Outcome::Cancelled));
                row.detail.cancelled_by = Some(self.actor.clone());
            });
        }
        mark_flow(row, work);
    }

    fn revoke(&self, row: &Execution, reason: &Option<String>, work: &mut Work) {
        let Some(lease) = row.lease_ref() else { return };
        let next = put_back(row, None, work.now());
        let fact = Fact::Revoked(fact::Revoked { lease, reason: reason.clone(), next });
        self.apply(work, fact, |row| follow(row, next));
    }

    fn prioritise(&self, priority: i64, row: &Execution, work: &mut Work) -> Result<(), Refusal> {
        let to = check_priority("/priority", priority)?;
        let fact = Fact::Prioritised(fact::Prioritised { from: row.priority, to });
        self.apply(work, fact, |row| {
            row.priority = to;
            row.detail.own_priority = row.detail.own_priority.map(|_| to);
        });
        // A pending scan of its gate may have passed the new place before it reached the old one.
        if let Some(gate) = scanned_gate(row).filter(|gate| work.gate(gate).state.looked.is_some()) {
            work.change_gate(gate, |gate| gate.state.scan_again());
        }
        Ok(())
    }

    fn reschedule_changes(&self, row: &Execution, until: When) -> Result<bool, Refusal> {
        until.check("/delay_ms")?;
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
            State::Waiting | State::Delayed { .. } | State::Held(_) => Ok(true),
        }
    }

    fn replay_changes(&self, row: &Execution, work: &Work) -> Result<bool, Refusal> {
        if row.state.outcome().is_none() {
            return Err(self.wrong_state(row, "only an execution that has ended can be replayed"));
        }
        if row.state.outcome() == Some(Outcome::Skipped) {
            let detail =
                "it never ran because of the outcomes of its upstreams; replay one of them to reopen it";
            return Err(self.wrong_state(row, detail));
        }
        if let Some(other) = self.other_key_holder(row, work)
            && work.find(other)?.is_some_and(|other| other.state.outcome().is_none())
        {
            let detail = format!(
                "execution {other} has the same unique_while_active key and has not ended; wait until it ends, or cancel it"
            );
            return Err(self.wrong_state(row, &detail));
        }
        if let Some(id) = row.flow {
            let cancel = work.flow(self.namespace, id)?.detail.cancel.as_ref();
            if cancel.is_some_and(|cancel| cancel.draining) {
                return Err(self.wrong_state(
                    row,
                    "its flow is being cancelled; replay it after the cancellation has finished",
                ));
            }
        }
        Ok(true)
    }

    fn replay(&self, row: &Execution, work: &mut Work) {
        if let Some(name) = self.unique_key(work) {
            self.take_unique_key(row, name, work);
        }
        self.reopen_flow(row, work);
        let now = work.now();
        let waits = row.join.as_ref().is_some_and(|join| join.decision == GroupDecision::Pending);
        let generation = row.detail.generation + 1;
        let fact = if waits {
            Fact::ReplayedWaitingDependencies(fact::ReplayedWaitingDependencies { generation })
        } else {
            Fact::Replayed(fact::Replayed { generation })
        };
        self.apply(work, fact, |row| {
            row.state = if waits { State::WaitingDependencies } else { State::Waiting };
            open_again(row, now);
        });
        work.set_result(row.id, ResultChange::Clear);
        if waits {
            join_again(work, row.id);
        }
    }

    /// Reopens the flow of the replayed execution, if it had ended.
    fn reopen_flow(&self, row: &Execution, work: &mut Work) {
        let Some(id) = row.flow else { return };
        work.reopen_flow(id, row.id, Some(self.actor.clone()));
        if work.find_flow(id).is_some_and(|flow| flow.detail.cancel.is_some()) {
            work.apply_flow(id, None, None, |flow| flow.detail.cancel = None);
        }
    }

    /// Returns the other execution that has the uniqueness key now.
    fn other_key_holder(&self, row: &Execution, work: &Work) -> Option<ExecutionId> {
        let holder = self.unique_key(work).and_then(|name| work.key(&name)?.execution());
        holder.filter(|other| *other != row.id)
    }

    /// Gives the uniqueness key back to the execution.
    fn take_unique_key(&self, row: &Execution, name: KeyName, work: &mut Work) {
        if work.key(&name).and_then(KeyRow::execution) != Some(row.id) {
            let (subject, answer) = (Some(KeySubject::Execution(row.id)), Bytes::new());
            work.put_key(KeyRow { name, subject, digest: 0, answer, expires_at: None });
        }
    }

    fn wrong_state(&self, row: &Execution, detail: &str) -> Refusal {
        Refusal::WrongState {
            execution: row.id,
            state: row.state.name().as_str().into(),
            detail: detail.into(),
        }
    }
}

/// Records in the flow of a member that an operator cancelled a member.
fn mark_flow(row: &Execution, work: &mut Work) {
    if let Some(id) = row.flow
        && work.find_flow(id).is_some_and(|flow| !flow.detail.member_cancelled)
    {
        work.apply_flow(id, None, None, |flow| flow.detail.member_cancelled = true);
    }
}

/// An action on one of many executions, or its rehearsal.
#[derive(Clone, Debug)]
pub struct OperateInBulk {
    pub operate: Operate,
    /// True to change nothing and only report what the action would do.
    pub dry_run: bool,
}

impl Rule for OperateInBulk {
    /// True if the action changed the execution, or would change it.
    type Reply = Result<bool, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        self.operate.profile()
    }

    fn needs(&self, work: &Work, needs: &mut Needs) {
        self.operate.needs(work, needs);
    }

    fn decide(&self, work: &mut Work) -> Result<bool, Refusal> {
        let row = work.execution(self.operate.namespace, self.operate.execution)?.clone();
        let changes = self.operate.changes(&row, work)?;
        if changes && !self.dry_run {
            self.operate.act(&row, work)?;
        }
        Ok(changes)
    }
}

impl Repeatable for OperateInBulk {
    type Done = bool;
    type Answer = bool;

    fn namespace(&self) -> NamespaceId {
        self.operate.namespace
    }

    fn answer(changed: &bool) -> bool {
        *changed
    }

    fn repeat(&self, changed: bool, _work: &Work) -> Result<bool, Refusal> {
        Ok(changed)
    }
}

/// Returns the gate that holds an execution and finds it by scanning. Fairness lines and lanes do not scan.
fn scanned_gate(row: &Execution) -> Option<&GateName> {
    let scans = |gate: &&GateName| matches!(gate.kind, GateKind::Key | GateKind::Quota | GateKind::Budget);
    row.state.gate().filter(scans)
}

/// Returns the tags of an execution after a change.
fn changed_tags(
    row: &Execution,
    set: &BTreeMap<String, String>,
    remove: &[String],
) -> BTreeMap<String, String> {
    let mut tags = row.tags.clone();
    remove.iter().for_each(|name| drop(tags.remove(name)));
    tags.extend(set.clone());
    tags
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
