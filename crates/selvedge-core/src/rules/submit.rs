//! Submission: new executions, each at most once for its id and its keys.

use super::CallKey;
use crate::execution::{Detail, Spec};
use crate::fact::Fact;
use crate::gate::LaneState;
use crate::gate::draws::{fairness_line, lane_gate};
use crate::rows::{KeyName, KeyRow, KeyScope, Needs};
use crate::rule::{Locks, Phase, Profile, Rule};
use crate::{
    ClassId, Execution, ExecutionId, FlowId, History, Name, NamespaceId, Refusal, State, Submission,
    Timestamp, Work,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Submit these, each on its own: one that is refused refuses only itself.
#[derive(Clone, Debug)]
pub struct Submit {
    /// For whom.
    pub namespace: NamespaceId,
    /// What.
    pub items: Vec<SubmitItem>,
    /// The caller's key for the whole call.
    pub call_key: Option<CallKey>,
    /// Whether the same call was made before and its answer was lost.
    pub repeated: bool,
}

/// One submission.
#[derive(Clone, Debug)]
pub struct SubmitItem {
    /// What was submitted, or why it was refused before it came here.
    pub submission: Result<Submission, Refusal>,
    /// Its class.
    pub class: ClassId,
    /// Its id: the caller's, or one that the engine minted.
    pub id: ExecutionId,
}

/// An accepted submission.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// The execution.
    pub execution: Execution,
    /// Whether it was there before.
    pub duplicate: bool,
}

/// The stored answer of a keyed call.
#[derive(Debug, Serialize, Deserialize)]
struct Answer(Vec<Result<ExecutionId, Refusal>>);

impl Rule for Submit {
    /// One answer per item, in order.
    type Reply = Vec<Result<Submitted, Refusal>>;
    const PHASE: Phase = Phase::Submissions;

    fn profile(&self) -> Profile {
        let valid = self.items.iter().filter(|item| item.submission.is_ok());
        Profile {
            makes_ready: valid.map(|item| item.class).collect(),
            locks: Locks { later_executions: self.has_keys(), ..Locks::default() },
            ..Profile::weighing(self.items.len())
        }
    }

    /// The keys, and the executions they stand for. Ids that the engine minted are looked up only when the call may have
    /// committed before. Lanes are read only where some are configured, so that they cost nothing elsewhere.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        let may_exist = self.may_have_committed(work);
        needs.keys.read(self.call_key.as_ref().map(|call_key| call_key.key_name(self.namespace)));
        let stored = self.call_key.as_ref().map(|call_key| call_key.stored::<Answer>(self.namespace, work));
        if let Some(Ok(Some(answer))) = stored {
            needs.executions.lock(answer.0.into_iter().flatten().filter(|id| !work.is_loaded(*id)));
        }
        for item in &self.items {
            let Ok(submission) = &item.submission else {
                continue;
            };
            if submission.id.is_some() || may_exist {
                needs.executions.lock([item.id]);
            }
            needs.flows.read(submission.id.map(|id| FlowId(id.0)));
            for name in names(self.namespace, submission) {
                let first = work.key(&name).and_then(|key| key.execution);
                needs.executions.lock(first.filter(|id| !work.is_loaded(*id)));
                needs.keys.read([name]);
            }
            let line = submission.required_gates.fairness_key.as_ref();
            needs.gates.lock(line.map(|key| fairness_line(self.namespace, item.class, key).id()));
        }
        let valid = self.items.iter().filter_map(|item| item.submission.as_ref().ok());
        needs_lanes(self.namespace, valid, work, needs);
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        let Some(call_key) = &self.call_key else {
            return self.decide_each(work);
        };
        match call_key.stored::<Answer>(self.namespace, work) {
            Err(refusal) => self.items.iter().map(|_| Err(refusal.clone())).collect(),
            Ok(Some(answer)) => self.repeat(answer, work),
            Ok(None) => {
                let replies = self.decide_each(work);
                // A draining lane does not drain for ever: if nothing was created, the same call may be made again.
                if replies.iter().all(|reply| matches!(reply, Err(Refusal::LaneDraining { .. }))) {
                    return replies;
                }
                let answer = |reply: &Result<Submitted, Refusal>| {
                    reply.as_ref().map(|done| done.execution.id).map_err(Clone::clone)
                };
                let answer = Answer(replies.iter().map(answer).collect());
                call_key.store(self.namespace, &answer, work);
                replies
            }
        }
    }
}

impl Submit {
    /// Whether it has keys, which may stand for executions that are known only when the keys are.
    pub fn has_keys(&self) -> bool {
        let keyed = |item: &SubmitItem| {
            item.submission.as_ref().is_ok_and(|one| names(self.namespace, one).next().is_some())
        };
        self.call_key.is_some() || self.items.iter().any(keyed)
    }

    /// Whether this very call may have committed before without its answer arriving.
    fn may_have_committed(&self, work: &Work) -> bool {
        self.repeated || work.is_repeated()
    }

    /// The answers of the same call, made before.
    fn repeat(&self, answer: Answer, work: &Work) -> Vec<Result<Submitted, Refusal>> {
        answer
            .0
            .into_iter()
            .map(|stored| {
                let execution = work.execution(self.namespace, stored?)?.clone();
                Ok(Submitted { execution, duplicate: true })
            })
            .collect()
    }

    fn decide_each(&self, work: &mut Work) -> Vec<Result<Submitted, Refusal>> {
        self.items
            .iter()
            .map(|item| match &item.submission {
                Ok(submission) => self.decide_one(item, submission, work),
                Err(refusal) => Err(refusal.clone()),
            })
            .collect()
    }

    fn decide_one(
        &self,
        item: &SubmitItem,
        submission: &Submission,
        work: &mut Work,
    ) -> Result<Submitted, Refusal> {
        if let Some(row) = work.find(item.id)? {
            let minted = submission.id.is_none();
            let same =
                row.namespace == self.namespace && (minted || row.spec.digest == Some(submission.digest));
            return match same {
                true => Ok(Submitted {
                    execution: row.clone(),
                    duplicate: !(minted && self.may_have_committed(work)),
                }),
                false => Err(Refusal::IdempotencyMismatch {
                    pointer: "/id".into(),
                    detail: "is in use for an execution with other content; use a new id".into(),
                }),
            };
        }
        if submission.id.is_some() && work.find_flow(FlowId(item.id.0)).is_some() {
            return Err(Refusal::IdempotencyMismatch {
                pointer: "/id".into(),
                detail: "is in use for a flow; use a new id".into(),
            });
        }
        if let Some(first) = self.first_with_key(submission, work)? {
            self.remember_key(submission, &first, work);
            return Ok(Submitted { execution: first, duplicate: true });
        }
        check_lane(self.namespace, submission, work)?;
        Ok(Submitted { execution: self.create(item, submission, work), duplicate: false })
    }

    /// The execution that one of the submission's keys already stands for.
    fn first_with_key(&self, submission: &Submission, work: &Work) -> Result<Option<Execution>, Refusal> {
        for name in names(self.namespace, submission) {
            let Some(key) = work.key(&name) else { continue };
            let Some(first) = key.execution.map(|id| work.find(id)).transpose()?.flatten() else {
                continue;
            };
            let active = first.state.outcome().is_none();
            match name.scope {
                KeyScope::Unique if active => return Ok(Some(first.clone())),
                KeyScope::Idempotency
                    if active || stands_until(key, first).is_some_and(|until| work.now() < until) =>
                {
                    if key.digest != submission.digest {
                        return Err(Refusal::IdempotencyMismatch {
                            pointer: "/idempotency_key".into(),
                            detail: format!(
                                "stands for execution {} with other content; use a new key for new work",
                                first.id
                            ),
                        });
                    }
                    return Ok(Some(first.clone()));
                }
                KeyScope::Unique
                | KeyScope::Idempotency
                | KeyScope::Operation
                | KeyScope::Flow
                | KeyScope::Usage => {}
            }
        }
        Ok(None)
    }

    /// A submission that is the first one because of its uniqueness key is answered the same when it is repeated, also
    /// after that one has ended: its own idempotency key stands for the first one from now on.
    fn remember_key(&self, submission: &Submission, first: &Execution, work: &mut Work) {
        let mut names = names(self.namespace, submission);
        let Some(name) = names.find(|name| name.scope == KeyScope::Idempotency) else { return };
        if work.key(&name).is_some_and(|key| key.execution == Some(first.id)) {
            return;
        }
        let window_ms = submission.idempotency_window_ms.unwrap_or_default();
        work.put_key(KeyRow {
            name,
            execution: Some(first.id),
            digest: submission.digest,
            answer: Bytes::new(),
            expires_at: Some(work.now().plus_ms(window_ms)),
        });
    }

    fn create(&self, item: &SubmitItem, submission: &Submission, work: &mut Work) -> Execution {
        let row = new_row(self.namespace, item.id, item.class, submission, work.now());
        let delayed_until = match row.state {
            State::Delayed { until } => Some(until),
            _ => None,
        };
        work.insert(row, submission.input.clone(), Fact::Submitted { delayed_until });
        for name in names(self.namespace, submission) {
            work.put_key(KeyRow {
                name,
                execution: Some(item.id),
                digest: submission.digest,
                answer: Bytes::new(),
                expires_at: None,
            });
        }
        work.find(item.id).ok().flatten().cloned().expect("it was inserted just now")
    }
}

/// The lanes of these submissions, one of which may be draining. Asked for only where lanes are configured.
pub(super) fn needs_lanes<'a>(
    namespace: NamespaceId,
    submissions: impl Iterator<Item = &'a Submission>,
    work: &Work,
    needs: &mut Needs,
) {
    if work.expects_lanes() {
        needs.lanes.lock(submissions.map(|one| lane_gate(namespace, &one.lane).id()));
    }
}

/// Refuses what goes to a lane that takes nothing new. A lane that was not asked for takes everything.
pub(super) fn check_lane(namespace: NamespaceId, one: &Submission, work: &Work) -> Result<(), Refusal> {
    let lane = work.gate(&lane_gate(namespace, &one.lane));
    match lane.config.as_ref().is_some_and(|config| config.state == LaneState::Draining) {
        true => Err(Refusal::LaneDraining { lane: one.lane.to_string() }),
        false => Ok(()),
    }
}

/// A new execution, alone: ready, or delayed.
pub(super) fn new_row(
    namespace: NamespaceId,
    id: ExecutionId,
    class: ClassId,
    submission: &Submission,
    now: Timestamp,
) -> Execution {
    let delayed_until = submission.delay.map(|delay| delay.at(now)).filter(|until| *until > now);
    Execution {
        id,
        namespace,
        class,
        flow: None,
        submitted_at: now,
        spec: Arc::new(Spec {
            policy: submission.policy.clone(),
            idempotency_key: submission.idempotency_key.clone(),
            idempotency_window_ms: submission.idempotency_window_ms,
            unique_while_active: submission.unique_while_active.clone(),
            digest: submission.id.map(|_| submission.digest),
            node: None,
            required_gates: submission.required_gates.clone(),
        }),
        tags: submission.tags.clone(),
        version: 1,
        state: delayed_until.map_or(State::Waiting, |until| State::Delayed { until }),
        priority: submission.priority,
        ready_order: now,
        epoch: 0,
        started_at: None,
        ended_at: None,
        detail: Detail::default(),
        history: History::default(),
        wiring: None,
        join: None,
    }
}

/// Until when an idempotency key stands for an execution that has ended.
fn stands_until(key: &KeyRow, first: &Execution) -> Option<Timestamp> {
    key.expires_at.or(first.key_until())
}

/// The keys that a submission asks for, the stronger first.
fn names(namespace: NamespaceId, submission: &Submission) -> impl Iterator<Item = KeyName> {
    keys(namespace, submission.idempotency_key.as_ref(), submission.unique_while_active.as_ref())
}

/// The keys that stand for an execution.
pub fn key_names(row: &Execution) -> impl Iterator<Item = KeyName> + use<> {
    keys(row.namespace, row.spec.idempotency_key.as_ref(), row.spec.unique_while_active.as_ref())
}

fn keys(
    namespace: NamespaceId,
    idempotency: Option<&Name>,
    unique: Option<&Name>,
) -> impl Iterator<Item = KeyName> + use<> {
    let name = |scope, key: Option<&Name>| key.map(|key| KeyName { namespace, scope, key: key.clone() });
    [name(KeyScope::Idempotency, idempotency), name(KeyScope::Unique, unique)].into_iter().flatten()
}
