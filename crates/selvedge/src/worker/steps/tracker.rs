//! The state of an attempt's steps: which are recorded, which the handler has requested, which run, which waits are
//! open.
//!
//! The tracker decides when an attempt may be suspended: at least one wait is open, and nothing runs whose effect would
//! be repeated. From then on the attempt is over, and no step begins any more, not even in a task that the handler has
//! spawned.

use super::lock;
use crate::worker::Failure;
use crate::worker::protocol::RecordedStep;
use bytes::Bytes;
use selvedge_core::step::StepKind;
use selvedge_core::suspension::{WAITS_MAX, WaitDraft};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

/// The state of one attempt's steps. All branches and tasks of the handler share it.
pub struct StepTracker(Mutex<State>);

#[derive(Default)]
struct State {
    /// The steps that earlier attempts recorded, by name, each with its place in their order.
    recorded: HashMap<String, (usize, RecordedStep)>,
    /// The names that the handler has requested in this attempt, whether or not it has reached them.
    requested: HashSet<String>,
    /// The names in use in this attempt, by a step that has ended or is in progress.
    reserved: HashSet<String>,
    /// Prefixes of names that the handler need not request, each with an exception: names with the second prefix must
    /// be requested nevertheless.
    optional: Vec<(String, Option<String>)>,
    /// True if the handler need not request any recorded step.
    all_optional: bool,
    /// The number of steps and reports in progress.
    in_progress: usize,
    /// The open waits, in the order in which they began.
    waits: BTreeMap<u64, WaitDraft>,
    waits_begun: u64,
    /// True once the attempt has ended or is being suspended.
    over: bool,
    /// Wakes the handler's task, which then checks whether the attempt can be suspended.
    waker: Option<Waker>,
}

impl StepTracker {
    /// Creates the tracker of an attempt whose claim carried these recorded steps.
    pub fn new(steps: Vec<RecordedStep>) -> Arc<StepTracker> {
        let recorded =
            steps.into_iter().enumerate().map(|(place, step)| (step.name.clone(), (place, step))).collect();
        Arc::new(StepTracker(Mutex::new(State { recorded, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Sets the waker to call when the attempt may have become idle.
    pub fn set_waker(&self, waker: Waker) {
        self.state().waker = Some(waker);
    }

    /// Notes that the handler has requested a step, whether or not it reaches the step.
    pub fn request(&self, name: &str) {
        self.state().requested.insert(name.to_owned());
    }

    /// Reserves the name of a step that the handler has reached. Fails if the name is in use. Dropping the reservation
    /// frees the name, unless it was kept.
    pub fn reserve(self: &Arc<Self>, name: &str) -> Result<ReservedName, Failure> {
        if !self.state().reserved.insert(name.to_owned()) {
            return Err(Failure::permanent(format!(
                "the step {name:?} is used twice in one attempt; give each step a name of its own"
            )));
        }
        Ok(ReservedName { tracker: self.clone(), name: name.to_owned(), kept: false })
    }

    /// Returns the result that an earlier attempt recorded for a step. Fails if it was recorded with another kind.
    pub fn recorded(&self, name: &str, kind: StepKind) -> Result<Option<Bytes>, Failure> {
        let state = self.state();
        let Some((_, step)) = state.recorded.get(name) else { return Ok(None) };
        if step.kind != kind {
            let (was, is, attempt) = (step.kind.as_str(), kind.as_str(), step.attempt);
            return Err(Failure::permanent(format!(
                "the step {name:?} was recorded as a {was} by attempt {attempt} and is a {is} here; give the changed step \
                 another name"
            )));
        }
        Ok(Some(step.result.clone()))
    }

    /// Returns true if an earlier attempt recorded a step of this name.
    pub fn has_recorded(&self, name: &str) -> bool {
        self.state().recorded.contains_key(name)
    }

    /// Begins a report. The attempt is not suspended until the guard is dropped.
    pub fn begin_report(self: &Arc<Self>) -> InProgress {
        self.state().in_progress += 1;
        InProgress(self.clone())
    }

    /// Begins a step. The attempt is not suspended until the guard is dropped. Fails if the attempt is over.
    pub fn begin_step(self: &Arc<Self>) -> Result<InProgress, Failure> {
        let mut state = self.state();
        state.check_not_over()?;
        state.in_progress += 1;
        Ok(InProgress(self.clone()))
    }

    /// Opens a wait until the guard is dropped. Fails if the attempt is over or has too many open waits.
    pub fn open_wait(self: &Arc<Self>, wait: WaitDraft) -> Result<OpenWait, Failure> {
        let mut state = self.state();
        state.check_not_over()?;
        if state.waits.len() == WAITS_MAX {
            let name = wait.step.as_ref().map(|(name, _)| name.as_str()).unwrap_or_default();
            return Err(Failure::permanent(format!(
                "the step {name:?} exceeds the limit of {WAITS_MAX} open waits in one attempt"
            )));
        }
        state.waits_begun += 1;
        let number = state.waits_begun;
        state.waits.insert(number, wait);
        let waker = state.waker.clone();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Ok(OpenWait { tracker: self.clone(), number })
    }

    /// Makes names with this prefix optional, unless they have the prefix `except`.
    pub fn make_optional(&self, prefix: String, except: Option<String>) {
        self.state().optional.push((prefix, except));
    }

    /// Makes all recorded steps optional.
    pub fn allow_vanished(&self) {
        self.state().all_optional = true;
    }

    /// Returns the failure of a handler that returned without requesting every recorded step, if there is such a step.
    pub fn vanished(&self) -> Option<Failure> {
        let state = self.state();
        if state.all_optional {
            return None;
        }
        let vanished = state.recorded.values().filter(|(_, step)| !state.accounts_for(&step.name));
        let (_, first) = vanished.min_by_key(|(place, _)| place)?;
        let (name, attempt) = (&first.name, first.attempt);
        Some(Failure::permanent(format!(
            "the handler returned without the step {name:?}, which attempt {attempt} recorded; restore the step, or call \
             allow_vanished_steps if it was removed on purpose"
        )))
    }

    /// Returns true if the attempt can be suspended.
    pub fn is_idle(&self) -> bool {
        self.state().is_idle()
    }

    /// Ends the attempt if it can be suspended, and returns its open waits.
    pub fn suspend(&self) -> Option<Vec<WaitDraft>> {
        let mut state = self.state();
        if !state.is_idle() {
            return None;
        }
        state.over = true;
        Some(std::mem::take(&mut state.waits).into_values().collect())
    }

    /// Ends the attempt. No step or wait begins after this.
    pub fn close(&self) {
        let mut state = self.state();
        state.over = true;
        state.waker = None;
    }
}

impl State {
    fn is_idle(&self) -> bool {
        !self.over && self.in_progress == 0 && !self.waits.is_empty()
    }

    fn check_not_over(&self) -> Result<(), Failure> {
        match self.over {
            true => Err(Failure::transient("this attempt is over; the next attempt continues its work")),
            false => Ok(()),
        }
    }

    /// Returns true if the handler has requested the step or need not request it.
    fn accounts_for(&self, name: &str) -> bool {
        let is_optional = |(prefix, except): &(String, Option<String>)| {
            let is_excepted = except.as_ref().is_some_and(|except| name.starts_with(except.as_str()));
            name.starts_with(prefix.as_str()) && !is_excepted
        };
        self.requested.contains(name) || self.optional.iter().any(is_optional)
    }
}

/// The reservation of a step's name. Dropping it frees the name, unless it was kept.
pub struct ReservedName {
    tracker: Arc<StepTracker>,
    name: String,
    kept: bool,
}

impl ReservedName {
    /// Keeps the name reserved after the drop, because a result is or may be recorded under it.
    pub fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for ReservedName {
    fn drop(&mut self) {
        if !self.kept {
            self.tracker.state().reserved.remove(&self.name);
        }
    }
}

/// The guard of a step or report in progress.
pub struct InProgress(Arc<StepTracker>);

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.in_progress -= 1;
        let waker = state.waker.clone().filter(|_| state.is_idle());
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The guard of an open wait.
pub struct OpenWait {
    tracker: Arc<StepTracker>,
    number: u64,
}

impl Drop for OpenWait {
    fn drop(&mut self) {
        self.tracker.state().waits.remove(&self.number);
    }
}
