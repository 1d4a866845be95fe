//! The knowledge of a transaction besides its rows: its time, its classes, and what it has asked for.

use super::{LaneShares, Work};
use crate::{ClaimScope, ClassId, Classes, Entropy, ExecutionId, Name};
use std::sync::Arc;

/// The knowledge of a transaction before it loads anything.
#[derive(Debug)]
pub struct Context {
    /// The source of lease ids and jitter.
    pub entropy: Entropy,
    /// The classes that are known.
    pub classes: Arc<Classes>,
    /// How far lanes are with their shares.
    pub shares: LaneShares,
    /// Whether the transaction was begun before, and may have committed without its answer arriving.
    pub repeated: bool,
    /// Whether a lane may be configured.
    pub lanes: bool,
}

impl Work {
    /// Stops the transaction's time: rows were changed with it, and loads that follow only read.
    pub fn stop_clock(&mut self) {
        self.stopped = true;
    }

    /// Whether the transaction was begun before, and may have committed without its answer arriving.
    pub fn is_repeated(&self) -> bool {
        self.repeated
    }

    /// Whether a lane may be configured, so that lanes must be read.
    pub fn expects_lanes(&self) -> bool {
        self.expects_lanes
    }

    /// Replaces the classes that are known.
    pub fn set_classes(&mut self, classes: Arc<Classes>) {
        self.classes = classes;
    }

    /// The classes that a worker with this scope may take, in id order.
    pub fn covered(&self, scope: &ClaimScope) -> Vec<ClassId> {
        self.classes.covered(scope)
    }

    /// The newest class that is known.
    pub fn newest_class(&self) -> ClassId {
        self.classes.newest()
    }

    /// The lane of a class, where the class is known.
    pub fn lane_of(&self, class: ClassId) -> Option<&Name> {
        self.classes.get(class).map(|class| &class.lane)
    }

    /// Whether another transaction has locked an execution that was asked for if free.
    pub fn is_skipped(&self, id: ExecutionId) -> bool {
        self.skipped.contains(&id)
    }

    /// Reports whether an execution was requested by id, found or not.
    pub fn was_requested(&self, id: ExecutionId) -> bool {
        self.requested.executions.contains(&id)
    }
}
