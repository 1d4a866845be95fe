//! The store's clock: the system clock of the one process that has the file open, made monotonic.
//!
//! While the system clock is behind the last time that was returned, this clock advances by the elapsed time, a tenth
//! slower, until the system clock has caught up. So it never goes back and never stands still: a lease expires even if
//! the system clock was an hour ahead yesterday.

use crate::locked;
use crate::sql::statements;
use selvedge_core::Timestamp;
use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

statements! {
    CLOCK_READ_FLOOR = "clock/read_floor";
}

/// While the system clock is behind, this clock runs slower by one part in so many.
const SLOWDOWN: i64 = 10;

/// A monotonic clock of wall-clock time.
#[derive(Debug)]
pub struct Clock {
    /// The last time that was returned, in microseconds, and the instant at which it was.
    last: Mutex<(i64, Instant)>,
}

impl Clock {
    /// Returns a clock that starts at `floor` microseconds or later.
    pub fn starting_at(floor: i64) -> Clock {
        Clock { last: Mutex::new((floor, Instant::now())) }
    }

    /// Returns the time, which is never earlier than a time that any thread got before.
    pub fn now(&self) -> Timestamp {
        let mut last = locked(&self.last);
        let at = Instant::now();
        let elapsed = at.duration_since(last.1).as_micros() as i64;
        *last = (advance(last.0, elapsed, system_micros()), at);
        Timestamp::from_micros(last.0)
    }
}

/// Returns the time `elapsed` microseconds after `last`, given that the system clock is at `system`.
fn advance(last: i64, elapsed: i64, system: i64) -> i64 {
    system.max(last + elapsed - elapsed / SLOWDOWN)
}

fn system_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_follows_the_system_clock_when_that_is_ahead() {
        assert_eq!(advance(1_000, 10, 1_010), 1_010);
        assert_eq!(advance(1_000, 10, 5_000), 5_000);
    }

    #[test]
    fn the_clock_never_goes_back_and_never_stands_still() {
        assert_eq!(advance(1_000, 0, 400), 1_000);
        assert_eq!(advance(1_000, 100, 500), 1_090);
    }

    #[test]
    fn a_system_clock_that_was_set_back_catches_up() {
        let (mut last, mut system) = (10_000, 9_000);
        for _ in 0..100 {
            system += 100;
            let next = advance(last, 100, system);
            assert!(next > last);
            last = next;
        }
        assert_eq!(last, system);
    }

    #[test]
    fn the_clock_does_not_start_before_its_floor() {
        let floor = system_micros() + 3_600_000_000;
        let clock = Clock::starting_at(floor);
        let first = clock.now();
        assert!(first.micros() >= floor);
        assert!(clock.now() >= first);
    }
}
