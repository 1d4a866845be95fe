//! What a worker holds: every lease it was given and has not reported the end of.

use crate::ExecutionId;
use selvedge_core::rules::report::Fence;
use std::collections::HashMap;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// The leases of a worker.
#[derive(Default)]
pub struct Leases(HashMap<Fence, Held>);

struct Held {
    stage: Stage,
    cancel: watch::Sender<bool>,
}

enum Stage {
    /// Its handler runs.
    Running(AbortHandle),
    /// Its handler has ended, and what it gave back is not accepted yet.
    Ended,
    /// The same, and the engine says that the lease is over: because the report came through, or in spite of it.
    Over,
}

impl Leases {
    /// A handler was started; `cancel` tells it to stop.
    pub fn run(&mut self, fence: Fence, handler: AbortHandle, cancel: watch::Sender<bool>) {
        let stage = Stage::Running(handler);
        self.0.insert(fence, Held { stage, cancel });
    }

    /// Its handler has ended.
    pub fn end(&mut self, fence: &Fence) {
        if let Some(held) = self.0.get_mut(fence) {
            held.stage = Stage::Ended;
        }
    }

    /// Its end was reported, or cannot be.
    pub fn forget(&mut self, fence: &Fence) {
        self.0.remove(fence);
    }

    /// The engine says that the lease is over. If its handler still runs it is dropped, and nothing will be reported:
    /// gives whether it was.
    pub fn lose(&mut self, fence: &Fence) -> bool {
        let Some(held) = self.0.get_mut(fence) else {
            return false;
        };
        match &held.stage {
            Stage::Running(handler) => {
                handler.abort();
                self.0.remove(fence);
                true
            }
            Stage::Ended | Stage::Over => {
                held.stage = Stage::Over;
                false
            }
        }
    }

    /// The handlers of this execution are asked to stop.
    pub fn ask_to_cancel(&mut self, execution: ExecutionId) {
        let asked = self.0.iter().filter(|(fence, _)| fence.execution == execution);
        asked.for_each(|(_, held)| {
            held.cancel.send_replace(true);
        });
    }

    /// Whether a handler that was asked to stop still holds its lease.
    pub fn any_asked_to_cancel(&self) -> bool {
        self.0.values().any(|held| *held.cancel.borrow())
    }

    /// The leases that a heartbeat should name.
    pub fn to_renew(&self) -> impl Iterator<Item = Fence> {
        let alive = self.0.iter().filter(|(_, held)| match held.stage {
            Stage::Running(_) | Stage::Ended => true,
            Stage::Over => false,
        });
        alive.map(|(fence, _)| *fence)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
