//! Heartbeats: a worker names its leases, and their sessions are renewed. A session is one row, however many leases it
//! has.
//!
//! A heartbeat locks the sessions before it reads their leases; the expiry of a lease locks the execution and then the
//! session. So a lease that is reported as renewed has not expired.
//!
//! A heartbeat that waits is decided again and again. Leases that its instance claims meanwhile cannot be named in it: it
//! renews their sessions too, and reports requests to cancel them.

use super::report::Fence;
use super::worker::{Standing, standing, supersede};
use crate::fact::{self, Fact, RenewedLease};
use crate::history::{end_of_attempt, lease_of};
use crate::refusal::StaleLease;
use crate::rows::{HeldLease, Needs};
use crate::rule::{Locks, Phase, Profile, Rule};
use crate::state::StateName;
use crate::{Execution, Name, NamespaceId, Refusal, Session, SessionId, Timestamp, Work};
use std::collections::{BTreeSet, HashMap};

/// Maximum number of leases that one heartbeat names.
pub const LEASES_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub struct Heartbeat {
    pub namespace: NamespaceId,
    /// The worker's instance.
    pub instance: Name,
    /// The incarnation of the instance, if the call names one.
    pub incarnation: Option<Name>,
    /// The leases that the worker knows.
    pub leases: Vec<Fence>,
    /// The time from which the call has waited. Leases claimed since then are renewed although the call cannot name them.
    /// None for the first decision of the call.
    pub waits_since: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct HeartbeatReply {
    /// The renewed leases.
    pub renewed: Vec<Fence>,
    /// The leases that the worker has lost, and the reasons. A lease that the worker ended by a report of its own is not
    /// lost.
    pub lost: Vec<(Fence, Refusal)>,
    /// Orphaned leases: the worker holds them but did not name them, because the reply to its claim was lost. The
    /// engine puts them back.
    pub orphans: Vec<Fence>,
    /// The leases whose executions the worker is asked to cancel: the renewed ones, then those that the call does not name
    /// although its instance holds them.
    pub cancel_requested: Vec<Fence>,
    /// The leases of the predecessor, if this is the first call of a new incarnation, and nothing else. The engine puts them
    /// back and sends the heartbeat again.
    pub of_predecessor: Option<Vec<Fence>>,
    /// True if the worker is asked to drain.
    pub drain: bool,
    /// The time until the next heartbeat, in milliseconds: a third of the shortest renewed time to live.
    pub renew_within_ms: Option<i64>,
    /// The time of the decision.
    pub now: Timestamp,
}

impl Rule for Heartbeat {
    type Reply = Result<HeartbeatReply, Refusal>;
    const PHASE: Phase = Phase::Heartbeats;

    fn profile(&self) -> Profile {
        let locks = Locks { sessions: true, ..Locks::default() };
        Profile { locks, ..Profile::weighing(1 + self.leases.len() / 4) }
    }

    /// Needs the locked sessions and their leases; then the executions of lost leases, to give the reasons.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        needs.queries.instances.push((self.namespace, self.instance.clone()));
        if !work.has_requested_instance(self.namespace, &self.instance) {
            return;
        }
        let held = self.held(work);
        for fence in &self.leases {
            if !held.contains_key(fence) && !work.is_loaded(fence.execution) {
                needs.executions.read([fence.execution]);
            }
        }
    }

    /// Renews the sessions of the named leases, and of those claimed while the call waits.
    fn decide(&self, work: &mut Work) -> Self::Reply {
        let now = work.now();
        let mut reply = HeartbeatReply { now, ..HeartbeatReply::default() };
        let sessions = work.sessions_of(self.namespace, &self.instance);
        if let Some(incarnation) = &self.incarnation
            && standing(&sessions, Some(incarnation))? == Standing::New
        {
            reply.of_predecessor = Some(supersede(sessions, incarnation, work));
            return Ok(reply);
        }
        let held = self.held(work);
        let named: BTreeSet<_> = self.leases.iter().map(|fence| (fence.execution, fence.epoch)).collect();
        let mut renewed: Vec<(Fence, SessionId)> = Vec::new();
        for fence in &self.leases {
            match held.get(fence) {
                Some(lease) => {
                    renewed.push((*fence, lease.session));
                    reply.renewed.push(*fence);
                    if lease.cancel_requested {
                        reply.cancel_requested.push(*fence);
                    }
                }
                None => reply.lost.extend(self.lost(fence, work).map(|why| (*fence, why))),
            }
        }
        let unnamed = held.into_iter().filter(|(fence, _)| !named.contains(&(fence.execution, fence.epoch)));
        let mut unnamed: Vec<(Fence, HeldLease)> =
            unnamed.map(|(fence, lease)| (fence, lease.clone())).collect();
        unnamed.sort_by_key(|(fence, _)| fence.execution);
        let claimed_since =
            |lease: &HeldLease| self.waits_since.is_some_and(|since| lease.claimed_at >= since);
        let since = unnamed.iter().filter(|(_, lease)| claimed_since(lease));
        renewed.extend(since.map(|(fence, lease)| (*fence, lease.session)));
        for mut session in sessions.into_iter().filter(|session| !session.has_ended()) {
            reply.drain |= session.draining;
            let of_session: Vec<Fence> =
                renewed.iter().filter(|(_, of)| *of == session.id).map(|(fence, _)| *fence).collect();
            if of_session.is_empty() {
                continue;
            }
            let before = session.renewed_at;
            let orphans = unnamed.iter().filter(|(_, lease)| {
                lease.session == session.id
                    && before.is_some_and(|renewed| lease.claimed_at < renewed)
                    && lease.claimed_at < now.minus_ms(session.ttl_ms / 3)
                    && !claimed_since(lease)
            });
            reply.orphans.extend(orphans.map(|(fence, _)| *fence));
            let within = session.ttl_ms / 3;
            reply.renew_within_ms =
                Some(reply.renew_within_ms.map_or(within, |shortest| shortest.min(within)));
            session.renewed_at = Some(now);
            session.seen_at = now;
            self.record(&session, &of_session, work);
            work.put(session);
        }
        reply.orphans.sort_by_key(|fence| fence.execution);
        let asked =
            unnamed.iter().filter(|(fence, lease)| lease.cancel_requested && !reply.orphans.contains(fence));
        reply.cancel_requested.extend(asked.map(|(fence, _)| *fence));
        Ok(reply)
    }
}

impl Heartbeat {
    /// Returns the current leases of the instance, without those that this transaction has ended and those of sessions
    /// that have ended.
    fn held<'a>(&self, work: &'a Work) -> HashMap<Fence, &'a HeldLease> {
        let sessions = work.sessions_of(self.namespace, &self.instance).into_iter();
        let sessions = sessions.filter(|session| !session.has_ended());
        let leases = sessions.flat_map(|session| work.leases_of(session.id).collect::<Vec<_>>());
        let held = leases.map(|lease| (fence(lease), lease));
        held.filter(|(fence, _)| !matches!(work.find(fence.execution), Ok(Some(row)) if !fence.holds(row)))
            .collect()
    }

    /// Returns the reason why the worker has lost a lease; none if it ended the lease by a report of its own.
    fn lost(&self, fence: &Fence, work: &Work) -> Option<Refusal> {
        let row = match work.execution(self.namespace, fence.execution) {
            Ok(row) => row,
            Err(refusal) => return Some(refusal),
        };
        if fence.holds(row) {
            // Its session has ended, and the engine is about to put the lease back.
            return Some(Refusal::StaleLease(Box::new(StaleLease {
                execution: row.id,
                state: StateName::Waiting.as_str().into(),
                outcome: None,
                holder: None,
            })));
        }
        (!was_reported(fence, row)).then(|| row.stale())
    }

    /// Records the renewed leases of a session.
    fn record(&self, session: &Session, renewed: &[Fence], work: &mut Work) {
        let leases = renewed
            .iter()
            .map(|fence| RenewedLease { execution: fence.execution, id: fence.lease_id, epoch: fence.epoch })
            .collect();
        let worker = session.worker.clone();
        let fact = Fact::Renewed(fact::Renewed { worker, instance: self.instance.clone(), leases });
        work.emit(self.namespace, fact, None);
    }
}

/// Reports whether a report of the worker ended this lease.
fn was_reported(fence: &Fence, row: &Execution) -> bool {
    let Ok(lines) = row.history.lines() else { return false };
    let lease = lease_of(&lines, fence.attempt);
    lease.is_some_and(|lease| lease.id == fence.lease_id && lease.epoch == fence.epoch)
        && end_of_attempt(&lines, fence.attempt).is_some_and(|end| end.digest.is_some())
}

pub fn fence(lease: &HeldLease) -> Fence {
    Fence {
        execution: lease.execution,
        attempt: lease.epoch - 1,
        lease_id: lease.lease_id,
        epoch: lease.epoch,
    }
}
