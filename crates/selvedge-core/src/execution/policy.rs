//! The policy of an execution: retries, timeouts, deadline and retention.

use crate::Entropy;
use serde::{Deserialize, Serialize};

/// The default retention: 7 days.
pub const DEFAULT_RETENTION_MS: i64 = 7 * 24 * 3600 * 1000;
/// The default window of an idempotency key: 24 hours.
pub const DEFAULT_IDEMPOTENCY_WINDOW_MS: i64 = 24 * 3600 * 1000;

/// The class of a failure, chosen by the worker or by the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The failure may pass by itself. The default.
    Transient,
    /// The failure will not pass by itself.
    Permanent,
    /// The infrastructure failed, not the work.
    Infrastructure,
    /// The attempt took too long.
    Timeout,
}

impl FailureClass {
    pub const ALL: [FailureClass; 4] =
        [Self::Transient, Self::Permanent, Self::Infrastructure, Self::Timeout];

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::Infrastructure => "infrastructure",
            Self::Timeout => "timeout",
        }
    }

    /// Returns the class with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == word)
    }
}

/// The back-off before the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Backoff {
    /// A constant back-off without jitter.
    Fixed {
        /// The back-off, in milliseconds.
        delay_ms: i64,
    },
    /// A back-off that grows with every retry, up to a maximum.
    Exponential {
        /// The first back-off, in milliseconds.
        initial_ms: i64,
        /// The factor from each back-off to the next.
        multiplier: f64,
        /// The longest back-off, in milliseconds.
        max_ms: i64,
        /// True to shorten each back-off by a random part of up to half, so that simultaneous failures do not all retry
        /// at once.
        jitter: bool,
    },
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff::Exponential { initial_ms: 1000, multiplier: 2.0, max_ms: 60_000, jitter: true }
    }
}

impl Backoff {
    /// Returns the back-off before retry number `retry`, counted from 1, in milliseconds.
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

/// The most retries after interruptions, by default. Work that kills its workers is given up soon.
pub const DEFAULT_MAX_INTERRUPTIONS: u32 = 5;

/// The conditions under which a failed or interrupted attempt is followed by another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// The most retries after failures. Default: 3.
    pub max_retries: u32,
    /// The most retries after interruptions without progress between them: a recorded step, or the end of a wait that has a
    /// step. Default: 5. Zero gives at-most-once execution.
    pub max_interruptions: u32,
    /// The failure classes that are retried. Default: all but `permanent`.
    pub retry_on: Vec<FailureClass>,
    /// The back-off between attempts. Default: exponential from 1 s to 60 s, with jitter.
    pub backoff: Backoff,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            max_retries: 3,
            max_interruptions: DEFAULT_MAX_INTERRUPTIONS,
            retry_on: vec![FailureClass::Transient, FailureClass::Infrastructure, FailureClass::Timeout],
            backoff: Backoff::default(),
        }
    }
}

/// The policy of an execution, fixed at submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// The retries after failures and interruptions.
    pub retry: Retry,
    /// The longest time that one attempt may run, in milliseconds. Default: no limit.
    pub attempt_timeout_ms: Option<i64>,
    /// The longest time from submission to the end, in milliseconds. Default: no limit.
    pub deadline_ms: Option<i64>,
    /// The longest time from submission to the first attempt, in milliseconds. Default: no limit.
    pub start_by_ms: Option<i64>,
    /// The time for which the execution is kept after its end, in milliseconds. Default: 7 days.
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
