//! Rows that failed: left alone for a while, longer each time, so that they neither block a scan nor are forgotten.

use selvedge_core::ExecutionId;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The first pause.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(300);
/// How many rows are known at most; beyond that the oldest pauses are forgotten.
const CAPACITY: usize = 10_000;

/// The rows that are set aside.
#[derive(Default)]
pub struct SetAside(Mutex<HashMap<ExecutionId, (Instant, Duration)>>);

impl SetAside {
    /// Sets a row aside; says for how long.
    pub fn add(&self, id: ExecutionId) -> Duration {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.len() >= CAPACITY {
            let now = Instant::now();
            rows.retain(|_, (until, _)| *until > now);
        }
        let pause = rows.get(&id).map_or(FIRST, |(_, pause)| (*pause * 2).min(LONGEST));
        rows.insert(id, (Instant::now() + pause, pause));
        pause
    }

    /// Whether a row is set aside now.
    pub fn holds(&self, id: ExecutionId) -> bool {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.get(&id).is_some_and(|(until, _)| *until > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_row_is_left_alone_longer_each_time() {
        let aside = SetAside::default();
        let id = ExecutionId(uuid::Uuid::from_u128(1));
        assert!(!aside.holds(id));
        let pauses: Vec<u64> = (0..10).map(|_| aside.add(id).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert!(aside.holds(id));
    }
}
