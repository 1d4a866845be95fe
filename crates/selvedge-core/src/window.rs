//! A sliding window over starts, in parts: never more than the limit in any window, and at most one part in a hundred fewer.

use crate::Timestamp;
use crate::gate::Rate;
use serde::{Deserialize, Serialize};

/// Into how many parts a window is divided.
const PARTS: i64 = 100;

/// How many started in each of the newest parts of time.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Window {
    /// The length of a part, in microseconds.
    part: i64,
    /// The parts in which something started, oldest first, and how much.
    starts: Vec<(i64, u32)>,
}

fn part_of(rate: Rate) -> i64 {
    (rate.window_ms.saturating_mul(1000) / PARTS).max(1)
}

fn parts_of(rate: Rate) -> i64 {
    // The part in which the window begins counts whole.
    rate.window_ms.saturating_mul(1000).div_euclid(part_of(rate)) + 1
}

impl Window {
    /// The starts that count at `now`, with another length of parts where the rate has changed: then all are taken to be of
    /// the newest part that they may be of.
    fn counted(&self, rate: Rate, now: Timestamp) -> impl Iterator<Item = (i64, u32)> {
        let part = part_of(rate);
        let newest = now.micros().div_euclid(part);
        let oldest = newest - parts_of(rate) + 1;
        let same = self.part == part;
        let moved = move |(at, count): &(i64, u32)| {
            let at = if same {
                *at
            } else {
                (at.saturating_add(1).saturating_mul(self.part) - 1).div_euclid(part)
            };
            (at.min(newest), *count)
        };
        self.starts.iter().map(moved).filter(move |(at, _)| *at >= oldest)
    }

    /// How many more may start at `now`.
    pub fn room(&self, rate: Rate, now: Timestamp) -> u32 {
        let started: u64 = self.counted(rate, now).map(|(_, count)| u64::from(count)).sum();
        u64::from(rate.count).saturating_sub(started) as u32
    }

    /// When one more may start; none if it may now. Far away where the rate is zero.
    pub fn opens_at(&self, rate: Rate, now: Timestamp) -> Option<Timestamp> {
        if self.room(rate, now) > 0 {
            return None;
        }
        let part = part_of(rate);
        let mut left: u64 = self.counted(rate, now).map(|(_, count)| u64::from(count)).sum();
        for (at, count) in self.counted(rate, now) {
            left -= u64::from(count);
            if left < u64::from(rate.count) {
                return Some(Timestamp::from_micros((at + parts_of(rate)).saturating_mul(part)));
            }
        }
        Some(Timestamp::from_micros(i64::MAX))
    }

    /// One has started.
    pub fn start(&mut self, rate: Rate, now: Timestamp) {
        let counted: Vec<(i64, u32)> = self.counted(rate, now).collect();
        self.part = part_of(rate);
        self.starts.clear();
        let here = now.micros().div_euclid(self.part);
        for (at, count) in counted.into_iter().chain([(here, 1)]) {
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
                    assert!(window.opens_at(rate, at).is_none(), "it opens when it says");
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
