//! Defaults of a server: the values that apply where neither a caller nor its namespace gives one.
//!
//! They are not part of the content of a submission, so a repeated submission is the same after they were changed.

use selvedge_core::policy::DEFAULT_RETENTION_MS;
use selvedge_core::{Draft, Retry};
use std::sync::Arc;

/// The default time to live of a lease, in milliseconds.
pub const LEASE_TTL_MS: i64 = 30_000;

/// The defaults of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerDefaults {
    /// The retention of executions, in milliseconds. Default: 7 days.
    pub retention_ms: i64,
    /// The retry of executions. A submission that gives a `retry` takes nothing of it. Default: none, that of
    /// [`Retry::default`].
    pub retry: Option<Arc<Retry>>,
    /// The window of idempotency keys, in milliseconds. Default: none, 24 hours.
    pub idempotency_window_ms: Option<i64>,
    /// The timeout of suspensions, in milliseconds. Default: none, they wait for ever.
    pub suspension_timeout_ms: Option<i64>,
    /// The time to live of leases, in milliseconds. Default: 30 s.
    pub lease_ttl_ms: i64,
}

impl Default for ServerDefaults {
    fn default() -> Self {
        ServerDefaults {
            retention_ms: DEFAULT_RETENTION_MS,
            retry: None,
            idempotency_window_ms: None,
            suspension_timeout_ms: None,
            lease_ttl_ms: LEASE_TTL_MS,
        }
    }
}

impl ServerDefaults {
    /// Adds the defaults to a submission in a namespace with this retention.
    pub(crate) fn add_to(&self, draft: &mut Draft, namespace_retention_ms: Option<i64>) {
        if !draft.gives_retention {
            draft.namespace_retention_ms = Some(namespace_retention_ms.unwrap_or(self.retention_ms));
        }
        if !draft.gives_retry {
            draft.server_retry = self.retry.clone();
        }
        draft.server_window_ms = self.idempotency_window_ms;
    }
}
