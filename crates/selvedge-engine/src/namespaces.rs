//! Claims over several namespaces: they take turns by weight, so that none waits because another has much to do.
//!
//! Each namespace is asked by a claim of its own, for no more than its share of what the worker takes; what one does not need
//! goes to the others. One that had nothing is not asked again until something of it may have become ready.

use crate::namespace::WAIT_MAX;
use crate::task::{answer, post};
use crate::waiting_claims::{Place, Seen};
use crate::{ClaimWait, Engine, Error, Namespace};
use selvedge_core::rules::claim::{Claim, Claimed, Nothing};
use selvedge_core::shares::Shares;
use selvedge_core::{ClaimScope, NamespaceId, Refusal};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// Several namespaces whose work one worker takes. What is claimed is reported to the namespace that it belongs to.
pub struct Namespaces {
    engine: Engine,
    members: Vec<(Namespace, u32)>,
    turns: Mutex<Turns>,
}

#[derive(Default)]
struct Turns {
    shares: Shares<NamespaceId>,
    /// What had nothing for whom, and what had become ready until then.
    empty: HashMap<NamespaceId, (ClaimScope, Seen)>,
}

/// What asking all of them came to.
#[derive(Default)]
struct Asked {
    claimed: Vec<Claimed>,
    /// When a lane has room again that gives out only so much in a time.
    opens_at: Option<Instant>,
    /// How many said that the worker drains.
    drain: usize,
}

impl Namespaces {
    pub(crate) fn new(engine: Engine, members: Vec<(Namespace, u32)>) -> Self {
        Namespaces { engine, members, turns: Mutex::default() }
    }

    /// The namespace of what was claimed.
    pub fn of(&self, claimed: &Claimed) -> Option<&Namespace> {
        self.members
            .iter()
            .map(|(member, _)| member)
            .find(|member| member.id() == claimed.execution.namespace)
    }

    /// Claims by turns, waiting for work if none has any. Such a claim has no key: that would have to stand for what several
    /// namespaces gave.
    pub async fn claim(&self, wanted: ClaimWait) -> Result<Vec<Claimed>, Error> {
        if wanted.operation.is_some() {
            let detail = "is for claims in one namespace; ask each namespace with a key of its own";
            return Err(Refusal::field("/headers/idempotency-key", detail).into());
        }
        let check = |(member, _): &(Namespace, u32)| wanted.claim.clone().check(member.id(), None);
        let asks: Vec<Claim> = self.members.iter().map(check).collect::<Result<_, _>>()?;
        let deadline = Instant::now() + wanted.wait.min(WAIT_MAX);
        let waiting = &self.engine.inner.waiting;
        let mut woken = false;
        loop {
            let seen: Vec<Seen> = asks.iter().map(|ask| waiting.seen(ask)).collect();
            let asked = match self.ask(&asks, &seen, wanted.claim.max).await {
                Err(Error::Closed) if woken => return Ok(Vec::new()),
                asked => asked?,
            };
            if !asked.claimed.is_empty() || Instant::now() >= deadline {
                if woken && asked.claimed.len() == wanted.claim.max as usize {
                    // There may be more than this one could take: wake the next.
                    let covered = asks.iter().flat_map(|ask| self.engine.inner.registry.covered(&ask.scope));
                    waiting.wake(&covered.collect::<Vec<_>>());
                }
                return Ok(asked.claimed);
            }
            let (Some((first, _)), Some(ask)) = (self.members.first(), asks.first()) else {
                return Ok(Vec::new());
            };
            if asked.drain == asks.len() {
                return first.wait_aside(ask, deadline).await;
            }
            let places = asks.iter().zip(&seen).map(|(ask, seen)| waiting.wait_to_ask(ask, *seen));
            let Some(mut places) = places.collect::<Option<Vec<_>>>() else { continue };
            woken = true;
            let until = asked.opens_at.map_or(deadline, |at| at.min(deadline));
            match tokio::time::timeout_at(until, any(&mut places)).await {
                Err(_elapsed) if until == deadline => return Ok(Vec::new()),
                Ok(false) => return Ok(Vec::new()),
                Err(_) | Ok(true) => {}
            }
        }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks those that may have something, each for its share, until there is enough or none has more.
    async fn ask(&self, asks: &[Claim], seen: &[Seen], max: u32) -> Result<Asked, Error> {
        let mut asked = Asked::default();
        let mut open: Vec<usize> = {
            let turns = self.turns();
            let empty = |(ask, seen): (&Claim, &Seen)| {
                let known = turns.empty.get(&ask.scope.namespace);
                known.is_some_and(|(scope, then)| *scope == ask.scope && then == seen)
            };
            (0..asks.len()).filter(|index| !empty((&asks[*index], &seen[*index]))).collect()
        };
        loop {
            let left = max.saturating_sub(asked.claimed.len() as u32);
            let portions = self.portions(&open, left);
            if portions.is_empty() {
                return Ok(asked);
            }
            let mut tasks = Vec::with_capacity(portions.len());
            let mut replies = Vec::with_capacity(portions.len());
            for (index, portion) in portions {
                let claim = Claim { max: portion, ..asks[index].clone() };
                let (task, reply) = post(claim);
                tasks.push(task);
                replies.push((index, portion, reply));
            }
            self.engine.inner.committer.enqueue(tasks)?;
            let mut failed = None;
            for (index, portion, reply) in replies {
                let got = match answer(reply).await.and_then(|claims| Ok(claims?)) {
                    Ok(claims) => {
                        match claims.nothing {
                            Some(Nothing::OpensInMs(ms)) => {
                                let at = Instant::now() + Duration::from_millis(ms.max(1) as u64);
                                asked.opens_at = asked.opens_at.into_iter().chain([at]).min();
                            }
                            Some(Nothing::Draining) => asked.drain += 1,
                            Some(Nothing::Answered) => {}
                            Some(Nothing::Ready) | None => {
                                self.took(&asks[index], seen[index], portion, claims.claimed.len());
                            }
                        }
                        claims.claimed
                    }
                    Err(error) => {
                        failed = failed.or(Some(error));
                        Vec::new()
                    }
                };
                if got.len() < portion as usize {
                    open.retain(|other| *other != index);
                }
                asked.claimed.extend(got);
            }
            // What others have given is the worker's, whatever became of the rest.
            match failed {
                Some(error) if asked.claimed.is_empty() => return Err(error),
                Some(_) => return Ok(asked),
                None => {}
            }
        }
    }

    /// How many each of these is asked for, of so many that are still wanted.
    fn portions(&self, open: &[usize], left: u32) -> Vec<(usize, u32)> {
        let mut shares = self.turns().shares.clone();
        let mut portions: Vec<(usize, u32)> = open.iter().map(|index| (*index, 0)).collect();
        for _ in 0..left {
            let id = |index: usize| self.members[index].0.id();
            let Some((index, portion)) = portions.iter_mut().min_by_key(|(index, _)| shares.of(&id(*index)))
            else {
                break;
            };
            *portion += 1;
            shares.serve(&id(*index), self.members[*index].1);
        }
        portions.retain(|(_, portion)| *portion > 0);
        portions
    }

    /// A namespace was asked for so many, and gave so many.
    fn took(&self, ask: &Claim, seen: Seen, portion: u32, count: usize) {
        let namespace = ask.scope.namespace;
        let weight =
            self.members.iter().find(|(member, _)| member.id() == namespace).map(|(_, weight)| *weight);
        let mut turns = self.turns();
        for _ in 0..count {
            turns.shares.serve(&namespace, weight.unwrap_or(1));
        }
        if count < portion as usize {
            turns.empty.insert(namespace, (ask.scope.clone(), seen));
        }
    }
}

/// Waits until some of these are woken; says whether they were, and are not to end. All of them are asked again then, so every
/// wake-up that came is taken.
async fn any(places: &mut [Place<'_>]) -> bool {
    poll_fn(|context| {
        let mut woken = Poll::Pending;
        for place in places.iter_mut() {
            if let Poll::Ready(wake) = Pin::new(&mut place.wake).poll(context) {
                woken = Poll::Ready(wake.is_ok());
            }
        }
        woken
    })
    .await
}
