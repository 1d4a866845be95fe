//! The store's clock: the system clock, kept from stepping back, or a manual clock for tests.

use selvedge_core::Timestamp;
use selvedge_store::ManualClock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A clock that never steps back. Clones share their time.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The latest time that was returned, in microseconds.
    latest: Arc<AtomicI64>,
    manual: bool,
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl Clock {
    /// Returns a clock that follows the system clock. While the system clock is behind, this one stands still.
    pub fn system() -> Self {
        Clock { latest: Arc::default(), manual: false }
    }

    /// Returns a clock that stands at `start` until it is advanced.
    pub fn manual(start: Timestamp) -> Self {
        Clock { latest: Arc::new(AtomicI64::new(start.micros())), manual: true }
    }

    /// Advances a manual clock; a negative value is ignored. Has no effect on a system clock.
    pub fn advance_ms(&self, millis: i64) {
        if self.manual {
            self.latest.fetch_add(millis.max(0).saturating_mul(1000), Ordering::SeqCst);
        }
    }

    /// Returns this clock if it is a manual one.
    pub fn as_manual(&self) -> Option<&dyn ManualClock> {
        self.manual.then_some(self)
    }

    pub fn now(&self) -> Timestamp {
        if self.manual {
            return Timestamp::from_micros(self.latest.load(Ordering::SeqCst));
        }
        let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let micros = i64::try_from(system.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.latest.fetch_max(micros, Ordering::SeqCst).max(micros))
    }
}

impl ManualClock for Clock {
    fn now(&self) -> Timestamp {
        Clock::now(self)
    }

    fn advance_to(&self, time: Timestamp) {
        if self.manual {
            self.latest.fetch_max(time.micros(), Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_advanced_and_its_clones_move_with_it() {
        let start = Timestamp::from_millis(1_000);
        let clock = Clock::manual(start);
        let clone = clock.clone();
        assert_eq!(clone.now(), start);
        clock.advance_ms(250);
        clock.advance_ms(-100);
        assert_eq!(clone.now(), start.plus_ms(250));
    }

    #[test]
    fn a_system_clock_that_is_set_back_stands_still() {
        let clock = Clock::system();
        let far = clock.now().plus_ms(60_000);
        clock.latest.store(far.micros(), Ordering::SeqCst);
        assert_eq!(clock.now(), far);
    }
}
