//! The leases of a worker: from the claim until the end of the attempt is accepted.

use crate::ExecutionId;
use selvedge_core::rules::report::Fence;
use std::collections::HashMap;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// The leases of a worker, by fence.
#[derive(Default)]
pub struct Leases(HashMap<Fence, HeldLease>);

struct HeldLease {
    stage: LeaseStage,
    cancel: watch::Sender<bool>,
}

enum LeaseStage {
    /// The handler runs.
    Running(AbortHandle),
    /// The handler has ended; its report has not been accepted yet.
    Ended,
    /// The handler has ended and the engine says that the lease is no longer held. Either the report was accepted and
    /// its answer is outstanding, or the lease was lost.
    Released,
}

impl Leases {
    /// Adds the lease of a handler that was started. `cancel` requests its cancellation.
    pub fn insert(&mut self, fence: Fence, handler: AbortHandle, cancel: watch::Sender<bool>) {
        let stage = LeaseStage::Running(handler);
        self.0.insert(fence, HeldLease { stage, cancel });
    }

    /// Marks the handler of a lease as ended.
    pub fn end(&mut self, fence: &Fence) {
        if let Some(lease) = self.0.get_mut(fence) {
            lease.stage = LeaseStage::Ended;
        }
    }

    /// Removes a lease whose attempt is settled.
    pub fn remove(&mut self, fence: &Fence) {
        self.0.remove(fence);
    }

    /// Processes the loss of a lease. Aborts its handler if it still runs, and returns true if it did; such an attempt
    /// is never reported.
    pub fn lose(&mut self, fence: &Fence) -> bool {
        let Some(lease) = self.0.get_mut(fence) else {
            return false;
        };
        match &lease.stage {
            LeaseStage::Running(handler) => {
                handler.abort();
                self.0.remove(fence);
                true
            }
            LeaseStage::Ended | LeaseStage::Released => {
                lease.stage = LeaseStage::Released;
                false
            }
        }
    }

    /// Requests the cancellation of the handlers of an execution.
    pub fn request_cancel(&mut self, execution: ExecutionId) {
        let leases = self.0.iter().filter(|(fence, _)| fence.execution == execution);
        leases.for_each(|(_, lease)| {
            lease.cancel.send_replace(true);
        });
    }

    /// Returns true if a lease is held whose cancellation was requested.
    pub fn any_cancel_requested(&self) -> bool {
        self.0.values().any(|lease| *lease.cancel.borrow())
    }

    /// Returns the leases that a heartbeat should renew.
    pub fn to_renew(&self) -> impl Iterator<Item = Fence> {
        let held = self.0.iter().filter(|(_, lease)| match lease.stage {
            LeaseStage::Running(_) | LeaseStage::Ended => true,
            LeaseStage::Released => false,
        });
        held.map(|(fence, _)| *fence)
    }

    /// Returns the number of leases.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
