//! The settings that apply to executions, suspensions and leases where neither a caller nor its namespace gives a value.

use crate::duration;
use clap::Args;
use selvedge::ServerDefaults;
use selvedge_core::policy::DEFAULT_IDEMPOTENCY_WINDOW_MS;
use selvedge_core::{Backoff, Retry};
use std::sync::Arc;
use std::time::Duration;

/// The defaults of executions.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Defaults of executions")]
pub struct DefaultArguments {
    /// Keep an execution for this time after its end, unless its submission or its namespace says otherwise
    #[arg(long, env = "SELVEDGE_RETENTION", value_name = "DURATION", default_value = "7d",
          value_parser = duration::between("1s", "3650d"))]
    retention: Duration,
    /// Retry a failed execution N times, unless its submission has a retry
    #[arg(long, env = "SELVEDGE_MAX_RETRIES", value_name = "N", default_value = "3")]
    max_retries: u32,
    /// Start an execution again after N interruptions without progress, such as workers that died, unless its submission has a retry
    #[arg(long, env = "SELVEDGE_MAX_INTERRUPTIONS", value_name = "N", default_value = "5")]
    max_interruptions: u32,
    /// Wait this long before the first retry, and twice as long before each further one, unless the submission has a retry
    #[arg(long, env = "SELVEDGE_BACKOFF_INITIAL", value_name = "DURATION", default_value = "1s",
          value_parser = duration::between("1ms", "365d"))]
    backoff_initial: Duration,
    /// Wait at most this long before a retry, unless the submission has a retry
    #[arg(long, env = "SELVEDGE_BACKOFF_MAX", value_name = "DURATION", default_value = "60s",
          value_parser = duration::between("1ms", "365d"))]
    backoff_max: Duration,
    /// Keep the idempotency key of a submission for this time, unless the submission says otherwise
    #[arg(long, env = "SELVEDGE_IDEMPOTENCY_WINDOW", value_name = "DURATION", default_value = "24h",
          value_parser = duration::between("1s", "3650d"))]
    idempotency_window: Duration,
    /// End a suspension after this time, unless the suspension or its namespace says otherwise [default: never]
    #[arg(long, env = "SELVEDGE_SUSPENSION_TIMEOUT", value_name = "DURATION",
          value_parser = duration::between("1s", "3650d"))]
    suspension_timeout: Option<Duration>,
    /// Give a lease this time to live, unless the claim says otherwise
    #[arg(long, env = "SELVEDGE_LEASE_TTL", value_name = "DURATION", default_value = "30s",
          value_parser = duration::between("500ms", "1h"))]
    lease_ttl: Duration,
}

impl DefaultArguments {
    /// Returns the defaults of the engine.
    pub fn defaults(&self) -> ServerDefaults {
        let built_in = Retry::default();
        let Backoff::Exponential { multiplier, jitter, .. } = built_in.backoff else {
            return ServerDefaults::default();
        };
        let retry = Retry {
            max_retries: self.max_retries,
            max_interruptions: self.max_interruptions,
            backoff: Backoff::Exponential {
                initial_ms: millis(self.backoff_initial),
                multiplier,
                max_ms: millis(self.backoff_max),
                jitter,
            },
            ..built_in.clone()
        };
        let window_ms = millis(self.idempotency_window);
        ServerDefaults {
            retention_ms: millis(self.retention),
            retry: (retry != built_in).then(|| Arc::new(retry)),
            idempotency_window_ms: (window_ms != DEFAULT_IDEMPOTENCY_WINDOW_MS).then_some(window_ms),
            suspension_timeout_ms: self.suspension_timeout.map(millis),
            lease_ttl_ms: millis(self.lease_ttl),
        }
    }
}

/// Returns a duration in milliseconds. The parsers bound it.
fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
