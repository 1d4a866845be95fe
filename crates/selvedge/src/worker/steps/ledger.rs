//! What an attempt knows of its steps: which are recorded, which its handler has asked for, what runs, what is waited for.
//!
//! It decides when an attempt may be suspended: something is waited for, and nothing runs whose effect would be repeated.
//! From then on the attempt is over, and no step begins any more, also not in a task that the handler has spawned.

use crate::worker::Failure;
use bytes::Bytes;
use selvedge_core::step::{Step, StepKind};
use selvedge_core::suspension::{WAITS_MAX, WaitDraft};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// What one attempt knows of its steps. It is shared by all that the handler does at once.
pub struct Ledger(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    /// What earlier attempts have recorded, by name.
    recorded: HashMap<String, Step>,
    /// What the handler has asked for in this attempt.
    asked: HashSet<String>,
    /// The names that are taken: by a step that has ended or is under way.
    taken: HashSet<String>,
    /// Names under the first need not be asked for, unless they are under the second.
    excused: Vec<(String, Option<String>)>,
    vanished_is_fine: bool,
    /// How many steps and reports are under way.
    running: usize,
    /// What is waited for, in the order in which it was asked for.
    waits: BTreeMap<u64, WaitDraft>,
    waits_begun: u64,
    over: bool,
    /// Who has to look again whether the attempt can be suspended.
    bell: Option<Waker>,
}

impl Ledger {
    /// The ledger of an attempt whose claim carried these steps.
    pub fn new(steps: Vec<Step>) -> Arc<Ledger> {
        let recorded = steps.into_iter().map(|step| (step.name.as_str().to_owned(), step)).collect();
        Arc::new(Ledger(Mutex::new(Entries { recorded, ..Entries::default() })))
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whom to wake when the attempt may have become idle.
    pub fn answer_to(&self, bell: Waker) {
        self.entries().bell = Some(bell);
    }

    /// The handler asks for this step, whether or not it comes to it.
    pub fn ask(&self, name: &str) {
        self.entries().asked.insert(name.to_owned());
    }

    /// The handler comes to a step. Its name is taken until it is given back, which is what happens where nothing was
    /// recorded under it.
    pub fn take(self: &Arc<Self>, name: &str) -> Result<Taken, Failure> {
        if !self.entries().taken.insert(name.to_owned()) {
            return Err(Failure::permanent(format!(
                "the step {name:?} is used twice in one attempt; each step needs a name of its own"
            )));
        }
        Ok(Taken { ledger: self.clone(), name: name.to_owned(), kept: false })
    }

    /// The result that an earlier attempt has recorded for a step. One that was recorded as something else fails.
    pub fn recorded(&self, name: &str, kind: StepKind) -> Result<Option<Bytes>, Failure> {
        let entries = self.entries();
        let Some(step) = entries.recorded.get(name) else { return Ok(None) };
        if step.kind != kind {
            let (was, is, attempt) = (step.kind.as_str(), kind.as_str(), step.attempt);
            return Err(Failure::permanent(format!(
                "the step {name:?} was recorded as a {was} by attempt {attempt} and is a {is} here; give what is \
                 different another name"
            )));
        }
        Ok(Some(step.result.clone().unwrap_or_else(|| Bytes::from_static(b"null"))))
    }

    /// Whether an earlier attempt has recorded a step of this name.
    pub fn has(&self, name: &str) -> bool {
        self.entries().recorded.contains_key(name)
    }

    /// A step or a report begins: the attempt is not suspended before it has ended.
    pub fn run(self: &Arc<Self>) -> Running {
        self.entries().running += 1;
        Running(self.clone())
    }

    /// The same for a step whose effect must not begin when the attempt is over.
    pub fn begin(self: &Arc<Self>) -> Result<Running, Failure> {
        let mut entries = self.entries();
        entries.check_goes_on()?;
        entries.running += 1;
        Ok(Running(self.clone()))
    }

    /// Something is waited for, until what this gives is dropped.
    pub fn wait(self: &Arc<Self>, wait: WaitDraft) -> Result<Waiting, Failure> {
        let mut entries = self.entries();
        entries.check_goes_on()?;
        if entries.waits.len() == WAITS_MAX {
            let name = wait.step.as_ref().map(|(name, _)| name.as_str()).unwrap_or_default();
            return Err(Failure::permanent(format!(
                "the step {name:?} would be one wait too many; at most {WAITS_MAX} may be open at once"
            )));
        }
        entries.waits_begun += 1;
        let number = entries.waits_begun;
        entries.waits.insert(number, wait);
        let bell = entries.bell.clone();
        drop(entries);
        bell.into_iter().for_each(Waker::wake);
        Ok(Waiting { ledger: self.clone(), number })
    }

    /// Names under `prefix` need not be asked for, unless they are under `except`.
    pub fn excuse(&self, prefix: String, except: Option<String>) {
        self.entries().excused.push((prefix, except));
    }

    /// No recorded step needs to be asked for.
    pub fn allow_vanished(&self) {
        self.entries().vanished_is_fine = true;
    }

    /// The failure of a handler that has returned without asking for all recorded steps.
    pub fn vanished(&self) -> Option<Failure> {
        let entries = self.entries();
        if entries.vanished_is_fine {
            return None;
        }
        let vanished = entries.recorded.values().filter(|step| !entries.knows_of(&step.name));
        let first = vanished.min_by_key(|step| step.number)?;
        let (name, attempt) = (&first.name, first.attempt);
        Some(Failure::permanent(format!(
            "the step {name:?}, which attempt {attempt} recorded, was not asked for any more; bring it back, or call \
             allow_vanished_steps where that is meant"
        )))
    }

    /// Whether the attempt can be suspended.
    pub fn is_idle(&self) -> bool {
        self.entries().is_idle()
    }

    /// Ends the attempt if it can be suspended, and gives what it waits for.
    pub fn suspend(&self) -> Option<Vec<WaitDraft>> {
        let mut entries = self.entries();
        if !entries.is_idle() {
            return None;
        }
        entries.over = true;
        Some(std::mem::take(&mut entries.waits).into_values().collect())
    }

    /// The attempt is over, however it ended.
    pub fn close(&self) {
        let mut entries = self.entries();
        entries.over = true;
        entries.bell = None;
    }
}

impl Entries {
    fn is_idle(&self) -> bool {
        !self.over && self.running == 0 && !self.waits.is_empty()
    }

    fn check_goes_on(&self) -> Result<(), Failure> {
        match self.over {
            true => {
                Err(Failure::transient("this attempt is over; what it left to do is done by the next one"))
            }
            false => Ok(()),
        }
    }

    fn knows_of(&self, name: &str) -> bool {
        let is_excused = |(prefix, except): &(String, Option<String>)| {
            let is_excepted = except.as_ref().is_some_and(|except| name.starts_with(except.as_str()));
            name.starts_with(prefix.as_str()) && !is_excepted
        };
        self.asked.contains(name) || self.excused.iter().any(is_excused)
    }
}

/// A name that is taken by a step.
pub struct Taken {
    ledger: Arc<Ledger>,
    name: String,
    kept: bool,
}

impl Taken {
    /// The name stays taken: something is recorded under it, or may be.
    pub fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.kept {
            self.ledger.entries().taken.remove(&self.name);
        }
    }
}

/// A step or a report that is under way.
pub struct Running(Arc<Ledger>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut entries = self.0.entries();
        entries.running -= 1;
        let bell = entries.bell.clone().filter(|_| entries.is_idle());
        drop(entries);
        bell.into_iter().for_each(Waker::wake);
    }
}

/// Something that is waited for.
pub struct Waiting {
    ledger: Arc<Ledger>,
    number: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.ledger.entries().waits.remove(&self.number);
    }
}
