//! Notices that the clock of the store's database stepped back, as after a failover to a machine that is behind.
//!
//! Times in rows are compared with the store's time inside of transactions. If that follows the clock back by N seconds, everything
//! that was to happen by the clock before happens N seconds later. So the store is told the time that it had reached, and goes on
//! from there ([`bring_forward`](selvedge_store::Transactions::bring_forward)). If the clock is too far behind for that, or it could
//! not be done for some minutes, the time follows the clock for good: work has begun by it, whose leases a later leap would end.
//!
//! Each reading of the store's time is compared with the one before and the monotonic clock of this process. A reading is taken
//! at some time between the question and the answer, so a slow answer is not taken for a step.

use crate::locking::lock;
use selvedge_core::Timestamp;
use selvedge_store::Overview;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The smallest step that counts, in microseconds. Smaller ones delay leases less than a slow heartbeat.
const SMALLEST: i64 = 1_000_000;
/// The time after the last reading before a step within which the store may be told to go on.
const BRIDGED_WITHIN: Duration = Duration::from_secs(300);

/// The readings of the store's time.
#[derive(Debug, Default)]
pub struct StoreClock(Mutex<Readings>);

#[derive(Debug, Default)]
struct Readings {
    /// The last time that was read, in microseconds, and the instant of the answer.
    last: Option<(i64, Instant)>,
    /// The time that the store must reach until nothing stands still. None unless it stepped back with the clock.
    caught_up_at: Option<i64>,
    /// The time from which the store should go on, and the instant until which it is told so.
    go_on_from: Option<(i64, Instant)>,
    /// The microseconds by which the store's time is ahead of the clock.
    ahead: i64,
    was_behind: bool,
    steps: u64,
}

impl StoreClock {
    /// Takes note of the time of the store, for which it was asked at an instant, and logs a step back. Returns the time from which
    /// the store should go on, if it stepped back with the clock.
    pub fn read(&self, overview: &Overview, asked_at: Instant) -> Option<Timestamp> {
        let now = overview.now.micros();
        let mut readings = lock(&self.0);
        readings.ahead = overview.ahead_ms.saturating_mul(1000);
        let step = readings.take(now, asked_at, Instant::now());
        let behind_ms = readings.behind(now) / 1000;
        let go_on_from = readings.go_on_from.map(|(time, _)| Timestamp::from_micros(time));
        drop(readings);
        match step {
            Step::Back(micros) => tracing::warn!(
                stepped_back_ms = micros / 1000,
                behind_ms,
                "the clock of the store stepped back: synchronise the clocks of the database servers"
            ),
            Step::CaughtUp => tracing::info!("the clock of the store has caught up"),
            Step::None => {}
        }
        go_on_from
    }

    /// Takes note that the clock is too far behind: the time of the store follows it.
    pub fn follow(&self) {
        lock(&self.0).go_on_from = None;
    }

    /// Returns the number of steps back, and the time by which the clock is behind since the last one, given the present.
    pub fn steps(&self, now: Timestamp) -> (u64, Duration) {
        let readings = lock(&self.0);
        (readings.steps, Duration::from_micros(readings.behind(now.micros()) as u64))
    }
}

#[derive(Debug, PartialEq)]
enum Step {
    None,
    /// The clock stepped back by so many microseconds.
    Back(i64),
    CaughtUp,
}

impl Readings {
    fn take(&mut self, now: i64, asked_at: Instant, answered_at: Instant) -> Step {
        let last_at = self.last.map_or(answered_at, |(_, at)| at);
        let back = match self.last {
            // A clock that stands still, as the manual one of tests does, has not stepped back.
            Some((last, at)) if now < last => {
                last + asked_at.saturating_duration_since(at).as_micros() as i64 - now
            }
            Some(_) | None => 0,
        };
        self.last = Some((now, answered_at));
        if back >= SMALLEST {
            self.steps += 1;
            self.caught_up_at = self.caught_up_at.max(Some(now + back));
            let (time, until) = self.go_on_from.unwrap_or((now, last_at + BRIDGED_WITHIN));
            self.go_on_from = Some((time.max(now + back), until));
            self.was_behind = true;
        } else {
            self.caught_up_at = self.caught_up_at.filter(|at| now < *at);
        }
        self.go_on_from = self.go_on_from.filter(|(time, until)| now < *time && answered_at < *until);
        if back >= SMALLEST {
            return Step::Back(back);
        }
        let is_behind = self.behind(now) > 0;
        let was_behind = std::mem::replace(&mut self.was_behind, is_behind);
        if was_behind && !is_behind { Step::CaughtUp } else { Step::None }
    }

    /// Returns the microseconds by which the clock is behind.
    fn behind(&self, now: i64) -> i64 {
        self.caught_up_at.map_or(0, |at| at - now).max(self.ahead).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn a_step_back_lasts_until_the_clock_has_caught_up() {
        let (begun, mut readings) = (Instant::now(), Readings::default());
        let mut read = |second: u64, time: i64| {
            let at = begun + Duration::from_secs(second);
            let step = readings.take(time * SECOND, at, at);
            (step, readings.behind(time * SECOND) / SECOND)
        };
        assert_eq!(read(0, 1000), (Step::None, 0));
        assert_eq!(read(1, 1001), (Step::None, 0));
        assert_eq!(read(2, 972), (Step::Back(30 * SECOND), 30));
        assert_eq!(read(12, 982), (Step::None, 20));
        assert_eq!(read(13, 973), (Step::Back(10 * SECOND), 29));
        assert_eq!(read(42, 1002), (Step::CaughtUp, 0));
        assert_eq!(read(43, 2000), (Step::None, 0));
    }

    #[test]
    fn a_store_that_goes_on_has_caught_up_when_its_clock_has() {
        let (begun, mut readings) = (Instant::now(), Readings::default());
        let mut read = |second: u64, time: i64, ahead: i64| {
            let at = begun + Duration::from_secs(second);
            readings.ahead = ahead * SECOND;
            let step = readings.take(time * SECOND, at, at);
            (step, readings.caught_up_at.map(|at| at / SECOND), readings.behind(time * SECOND) / SECOND)
        };
        assert_eq!(read(0, 1000, 0), (Step::None, None, 0));
        assert_eq!(read(1, 971, 0), (Step::Back(30 * SECOND), Some(1001), 30));
        assert_eq!(read(2, 1002, 30), (Step::None, None, 30));
        assert_eq!(read(12, 1011, 29), (Step::None, None, 29));
        assert_eq!(read(13, 1030, 0), (Step::CaughtUp, None, 0));
    }

    #[test]
    fn a_store_goes_on_from_a_time_only_for_some_minutes_after_it_had_reached_it() {
        let (begun, clock) = (Instant::now(), StoreClock::default());
        let read = |second: u64, time: i64| {
            let at = begun + Duration::from_secs(second);
            let mut readings = lock(&clock.0);
            readings.take(time * SECOND, at, at);
            readings.go_on_from.map(|(time, _)| time / SECOND)
        };
        let day = 86_400;
        assert_eq!(read(0, 10 * day), None);
        assert_eq!(read(1, 9 * day), Some(10 * day + 1));
        assert_eq!(read(299, 9 * day + 298), Some(10 * day + 1));
        assert_eq!(read(300, 9 * day + 299), None);
        // The clock is a day behind until tomorrow, and nothing leaps forward until then.
        assert_eq!(read(7200, 9 * day + 7199), None);
        assert_eq!(lock(&clock.0).behind((9 * day + 7199) * SECOND), (day - 7198) * SECOND);

        // Nor after a step during which this server was cut off for long.
        assert_eq!(read(8000, 10 * day), None);
        assert_eq!(read(9000, 9 * day), None);

        // The store has answered that the clock is too far behind.
        assert_eq!(read(9001, 8 * day), Some(9 * day + 1));
        clock.follow();
        assert_eq!(read(9002, 8 * day + 1), None);
    }

    #[test]
    fn a_slow_answer_and_a_small_correction_are_no_steps() {
        let (begun, mut readings) = (Instant::now(), Readings::default());
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(readings.take(100 * SECOND, at(0), at(0)), Step::None);
        // Read at once, answered 9 s later.
        assert_eq!(readings.take(101 * SECOND, at(1), at(10)), Step::None);
        assert_eq!(readings.take(110 * SECOND + SECOND / 2, at(11), at(11)), Step::None);
        assert_eq!(readings.take(110 * SECOND + SECOND / 2 + 1, at(12), at(12)), Step::None);
        // A manual clock.
        assert_eq!(readings.take(110 * SECOND + SECOND / 2 + 1, at(60), at(60)), Step::None);
    }
}
