//! `projection`: follows the event log and writes its events and attempts as rows that SQL can read, behind the views
//! `v1_events` and `v1_attempts`. Off unless [`Options::event_views`](crate::Options::event_views) is set.
//!
//! One server at a time has the lease. Rows and position are saved by one transaction that compares the position, so a crash or
//! a second owner repeats work but no row. Entries that the log dropped before they were read are announced by one event of the
//! type `log.missed`.

mod rows;

use super::runtime::ReconcilerContext;
use super::{DELETE_FOR, Reconciler, Tally};
use crate::Error;
use crate::locking::lock;
use async_trait::async_trait;
use rows::PageRows;
use selvedge_core::Timestamp;
use selvedge_store::{LogLimit, Overview, ProjectionLease};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The time for which the lease is taken. Another server continues after the death of the owner when it has passed.
const LEASE: Duration = Duration::from_secs(5);
/// The time after which the lease is renewed.
const RENEW_AFTER: Duration = Duration::from_secs(2);
/// The maximum size of the part of the log that one transaction writes. A single entry may be larger.
const PAGE: LogLimit = LogLimit { entries: 256, bytes: 64 * 1024 };
/// The time after which a tick begins no further page. The next tick continues at once.
const RUN_FOR: Duration = Duration::from_secs(2);
/// The maximum number of events that are deleted by one transaction.
const DELETED_AT_ONCE: u32 = 2000;

/// Writes the projection.
pub struct Projection {
    is_on: bool,
    owner: Uuid,
    /// The position and the time at which the lease is renewed, while this server has the lease.
    held: Mutex<Option<(i64, Instant)>>,
}

impl Projection {
    /// Returns the reconciler, switched on or off.
    pub fn new(is_on: bool) -> Projection {
        Projection { is_on, owner: Uuid::new_v4(), held: Mutex::default() }
    }

    fn lease(&self) -> ProjectionLease {
        ProjectionLease { owner: self.owner, ttl_ms: LEASE.as_millis() as i64 }
    }

    /// Returns the position, after renewing the lease if it is time to. None if another server has the lease.
    async fn position(&self, context: &ReconcilerContext) -> Result<Option<i64>, Error> {
        let held = lock(&self.held).filter(|(_, renew_at)| Instant::now() < *renew_at);
        if let Some((position, _)) = held {
            return Ok(Some(position));
        }
        // Until the store answers, this server has no lease.
        self.hold(None);
        let position = context.store.take_projection(self.lease()).await?;
        self.hold(position);
        Ok(position)
    }

    /// Remembers the position, or that another server has the lease.
    fn hold(&self, position: Option<i64>) {
        *lock(&self.held) = position.map(|position| (position, Instant::now() + RENEW_AFTER));
    }

    /// Writes the rows of the next page of the log. Returns false if there is no further one, or another server has the lease.
    async fn write_page(&self, context: &ReconcilerContext, tally: &mut Tally) -> Result<bool, Error> {
        let metrics = context.committer.metrics();
        let Some(after) = self.position(context).await? else {
            metrics.set_projection_lag(0);
            return Ok(false);
        };
        let log = context.store.log_page(after, PAGE).await?;
        let (entries, is_full) = (log.entries.len() as u64, log.is_full);
        let Some(PageRows { page, at }) = PageRows::of(after, log) else {
            metrics.set_projection_lag(0);
            return Ok(false);
        };
        let (upto, events) = (page.upto, page.events.len());
        // A save whose answer is lost may have happened: the position is read again.
        self.hold(None);
        let is_saved = context.store.save_projection(self.lease(), page).await?;
        tally.scanned += entries;
        if !is_saved {
            tally.superseded += entries;
            return Ok(false);
        }
        self.hold(Some(upto));
        tally.done += entries;
        metrics.projected(events);
        let age = metrics.store_time().micros() - at.micros();
        metrics.set_projection_lag(if is_full { age } else { 0 });
        Ok(is_full)
    }
}

#[async_trait]
impl Reconciler for Projection {
    fn name(&self) -> &'static str {
        "projection"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        self.is_on.then_some(overview.now)
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        if !self.is_on {
            return Ok(tally);
        }
        let until = Instant::now() + RUN_FOR;
        while self.write_page(context, &mut tally).await? && Instant::now() < until {}
        if lock(&self.held).is_some() {
            delete_old(context, RUN_FOR).await?;
        }
        Ok(tally)
    }
}

/// Deletes the events that have left the log, for some time. Returns how many.
async fn delete_old(context: &ReconcilerContext, time: Duration) -> Result<u64, Error> {
    let (mut deleted, until) = (0, Instant::now() + time);
    loop {
        let count = context.store.delete_old_projection(DELETED_AT_ONCE).await?;
        deleted += count;
        if count < u64::from(DELETED_AT_ONCE) || Instant::now() >= until {
            return Ok(deleted);
        }
    }
}

/// Deletes the events that have left the log, also if the projection is off.
pub async fn delete_left_over(context: &ReconcilerContext) -> Result<u64, Error> {
    delete_old(context, DELETE_FOR).await
}
