//! The policy of an execution: how it is retried, how long it may take, how long it stays.

use crate::Entropy;
use serde::{Deserialize, Serialize};

/// Seven days, the default retention.
pub const DEFAULT_RETENTION_MS: i64 = 7 * 24 * 3600 * 1000;
/// 24 hours, the default window of an idempotency key.
pub const DEFAULT_IDEMPOTENCY_WINDOW_MS: i64 = 24 * 3600 * 1000;

/// What went wrong with an attempt, as its worker or the engine classed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// May pass by itself; the default.
    Transient,
    /// Will not pass by itself.
    Permanent,
    /// The surroundings failed, not the work.
    Infrastructure,
    /// Took too long.
    Timeout,
}

impl FailureClass {
    /// Every class, in order.
    pub const ALL: [FailureClass; 4] =
        [Self::Transient, Self::Permanent, Self::Infrastructure, Self::Timeout];

    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::Infrastructure => "infrastructure",
            Self::Timeout => "timeout",
        }
    }

    /// The class with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == word)
    }
}

/// How long to wait before the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Backoff {
    /// Always the same; jitter never applies.
    Fixed {
        /// The wait.
        delay_ms: i64,
    },
    /// Grows with every retry up to a cap.
    Exponential {
        /// The first wait.
        initial_ms: i64,
        /// What each wait is multiplied by to give the next.
        multiplier: f64,
        /// The longest wait.
        max_ms: i64,
        /// Whether a random part (up to half) is taken off, so that failures that came together do not return together.
        jitter: bool,
    },
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff::Exponential { initial_ms: 1000, multiplier: 2.0, max_ms: 60_000, jitter: true }
    }
}

impl Backoff {
    /// The wait before retry number `retry`, counted from 1.
    pub fn delay_ms(&self, retry: u32, entropy: &mut Entropy) -> i64 {
        match *self {
            Backoff::Fixed { delay_ms } => delay_ms,
            Backoff::Exponential { initial_ms, multiplier, max_ms, jitter } => {
                let grown = initial_ms as f64 * multiplier.powi(retry.saturating_sub(1).min(1000) as i32);
                let capped = grown.min(max_ms as f64);
                let kept = if jitter { 1.0 - entropy.fraction() / 2.0 } else { 1.0 };
                (capped * kept) as i64
            }
        }
    }
}

/// When a failed or interrupted attempt is followed by another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// How many failed attempts are followed by another; 3.
    pub max_retries: u32,
    /// How often infrastructure may take an attempt away; 100. Zero gives at-most-once.
    pub max_interruptions: u32,
    /// Which failures are retried; all but `permanent`.
    pub retry_on: Vec<FailureClass>,
    /// How long to wait in between.
    pub backoff: Backoff,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            max_retries: 3,
            max_interruptions: 100,
            retry_on: vec![FailureClass::Transient, FailureClass::Infrastructure, FailureClass::Timeout],
            backoff: Backoff::default(),
        }
    }
}

/// Everything about an execution that is settled when it is submitted and bounds its life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Retries and interruptions.
    pub retry: Retry,
    /// The longest one attempt may run; none.
    pub attempt_timeout_ms: Option<i64>,
    /// The longest the execution may live from submission; none.
    pub deadline_ms: Option<i64>,
    /// The longest it may wait for its first start; none.
    pub start_by_ms: Option<i64>,
    /// How long it stays after its end; 7 days.
    pub retention_ms: i64,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            retry: Retry::default(),
            attempt_timeout_ms: None,
            deadline_ms: None,
            start_by_ms: None,
            retention_ms: DEFAULT_RETENTION_MS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_backoff_doubles_up_to_its_cap() {
        let backoff =
            Backoff::Exponential { initial_ms: 1000, multiplier: 2.0, max_ms: 60_000, jitter: false };
        let delays: Vec<i64> = (1..=8).map(|n| backoff.delay_ms(n, &mut Entropy::seeded(1))).collect();
        assert_eq!(delays, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(backoff.delay_ms(u32::MAX, &mut Entropy::seeded(1)), 60_000);
    }

    #[test]
    fn jitter_takes_off_at_most_half_and_never_touches_a_fixed_backoff() {
        let mut entropy = Entropy::seeded(7);
        let jittered = Backoff::default();
        for retry in 1..200 {
            let delay = jittered.delay_ms(retry, &mut entropy);
            let full = (1000.0 * 2f64.powi(retry as i32 - 1)).min(60_000.0) as i64;
            assert!(delay >= full / 2 && delay <= full, "retry {retry}: {delay} of {full}");
        }
        let fixed = Backoff::Fixed { delay_ms: 750 };
        assert!((1..50).all(|retry| fixed.delay_ms(retry, &mut entropy) == 750));
    }
}
