//! The sender of webhooks: delivers events to the URLs that operators configured.
//!
//! Every server runs one *supervisor* (`supervisor`), which takes the leases of webhooks that no other server works on, and
//! one *worker* (`worker`) for each webhook that it owns. A worker subscribes to the log behind the cursor of its webhook,
//! delivers a batch of events concurrently but those of one execution in order (`batch`), and records the outcome in one
//! transaction, which also advances the cursor. `client` sends one request, to exactly the address that `address` allowed.
//! `test_message` sends one at once.
//!
//! A crash at any point repeats the deliveries of the current batch, with the same ids. A worker starts no request that could
//! outlast its lease, so two servers do not deliver for one webhook at the same time.

mod address;
mod batch;
mod client;
mod metrics;
mod pending;
mod supervisor;
mod test_message;
mod worker;

pub use address::check_url;
pub use client::{Resolve, Resolved};
pub use metrics::WebhookMetrics;
pub use supervisor::run;
pub use test_message::{TestResult, send_test};

use client::SystemResolver;
use rustls::RootCertStore;
use selvedge_core::rules::webhook::RetryPolicy;
use std::sync::Arc;
use std::time::Duration;

/// The shortest lease of a webhook.
const LEASE_MIN: Duration = Duration::from_secs(2);

/// Options of the sender of webhooks.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// Allows URLs with `http:`, and addresses that are not public. Default: false.
    pub allow_private: bool,
    /// The longest time of a delivery, from the lookup of the name to the response. Default: 15 s.
    pub timeout: Duration,
    /// The most concurrent deliveries of a webhook. Default: 16.
    pub concurrency: usize,
    /// When failed deliveries are tried again, and when to give up. Default: after 5 s, then twice as long each time up to an
    /// hour, for 3 days; a webhook without a success for 5 days is paused.
    pub retry: RetryPolicy,
    /// Looks names up. Default: the resolver of the system.
    pub resolver: Arc<dyn Resolve>,
    /// The certificates that sign those of receivers. Default: those of the system.
    pub roots: Option<Arc<RootCertStore>>,
    /// The counters. Listeners that are given clones of one publish the same. Default: counters of their own.
    pub metrics: WebhookMetrics,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        let (hour, day) = (3_600_000, 24 * 3_600_000);
        WebhookOptions {
            allow_private: false,
            timeout: Duration::from_secs(15),
            concurrency: 16,
            retry: RetryPolicy { first_ms: 5000, max_ms: hour, give_up_ms: 3 * day, pause_ms: 5 * day },
            resolver: Arc::new(SystemResolver),
            roots: None,
            metrics: WebhookMetrics::default(),
        }
    }
}

impl WebhookOptions {
    /// Returns the time for which a webhook is leased: twice that of a delivery.
    fn lease(&self) -> Duration {
        (self.timeout * 2).max(LEASE_MIN)
    }
}
