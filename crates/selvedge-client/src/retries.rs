//! The rule for repeating requests.

use crate::Error;
use std::time::Duration;

/// The first and the longest delay between two tries.
const DELAYS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The rule for repeating a request after errors that may pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retries {
    /// The time from the first try after which no further one begins. Zero: the request is sent once.
    pub limit: Duration,
    /// Repeats requests for which no connection could be made as well. Without it, a server that does not run is an error at
    /// once.
    pub when_unreachable: bool,
}

impl Retries {
    /// Sends every request once.
    pub const NONE: Retries = Retries { limit: Duration::ZERO, when_unreachable: false };

    /// Returns the delay before the next try, or none if the error is final. `elapsed` is the time since the first try and
    /// `tries` the number of tries so far.
    pub(crate) fn delay(self, error: &Error, elapsed: Duration, tries: u32) -> Option<Duration> {
        let repeats = match error {
            Error::Unreachable { .. } | Error::Certificate { .. } => self.when_unreachable,
            error => error.is_transient(),
        };
        if !repeats {
            return None;
        }
        let doubled = DELAYS.0.saturating_mul(1 << tries.min(10)).min(DELAYS.1);
        // Between half of the delay and the whole, so that clients of a restarted server come apart.
        let random = doubled.mul_f64(0.5 + fastrand::f64() / 2.0);
        let asked = error.problem().and_then(|problem| problem.retry_after()).unwrap_or_default();
        let delay = random.max(asked);
        (elapsed + delay <= self.limit).then_some(delay)
    }
}

impl Default for Retries {
    /// Repeats for 30 s, also while the server cannot be reached.
    fn default() -> Self {
        Retries { limit: Duration::from_secs(30), when_unreachable: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Problem;

    fn problem(status: u16, retry_after_ms: Option<u64>) -> Error {
        let status = hyper::StatusCode::from_u16(status).expect("a status");
        Error::Problem(Box::new(Problem::of_status(status, retry_after_ms)))
    }

    #[test]
    fn errors_that_may_pass_are_repeated_within_the_limit() {
        let retries = Retries { limit: Duration::from_secs(3), when_unreachable: false };
        let unreachable = Error::Unreachable { server: "s".into(), detail: "d".into() };
        let no_answer = Error::NoAnswer { server: "s".into(), detail: "d".into() };
        assert!(retries.delay(&no_answer, Duration::ZERO, 0).is_some());
        assert!(retries.delay(&no_answer, Duration::from_secs(3), 0).is_none());
        assert!(retries.delay(&unreachable, Duration::ZERO, 0).is_none());
        assert!(Retries::default().delay(&unreachable, Duration::ZERO, 0).is_some());
        assert!(retries.delay(&problem(422, None), Duration::ZERO, 0).is_none());
        assert!(Retries::NONE.delay(&no_answer, Duration::ZERO, 0).is_none());
    }

    #[test]
    fn a_server_decides_when_it_is_asked_again() {
        let retries = Retries::default();
        let delay = retries.delay(&problem(429, Some(7000)), Duration::ZERO, 0);
        assert_eq!(delay, Some(Duration::from_secs(7)));
        assert!(retries.delay(&problem(503, Some(60_000)), Duration::ZERO, 0).is_none());
    }
}
