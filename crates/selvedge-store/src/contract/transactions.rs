//! Transactions: the decisions that a store runs, and what concerns the store as a whole.

use crate::{CallMeter, Description, Error, Notification, Transaction};
use async_trait::async_trait;
use selvedge_core::driver::{Driver, Host};
use selvedge_core::rule::Task;
use selvedge_core::{Demand, NamespaceId, Needs, Rows, Timestamp};
use std::future::{pending, ready};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A decision over rows, driven by [`Transactions::transact`]: it names the rows to load until it says what to save.
pub trait Decision: Send {
    /// Starts the decision, or restarts it from nothing, and returns the rows to load first. `again` is the number of
    /// earlier starts.
    fn begin(&mut self, again: u32) -> Needs;
    /// Takes the loaded rows and returns the next demand: load more rows, save, or abort.
    fn next(&mut self, rows: Rows) -> Demand;
    /// The time limit of each statement, which includes its waits for locks. None: the limits of the store. A store without
    /// such limits ignores it.
    fn patience(&self) -> Option<Duration> {
        None
    }
}

/// A queued rule of any kind, whose caller receives the error of its store.
pub type BoxedTask = Box<dyn Task<Error = Error>>;

/// A shared driver: the caller takes its tasks back after the commit.
impl<H: Host + 'static> Decision for Arc<Mutex<Driver<H>>> {
    fn begin(&mut self, again: u32) -> Needs {
        locked(self).begin(again)
    }

    fn next(&mut self, rows: Rows) -> Demand {
        locked(self).next(rows)
    }

    fn patience(&self) -> Option<Duration> {
        locked(self).patience()
    }
}

/// Locks a mutex. A panic of another holder is ignored: a decision starts over before it is used again.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clock of a store for tests: it stands still until it is advanced.
pub trait ManualClock: Send + Sync {
    fn now(&self) -> Timestamp;
    /// Advances the clock to a time. A time that has passed is ignored.
    fn advance_to(&self, time: Timestamp);
}

/// Transactions of a store, its clock, its lineage, and its connection with the other servers that use it.
#[async_trait]
pub trait Transactions: Send + Sync {
    /// Returns the properties of this store.
    fn describe(&self) -> Description;

    /// Returns a number that rises whenever the store may have another history than before: rows that were read or written
    /// earlier may never have existed. Whoever caches rows drops them when the number changes. Default: 0 for ever.
    fn lineage(&self) -> u64 {
        0
    }

    /// Returns the clock, if it moves only when it is advanced. Default: none.
    fn manual_clock(&self) -> Option<&dyn ManualClock> {
        None
    }

    /// Returns the meter to which this store reports its calls.
    fn meter(&self) -> &CallMeter;

    async fn now(&self) -> Result<Timestamp, Error>;

    /// Lets the time of the store go on from a time, after the clock of its database stepped back behind it. A time that has
    /// passed changes nothing. Returns false if the clock is too far behind: then the time of the store follows it. Default:
    /// does nothing, because the time of the store never goes back.
    async fn bring_forward(&self, _time: Timestamp) -> Result<bool, Error> {
        self.meter().measure("bring_forward", ready(Ok(true))).await
    }

    /// Runs a decision in one transaction: loads and locks the rows that it names, in the lock order of
    /// [`Needs`], and saves its changes, all or nothing.
    ///
    /// Locks are held until the end of the transaction. When the call returns without an error, the changes are durable. If
    /// a guard of the save fails, nothing is saved and the decision is begun again on fresh rows, up to a limit, then
    /// [`Error::Contended`]. After [`Demand::Save`] the decision is not called again for any other reason. On an error
    /// nothing was saved, except that after [`Error::Unavailable`] the changes may have been saved. A decision that panics
    /// fails its own call with [`Error::Failed`] and no other. A caller may drop the future at any time; the transaction is
    /// then saved completely or not at all.
    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error>;

    /// Sends a notification to the other servers. Best effort: notifications may be lost.
    async fn notify(&self, notification: Notification) -> Result<(), Error>;

    /// Waits for a notification from another server. Returns none at once if this store never receives any.
    async fn next_notification(&self) -> Option<Notification>;

    /// Returns totals for benchmarks, (commits, bytes of write-ahead log), if the store counts them.
    async fn figures(&self) -> Result<Option<(i64, i64)>, Error>;

    /// Announces to the other servers of the store that the reconcilers of this one handle every execution of a namespace, or
    /// of all namespaces if none is given. The announcement lasts while the call is polled, which never returns, and ends at
    /// the latest some time after a crash. Best effort: it is repeated while the store is unavailable. Default: announces
    /// nothing, because no other server uses the store.
    async fn announce_coverage(&self, _namespace: Option<NamespaceId>) {
        pending().await
    }

    /// Returns the announcements of all servers. Default: none.
    async fn coverage(&self) -> Result<Vec<Option<NamespaceId>>, Error> {
        self.meter().measure("coverage", ready(Ok(Vec::new()))).await
    }

    /// Checks that the store accepts writes, by a small write that changes no value.
    async fn ping(&self) -> Result<(), Error>;

    /// Releases connections, threads and files. Transactions under way finish; later calls may fail. May be called twice.
    async fn close(&self);
}
