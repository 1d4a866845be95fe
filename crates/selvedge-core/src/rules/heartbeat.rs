//! Heartbeats: a worker names its leases, and their sessions are renewed. A session is one row, however many leases it
//! has.
//!
//! A heartbeat locks the sessions before it reads their leases; the expiry of a lease locks the execution and then the
//! session. So a lease that is reported as renewed has not expired.

use super::report::Fence;
use crate::fact::{Fact, RenewedLease};
use crate::rows::{HeldLease, Needs};
use crate::rule::{Locks, Phase, Profile, Rule};
use crate::{Name, NamespaceId, Refusal, SessionId, Work};
use std::collections::{BTreeSet, HashMap};

/// A heartbeat.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// The namespace.
    pub namespace: NamespaceId,
    /// The worker's instance.
    pub instance: Name,
    /// The leases that the worker knows.
    pub leases: Vec<Fence>,
}

/// The reply to a heartbeat.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct HeartbeatReply {
    /// The renewed leases.
    pub renewed: Vec<Fence>,
    /// The leases that the worker has lost, and the reasons.
    pub lost: Vec<(Fence, Refusal)>,
    /// Orphaned leases: the worker holds them but did not name them, because the reply to its claim was lost. The
    /// engine puts them back.
    pub orphans: Vec<Fence>,
    /// The renewed leases whose executions the worker is asked to cancel.
    pub cancel_requested: Vec<Fence>,
    /// True if the worker is asked to drain.
    pub drain: bool,
    /// The time until the next heartbeat, in milliseconds: a third of the shortest renewed time to live.
    pub renew_within_ms: Option<i64>,
}

impl Rule for Heartbeat {
    type Reply = HeartbeatReply;
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

    /// Renews the sessions of the named leases.
    fn decide(&self, work: &mut Work) -> HeartbeatReply {
        let now = work.now();
        let mut reply = HeartbeatReply::default();
        let mut renewed_sessions: BTreeSet<SessionId> = BTreeSet::new();
        let held = self.held(work);
        let named: BTreeSet<_> = self.leases.iter().map(|fence| (fence.execution, fence.epoch)).collect();
        for fence in &self.leases {
            match held.get(fence) {
                Some(lease) => {
                    renewed_sessions.insert(lease.session);
                    reply.renewed.push(*fence);
                    if lease.cancel_requested {
                        reply.cancel_requested.push(*fence);
                    }
                }
                None => {
                    let why = match work.execution(self.namespace, fence.execution) {
                        Ok(row) => row.stale(),
                        Err(refusal) => refusal,
                    };
                    reply.lost.push((*fence, why));
                }
            }
        }
        let unnamed = held.into_iter().filter(|(fence, _)| !named.contains(&(fence.execution, fence.epoch)));
        let unnamed: Vec<(Fence, HeldLease)> = unnamed.map(|(fence, lease)| (fence, lease.clone())).collect();
        for mut session in work.sessions_of(self.namespace, &self.instance) {
            reply.drain |= session.draining;
            if !renewed_sessions.contains(&session.id) {
                continue;
            }
            let before = session.renewed_at;
            let orphans = unnamed.iter().filter(|(_, lease)| {
                lease.session == session.id
                    && before.is_some_and(|renewed| lease.claimed_at < renewed)
                    && lease.claimed_at < now.minus_ms(session.ttl_ms / 3)
            });
            reply.orphans.extend(orphans.map(|(fence, _)| *fence));
            let within = session.ttl_ms / 3;
            reply.renew_within_ms =
                Some(reply.renew_within_ms.map_or(within, |shortest| shortest.min(within)));
            session.renewed_at = Some(now);
            session.seen_at = now;
            self.record(&session.worker, session.id, &reply.renewed, work);
            work.put_session(session);
        }
        reply.orphans.sort_by_key(|fence| fence.execution);
        reply
    }
}

impl Heartbeat {
    /// Returns the current leases of the instance, without those that this transaction has ended.
    fn held<'a>(&self, work: &'a Work) -> HashMap<Fence, &'a HeldLease> {
        let sessions = work.sessions_of(self.namespace, &self.instance);
        let leases = sessions.into_iter().flat_map(|session| work.leases_of(session.id).collect::<Vec<_>>());
        let held = leases.map(|lease| (fence(lease), lease));
        held.filter(|(fence, _)| !matches!(work.find(fence.execution), Ok(Some(row)) if !fence.holds(row)))
            .collect()
    }

    /// Records the renewed leases of a session.
    fn record(&self, worker: &Name, session: SessionId, renewed: &[Fence], work: &mut Work) {
        let of_session: BTreeSet<_> = work.leases_of(session).map(|lease| lease.execution).collect();
        let leases = renewed.iter().filter(|fence| of_session.contains(&fence.execution));
        let leases = leases
            .map(|fence| RenewedLease { execution: fence.execution, id: fence.lease_id, epoch: fence.epoch })
            .collect();
        let fact = Fact::Renewed { worker: worker.clone(), instance: self.instance.clone(), leases };
        work.emit(self.namespace, fact, None);
    }
}

/// Returns the fence of a lease.
pub fn fence(lease: &HeldLease) -> Fence {
    Fence {
        execution: lease.execution,
        attempt: lease.epoch - 1,
        lease_id: lease.lease_id,
        epoch: lease.epoch,
    }
}
