//! Heartbeats: a worker names the leases it knows; their sessions are renewed, one row each however many leases there are.
//!
//! The sessions are locked before their leases are read, and whoever lets a lease lapse locks the execution and then the
//! session: so a lease that is answered as renewed had not lapsed.

use super::report::Fence;
use crate::fact::{Fact, RenewedLease};
use crate::rows::{HeldLease, Needs};
use crate::rule::{Locks, Phase, Profile, Rule};
use crate::{Name, NamespaceId, Refusal, SessionId, Work};
use std::collections::{BTreeSet, HashMap};

/// A heartbeat.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// Whose.
    pub namespace: NamespaceId,
    /// The worker's instance.
    pub instance: Name,
    /// The leases it knows.
    pub leases: Vec<Fence>,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct HeartbeatReply {
    /// Leases that are renewed.
    pub renewed: Vec<Fence>,
    /// Leases that are gone, and why.
    pub lost: Vec<(Fence, Refusal)>,
    /// Leases that the worker did not name and should have: a claim whose answer was lost. To be put back.
    pub orphans: Vec<Fence>,
    /// Renewed leases whose worker is asked to cancel.
    pub cancel_requested: Vec<Fence>,
    /// Whether the worker is asked to drain.
    pub drain: bool,
    /// A third of the shortest time to live that was renewed: so soon the next heartbeat should come.
    pub renew_within_ms: Option<i64>,
}

impl Rule for Heartbeat {
    type Reply = HeartbeatReply;
    const PHASE: Phase = Phase::Heartbeats;

    fn profile(&self) -> Profile {
        let locks = Locks { sessions: true, ..Locks::default() };
        Profile { locks, ..Profile::weighing(1 + self.leases.len() / 4) }
    }

    /// The sessions, locked, and their leases; then the executions whose leases are gone, to say why.
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

    /// Renews the sessions; returns which leases are lost, orphaned, or asked to cancel, and whether to drain.
    fn decide(&self, work: &mut Work) -> HeartbeatReply {
        let now = work.now();
        let mut beat = HeartbeatReply::default();
        let mut renewed_sessions: BTreeSet<SessionId> = BTreeSet::new();
        let held = self.held(work);
        let named: BTreeSet<_> = self.leases.iter().map(|fence| (fence.execution, fence.epoch)).collect();
        for fence in &self.leases {
            match held.get(fence) {
                Some(lease) => {
                    renewed_sessions.insert(lease.session);
                    beat.renewed.push(*fence);
                    if lease.cancel_requested {
                        beat.cancel_requested.push(*fence);
                    }
                }
                None => {
                    let why = match work.execution(self.namespace, fence.execution) {
                        Ok(row) => row.stale(),
                        Err(refusal) => refusal,
                    };
                    beat.lost.push((*fence, why));
                }
            }
        }
        let unnamed = held.into_iter().filter(|(fence, _)| !named.contains(&(fence.execution, fence.epoch)));
        let unnamed: Vec<(Fence, HeldLease)> = unnamed.map(|(fence, lease)| (fence, lease.clone())).collect();
        for mut session in work.sessions_of(self.namespace, &self.instance) {
            beat.drain |= session.draining;
            if !renewed_sessions.contains(&session.id) {
                continue;
            }
            let before = session.renewed_at;
            let orphans = unnamed.iter().filter(|(_, lease)| {
                lease.session == session.id
                    && before.is_some_and(|renewed| lease.claimed_at < renewed)
                    && lease.claimed_at < now.minus_ms(session.ttl_ms / 3)
            });
            beat.orphans.extend(orphans.map(|(fence, _)| *fence));
            let within = session.ttl_ms / 3;
            beat.renew_within_ms = Some(beat.renew_within_ms.map_or(within, |shortest| shortest.min(within)));
            session.renewed_at = Some(now);
            session.seen_at = now;
            self.record(&session.worker, session.id, &beat.renewed, work);
            work.put_session(session);
        }
        beat.orphans.sort_by_key(|fence| fence.execution);
        beat
    }
}

impl Heartbeat {
    /// The leases that are held, less those that this very transaction has ended.
    fn held<'a>(&self, work: &'a Work) -> HashMap<Fence, &'a HeldLease> {
        let sessions = work.sessions_of(self.namespace, &self.instance);
        let leases = sessions.into_iter().flat_map(|session| work.leases_of(session.id).collect::<Vec<_>>());
        let held = leases.map(|lease| (fence(lease), lease));
        held.filter(|(fence, _)| !matches!(work.find(fence.execution), Ok(Some(row)) if !fence.holds(row)))
            .collect()
    }

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

/// The fence of a held lease.
pub fn fence(lease: &HeldLease) -> Fence {
    Fence {
        execution: lease.execution,
        attempt: lease.epoch - 1,
        lease_id: lease.lease_id,
        epoch: lease.epoch,
    }
}
