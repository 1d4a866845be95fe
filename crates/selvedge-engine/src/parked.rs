//! Claims that found nothing and wait.
//!
//! A parked claim gets work in one of two ways. Hand-off: the batch that submits something takes a parked claim along, so
//! that the execution is inserted already leased. Wake-up: something became ready that nobody took, and the claim asks
//! the store again. A claim parks only if nothing became ready since it asked, so no wake-up falls in between.

use crate::Error;
use crate::command::{Command, Reply};
use crate::committer::Pending;
use crate::registry::Registry;
use selvedge_core::ClassId;
use selvedge_core::rules::claim::{Claim, Claimed};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// All claims that wait in this process, and how often each class became ready.
pub struct Parked {
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
}

struct Waiting {
    claim: Claim,
    classes: Vec<ClassId>,
    /// Whether a batch may take it along.
    takes: bool,
    wake: oneshot::Sender<Wake>,
}

/// Why a parked claim goes on.
pub enum Wake {
    /// Something became ready: ask the store.
    Ask,
    /// A batch took the claim along; here comes its reply.
    Handed(oneshot::Receiver<Result<Reply, Error>>),
}

/// How often the classes of a claim had become ready when it asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seen(u64);

/// A parked claim; leaves when dropped.
pub struct Place<'a> {
    parked: &'a Parked,
    id: u64,
    /// Resolves when the claim goes on.
    pub wake: oneshot::Receiver<Wake>,
}

impl Parked {
    /// Nobody waits yet.
    pub fn new(registry: Arc<Registry>) -> Self {
        Parked { registry, inner: Mutex::default() }
    }

    /// The waiting claims, each under all classes it covers, also those interned since it parked.
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

    /// To be taken before asking the store.
    pub fn seen(&self, claim: &Claim) -> Seen {
        let classes = self.registry.covered(&claim.scope);
        self.lock().seen(&classes)
    }

    /// Parks a claim, unless something became ready since it asked.
    pub fn park(&self, claim: &Claim, seen: Seen) -> Option<Place<'_>> {
        self.put(claim, seen, true)
    }

    /// The same for one that is only to be woken: it asks several, and what it takes of one leaves less for the others.
    pub fn park_to_ask(&self, claim: &Claim, seen: Seen) -> Option<Place<'_>> {
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
        inner.claims.insert(id, Waiting { claim: claim.clone(), classes, takes, wake });
        Some(Place { parked: self, id, wake: receiver })
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
        // A class that this process has not met yet: those that wait learn of it when they ask.
        if classes.iter().any(|class| class.0 > inner.newest) {
            inner.wake_all();
        }
    }

    /// Lets every parked claim ask again: the slow poll, and shutdown.
    pub fn wake_all(&self) {
        self.lock().wake_all();
    }

    /// How many claims wait.
    pub fn len(&self) -> usize {
        self.lock().claims.len()
    }

    /// Parked claims that may take what these commands submit, as commands of the same batch.
    pub fn take_for<'a>(&self, commands: impl Iterator<Item = &'a Command>) -> Vec<Pending> {
        let mut offered: HashMap<ClassId, usize> = HashMap::new();
        for command in commands {
            match command {
                Command::Submit { submit, .. } => {
                    for item in submit.items.iter().filter(|item| item.submission.is_ok()) {
                        *offered.entry(item.class).or_default() += 1;
                    }
                }
                Command::SubmitFlow { submit, .. } => {
                    for class in submit.planned.roots() {
                        *offered.entry(class).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
        self.take_offered(offered)
    }

    /// Parked claims that may take so many of each class, as commands of the batch that makes them ready.
    pub fn take_offered(&self, offered: HashMap<ClassId, usize>) -> Vec<Pending> {
        if offered.values().all(|count| *count == 0) {
            return Vec::new();
        }
        let mut inner = self.lock();
        let mut taken = Vec::new();
        for (class, mut count) in offered {
            while count > 0 {
                let Some(waiting) = inner.first_that_takes(class).and_then(|id| inner.remove(id)) else {
                    break;
                };
                count = count.saturating_sub(waiting.claim.max as usize);
                let command = Command::Claim { claim: waiting.claim, handed_only: true };
                let (pending, reply) = Pending::new(command);
                // If the claimer has gone in this very moment, its claim must not take anything.
                if waiting.wake.send(Wake::Handed(reply)).is_ok() {
                    taken.push(pending);
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

    fn first_that_takes(&self, class: ClassId) -> Option<u64> {
        let mut ids = self.by_class.get(&class)?.iter();
        ids.find(|id| self.claims.get(id).is_some_and(|waiting| waiting.takes)).copied()
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

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.parked.lock().remove(self.id).is_none()
            && let Ok(Wake::Ask) = self.wake.try_recv()
        {
            // Woken and gone in the same moment: somebody else takes the wake-up.
            self.parked.wake_all();
        }
    }
}

/// The claims in a reply.
pub fn claims(reply: Reply) -> Result<Vec<Claimed>, Error> {
    match reply {
        Reply::Claim(claimed) => Ok(claimed?),
        Reply::Shut { .. } | Reply::OpensIn(_) => Ok(Vec::new()),
        other => Err(crate::unexpected(&other)),
    }
}
