//! A sliding window over starts, counted in parts of a hundredth of the window. No window ever has more starts than the
//! limit; because the oldest part counts as a whole, the achieved rate may be about one percent lower.

use crate::Timestamp;
use crate::gate::Rate;
use serde::{Deserialize, Serialize};

/// Number of parts of a window.
const PARTS: i64 = 100;

/// The number of starts in each of the latest parts of time.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Window {
    /// The length of a part, in microseconds.
    part: i64,
    /// The parts with starts, oldest first, and the number of starts in each. A part is numbered by its time divided by
    /// its length.
    starts: Vec<(i64, u32)>,
}

/// Returns the length of a part, in microseconds.
fn part_micros(rate: Rate) -> i64 {
    (rate.window_ms.saturating_mul(1000) / PARTS).max(1)
}

/// Returns the number of parts that a window touches.
fn parts_in_window(rate: Rate) -> i64 {
    // The part in which the window begins counts as a whole.
    rate.window_ms.saturating_mul(1000).div_euclid(part_micros(rate)) + 1
}

impl Window {
    /// Iterates over the starts that count at `now`. If the rate has changed, parts have another length: then each
    /// start is assigned to the newest part that it may belong to, so that it never counts too short.
    fn counted(&self, rate: Rate, now: Timestamp) -> impl Iterator<Item = (i64, u32)> {
        let part = part_micros(rate);
        let newest = now.micros().div_euclid(part);
        let oldest = newest - parts_in_window(rate) + 1;
        let same_length = self.part == part;
        let converted = move |(at, count): &(i64, u32)| {
            let at = if same_length {
                *at
            } else {
                (at.saturating_add(1).saturating_mul(self.part) - 1).div_euclid(part)
            };
            (at.min(newest), *count)
        };
        self.starts.iter().map(converted).filter(move |(at, _)| *at >= oldest)
    }

    /// Returns how many more executions may start at `now`.
    pub fn room(&self, rate: Rate, now: Timestamp) -> u32 {
        let started: u64 = self.counted(rate, now).map(|(_, count)| u64::from(count)).sum();
        u64::from(rate.count).saturating_sub(started) as u32
    }

    /// Returns the time at which one more execution may start; none if it may start now. The end of time if the rate is
    /// zero.
    pub fn opens_at(&self, rate: Rate, now: Timestamp) -> Option<Timestamp> {
        if self.room(rate, now) > 0 {
            return None;
        }
        let part = part_micros(rate);
        let mut left: u64 = self.counted(rate, now).map(|(_, count)| u64::from(count)).sum();
        for (at, count) in self.counted(rate, now) {
            left -= u64::from(count);
            if left < u64::from(rate.count) {
                return Some(Timestamp::from_micros((at + parts_in_window(rate)).saturating_mul(part)));
            }
        }
        Some(Timestamp::from_micros(i64::MAX))
    }

    /// Records a start.
    pub fn start(&mut self, rate: Rate, now: Timestamp) {
        let counted: Vec<(i64, u32)> = self.counted(rate, now).collect();
        self.part = part_micros(rate);
        self.starts.clear();
        let current = now.micros().div_euclid(self.part);
        for (at, count) in counted.into_iter().chain([(current, 1)]) {
            match self.starts.last_mut().filter(|(last, _)| *last >= at) {
                Some((_, starts)) => *starts += count,
                None => self.starts.push((at, count)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_window_anywhere_has_more_starts_than_the_rate_allows() {
        let rate = Rate { count: 7, window_ms: 1000 };
        let mut window = Window::default();
        let mut random = fastrand::Rng::with_seed(7);
        let mut starts: Vec<i64> = Vec::new();
        let mut now = 1_700_000_000_000_000;
        for _ in 0..20_000 {
            now += random.i64(0..60_000);
            let time = Timestamp::from_micros(now);
            match window.opens_at(rate, time) {
                None => {
                    window.start(rate, time);
                    starts.push(now);
                }
                Some(at) => {
                    assert!(at > time);
                    assert!(window.opens_at(rate, at).is_none(), "it has room at the time that it announces");
                }
            }
        }
        for (index, first) in starts.iter().enumerate() {
            let within = starts[index..].iter().take_while(|at| **at - first < 1_000_000).count();
            assert!(within <= 7, "{within} starts in one window");
        }
        let seconds = (starts[starts.len() - 1] - starts[0]) as f64 / 1e6;
        assert!(starts.len() as f64 / seconds > 6.8, "the rate is used: {}", starts.len() as f64 / seconds);
    }

    #[test]
    fn a_rate_of_zero_never_opens_and_a_window_stays_small() {
        let zero = Rate { count: 0, window_ms: 10 };
        assert!(Window::default().opens_at(zero, Timestamp::from_millis(5)).is_some());
        let rate = Rate { count: 1_000_000, window_ms: 60_000 };
        let mut window = Window::default();
        for step in 0..10_000 {
            window.start(rate, Timestamp::from_millis(1_000_000 + step * 37));
        }
        assert!(window.starts.len() <= 102, "{}", window.starts.len());
    }

    #[test]
    fn a_changed_rate_still_counts_what_started() {
        let now = Timestamp::from_millis(1_000_000);
        let mut window = Window::default();
        let wide = Rate { count: 10, window_ms: 60_000 };
        (0..10).for_each(|_| window.start(wide, now));
        let narrow = Rate { count: 10, window_ms: 1000 };
        assert_eq!(window.room(narrow, now), 0);
        assert_eq!(window.room(narrow, now.plus_ms(2000)), 10);
    }
}
