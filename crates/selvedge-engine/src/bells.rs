//! Bells: who waits for the end of an execution, or for news about the leases of an instance, is woken by name.
//!
//! A waiter registers before it looks, so that what happens between the look and the wait is not missed.

use selvedge_core::{ExecutionId, SessionId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Notify;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Ended(ExecutionId),
    Instance(SessionId),
    Streamed(ExecutionId),
}

/// All bells of this process.
#[derive(Default)]
pub struct Bells(Mutex<HashMap<Key, Arc<Notify>>>);

/// A registered waiter.
pub struct Waiter {
    bells: Weak<Bells>,
    key: Key,
    notify: Arc<Notify>,
}

impl Bells {
    /// Waits for the end of an execution.
    pub fn wait_ended(self: &Arc<Self>, id: ExecutionId) -> Waiter {
        self.waiter(Key::Ended(id))
    }

    /// Waits for news about the leases of an instance.
    pub fn wait_instance(self: &Arc<Self>, key: SessionId) -> Waiter {
        self.waiter(Key::Instance(key))
    }

    /// Waits for frames of an execution.
    pub fn wait_streamed(self: &Arc<Self>, id: ExecutionId) -> Waiter {
        self.waiter(Key::Streamed(id))
    }

    fn waiter(self: &Arc<Self>, key: Key) -> Waiter {
        let mut bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let notify = bells.entry(key).or_default().clone();
        Waiter { bells: Arc::downgrade(self), key, notify }
    }

    /// An execution ended, and its stream with it.
    pub fn ring_ended(&self, id: ExecutionId) {
        self.ring(Key::Ended(id));
        self.ring(Key::Streamed(id));
    }

    /// Something was appended to a stream of an execution.
    pub fn ring_streamed(&self, id: ExecutionId) {
        self.ring(Key::Streamed(id));
    }

    /// Something happened to the leases of an instance.
    pub fn ring_instance(&self, key: SessionId) {
        self.ring(Key::Instance(key));
    }

    fn ring(&self, key: Key) {
        if let Some(notify) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            notify.notify_waiters();
        }
    }

    /// Wakes everybody, to look again.
    pub fn ring_all(&self) {
        for notify in self.0.lock().unwrap_or_else(PoisonError::into_inner).values() {
            notify.notify_waiters();
        }
    }
}

impl Waiter {
    /// Resolves at the next ring after this call, also if it rings before the future is first polled.
    pub fn rings(&self) -> tokio::sync::futures::Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(bells) = self.bells.upgrade() {
            let mut bells = bells.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Ours and the map's: nobody else waits.
            if Arc::strong_count(&self.notify) <= 2 {
                bells.remove(&self.key);
            }
        }
    }
}
