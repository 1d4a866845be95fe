//! Workers that drain, depart, are superseded or are forgotten, and leases that are put back. Putting back charges
//! neither a retry nor an interruption.
//!
//! A call may name the *incarnation* of its instance. The first call of a new incarnation ends the sessions of its
//! predecessor, with a request to drain if there is one, and its leases are put back. From then on calls of the
//! predecessor are refused. The sessions of the instance remember the superseded incarnations, the last
//! [`SUPERSEDED_MAX`](crate::session::SUPERSEDED_MAX) of them, for as long as the instance is known: an hour after its
//! last claim or renewal. A call that names no incarnation neither supersedes nor is refused: it acts for the instance as
//! it is.

use super::claim::Claim;
use super::heartbeat::fence;
use super::keyed::Repeatable;
use super::report::Fence;
use super::{follow, put_back};
use crate::fact::{self, Fact};
use crate::rows::Needs;
use crate::rule::{Locks, Phase, Profile, Rule};
use crate::session::EndReason;
use crate::{Name, NamespaceId, Refusal, Session, SessionId, Work};

/// Puts a lease back: the execution waits for a worker again.
#[derive(Clone, Debug)]
pub struct PutBack {
    pub namespace: NamespaceId,
    /// The fence of the lease.
    pub fence: Fence,
    pub why: PutBackReason,
}

/// The reason why a lease is put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutBackReason {
    /// The reply to the claim never reached the worker.
    Orphaned,
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
            PutBackReason::Orphaned => Fact::Orphaned(fact::Orphaned { lease, next }),
            PutBackReason::WorkerDeparted => Fact::Released(fact::Released { lease, next, digest: None }),
        };
        work.apply(row.id, fact, None, |row| follow(row, next));
        Ok(true)
    }
}

/// Asks a worker to drain: its claims return nothing, and the replies to its heartbeats ask it to drain.
#[derive(Clone, Debug)]
pub struct Drain {
    pub namespace: NamespaceId,
    /// The worker's instance.
    pub instance: Name,
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

    /// Marks all sessions of the instance as draining. A worker that has departed is refused like an unknown one.
    fn decide(&self, work: &mut Work) -> Result<(), Refusal> {
        let mut sessions = work.sessions_of(self.namespace, &self.instance);
        sessions.retain(|session| !session.has_ended());
        if sessions.is_empty() {
            return Err(no_worker(&self.instance));
        }
        if sessions.iter().any(|session| !session.draining) {
            let fact = Fact::DrainRequested(fact::DrainRequested { instance: self.instance.clone() });
            work.emit(self.namespace, fact, Some(self.actor.clone()));
        }
        for mut session in sessions {
            session.draining = true;
            work.put(session);
        }
        Ok(())
    }
}

impl Repeatable for Drain {
    type Done = ();
    type Answer = ();

    fn namespace(&self) -> NamespaceId {
        self.namespace
    }

    fn answer(_done: &()) {}

    fn repeat(&self, (): (), _work: &Work) -> Result<(), Refusal> {
        Ok(())
    }
}

/// The standing of an incarnation that a call names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is the current incarnation of the instance, the instance is unknown, or the call names none.
    Current,
    /// It is new, and supersedes the current one.
    New,
}

/// Returns the standing of the incarnation that a call names, given all sessions of the instance. Refuses a superseded
/// one.
pub(super) fn standing(sessions: &[Session], incarnation: Option<&Name>) -> Result<Standing, Refusal> {
    let (Some(incarnation), Some(session)) = (incarnation, sessions.first()) else {
        return Ok(Standing::Current);
    };
    if sessions.iter().any(|session| session.detail.has_superseded(incarnation)) {
        return Err(Refusal::Superseded {
            instance: session.instance.to_string(),
            incarnation: incarnation.to_string(),
        });
    }
    let current = sessions.iter().any(|session| session.detail.incarnation.as_ref() == Some(incarnation));
    Ok(if current { Standing::Current } else { Standing::New })
}

/// Ends the sessions of a predecessor; returns its remaining leases, which the engine puts back.
pub(super) fn supersede(sessions: Vec<Session>, incarnation: &Name, work: &mut Work) -> Vec<Fence> {
    let now = work.now();
    let mut leases = Vec::new();
    for session in sessions {
        leases.extend(work.leases_of(session.id).map(fence));
        work.reset_session(session.superseded_by(incarnation, now));
    }
    leases
}

/// Registers the incarnation that a claim names, before the claim is decided.
#[derive(Clone, Debug)]
pub struct BeginIncarnation {
    pub claim: Claim,
}

impl Rule for BeginIncarnation {
    type Reply = Result<Vec<Fence>, Refusal>;
    const PHASE: Phase = Phase::Departures;

    fn profile(&self) -> Profile {
        locks_sessions()
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.queries.instances.push((self.claim.scope.namespace, self.claim.instance.clone()));
    }

    /// Registers the session of the claim under its incarnation. If the incarnation is new, ends the sessions of its
    /// predecessor and returns the remaining leases of those, which the engine puts back.
    fn decide(&self, work: &mut Work) -> Result<Vec<Fence>, Refusal> {
        let Some(incarnation) = &self.claim.incarnation else { return Ok(Vec::new()) };
        let sessions = work.sessions_of(self.claim.scope.namespace, &self.claim.instance);
        let leases = match standing(&sessions, Some(incarnation))? {
            Standing::Current => Vec::new(),
            Standing::New => supersede(sessions, incarnation, work),
        };
        let sessions = work.sessions_of(self.claim.scope.namespace, &self.claim.instance);
        let draining = sessions.iter().any(|session| session.draining);
        let current =
            sessions.iter().find(|session| session.detail.incarnation.as_ref() == Some(incarnation));
        let superseded = current.map(|session| session.detail.superseded.clone()).unwrap_or_default();
        let own = sessions.iter().find(|session| session.id == self.claim.session()).cloned();
        let mut session = self.claim.seen_session(own, work.now());
        session.detail.incarnation = Some(incarnation.clone());
        session.detail.superseded = superseded;
        session.draining = draining;
        work.reset_session(session);
        Ok(leases)
    }
}

/// Records the departure of a worker.
#[derive(Clone, Debug)]
pub struct Depart {
    pub namespace: NamespaceId,
    /// The worker's instance.
    pub instance: Name,
    /// The incarnation of the instance, if the call names one.
    pub incarnation: Option<Name>,
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
        let new = standing(&sessions, self.incarnation.as_ref())? == Standing::New;
        let now = work.now();
        let mut leases = Vec::new();
        for mut session in sessions {
            // Also those of a session that ended before: the engine may have failed to put them back.
            leases.extend(work.leases_of(session.id).map(fence));
            if let Some(incarnation) = self.incarnation.as_ref().filter(|_| new) {
                session = session.superseded_by(incarnation, now);
            }
            let departed = session.detail.ended.is_some_and(|end| end.reason == EndReason::Deleted);
            work.reset_session(if departed { session } else { session.ended(EndReason::Deleted, now) });
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
        forgotten.iter().for_each(|id| work.remove::<Session>(id));
        forgotten.len()
    }
}

/// Returns the refusal for an unknown worker.
pub fn no_worker(instance: &str) -> Refusal {
    Refusal::NotFound { what: "worker instance".into(), id: instance.into() }
}
