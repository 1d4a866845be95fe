//! The quarantine: rows that failed are skipped for a while, longer each time, so that they neither block a scan nor
//! are given up.

use crate::locking::lock;
use selvedge_core::bulk_job::BulkJobId;
use selvedge_core::inbox::InboxNumber;
use selvedge_core::outbox::OutboxName;
use selvedge_core::{ExecutionId, FlowId, GateId};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The pause after the first failure. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The number of rows at which those whose pause is over are removed.
const CAPACITY: usize = 10_000;

/// A row that a reconciler works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowId {
    Execution(ExecutionId),
    Flow(FlowId),
    Gate(GateId),
    Outbox(OutboxName),
    BulkJob(BulkJobId),
    /// A schedule, by a hash of its name.
    Schedule(Uuid),
    Inbox(InboxNumber),
}

/// The quarantined rows: the end of the pause, and its length.
#[derive(Default)]
pub struct Quarantine(Mutex<HashMap<RowId, (Instant, Duration)>>);

impl Quarantine {
    /// Quarantines a row; returns for how long.
    pub fn add(&self, id: RowId) -> Duration {
        let mut rows = lock(&self.0);
        if rows.len() >= CAPACITY {
            let now = Instant::now();
            rows.retain(|_, (until, _)| *until > now);
        }
        let pause = rows.get(&id).map_or(FIRST_PAUSE, |(_, pause)| (*pause * 2).min(LONGEST_PAUSE));
        rows.insert(id, (Instant::now() + pause, pause));
        pause
    }

    /// Reports whether a row is quarantined now.
    pub fn contains(&self, id: RowId) -> bool {
        lock(&self.0).get(&id).is_some_and(|(until, _)| *until > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_keeps_failing_is_quarantined_longer_each_time() {
        let quarantine = Quarantine::default();
        let id = RowId::Execution(ExecutionId(uuid::Uuid::from_u128(1)));
        assert!(!quarantine.contains(id));
        let pauses: Vec<u64> = (0..10).map(|_| quarantine.add(id).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert!(quarantine.contains(id));
    }
}
