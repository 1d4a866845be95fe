//! Claims over several namespaces: the namespaces take turns by weight, so that none starves behind a busy one.
//!
//! Each namespace gets a claim of its own, for at most its share of the executions that the worker wants; shares that
//! one namespace does not use go to the others. A namespace that had no work is not asked again until one of its
//! executions may have become claimable, or the session of the worker there has to be renewed.

use super::claims::renewal;
use super::lease_namespaces::Homes;
use crate::commit::{Registration, Watermark, new_task, receive};
use crate::locking::lock;
use crate::namespace::WAIT_MAX;
use crate::{ClaimResult, ClaimWait, Engine, Error, Namespace};
use selvedge_core::rules::claim::{Claim, Claimed, Claims, Nothing};
use selvedge_core::shares::Shares;
use selvedge_core::{ClaimScope, Name, NamespaceId, Refusal};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// Several namespaces from which the workers of one key claim. Report an execution to its own namespace; see [`Namespaces::of`].
pub struct Namespaces {
    pub(in crate::namespace) engine: Engine,
    pub(in crate::namespace) members: Vec<(Namespace, u32)>,
    turns: Mutex<Turns>,
    pub(in crate::namespace) homes: Homes,
}

#[derive(Default)]
struct Turns {
    shares: Shares<NamespaceId>,
    /// Namespaces in which the last claim of a worker found less than it wanted.
    empty: HashMap<Asker, EmptyNamespace>,
}

/// A namespace, and the worker that asked it: its instance and incarnation.
type Asker = (NamespaceId, Name, Option<Name>);

fn asker(claim: &Claim) -> Asker {
    (claim.scope.namespace, claim.instance.clone(), claim.incarnation.clone())
}

/// The maximum number of remembered claims that found nothing.
const EMPTY_MAX: usize = 10_000;

/// The last claim in a namespace that found less than it wanted.
struct EmptyNamespace {
    scope: ClaimScope,
    watermark: Watermark,
    life: Option<u32>,
    /// The time at which the namespace was asked, which renewed the session there.
    asked_at: Instant,
}

/// The result of asking all namespaces once.
#[derive(Default)]
struct Round {
    claimed: Vec<Claimed>,
    /// The earliest time at which a lane that has used up its rate admits again.
    opens_at: Option<Instant>,
    /// The number of namespaces in which the worker drains.
    draining: usize,
    /// True if the worker has departed or was superseded while the claim waited.
    ended: bool,
    /// True if a call with the same idempotency key was answered before.
    duplicate: bool,
    /// The indexes of the namespaces in which the claim's incarnation has to be registered.
    unregistered: Vec<usize>,
}

impl Namespaces {
    pub(crate) fn new(engine: Engine, members: Vec<(Namespace, u32)>) -> Self {
        Namespaces { engine, members, turns: Mutex::default(), homes: Homes::default() }
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the namespaces with their weights.
    pub fn members(&self) -> &[(Namespace, u32)] {
        &self.members
    }

    /// Returns the namespace of a claimed execution.
    pub fn of(&self, claimed: &Claimed) -> Option<&Namespace> {
        self.members
            .iter()
            .map(|(member, _)| member)
            .find(|member| member.id() == claimed.execution.namespace)
    }

    /// Claims from the namespaces by turns, and waits for work if none has any. A call with an idempotency key gets executions
    /// of one namespace: the transaction that claims them writes the key.
    pub async fn claim(&self, wanted: ClaimWait) -> Result<Vec<Claimed>, Error> {
        Ok(self.claim_as_worker(wanted).await?.claimed)
    }

    /// Claims like [`Namespaces::claim`], and says whether the worker is asked to drain in every namespace.
    pub async fn claim_as_worker(&self, wanted: ClaimWait) -> Result<ClaimResult, Error> {
        let is_keyed = wanted.call_key.is_some();
        let across: Vec<NamespaceId> = match is_keyed {
            true => self.members.iter().map(|(member, _)| member.id()).collect(),
            false => Vec::new(),
        };
        let check = |(member, _): &(Namespace, u32)| {
            let claim = wanted.claim.clone().check(member.id(), wanted.call_key.clone())?;
            Ok::<_, Refusal>(Claim { across: across.clone(), ..claim })
        };
        let mut claims: Vec<Claim> = self.members.iter().map(check).collect::<Result<_, _>>()?;
        let asked = std::time::Instant::now();
        let deadline = Instant::now() + wanted.wait.min(WAIT_MAX);
        let waiting = &self.engine.inner.waiting;
        let mut woken = false;
        loop {
            let watermarks: Vec<Watermark> = claims.iter().map(|claim| waiting.watermark(claim)).collect();
            // A claim that does not wait asks every namespace: another server may have committed work a moment ago. One with
            // a key must ask whether it was answered before.
            let candidates = match wanted.wait.is_zero() || is_keyed {
                true => (0..claims.len()).collect(),
                false => self.candidates(&mut claims, &watermarks),
            };
            let round = match self.ask(&mut claims, &watermarks, candidates, wanted.claim.max).await {
                Err(Error::Closed) if woken => return Ok(ClaimResult::default()),
                round => round?,
            };
            if round.claimed.is_empty() && !round.unregistered.is_empty() {
                for index in round.unregistered {
                    let begun = self.members[index].0.begin_incarnation(&claims[index]).await;
                    if begun.is_err() && woken {
                        self.pass_wake_up_on(&claims);
                    }
                    begun?;
                }
                continue;
            }
            let drains = round.draining == claims.len();
            if !round.claimed.is_empty() || round.ended || round.duplicate || Instant::now() >= deadline {
                let is_full = round.claimed.len() == wanted.claim.max as usize;
                if woken && (round.ended || drains || is_full || is_keyed) {
                    // More executions may be claimable than this claim could take.
                    self.pass_wake_up_on(&claims);
                }
                if round.ended {
                    self.forget(&claims);
                }
                self.homes.learn(&round.claimed);
                let inner = &self.engine.inner;
                inner.metrics.claimed(&round.claimed, asked, &inner.registry);
                let Round { claimed, duplicate, .. } = round;
                return Ok(ClaimResult { claimed, drain: drains, duplicate });
            }
            let (Some((first, _)), Some(claim)) = (self.members.first(), claims.first()) else {
                return Ok(ClaimResult::default());
            };
            if drains {
                match woken {
                    true => self.pass_wake_up_on(&claims),
                    false => first.delay_drain(claim, deadline).await,
                }
                return Ok(ClaimResult { drain: true, ..ClaimResult::default() });
            }
            let registrations = claims
                .iter()
                .zip(&watermarks)
                .map(|(claim, watermark)| waiting.register_for_wake_up(claim, *watermark));
            let Some(mut registrations) = registrations.collect::<Option<Vec<_>>>() else { continue };
            woken = true;
            // Asking again renews the sessions, so that the worker counts as live while it waits.
            let until = Instant::now() + renewal(claim);
            let until = round.opens_at.map_or(until, |at| at.min(until)).min(deadline);
            match tokio::time::timeout_at(until, any_woken(&mut registrations)).await {
                Err(_elapsed) if until == deadline => return Ok(ClaimResult::default()),
                Ok(false) => return Ok(ClaimResult::default()),
                Err(_) | Ok(true) => {}
            }
        }
    }

    /// Wakes the next waiting claim of each class.
    fn pass_wake_up_on(&self, claims: &[Claim]) {
        for (claim, (member, _)) in claims.iter().zip(&self.members) {
            member.pass_wake_up_on(claim);
        }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        lock(&self.turns)
    }

    /// Returns the indexes of the namespaces that may have work. The claims on the others get their lives.
    fn candidates(&self, claims: &mut [Claim], watermarks: &[Watermark]) -> Vec<usize> {
        let turns = self.turns();
        let mut candidates = Vec::new();
        for (index, (claim, watermark)) in claims.iter_mut().zip(watermarks).enumerate() {
            let known = turns.empty.get(&asker(claim));
            let still = |known: &&EmptyNamespace| {
                let is_fresh = known.asked_at.elapsed() < renewal(claim);
                is_fresh && known.scope == claim.scope && known.watermark == *watermark
            };
            match known.filter(still).and_then(|known| known.life) {
                Some(life) => claim.life = claim.life.or(Some(life)),
                None => candidates.push(index),
            }
        }
        candidates
    }

    /// Asks the namespaces that may have work, each for its share, until there is enough or none has more. A claim with an
    /// idempotency key asks one after the other until one answers.
    async fn ask(
        &self,
        claims: &mut [Claim],
        watermarks: &[Watermark],
        mut candidates: Vec<usize>,
        max: u32,
    ) -> Result<Round, Error> {
        let mut round = Round::default();
        let is_keyed = claims.iter().any(|claim| claim.call_key.is_some());
        loop {
            let wanted = max.saturating_sub(round.claimed.len() as u32);
            let portions = match is_keyed {
                true => self.portions(&candidates, 1).into_iter().map(|(index, _)| (index, wanted)).collect(),
                false => self.portions(&candidates, wanted),
            };
            if portions.is_empty() || is_keyed && (round.duplicate || !round.claimed.is_empty()) {
                return Ok(round);
            }
            let mut tasks = Vec::with_capacity(portions.len());
            let mut replies = Vec::with_capacity(portions.len());
            for (index, portion) in portions {
                let claim = Claim { max: portion, ..claims[index].clone() };
                let (task, reply) = new_task(claim);
                tasks.push(task);
                replies.push((index, portion, reply));
            }
            self.engine.inner.committer.enqueue(tasks)?;
            let mut failed = None;
            for (index, portion, reply) in replies {
                let claimed = match receive(reply).await.and_then(|claims| Ok(claims?)) {
                    Ok(reply) => {
                        claims[index].life = claims[index].life.or(reply.life);
                        if matches!(reply.nothing, Some(Nothing::Ready) | None) {
                            self.record(&claims[index], watermarks[index], portion, reply.claimed.len());
                        }
                        round.note_nothing(index, &reply);
                        round.duplicate |= reply.duplicate;
                        reply.claimed
                    }
                    Err(error) => {
                        failed = failed.or(Some(error));
                        Vec::new()
                    }
                };
                if claimed.len() < portion as usize {
                    candidates.retain(|other| *other != index);
                }
                round.claimed.extend(claimed);
            }
            // Executions claimed from the other namespaces belong to the worker, even if one namespace failed.
            match failed {
                Some(error) if round.claimed.is_empty() => return Err(error),
                Some(_) => return Ok(round),
                None => {}
            }
        }
    }

    /// Forgets what the claims of a worker found, whose life has ended.
    fn forget(&self, claims: &[Claim]) {
        let mut turns = self.turns();
        for claim in claims {
            turns.empty.remove(&asker(claim));
        }
    }

    /// Divides the number of wanted executions among the candidates.
    fn portions(&self, candidates: &[usize], wanted: u32) -> Vec<(usize, u32)> {
        let mut shares = self.turns().shares.clone();
        let mut portions: Vec<(usize, u32)> = candidates.iter().map(|index| (*index, 0)).collect();
        for _ in 0..wanted {
            let id = |index: usize| self.members[index].0.id();
            let Some((index, portion)) =
                portions.iter_mut().min_by_key(|(index, _)| shares.virtual_time(&id(*index)))
            else {
                break;
            };
            *portion += 1;
            shares.serve(&id(*index), self.members[*index].1);
        }
        portions.retain(|(_, portion)| *portion > 0);
        portions
    }

    /// Records that a namespace was asked for `portion` executions and gave `count`.
    fn record(&self, claim: &Claim, watermark: Watermark, portion: u32, count: usize) {
        let namespace = claim.scope.namespace;
        let weight =
            self.members.iter().find(|(member, _)| member.id() == namespace).map(|(_, weight)| *weight);
        let mut turns = self.turns();
        for _ in 0..count {
            turns.shares.serve(&namespace, weight.unwrap_or(1));
        }
        if count < portion as usize {
            let (scope, life) = (claim.scope.clone(), claim.life);
            if turns.empty.len() >= EMPTY_MAX {
                turns.empty.clear();
            }
            let asked_at = Instant::now();
            turns.empty.insert(asker(claim), EmptyNamespace { scope, watermark, life, asked_at });
        }
    }
}

impl Round {
    /// Takes the reason into account for which a namespace gave nothing.
    fn note_nothing(&mut self, index: usize, claims: &Claims) {
        match claims.nothing {
            Some(Nothing::OpensInMs(ms)) => {
                let at = Instant::now() + Duration::from_millis(ms.max(1) as u64);
                self.opens_at = self.opens_at.into_iter().chain([at]).min();
            }
            Some(Nothing::Draining) => self.draining += 1,
            Some(Nothing::Ended) => self.ended = true,
            Some(Nothing::NewIncarnation) => self.unregistered.push(index),
            Some(Nothing::Answered | Nothing::Ready) | None => {}
        }
    }
}

/// Waits until a registration is woken. Returns false if its channel was closed instead. All namespaces are asked after
/// it, so every wake-up that has arrived is consumed.
async fn any_woken(registrations: &mut [Registration<'_>]) -> bool {
    poll_fn(|context| {
        let mut woken = Poll::Pending;
        for registration in registrations.iter_mut() {
            if let Poll::Ready(wake_up) = Pin::new(&mut registration.wake_up).poll(context) {
                woken = Poll::Ready(wake_up.is_ok());
            }
        }
        woken
    })
    .await
}
