//! The context of a transaction besides its rows: its clock, its classes, and the executions it has requested.

use super::{LaneShares, Work};
use crate::{ClaimScope, ClassId, Classes, Entropy, ExecutionId, Name, Timestamp};
use std::sync::Arc;

/// The context of a transaction before it loads anything.
#[derive(Debug)]
pub struct Context {
    /// The source of lease ids and jitter.
    pub entropy: Entropy,
    /// The classes that this process knows.
    pub classes: Arc<Classes>,
    /// The state of the fair share between lanes.
    pub shares: LaneShares,
    /// The transaction was tried before, and an earlier try may have committed without its answer arriving.
    pub repeated: bool,
    /// A lane may be configured.
    pub lanes: bool,
}

impl Work {
    /// Fixes the transaction's time: rows were changed with it, and later loads only read.
    pub fn stop_clock(&mut self) {
        self.stopped = true;
    }

    /// Reports whether the transaction was tried before. An earlier try may have committed without its answer arriving.
    pub fn is_repeated(&self) -> bool {
        self.repeated
    }

    /// Reports whether a lane may be configured, so that lanes must be read.
    pub fn expects_lanes(&self) -> bool {
        self.expects_lanes
    }

    /// Takes the executions whose lease ended, each with the time of its claim.
    pub fn take_ended_leases(&mut self) -> Vec<(ExecutionId, Timestamp)> {
        std::mem::take(&mut self.ended_leases)
    }

    /// Replaces the known classes.
    pub fn set_classes(&mut self, classes: Arc<Classes>) {
        self.classes = classes;
    }

    /// Returns the classes and pools that a worker with this scope may claim from, in id order.
    pub fn covered(&self, scope: &ClaimScope) -> Vec<ClassId> {
        self.classes.covered(scope)
    }

    /// Returns the newest known class.
    pub fn newest_class(&self) -> ClassId {
        self.classes.newest()
    }

    /// Returns the classes and pools in whose ranges claims find executions of a class.
    pub(super) fn ranges_of(&self, class: ClassId) -> impl Iterator<Item = ClassId> + use<> {
        [Some(class), self.classes.pool_of(class)].into_iter().flatten()
    }

    /// Reports whether a claim on these classes and pools, in id order, may take executions of a class.
    pub(crate) fn is_in_range(&self, class: ClassId, ranges: &[ClassId]) -> bool {
        self.ranges_of(class).any(|range| ranges.binary_search(&range).is_ok())
    }

    /// Returns the lane of a class or pool, if it is known.
    pub fn lane_of(&self, class: ClassId) -> Option<&Name> {
        self.classes.lane_of(class)
    }

    /// Reports whether an execution was to be locked if free and another transaction has locked it.
    pub fn is_skipped(&self, id: ExecutionId) -> bool {
        self.skipped.contains(&id)
    }

    /// Reports whether an execution was to be locked if free, and is locked.
    pub fn is_locked_if_free(&self, id: ExecutionId) -> bool {
        self.requested.if_free.contains(&id) && !self.is_skipped(id)
    }

    /// Reports whether an execution was requested by id, whether it was found or not.
    pub fn was_requested(&self, id: ExecutionId) -> bool {
        self.requested.executions.contains(&id)
    }
}
