//! Starts, advances and stops bulk jobs.

use super::keyed::Repeatable;
use super::operator::{Action, Operate, OperateInBulk};
use crate::bulk_job::{
    BulkJob, BulkJobAction, BulkJobId, BulkJobProgress, BulkJobSpec, BulkJobState, REFUSED_MAX, TAKEOVER_MS,
};
use crate::fact::{self, Fact};
use crate::filter::{Filter, ListPosition};
use crate::rows::Needs;
use crate::rule::{Locks, Phase, Profile, Rule, Touch};
use crate::{ExecutionId, Name, NamespaceId, Refusal, Timestamp, Work};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub struct StartBulkJob {
    pub id: BulkJobId,
    pub namespace: NamespaceId,
    pub action: Action,
    /// The filter, resolved.
    pub filter: Filter,
    /// The filter as the caller wrote it.
    pub asked: BTreeMap<String, Value>,
    pub actor: Name,
}

impl Rule for StartBulkJob {
    type Reply = Result<BulkJob, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, _needs: &mut Needs) {}

    fn decide(&self, work: &mut Work) -> Self::Reply {
        let job = self.job(self.id, work.now())?;
        start(&job, work);
        Ok(job)
    }
}

impl Repeatable for StartBulkJob {
    type Done = BulkJob;
    type Answer = BulkJobId;

    fn namespace(&self) -> NamespaceId {
        self.namespace
    }

    fn answer(done: &BulkJob) -> BulkJobId {
        done.id
    }

    /// Returns a job with the id of the first call. The caller reads its progress.
    fn repeat(&self, id: BulkJobId, work: &Work) -> Result<BulkJob, Refusal> {
        self.job(id, work.now())
    }
}

impl StartBulkJob {
    fn job(&self, id: BulkJobId, now: Timestamp) -> Result<BulkJob, Refusal> {
        let spec = BulkJobSpec {
            action: BulkJobAction::of(&self.action, now)?,
            filter: self.filter.clone(),
            asked: self.asked.clone(),
            actor: self.actor.clone(),
        };
        Ok(new_job(id, self.namespace, spec, now))
    }
}

fn new_job(id: BulkJobId, namespace: NamespaceId, spec: BulkJobSpec, now: Timestamp) -> BulkJob {
    BulkJob {
        id,
        namespace,
        state: BulkJobState::Running,
        created_at: now,
        ended_at: None,
        due_at: now,
        spec,
        progress: BulkJobProgress::default(),
    }
}

/// Saves a job that runs from now on.
fn start(job: &BulkJob, work: &mut Work) {
    let fact =
        Fact::BulkJobStarted(fact::BulkJobStarted { job: job.id, action: job.spec.action.as_str().into() });
    work.put(job.clone());
    work.emit(job.namespace, fact, Some(job.spec.actor.clone()));
}

/// Starts the job that deletes a namespace, unless it was started before. Continues one that was stopped.
#[derive(Clone, Debug)]
pub struct StartDeletion {
    /// The id of the job, which the namespace stores.
    pub id: BulkJobId,
    /// The namespace in which the administrator acts and the job is listed.
    pub namespace: NamespaceId,
    /// The namespace to delete.
    pub target: NamespaceId,
    /// The name of the namespace to delete.
    pub name: Name,
    pub actor: Name,
}

impl Rule for StartDeletion {
    type Reply = BulkJob;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.bulk_jobs.lock([self.id]);
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        if let Some(known) = work.row::<BulkJob>(&self.id).cloned() {
            return match known.state {
                BulkJobState::Running | BulkJobState::Completed => known,
                BulkJobState::Stopped => {
                    let (state, due_at) = (BulkJobState::Running, work.now());
                    let job = BulkJob { state, ended_at: None, due_at, ..known };
                    start(&job, work);
                    job
                }
            };
        }
        let spec = BulkJobSpec {
            action: BulkJobAction::DeleteNamespace { name: self.name.clone() },
            filter: Filter::all(self.target),
            asked: BTreeMap::new(),
            actor: self.actor.clone(),
        };
        let job = new_job(self.id, self.namespace, spec, work.now());
        start(&job, work);
        job
    }
}

/// Stops a job. One that has ended stays as it is. The deletion of a namespace cannot be stopped: a namespace that is deleted in part
/// would be of no use.
#[derive(Clone, Debug)]
pub struct StopBulkJob {
    pub namespace: NamespaceId,
    pub id: BulkJobId,
    pub actor: Name,
}

impl Rule for StopBulkJob {
    type Reply = Result<BulkJob, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.bulk_jobs.lock([self.id]);
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        let own = |job: &&BulkJob| job.namespace == self.namespace;
        let Some(mut job) = work.row::<BulkJob>(&self.id).filter(own).cloned() else {
            return Err(Refusal::NotFound { what: "bulk job".into(), id: self.id.to_string() });
        };
        if let BulkJobAction::DeleteNamespace { name } = &job.spec.action
            && job.state == BulkJobState::Running
        {
            return Err(Refusal::CannotStop { job: self.id, namespace: name.to_string() });
        }
        if job.state == BulkJobState::Running {
            end(&mut job, BulkJobState::Stopped, Some(self.actor.clone()), work);
        }
        Ok(job)
    }
}

/// Ends a job, and saves it.
fn end(job: &mut BulkJob, state: BulkJobState, actor: Option<Name>, work: &mut Work) {
    job.end(state, work.now());
    let BulkJobProgress { changed, unchanged, refused, .. } = job.progress;
    let fact = Fact::BulkJobEnded(fact::BulkJobEnded {
        job: job.id,
        state: state.as_str().into(),
        changed,
        unchanged,
        refused,
    });
    work.put(job.clone());
    work.emit(job.namespace, fact, actor);
}

/// Acts on the next chunk of a job's executions, and moves the job behind it.
#[derive(Clone, Debug)]
pub struct AdvanceBulkJob {
    /// The job as it was read.
    pub job: BulkJob,
    /// The executions of the chunk, in the order of the list.
    pub executions: Vec<ExecutionId>,
    /// The place to continue from; none at the end of the list.
    pub next: Option<ListPosition>,
    /// Any server may do the next chunk at once.
    pub hands_over: bool,
}

impl AdvanceBulkJob {
    fn each(&self) -> impl Iterator<Item = OperateInBulk> + '_ {
        let action = self.job.spec.action.action();
        self.executions
            .iter()
            .filter_map(move |execution| Some(operate(&self.job, *execution, action.clone()?)))
    }
}

fn operate(job: &BulkJob, execution: ExecutionId, action: Action) -> OperateInBulk {
    let (namespace, actor) = (job.spec.filter.namespace, job.spec.actor.clone());
    let operate = Operate { namespace, execution, actor, if_version: None, action };
    OperateInBulk { operate, dry_run: false }
}

/// Returns the stored job if it still is at the chunk at which it was read.
fn at_same_chunk(read: &BulkJob, work: &Work) -> Option<BulkJob> {
    let stored = work.row::<BulkJob>(&read.id)?;
    let is_next = stored.state == BulkJobState::Running && stored.progress.chunks == read.progress.chunks;
    is_next.then(|| stored.clone())
}

/// Keeps other servers from a job while this one advances it.
fn keep(job: &mut BulkJob, now: Timestamp) {
    // Moved in steps, so that few chunks change the index of due jobs.
    if job.due_at < now.plus_ms(TAKEOVER_MS / 2) {
        job.due_at = now.plus_ms(TAKEOVER_MS);
    }
}

impl Rule for AdvanceBulkJob {
    /// The job as it is now. None if it has ended, or if another server did the chunk.
    type Reply = Option<BulkJob>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        let replays = self.job.spec.action == BulkJobAction::Replay;
        let flows = replays || matches!(self.job.spec.action, BulkJobAction::Cancel { .. });
        Profile {
            executions: self.executions.iter().copied().map(Touch::of).collect(),
            locks: Locks { later_executions: replays, flows, sessions: false },
            runs_alone: true,
            ..Profile::weighing(self.executions.len().max(1))
        }
    }

    /// Locks the executions of the chunk with one statement, and the job after them.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        self.each().for_each(|one| one.needs(work, needs));
        needs.bulk_jobs.lock([self.job.id]);
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        let mut job = at_same_chunk(&self.job, work)?;
        for one in self.each() {
            match one.decide(work) {
                Ok(true) => job.progress.changed += 1,
                // A deleted execution needs no action.
                Ok(false) | Err(Refusal::NotFound { .. }) => job.progress.unchanged += 1,
                Err(refusal) => {
                    job.progress.refused += 1;
                    if job.progress.refusals.len() < REFUSED_MAX {
                        job.progress.refusals.push((one.operate.execution, refusal.code().into()));
                    }
                }
            }
        }
        job.progress.chunks += 1;
        job.progress.position = self.next;
        if self.next.is_none() {
            end(&mut job, BulkJobState::Completed, None, work);
            return Some(job);
        }
        match self.hands_over {
            true => job.due_at = work.now(),
            false => keep(&mut job, work.now()),
        }
        work.put(job.clone());
        Some(job)
    }
}

/// Takes a job that no server has advanced for a while, so that others leave it alone. Deletes one that ended long ago.
#[derive(Clone, Debug)]
pub struct TakeBulkJob {
    pub id: BulkJobId,
}

impl Rule for TakeBulkJob {
    /// The job, if it is to be continued by the caller.
    type Reply = Option<BulkJob>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.bulk_jobs.lock([self.id]);
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        let now = work.now();
        let mut job = work.row::<BulkJob>(&self.id).filter(|job| job.due_at <= now)?.clone();
        if job.state != BulkJobState::Running {
            work.remove::<BulkJob>(&self.id);
            return None;
        }
        job.due_at = now.plus_ms(TAKEOVER_MS);
        work.put(job.clone());
        Some(job)
    }
}

/// Empties a namespace that is being deleted: cancels executions that have not ended, and deletes those that have. Members of
/// flows are deleted with their flows.
#[derive(Clone, Debug)]
pub struct EmptyNamespace {
    /// The job as it was read.
    pub job: BulkJob,
    pub executions: Vec<ExecutionId>,
    /// The time after which the job continues; none if this server continues it.
    pub pause_ms: Option<i64>,
}

impl EmptyNamespace {
    fn cancellation(&self, execution: ExecutionId) -> OperateInBulk {
        let reason = Some("its namespace is deleted".to_owned());
        operate(&self.job, execution, Action::Cancel { reason, grace_ms: 0 })
    }
}

impl Rule for EmptyNamespace {
    /// The job as it is now. None if it has ended, or if another server advances it.
    type Reply = Option<BulkJob>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile {
            executions: self.executions.iter().copied().map(Touch::of).collect(),
            locks: Locks { later_executions: false, flows: true, sessions: false },
            runs_alone: true,
            ..Profile::weighing(self.executions.len().max(1))
        }
    }

    fn needs(&self, work: &Work, needs: &mut Needs) {
        self.executions.iter().for_each(|id| self.cancellation(*id).needs(work, needs));
        needs.bulk_jobs.lock([self.job.id]);
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        let mut job = at_same_chunk(&self.job, work)?;
        for id in &self.executions {
            let Ok(row) = work.execution(job.spec.filter.namespace, *id) else { continue };
            match (row.state.outcome(), row.flow) {
                (None, _) => {
                    job.progress.changed += u64::from(self.cancellation(*id).decide(work) == Ok(true))
                }
                (Some(_), None) => {
                    work.delete(*id);
                    job.progress.changed += 1;
                }
                (Some(_), Some(_)) => {}
            }
        }
        job.progress.chunks += 1;
        match self.pause_ms {
            Some(pause_ms) => job.due_at = work.now().plus_ms(pause_ms),
            None => keep(&mut job, work.now()),
        }
        work.put(job.clone());
        Some(job)
    }
}
