//! Claims that found nothing and wait.
//!
//! A waiting claim gets work in one of two ways. Hand-off: a transaction that makes something ready takes the claim along, so
//! that the execution is leased in the same commit. Wake-up: something became ready that nobody took, and the claim asks the
//! store again. A claim starts to wait only if nothing became ready since it asked, so no wake-up is lost in between.
//!
//! A worker that reports asks for more work in the same call. If there is none, its next claim need not ask again: it waits at
//! once, unless something became ready meanwhile.

use crate::registry::Registry;
use crate::task::{Post, Reply, post};
use selvedge_core::gate::draws::lane_gate;
use selvedge_core::rules::claim::Claim;
use selvedge_core::{ClaimScope, ClassId, GateId, SessionId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The most sessions whose last claim is known to have found nothing.
const EMPTY_CAPACITY: usize = 20_000;

/// All claims that wait in this process, and how often each class became ready.
pub struct WaitingClaims {
    registry: Arc<Registry>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    next: u64,
    claims: HashMap<u64, Waiting>,
    by_class: HashMap<ClassId, Vec<u64>>,
    readied: HashMap<ClassId, u64>,
    woken: u64,
    newest: i32,
    /// Sessions whose last claim found nothing: what it claimed from, and how much had become ready when it asked.
    empty: HashMap<SessionId, (ClaimScope, Seen)>,
}

struct Waiting {
    claim: Claim,
    classes: Vec<ClassId>,
    lanes: Vec<GateId>,
    /// Whether a transaction may take it along.
    takes: bool,
    wake: oneshot::Sender<Wake>,
}

/// Why a waiting claim goes on.
pub enum Wake {
    /// Something became ready: ask the store.
    Ask,
    /// A transaction took the claim along; here comes its reply. If the channel closes, the transaction failed: ask the store.
    Handed(Reply<Claim>),
}

/// How often the classes of a claim had become ready when it asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(u64);

/// The place of a waiting claim; given up when dropped.
pub struct Place<'a> {
    waiting: &'a WaitingClaims,
    id: u64,
    /// Resolves when the claim goes on.
    pub wake: oneshot::Receiver<Wake>,
}

impl WaitingClaims {
    /// No claim waits yet.
    pub fn new(registry: Arc<Registry>) -> Self {
        WaitingClaims { registry, inner: Mutex::default() }
    }

    /// The waiting claims, each under all classes it covers, also those interned since it began to wait.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = self.registry.newest().0;
        if inner.newest != newest {
            inner.newest = newest;
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

    /// To be called before asking the store.
    pub fn seen(&self, claim: &Claim) -> Seen {
        let classes = self.registry.covered(&claim.scope);
        self.lock().seen(&classes)
    }

    /// Remembers that a claim which asked at `seen` found nothing ready.
    pub fn found_nothing(&self, claim: &Claim, seen: Seen) {
        let mut inner = self.lock();
        if inner.empty.len() >= EMPTY_CAPACITY {
            inner.empty.clear();
        }
        inner.empty.insert(claim.session(), (claim.scope.clone(), seen));
    }

    /// Whether the last claim of the same session found nothing and nothing became ready since. Answers yes once: the claim
    /// after the next asks again, and so keeps its session alive.
    pub fn is_still_empty(&self, claim: &Claim, seen: Seen) -> bool {
        let last = self.lock().empty.remove(&claim.session());
        claim.operation.is_none() && last.is_some_and(|(scope, then)| scope == claim.scope && then == seen)
    }

    /// Starts to wait, unless something became ready since `seen`.
    pub fn wait(&self, claim: &Claim, seen: Seen) -> Option<Place<'_>> {
        self.put(claim, seen, true)
    }

    /// The same for a claim that is only woken up: it asks several namespaces, and what it takes of one leaves less for the
    /// others.
    pub fn wait_to_ask(&self, claim: &Claim, seen: Seen) -> Option<Place<'_>> {
        self.put(claim, seen, false)
    }

    fn put(&self, claim: &Claim, seen: Seen, takes: bool) -> Option<Place<'_>> {
        let mut inner = self.lock();
        let classes = self.registry.covered(&claim.scope);
        if inner.seen(&classes) != seen {
            return None;
        }
        let (wake, receiver) = oneshot::channel();
        let id = inner.next;
        inner.next += 1;
        for class in &classes {
            inner.by_class.entry(*class).or_default().push(id);
        }
        let lanes = claim.scope.lanes.iter();
        let lanes = lanes.map(|lane| lane_gate(claim.scope.namespace, lane).id()).collect();
        let claim = Claim { handed_only: true, ..claim.clone() };
        inner.claims.insert(id, Waiting { claim, classes, lanes, takes, wake });
        Some(Place { waiting: self, id, wake: receiver })
    }

    /// Something of these classes became ready and nobody took it.
    pub fn wake(&self, classes: &[ClassId]) {
        if classes.is_empty() {
            return;
        }
        let mut inner = self.lock();
        for class in classes {
            *inner.readied.entry(*class).or_default() += 1;
            let Some(id) = inner.by_class.get(class).and_then(|ids| ids.first().copied()) else {
                continue;
            };
            if let Some(waiting) = inner.remove(id) {
                let _ = waiting.wake.send(Wake::Ask);
            }
        }
        // A class that this process does not know yet: waiting claims learn of it when they ask.
        if classes.iter().any(|class| class.0 > inner.newest) {
            inner.wake_all();
        }
    }

    /// Lets every waiting claim ask again: the slow poll, and shutdown.
    pub fn wake_all(&self) {
        self.lock().wake_all();
    }

    /// Ends the wait of a claim, unless it has ended.
    pub fn give_up(&self, id: u64) {
        self.lock().remove(id);
    }

    /// How many claims wait.
    pub fn len(&self) -> usize {
        self.lock().claims.len()
    }

    /// The lanes of the claims that may take executions of these classes.
    pub fn lanes(&self, classes: &BTreeSet<ClassId>) -> Vec<GateId> {
        let inner = self.lock();
        let ids = classes.iter().filter_map(|class| inner.by_class.get(class)).flatten();
        ids.filter_map(|id| inner.claims.get(id)).flat_map(|waiting| waiting.lanes.iter().copied()).collect()
    }

    /// Takes claims along that may take so many executions of each class, if their lanes fit.
    pub fn take(
        &self,
        ready: BTreeMap<ClassId, usize>,
        fits: &dyn Fn(&[GateId]) -> bool,
    ) -> Vec<Box<dyn Post>> {
        let mut inner = self.lock();
        let mut taken = Vec::new();
        for (class, mut count) in ready {
            while count > 0 {
                let Some(waiting) = inner.first(class, fits).and_then(|id| inner.remove(id)) else { break };
                count = count.saturating_sub(waiting.claim.max as usize);
                let (task, reply) = post(waiting.claim);
                // If the claimer has left in this very moment, its claim must not take anything.
                if waiting.wake.send(Wake::Handed(reply)).is_ok() {
                    taken.push(task);
                }
            }
        }
        taken
    }
}

impl Inner {
    fn seen(&self, classes: &[ClassId]) -> Seen {
        let total = classes.iter().filter_map(|class| self.readied.get(class)).sum::<u64>();
        Seen(total + self.woken + classes.len() as u64)
    }

    /// The claim that has waited longest and may be taken along for this class.
    fn first(&self, class: ClassId, fits: &dyn Fn(&[GateId]) -> bool) -> Option<u64> {
        let may = |waiting: &Waiting| waiting.takes && fits(&waiting.lanes);
        let mut ids = self.by_class.get(&class)?.iter();
        ids.find(|id| self.claims.get(id).is_some_and(may)).copied()
    }

    fn remove(&mut self, id: u64) -> Option<Waiting> {
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
        self.woken += 1;
        self.by_class.clear();
        for (_, waiting) in self.claims.drain() {
            let _ = waiting.wake.send(Wake::Ask);
        }
    }
}

impl Place<'_> {
    /// Keeps waiting without the place; [`WaitingClaims::give_up`] ends it.
    pub fn detach(mut self) -> (u64, oneshot::Receiver<Wake>) {
        let (_, never) = oneshot::channel();
        (std::mem::replace(&mut self.id, u64::MAX), std::mem::replace(&mut self.wake, never))
    }

    /// Gives the place up. Returns the wake-up that came in the same moment, if one did: a transaction that took the claim along
    /// must not be left without its claimer.
    pub fn leave(&mut self) -> Option<Wake> {
        match self.waiting.lock().remove(self.id) {
            Some(_) => None,
            None => self.wake.try_recv().ok(),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.waiting.lock().remove(self.id).is_none()
            && let Ok(Wake::Ask) = self.wake.try_recv()
        {
            // Woken and gone in the same moment: another claim takes the wake-up.
            self.waiting.wake_all();
        }
    }
}
