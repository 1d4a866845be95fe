//! The store's clock: that of the one process that has the file, kept from stepping back.
//!
//! While the system's clock is behind what was already told, the store's clock goes on from there by elapsed time, a tenth
//! slower until the system's clock has caught up. So it never stands still either: a lease ends even if the system's
//! clock was an hour ahead yesterday.

use selvedge_core::Timestamp;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Tells the time.
#[derive(Debug)]
pub struct Clock {
    /// What was told last, and when that was.
    told: Mutex<(i64, Instant)>,
}

impl Clock {
    /// A clock that tells no time before `floor`, microseconds.
    pub fn starting_at(floor: i64) -> Clock {
        Clock { told: Mutex::new((floor, Instant::now())) }
    }

    /// The time. Never earlier than what was told before, by whichever thread.
    pub fn now(&self) -> Timestamp {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let at = Instant::now();
        let elapsed = at.duration_since(told.1).as_micros() as i64;
        *told = (advance(told.0, elapsed, system_micros()), at);
        Timestamp::from_micros(told.0)
    }
}

/// The time after `elapsed` since `told`, when the system's clock says `system`.
fn advance(told: i64, elapsed: i64, system: i64) -> i64 {
    system.max(told + elapsed - elapsed / 10)
}

fn system_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_follows_the_systems_clock_when_that_is_ahead() {
        assert_eq!(advance(1_000, 10, 1_010), 1_010);
        assert_eq!(advance(1_000, 10, 5_000), 5_000);
    }

    #[test]
    fn the_clock_never_steps_back_and_never_stands_still() {
        assert_eq!(advance(1_000, 0, 400), 1_000);
        assert_eq!(advance(1_000, 100, 500), 1_090);
    }

    #[test]
    fn a_system_clock_that_was_set_back_is_caught_up_with() {
        let (mut told, mut system) = (10_000, 9_000);
        for _ in 0..100 {
            system += 100;
            let next = advance(told, 100, system);
            assert!(next > told);
            told = next;
        }
        assert_eq!(told, system);
    }

    #[test]
    fn the_clock_does_not_begin_before_its_floor() {
        let floor = system_micros() + 3_600_000_000;
        let clock = Clock::starting_at(floor);
        let first = clock.now();
        assert!(first.micros() >= floor);
        assert!(clock.now() >= first);
    }
}
