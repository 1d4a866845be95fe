//! Workers that drain, depart or are forgotten, and leases that are put back. Putting back charges neither a retry nor
//! an interruption.

use super::heartbeat::fence;
use super::report::Fence;
use super::{follow, put_back};
use crate::fact::Fact;
use crate::rows::Needs;
use crate::rule::{Locks, Phase, Profile, Rule};
use crate::{Name, NamespaceId, Refusal, SessionId, Work};

/// Puts a lease back: the execution waits for a worker again.
#[derive(Clone, Debug)]
pub struct PutBack {
    /// The namespace.
    pub namespace: NamespaceId,
    /// The fence of the lease.
    pub fence: Fence,
    /// The reason.
    pub why: PutBackReason,
}

/// The reason why a lease is put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutBackReason {
    /// The reply to the claim never reached the worker.
    Orphaned,
    /// The worker departed.
    WorkerDeparted,
}

impl Rule for PutBack {
    type Reply = Result<bool, Refusal>;
    const PHASE: Phase = Phase::PutBacks;

    fn profile(&self) -> Profile {
        Profile::on(self.fence.execution)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.executions.lock([self.fence.execution]);
    }

    /// Puts the lease back if it is the current one; returns true if it was.
    fn decide(&self, work: &mut Work) -> Result<bool, Refusal> {
        let row = work.execution(self.namespace, self.fence.execution)?.clone();
        let Some(lease) = row.lease_ref().filter(|_| self.fence.holds(&row)) else {
            return Ok(false);
        };
        let next = put_back(&row, None, work.now());
        let fact = match self.why {
            PutBackReason::Orphaned => Fact::Orphaned { lease, next },
            PutBackReason::WorkerDeparted => Fact::Released { lease, next, digest: None },
        };
        work.apply(row.id, fact, None, |row| follow(row, next));
        Ok(true)
    }
}

/// Asks a worker to drain: its claims return nothing, and the replies to its heartbeats ask it to drain.
#[derive(Clone, Debug)]
pub struct Drain {
    /// The namespace.
    pub namespace: NamespaceId,
    /// The worker's instance.
    pub instance: Name,
    /// The operator.
    pub actor: Name,
}

/// Returns the profile of a rule that locks sessions.
fn locks_sessions() -> Profile {
    Profile { locks: Locks { sessions: true, ..Locks::default() }, ..Profile::weighing(1) }
}

impl Rule for Drain {
    type Reply = Result<(), Refusal>;
    const PHASE: Phase = Phase::Drains;

    fn profile(&self) -> Profile {
        locks_sessions()
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.queries.instances.push((self.namespace, self.instance.clone()));
    }

    /// Marks all sessions of the instance as draining.
    fn decide(&self, work: &mut Work) -> Result<(), Refusal> {
        let sessions = work.sessions_of(self.namespace, &self.instance);
        if sessions.is_empty() {
            return Err(no_worker(&self.instance));
        }
        if sessions.iter().any(|session| !session.draining) {
            let fact = Fact::DrainRequested { instance: self.instance.clone() };
            work.emit(self.namespace, fact, Some(self.actor.clone()));
        }
        for mut session in sessions {
            session.draining = true;
            work.put_session(session);
        }
        Ok(())
    }
}

/// Records the departure of a worker.
#[derive(Clone, Debug)]
pub struct Depart {
    /// The namespace.
    pub namespace: NamespaceId,
    /// The worker's instance.
    pub instance: Name,
}

impl Rule for Depart {
    type Reply = Result<Vec<Fence>, Refusal>;
    const PHASE: Phase = Phase::Departures;

    fn profile(&self) -> Profile {
        locks_sessions()
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.queries.instances.push((self.namespace, self.instance.clone()));
    }

    /// Ends the worker's sessions; returns its remaining leases, which the engine puts back.
    fn decide(&self, work: &mut Work) -> Result<Vec<Fence>, Refusal> {
        let sessions = work.sessions_of(self.namespace, &self.instance);
        if sessions.is_empty() {
            return Err(no_worker(&self.instance));
        }
        let now = work.now();
        let mut leases = Vec::new();
        for session in sessions {
            leases.extend(work.leases_of(session.id).map(fence));
            work.reset_session(session.departed(now));
        }
        Ok(leases)
    }
}

/// Deletes sessions that were not seen for a long time.
#[derive(Clone, Debug)]
pub struct ForgetSessions {
    /// The sessions to check.
    pub sessions: Vec<SessionId>,
}

impl Rule for ForgetSessions {
    type Reply = usize;
    const PHASE: Phase = Phase::Cleanup;

    fn profile(&self) -> Profile {
        locks_sessions()
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.sessions.lock(self.sessions.iter().copied());
    }

    /// Deletes the sessions that are due; returns their number.
    fn decide(&self, work: &mut Work) -> usize {
        let now = work.now();
        let forgotten: Vec<SessionId> = self
            .sessions
            .iter()
            .filter_map(|id| work.session(*id))
            .filter(|session| session.is_forgotten(now))
            .map(|session| session.id)
            .collect();
        forgotten.iter().for_each(|id| work.remove_session(*id));
        forgotten.len()
    }
}

/// Returns the refusal for an unknown worker.
pub fn no_worker(instance: &str) -> Refusal {
    Refusal::NotFound { what: "worker instance".into(), id: instance.into() }
}
