//! The gates that have lately refused many executions of a class, as this process has seen it.
//!
//! A claim holds what a gate refuses, at most a few hundred executions in a transaction. Behind many thousands of them there may
//! be others that may run, so claims also search for executions that do not name these gates. The memory is only a hint.

use crate::locking::lock;
use selvedge_core::gate::{GateKind, GateName};
use selvedge_core::{ClassId, Execution, State};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The number of executions of a class that a gate must refuse in one transaction.
const MANY: usize = 100;
/// The time after which a gate is forgotten that refuses few.
const REMEMBERED: Duration = Duration::from_secs(5);
/// The maximum number of gates that are remembered for a class.
const GATES_MAX: usize = 16;

/// The refusing gates of each class, with the time of the last refusals.
#[derive(Default)]
pub struct Refusals(Mutex<HashMap<ClassId, Vec<(GateName, Instant)>>>);

impl Refusals {
    /// Learns from the executions that a transaction has changed.
    pub fn learn<'a>(&self, changed: impl Iterator<Item = &'a Execution>) {
        let mut refused: BTreeMap<(ClassId, &GateName), usize> = BTreeMap::new();
        for row in changed {
            if let State::Held(gate) = &row.state
                && gate.kind != GateKind::Fair
            {
                *refused.entry((row.class, gate)).or_default() += 1;
            }
        }
        for ((class, gate), _) in refused.into_iter().filter(|(_, count)| *count >= MANY) {
            let now = Instant::now();
            let mut known = lock(&self.0);
            let gates = known.entry(class).or_default();
            gates.retain(|(known, at)| known != gate && now.duration_since(*at) < REMEMBERED);
            gates.push((gate.clone(), now));
            let surplus = gates.len().saturating_sub(GATES_MAX);
            gates.drain(..surplus);
        }
    }

    /// Returns the gates that refuse executions of these classes.
    pub fn of(&self, classes: &BTreeSet<ClassId>) -> Vec<GateName> {
        let mut known = lock(&self.0);
        if known.is_empty() {
            return Vec::new();
        }
        known.retain(|_, gates| gates.last().is_some_and(|(_, at)| at.elapsed() < REMEMBERED));
        let gates = classes.iter().filter_map(|class| known.get(class)).flatten();
        gates.map(|(gate, _)| gate.clone()).collect()
    }
}
