//! Plans while tables grow.
//!
//! Every connection plans a statement once, generically, with the sizes that the tables have at that time, and keeps the plan.
//! A plan that was made for a small table may choose an index that is much too slow for a large one; nothing replaces it
//! before the table is analysed. So once a second the numbers of rows are read, by a connection that is taken from a pool. If
//! a table has grown fourfold, every connection drops its plans when it is taken the next time.

use super::TABLES_READ_SIZES;
use deadpool_postgres::Metrics;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, Error};

/// The time between two reads of the sizes.
const INTERVAL: Duration = Duration::from_secs(1);
/// The factor by which a table must grow.
const FACTOR: i64 = 4;
/// The number of rows up to which a table counts as small. Plans for smaller tables do not matter.
const SMALL: i64 = 200;

/// The sizes of the tables in rows, and the time at which one of them was last seen to have grown.
#[derive(Default)]
pub struct Growth(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    read_at: Option<Instant>,
    sizes: Vec<i64>,
    grown_at: Option<Instant>,
}

impl Growth {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the sizes if the last read was too long ago, and drops the plans of a connection that was last taken from its
    /// pool before a table grew.
    pub async fn keep_plans_fresh(&self, client: &Client, metrics: &Metrics) -> Result<(), Error> {
        if self.is_due() {
            let row = client.query_one(&*TABLES_READ_SIZES, &[]).await?;
            self.seen().take(row.get(0), Instant::now());
        }
        let taken_before = metrics.recycled.unwrap_or(metrics.created);
        let is_stale = self.seen().grown_at.is_some_and(|grown_at| grown_at >= taken_before);
        if is_stale {
            client.batch_execute("discard plans").await?;
        }
        Ok(())
    }

    /// Reports whether it is time to read the sizes. Returns true to one caller per interval.
    fn is_due(&self) -> bool {
        let mut seen = self.seen();
        let is_due = seen.read_at.is_none_or(|read_at| read_at.elapsed() >= INTERVAL);
        if is_due {
            seen.read_at = Some(Instant::now());
        }
        is_due
    }
}

impl Seen {
    /// Compares sizes with those of the last growth. A table that shrank is remembered with its new size.
    fn take(&mut self, sizes: Vec<i64>, now: Instant) {
        self.sizes.resize(sizes.len(), 0);
        for (known, size) in self.sizes.iter_mut().zip(sizes) {
            if size > FACTOR * (*known).max(SMALL) {
                *known = size;
                self.grown_at = Some(now);
            } else if size < *known / FACTOR {
                *known = size;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_grows_by_a_factor_and_may_grow_again_after_it_shrank() {
        let mut seen = Seen::default();
        let mut grows = |sizes: &[i64]| {
            seen.grown_at = None;
            seen.take(sizes.to_vec(), Instant::now());
            seen.grown_at.is_some()
        };
        assert!(!grows(&[0, FACTOR * SMALL]));
        assert!(grows(&[0, FACTOR * SMALL + 1]));
        assert!(!grows(&[0, FACTOR * FACTOR * SMALL]));
        assert!(grows(&[0, FACTOR * FACTOR * SMALL * 2]));
        assert!(!grows(&[0, 0]));
        assert!(grows(&[FACTOR * SMALL + 1, 0]));
        assert!(grows(&[FACTOR * SMALL + 1, FACTOR * SMALL + 1]));
    }
}
