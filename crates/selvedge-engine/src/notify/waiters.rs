//! Waiters: callers that wait for the end of an execution, for frames of its stream, or for a change of an instance's
//! leases.
//!
//! A caller registers and enables its wake-up before it reads the store. A change between the read and the wait then
//! wakes it, so none is missed.

use crate::locking::lock;
use selvedge_core::{ExecutionId, SessionId};
use std::collections::{HashMap, hash_map};
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::Notify;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    End(ExecutionId),
    Instance(SessionId),
    Stream(ExecutionId),
}

/// The waiters of this process.
#[derive(Default)]
pub struct Waiters(Mutex<HashMap<Key, Entry>>);

/// The waiters of one key. Counted under the lock of the map, so that the last one removes the entry, also if several are
/// dropped at once.
#[derive(Default)]
struct Entry {
    notify: Arc<Notify>,
    waiters: usize,
}

/// A registered waiter; removed when dropped.
pub struct Waiter {
    waiters: Weak<Waiters>,
    key: Key,
    notify: Arc<Notify>,
}

impl Waiters {
    /// Registers for the end of an execution, or of the flow with the same id.
    pub fn register_end(self: &Arc<Self>, id: ExecutionId) -> Waiter {
        self.register(Key::End(id))
    }

    /// Registers for changes of an instance's leases and for requests to it; see [`crate::commit::instance_key`].
    pub fn register_instance(self: &Arc<Self>, key: SessionId) -> Waiter {
        self.register(Key::Instance(key))
    }

    /// Registers for frames of an execution.
    pub fn register_stream(self: &Arc<Self>, id: ExecutionId) -> Waiter {
        self.register(Key::Stream(id))
    }

    fn register(self: &Arc<Self>, key: Key) -> Waiter {
        let mut entries = lock(&self.0);
        let entry = entries.entry(key).or_default();
        entry.waiters += 1;
        Waiter { waiters: Arc::downgrade(self), key, notify: entry.notify.clone() }
    }

    /// Wakes the waiters for the end of an execution, and those for its stream, which ends with it.
    pub fn wake_end(&self, id: ExecutionId) {
        self.wake(Key::End(id));
        self.wake(Key::Stream(id));
    }

    /// Wakes the waiters for frames of an execution.
    pub fn wake_stream(&self, id: ExecutionId) {
        self.wake(Key::Stream(id));
    }

    pub fn wake_instance(&self, key: SessionId) {
        self.wake(Key::Instance(key));
    }

    fn wake(&self, key: Key) {
        if let Some(entry) = lock(&self.0).get(&key) {
            entry.notify.notify_waiters();
        }
    }

    /// Wakes every waiter, so that it reads the store again.
    pub fn wake_all(&self) {
        for entry in lock(&self.0).values() {
            entry.notify.notify_waiters();
        }
    }
}

impl Waiter {
    /// Resolves at the next wake-up after this call, even if that comes before the future is first polled.
    pub fn woken(&self) -> tokio::sync::futures::Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let Some(waiters) = self.waiters.upgrade() else { return };
        if let hash_map::Entry::Occupied(mut entry) = lock(&waiters.0).entry(self.key) {
            entry.get_mut().waiters -= 1;
            if entry.get().waiters == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn waiters_that_are_dropped_at_once_leave_no_entry() {
        let waiters = Arc::new(Waiters::default());
        for number in 0..2000 {
            let id = ExecutionId(uuid::Uuid::from_u128(number));
            let both = [waiters.register_end(id), waiters.register_end(id)];
            let start = Barrier::new(both.len());
            std::thread::scope(|scope| {
                for waiter in both {
                    scope.spawn(|| {
                        start.wait();
                        drop(waiter);
                    });
                }
            });
            assert!(lock(&waiters.0).is_empty());
        }
    }
}
