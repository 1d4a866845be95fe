//! Rows of the lease cache in one transaction: a report on a lease that this process granted needs no read of the
//! execution.
//!
//! A cached row may be out of date. So it serves only a report that is certain to end its lease: then the row is saved,
//! and the save checks its version. A member of a flow is never taken from the cache, but its cached row names its
//! downstreams: they are locked together with the member, in id order, so that the completion is propagated in the same
//! transaction.

use super::Host;
use crate::rows::Needs;
use crate::rule::{LeaseEffect, Task};
use crate::rules::flows::join::CHUNK;
use crate::table::Access;
use crate::{Execution, ExecutionId};
use std::collections::{HashMap, HashSet};

/// The cached rows of one transaction.
#[derive(Debug, Default)]
pub(super) struct Cached {
    rows: Vec<Execution>,
    ids: HashSet<ExecutionId>,
    downstreams: Vec<ExecutionId>,
}

impl Cached {
    /// Takes the rows of the executions that these tasks name out of the cache, and keeps those that may serve the
    /// tasks.
    pub fn take<H: Host>(host: &H, tasks: &[H::Task]) -> Cached {
        let allowed = tasks.iter().all(|task| task.profile().allows_cached_rows());
        let mut downstreams = Vec::new();
        let mut rows: HashMap<ExecutionId, Option<Execution>> = HashMap::new();
        let mut ending: HashSet<ExecutionId> = HashSet::new();
        for touch in tasks.iter().flat_map(|task| &task.profile().executions) {
            let Some(fence) = touch.fence else {
                rows.insert(touch.execution, None);
                continue;
            };
            let row = rows.entry(touch.execution).or_insert_with_key(|id| host.take_cached(*id));
            if let Some(row) = row.as_ref().filter(|_| touch.may_finish) {
                let wiring = row.wiring();
                let few = wiring.downstreams.iter().take_while(|_| wiring.downstreams.len() <= CHUNK);
                downstreams.extend(few.map(|one| one.execution));
            }
            let serves = match touch.lease {
                LeaseEffect::Ends | LeaseEffect::Unchanged => allowed,
                LeaseEffect::Keeps | LeaseEffect::Any => false,
            };
            if !serves || !row.as_ref().is_some_and(|row| row.flow.is_none() && fence.holds(row)) {
                *row = None;
            }
            if touch.lease == LeaseEffect::Ends {
                ending.insert(touch.execution);
            }
        }
        let rows: Vec<Execution> =
            rows.into_values().flatten().filter(|row| ending.contains(&row.id)).collect();
        Cached { ids: rows.iter().map(|row| row.id).collect(), rows, downstreams }
    }

    /// Drops the rows for a retry, because the stored version of one may have changed. Keeps the downstreams, which are
    /// still the best guess.
    pub fn forget(&mut self) {
        self.ids.clear();
    }

    /// Takes the cached rows. Later calls return none.
    pub fn take_rows(&mut self) -> Vec<Execution> {
        std::mem::take(&mut self.rows)
    }

    /// Returns the ids of the cached executions.
    pub fn ids(&self) -> &HashSet<ExecutionId> {
        &self.ids
    }

    /// Iterates over the downstreams of executions that may end.
    pub fn downstreams(&self) -> impl Iterator<Item = ExecutionId> {
        self.downstreams.iter().copied()
    }

    /// Removes the reads of cached rows from `needs`. Without gates, their locks are removed, too: they are locked when
    /// they are saved. With gates, whose locks follow those of executions, the cached rows are locked without reading
    /// them, unless other executions have to be locked: then one statement locks and reads all.
    pub fn leave_out(&self, gates: bool, needs: &mut Needs) {
        if self.ids.is_empty() {
            return;
        }
        let cached = |id: &ExecutionId, access: Access| access >= Access::Cached && self.ids.contains(id);
        if !gates {
            needs.executions.retain(|id, access| !cached(id, access));
        } else if needs.executions.iter(Access::Lock).all(|id| self.ids.contains(id)) {
            needs.executions.weaken(Access::Lock, Access::Cached);
        }
        needs.executions.retain(|id, access| access != Access::Read || !self.ids.contains(id));
    }
}
