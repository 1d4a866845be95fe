//! Claims that found no work and wait for it.
//!
//! A waiting claim gets work in one of two ways. Handover: a transaction that makes an execution claimable takes the
//! claim along, so that the execution is leased in the same commit. Wake-up: an execution became claimable that no
//! claim took, and the waiting claim asks the store again.
//!
//! No wake-up is lost. A claim reads its [`Watermark`] before it asks the store, and [`WaitingClaims::register`]
//! refuses it under the lock if the watermark has moved since. So an execution that became claimable in between makes
//! it ask again.
//!
//! A claim whose worker is asked to drain, departs or is superseded is woken as well. It asks the store, which gives it
//! nothing, and returns.
//!
//! A worker that reports asks for more work in the same call. If there is none, its next claim need not ask the store
//! again: it registers at once, unless an execution became claimable meanwhile.

use super::host::instance_key;
use super::task_queue::{ReplyReceiver, new_task};
use crate::locking::lock;
use crate::registry::Registry;
use selvedge_core::gate::draws::lane_gate;
use selvedge_core::rules::claim::Claim;
use selvedge_core::{ClaimScope, ClassId, Classes, GateId, SessionId};
use selvedge_store::BoxedTask;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;

/// The maximum number of sessions whose last claim is known to have found nothing.
const EMPTY_CAPACITY: usize = 20_000;
/// The number of counters for the wake-ups of instances. Instances that share a counter ask once more than they need.
const INSTANCE_COUNTERS: usize = 256;

/// The waiting claims of this process, and the wake-ups of each class.
pub struct WaitingClaims {
    registry: Arc<Registry>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    next_id: u64,
    claims: HashMap<u64, WaitingClaim>,
    /// The ids of the claims that cover a class or pool, longest waiting first.
    by_class: HashMap<ClassId, Vec<u64>>,
    /// The number of wake-ups for each class and pool.
    class_wake_ups: HashMap<ClassId, u64>,
    /// The number of wake-ups for each instance, by its counter.
    instance_wake_ups: HashMap<usize, u64>,
    /// The number of times that all claims were woken.
    full_wake_ups: u64,
    /// The newest class that `by_class` takes into account.
    newest_class: i32,
    /// Sessions whose last claim found nothing.
    empty: HashMap<SessionId, EmptyClaim>,
}

/// A claim that found nothing.
struct EmptyClaim {
    scope: ClaimScope,
    watermark: Watermark,
    /// The key of the worker's instance.
    instance: SessionId,
    life: Option<u32>,
}

struct WaitingClaim {
    claim: Claim,
    classes: Vec<ClassId>,
    lanes: Vec<GateId>,
    /// The key of the worker's instance.
    instance: SessionId,
    /// True if a transaction may take the claim along.
    accepts_handover: bool,
    wake_up: oneshot::Sender<WakeUp>,
}

/// The reason why a waiting claim resumes.
pub enum WakeUp {
    /// An execution may have become claimable: ask the store.
    Ask,
    /// A transaction took the claim along and sends its reply here. A closed channel means that the transaction failed:
    /// ask the store.
    HandedOver(ReplyReceiver<Claim>),
}

/// The number of wake-ups that a claim has to take into account. Unchanged: nothing became claimable meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark(u64);

/// The registration of a waiting claim; removed when dropped.
pub struct Registration<'a> {
    waiting: &'a WaitingClaims,
    id: u64,
    /// Resolves when the claim resumes.
    pub wake_up: oneshot::Receiver<WakeUp>,
}

impl WaitingClaims {
    /// Creates an empty set.
    pub fn new(registry: Arc<Registry>) -> Self {
        WaitingClaims { registry, inner: Mutex::default() }
    }

    /// Locks the set. If classes were interned since the last lock, the index is first rebuilt with them.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        let mut inner = lock(&self.inner);
        let newest = self.registry.newest_class().0;
        if inner.newest_class != newest {
            inner.newest_class = newest;
            inner.by_class.clear();
            let Inner { claims, by_class, .. } = &mut *inner;
            for (id, waiting) in claims {
                waiting.classes = self.registry.covered(&waiting.claim.scope);
                for class in &waiting.classes {
                    by_class.entry(*class).or_default().push(*id);
                }
            }
            by_class.values_mut().for_each(|ids| ids.sort_unstable());
        }
        inner
    }

    /// Returns the watermark of a claim. To be read before the claim asks the store.
    pub fn watermark(&self, claim: &Claim) -> Watermark {
        let classes = self.registry.covered(&claim.scope);
        self.lock().watermark(&classes, instance_of(claim))
    }

    /// Records that a claim with this watermark found nothing. The claim has its life.
    pub fn record_empty(&self, claim: &Claim, watermark: Watermark) {
        let mut inner = self.lock();
        if inner.empty.len() >= EMPTY_CAPACITY {
            inner.empty.clear();
        }
        let (scope, life) = (claim.scope.clone(), claim.life);
        let instance = instance_of(claim);
        inner.empty.insert(claim.session(), EmptyClaim { scope, watermark, instance, life });
    }

    /// If the session's last claim found nothing and nothing became claimable since, returns the life of the session.
    /// Removes the record, so it returns one once: the claim after the next asks the store, and so keeps its session
    /// alive.
    pub fn take_still_empty(&self, claim: &Claim, watermark: Watermark) -> Option<u32> {
        let last = self.lock().empty.remove(&claim.session())?;
        let still = claim.call_key.is_none() && last.scope == claim.scope && last.watermark == watermark;
        last.life.filter(|_| still)
    }

    /// Registers a claim for handover and wake-up. None if its watermark has moved.
    pub fn register(&self, claim: &Claim, watermark: Watermark) -> Option<Registration<'_>> {
        self.insert(claim, watermark, true)
    }

    /// Registers a claim for wake-up only. For claims on several namespaces: an execution taken from one reduces the
    /// number wanted from the others, which a handover cannot know.
    pub fn register_for_wake_up(&self, claim: &Claim, watermark: Watermark) -> Option<Registration<'_>> {
        self.insert(claim, watermark, false)
    }

    fn insert(
        &self,
        claim: &Claim,
        watermark: Watermark,
        accepts_handover: bool,
    ) -> Option<Registration<'_>> {
        let mut inner = self.lock();
        let classes = self.registry.covered(&claim.scope);
        let instance = instance_of(claim);
        if inner.watermark(&classes, instance) != watermark {
            return None;
        }
        let (wake_up, receiver) = oneshot::channel();
        let id = inner.next_id;
        inner.next_id += 1;
        for class in &classes {
            inner.by_class.entry(*class).or_default().push(id);
        }
        let lanes = claim.scope.lanes.iter();
        let lanes = lanes.map(|lane| lane_gate(claim.scope.namespace, lane).id()).collect();
        let claim = Claim { handed_only: true, ..claim.clone() };
        let waiting = WaitingClaim { claim, classes, lanes, instance, accepts_handover, wake_up };
        inner.claims.insert(id, waiting);
        Some(Registration { waiting: self, id, wake_up: receiver })
    }

    /// Wakes the longest waiting claim of each class: executions of these classes became claimable and were not taken.
    pub fn wake(&self, classes: &[ClassId]) {
        if classes.is_empty() {
            return;
        }
        let known = self.registry.classes();
        let mut inner = self.lock();
        for class in classes {
            for range in ranges_of(*class, &known) {
                *inner.class_wake_ups.entry(range).or_default() += 1;
            }
            let waiting = ranges_of(*class, &known).filter_map(|range| inner.by_class.get(&range)?.first());
            let Some(id) = waiting.min().copied() else { continue };
            if let Some(waiting) = inner.remove(id) {
                let _ = waiting.wake_up.send(WakeUp::Ask);
            }
        }
        // This process has not read the class yet, so any claim may cover it. The claims learn of it when they ask.
        if classes.iter().any(|class| class.0 > inner.newest_class) {
            inner.wake_all();
        }
    }

    /// Wakes the waiting claims of an instance: its worker is asked to drain or has ended. Claims of it that found nothing
    /// ask the store again.
    pub fn wake_instance(&self, key: SessionId) {
        let mut inner = self.lock();
        *inner.instance_wake_ups.entry(counter_of(key)).or_default() += 1;
        inner.empty.retain(|_, empty| empty.instance != key);
        let ids: Vec<u64> =
            inner.claims.iter().filter(|(_, waiting)| waiting.instance == key).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(waiting) = inner.remove(id) {
                let _ = waiting.wake_up.send(WakeUp::Ask);
            }
        }
    }

    /// Wakes every waiting claim: used by the slow poll and by the shutdown.
    pub fn wake_all(&self) {
        self.lock().wake_all();
    }

    /// Removes a registered claim, if it still waits.
    #[cfg(feature = "testing")]
    pub fn deregister(&self, id: u64) {
        self.lock().remove(id);
    }

    /// Returns how many claims wait.
    pub fn len(&self) -> usize {
        self.lock().claims.len()
    }

    /// The lanes of the claims that may take executions of these classes.
    pub fn lanes(&self, classes: &BTreeSet<ClassId>) -> Vec<GateId> {
        let known = self.registry.classes();
        let inner = self.lock();
        let ranges = classes.iter().flat_map(|class| ranges_of(*class, &known));
        let ids = ranges.filter_map(|range| inner.by_class.get(&range)).flatten();
        ids.filter_map(|id| inner.claims.get(id)).flat_map(|waiting| waiting.lanes.iter().copied()).collect()
    }

    /// Takes waiting claims for a handover: enough for the given number of claimable executions of each class, and only
    /// claims whose lanes pass `fits`.
    pub fn take_for_handover(
        &self,
        claimable: BTreeMap<ClassId, usize>,
        fits: &dyn Fn(&[GateId]) -> bool,
    ) -> Vec<BoxedTask> {
        let known = self.registry.classes();
        let mut inner = self.lock();
        let mut taken = Vec::new();
        for (class, mut count) in claimable {
            while count > 0 {
                let first = ranges_of(class, &known).filter_map(|range| inner.first(range, fits)).min();
                let Some(waiting) = first.and_then(|id| inner.remove(id)) else { break };
                count = count.saturating_sub(waiting.claim.max as usize);
                let (task, reply) = new_task(waiting.claim);
                // If the caller left at this very moment, its claim must not take anything.
                if waiting.wake_up.send(WakeUp::HandedOver(reply)).is_ok() {
                    taken.push(task);
                }
            }
        }
        taken
    }
}

/// Returns a class and its pool: claims that cover either may take its executions.
fn ranges_of(class: ClassId, known: &Classes) -> impl Iterator<Item = ClassId> {
    [Some(class), known.pool_of(class)].into_iter().flatten()
}

/// Returns the key of the instance that makes a claim.
fn instance_of(claim: &Claim) -> SessionId {
    instance_key(claim.scope.namespace, &claim.instance)
}

/// Returns the counter of an instance's wake-ups.
fn counter_of(instance: SessionId) -> usize {
    instance.0.rem_euclid(INSTANCE_COUNTERS as i64) as usize
}

impl Inner {
    /// Grows with each wake-up of the classes and of the instance, each full wake-up, and each newly interned class that
    /// the claim covers.
    fn watermark(&self, classes: &[ClassId], instance: SessionId) -> Watermark {
        let wake_ups = classes.iter().filter_map(|class| self.class_wake_ups.get(class)).sum::<u64>();
        let of_instance = self.instance_wake_ups.get(&counter_of(instance)).copied().unwrap_or_default();
        Watermark(wake_ups + of_instance + self.full_wake_ups + classes.len() as u64)
    }

    /// Returns the claim that has waited longest of those that may be handed an execution of this class or pool.
    fn first(&self, range: ClassId, fits: &dyn Fn(&[GateId]) -> bool) -> Option<u64> {
        let accepts = |waiting: &WaitingClaim| waiting.accepts_handover && fits(&waiting.lanes);
        let mut ids = self.by_class.get(&range)?.iter();
        ids.find(|id| self.claims.get(id).is_some_and(accepts)).copied()
    }

    fn remove(&mut self, id: u64) -> Option<WaitingClaim> {
        let waiting = self.claims.remove(&id)?;
        for class in &waiting.classes {
            if let Some(ids) = self.by_class.get_mut(class) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    self.by_class.remove(class);
                }
            }
        }
        Some(waiting)
    }

    fn wake_all(&mut self) {
        self.full_wake_ups += 1;
        self.by_class.clear();
        for (_, waiting) in self.claims.drain() {
            let _ = waiting.wake_up.send(WakeUp::Ask);
        }
    }
}

impl Registration<'_> {
    /// Keeps the claim registered without the guard; [`WaitingClaims::deregister`] removes it.
    #[cfg(feature = "testing")]
    pub fn detach(mut self) -> (u64, oneshot::Receiver<WakeUp>) {
        let (_, never) = oneshot::channel();
        (std::mem::replace(&mut self.id, u64::MAX), std::mem::replace(&mut self.wake_up, never))
    }

    /// Stops waiting. Returns the wake-up that was sent at the same moment, if any: if a transaction took the claim
    /// along, its reply must be received.
    pub fn cancel(&mut self) -> Option<WakeUp> {
        match self.waiting.lock().remove(self.id) {
            Some(_) => None,
            None => self.wake_up.try_recv().ok(),
        }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        if self.waiting.lock().remove(self.id).is_none()
            && let Ok(WakeUp::Ask) = self.wake_up.try_recv()
        {
            // The claim was woken and dropped at the same moment: its wake-up goes to the other claims.
            self.waiting.wake_all();
        }
    }
}
