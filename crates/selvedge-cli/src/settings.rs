//! The settings of a server besides the store and the address: each is declared once, as a flag with its environment
//! variable and its default. The settings file and `--print-config` (`config`) take their names from here.

use crate::admin_key;
use crate::defaults::DefaultArguments;
use crate::duration;
use crate::failure::Failure;
use crate::size;
use clap::Args;
use selvedge::{Intervals, Options, PostgresSettings};
use selvedge_server::{
    AddressBlock, AdminKey, AuthOptions, Chaos, ConnectionLimits, Draining, HttpMetrics, RetryPolicy, Tls,
    TlsFiles, WebhookOptions,
};
use std::path::PathBuf;
use std::time::Duration;

/// The interval at which waiting claims poll the store if there are no notifications from other servers.
const POLL_WITHOUT_NOTIFICATIONS: Duration = Duration::from_millis(500);

/// The largest limit of a head: the size of the buffer in which the HTTP library parses it.
const HEAD_BYTES_MAX: u64 = 400 << 10;

/// The keys of callers.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Keys")]
pub struct KeyArguments {
    /// Read the administrator's key from this file; it turns API keys on. The variable SELVEDGE_ADMIN_KEY can hold the key
    /// itself [default: no keys, loopback only]
    #[arg(long, env = admin_key::FILE_VARIABLE, value_name = "PATH")]
    admin_key_file: Option<PathBuf>,
    /// Believe the header X-Forwarded-For of proxies with these addresses, for example 10.0.0.0/8,192.0.2.7; it decides
    /// whose failed attempts are counted together
    #[arg(long, env = "SELVEDGE_TRUSTED_PROXIES", value_name = "BLOCKS", value_delimiter = ',')]
    trusted_proxies: Vec<AddressBlock>,
    /// Allow each key N requests in a second [default: no limit]
    #[arg(long, env = "SELVEDGE_KEY_REQUESTS", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    key_requests: Option<u32>,
    /// Create a namespace when a request with a key of every namespace, or a submission from SQL, names it; otherwise only
    /// administrators create namespaces
    #[arg(long, env = "SELVEDGE_CREATE_NAMESPACES",
          value_parser = crate::flag::parser("SELVEDGE_CREATE_NAMESPACES"))]
    create_namespaces: bool,
}

/// TLS of the server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "TLS")]
pub struct TlsArguments {
    /// Serve over TLS with the certificate in this PEM file, followed by its intermediate certificates
    #[arg(long, env = "SELVEDGE_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Use the private key in this PEM file
    #[arg(long, env = "SELVEDGE_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Check the two files for changes at this interval
    #[arg(long, env = "SELVEDGE_TLS_RELOAD", value_name = "DURATION", default_value = "10s",
          value_parser = duration::between("100ms", "1d"))]
    tls_reload: Duration,
}

impl TlsArguments {
    /// Loads the certificate, if there is one.
    fn load(&self) -> Result<Option<Tls>, Failure> {
        match (&self.tls_cert, &self.tls_key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => {
                let files = TlsFiles { certificate: certificate.clone(), key: key.clone() };
                Tls::load(files).map(Some).map_err(|error| Failure::Failed(error.to_string()))
            }
            (Some(_), None) => {
                Err(Failure::Usage("--tls-cert needs --tls-key, the file with the private key".into()))
            }
            (None, Some(_)) => {
                Err(Failure::Usage("--tls-key needs --tls-cert, the file with the certificate".into()))
            }
        }
    }
}

/// The limits of clients.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits of clients")]
pub struct LimitArguments {
    /// Accept at most N open connections
    #[arg(long, env = "SELVEDGE_MAX_CONNECTIONS", value_name = "N", default_value = "10000",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,
    /// Allow N concurrent requests on an HTTP/2 connection
    #[arg(long, env = "SELVEDGE_MAX_STREAMS", value_name = "N", default_value = "200",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_streams: u32,
    /// Allow this time for a TLS handshake
    #[arg(long, env = "SELVEDGE_HANDSHAKE_TIME", value_name = "DURATION", default_value = "10s",
          value_parser = duration::between("100ms", "1h"))]
    handshake_time: Duration,
    /// Allow this time for the head of a request, counted from the end of the one before
    #[arg(long, env = "SELVEDGE_HEAD_TIME", value_name = "DURATION", default_value = "60s",
          value_parser = duration::between("100ms", "1d"))]
    head_time: Duration,
    /// Allow a head of a request of this size, at most 400KiB
    #[arg(long, env = "SELVEDGE_HEAD_BYTES", value_name = "SIZE", default_value = "64KiB",
          value_parser = size::between(8192, HEAD_BYTES_MAX))]
    head_bytes: u64,
    /// Allow this time between two parts of a body
    #[arg(long, env = "SELVEDGE_BODY_PART_TIME", value_name = "DURATION", default_value = "10s",
          value_parser = duration::between("100ms", "1h"))]
    body_part_time: Duration,
    /// Allow this time for a whole body
    #[arg(long, env = "SELVEDGE_BODY_TIME", value_name = "DURATION", default_value = "60s",
          value_parser = duration::between("100ms", "1d"))]
    body_time: Duration,
    /// Hold at most this size of all bodies that are being read or handled
    #[arg(long, env = "SELVEDGE_BODY_BYTES", value_name = "SIZE", default_value = "256MiB",
          value_parser = size::between(1 << 20, 1 << 40))]
    body_bytes: u64,
    /// Hold at most this size of all responses that are being sent, and a quarter of it for one connection
    #[arg(long, env = "SELVEDGE_RESPONSE_BYTES", value_name = "SIZE", default_value = "256MiB",
          value_parser = size::between(1 << 20, 1 << 40))]
    response_bytes: u64,
    /// End a response of which the client takes nothing for this time
    #[arg(long, env = "SELVEDGE_SEND_TIME", value_name = "DURATION", default_value = "60s",
          value_parser = duration::between("100ms", "1d"))]
    send_time: Duration,
    /// Send a comment on a silent event stream at this interval
    #[arg(long, env = "SELVEDGE_KEEP_ALIVE", value_name = "DURATION", default_value = "15s",
          value_parser = duration::between("100ms", "1h"))]
    keep_alive: Duration,
    /// Wait this long for requests in progress and accepted work after a signal
    #[arg(long, env = "SELVEDGE_GRACE", value_name = "DURATION", default_value = "10s",
          value_parser = duration::between("1s", "1h"))]
    grace: Duration,
}

/// The event log and the background work.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Event log and background work")]
pub struct BackgroundArguments {
    /// Keep events in the event log for at least this long, for example 12h or 7d; older events are deleted in whole
    /// periods
    #[arg(long, env = "SELVEDGE_LOG_WINDOW", value_name = "DURATION", default_value = "7d",
          value_parser = duration::parse)]
    log_window: Duration,
    /// Fill the SQL views v1_events and v1_attempts; servers of one store share the work
    #[arg(long, env = "SELVEDGE_EVENT_VIEWS", value_parser = crate::flag::parser("SELVEDGE_EVENT_VIEWS"))]
    event_views: bool,
    /// Poll the store for the work of other servers instead of using LISTEN
    #[arg(long, env = "SELVEDGE_POLL", value_parser = crate::flag::parser("SELVEDGE_POLL"))]
    poll: bool,
    /// Let waiting claims ask the store again at this interval [default: 5s, with --poll 500ms]
    #[arg(long, env = "SELVEDGE_POLL_INTERVAL", value_name = "DURATION",
          value_parser = duration::between("10ms", "1h"))]
    poll_interval: Option<Duration>,
    /// Abort a tick of a reconciler after this time
    #[arg(long, env = "SELVEDGE_TICK_TIMEOUT", value_name = "DURATION", default_value = "30s",
          value_parser = duration::between("1s", "1d"))]
    tick_timeout: Duration,
    /// Run a reconciler at another interval, for example lease_expiry=500ms; several are separated by commas
    #[arg(long, env = "SELVEDGE_RECONCILER_INTERVAL", value_name = "NAME=DURATION", value_delimiter = ',',
          value_parser = interval)]
    reconciler_interval: Vec<(String, Duration)>,
    /// Let the reconcilers of this server handle only this namespace
    #[arg(long, env = "SELVEDGE_RECONCILER_NAMESPACE", value_name = "NAME")]
    reconciler_namespace: Option<String>,
    /// Let the reconcilers of this server handle only executions with this tag
    #[arg(long, env = "SELVEDGE_RECONCILER_TAG", value_name = "NAME=VALUE", value_parser = tag)]
    reconciler_tag: Option<(String, String)>,
}

/// Parses a reconciler and its interval.
fn interval(text: &str) -> Result<(String, Duration), String> {
    let (name, interval) =
        text.split_once('=').ok_or("write NAME=DURATION, for example lease_expiry=500ms")?;
    let interval = duration::between("1ms", "1d")(interval)?;
    Intervals::default().set(name, interval).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), interval))
}

/// Parses the name and the value of a tag.
fn tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, for example region=eu".into()),
    }
}

impl BackgroundArguments {
    /// Returns the options of the engine.
    fn options(&self, grace: Duration) -> Options {
        let defaults = Options::default();
        let poll = if self.poll { POLL_WITHOUT_NOTIFICATIONS } else { defaults.poll };
        let mut intervals = Intervals::default();
        for (name, interval) in &self.reconciler_interval {
            // The names were checked when they were parsed.
            let _ = intervals.set(name, *interval);
        }
        let mut options = Options {
            notifications: !self.poll,
            poll: self.poll_interval.unwrap_or(poll),
            log_window: self.log_window,
            event_views: self.event_views,
            tick_timeout: self.tick_timeout,
            grace,
            intervals,
            ..defaults
        };
        options.scope.tag = self.reconciler_tag.clone();
        options
    }
}

/// The delivery of webhooks.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Webhooks")]
pub struct WebhookArguments {
    /// Allow webhooks with http: URLs and with private, loopback, link-local and other addresses that are not public
    #[arg(long, env = "SELVEDGE_WEBHOOK_ALLOW_PRIVATE",
          value_parser = crate::flag::parser("SELVEDGE_WEBHOOK_ALLOW_PRIVATE"))]
    webhook_allow_private: bool,
    /// Wait this long for the response to a delivery. Another server takes over the webhooks of a dead one after twice as long
    #[arg(long, env = "SELVEDGE_WEBHOOK_TIMEOUT", value_name = "DURATION", default_value = "15s",
          value_parser = duration::between("100ms", "5m"))]
    webhook_timeout: Duration,
    /// Deliver at most N events of a webhook at the same time
    #[arg(long, env = "SELVEDGE_WEBHOOK_CONCURRENCY", value_name = "N", default_value = "16",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    webhook_concurrency: u32,
    /// Try a failed delivery again for this long
    #[arg(long, env = "SELVEDGE_WEBHOOK_RETRY_FOR", value_name = "DURATION", default_value = "3d",
          value_parser = duration::between("1s", "30d"))]
    webhook_retry_for: Duration,
    /// Pause a webhook whose deliveries have all failed for this long
    #[arg(long, env = "SELVEDGE_WEBHOOK_PAUSE_AFTER", value_name = "DURATION", default_value = "5d",
          value_parser = duration::between("1s", "30d"))]
    webhook_pause_after: Duration,
}

impl WebhookArguments {
    /// Returns the options of the sender.
    fn options(&self) -> WebhookOptions {
        let defaults = WebhookOptions::default();
        let retry = RetryPolicy {
            give_up_ms: self.webhook_retry_for.as_millis() as i64,
            pause_ms: self.webhook_pause_after.as_millis() as i64,
            ..defaults.retry
        };
        WebhookOptions {
            allow_private: self.webhook_allow_private,
            timeout: self.webhook_timeout,
            concurrency: self.webhook_concurrency as usize,
            retry,
            ..defaults
        }
    }
}

/// The connections to a Postgres store.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connections to Postgres")]
pub struct PostgresArguments {
    /// Keep the tables in this schema
    #[arg(long, env = "SELVEDGE_POSTGRES_SCHEMA", value_name = "NAME", default_value = "selvedge",
          value_parser = schema)]
    postgres_schema: String,
    /// Use N connections for transactions
    #[arg(long, env = "SELVEDGE_POSTGRES_WRITERS", value_name = "N", default_value = "4",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    postgres_writers: u16,
    /// Use N connections for reads
    #[arg(long, env = "SELVEDGE_POSTGRES_READERS", value_name = "N", default_value = "4",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    postgres_readers: u16,
    /// Use N connections for the server's own background work
    #[arg(long, env = "SELVEDGE_POSTGRES_BACKGROUND", value_name = "N", default_value = "2",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    postgres_background: u16,
    /// Wait this long for a connection, including the time to open it
    #[arg(long, env = "SELVEDGE_POSTGRES_CONNECT_TIMEOUT", value_name = "DURATION", default_value = "5s",
          value_parser = duration::between("100ms", "1h"))]
    postgres_connect_timeout: Duration,
    /// Let a statement wait this long for a lock
    #[arg(long, env = "SELVEDGE_POSTGRES_LOCK_TIMEOUT", value_name = "DURATION", default_value = "1s",
          value_parser = duration::between("10ms", "1h"))]
    postgres_lock_timeout: Duration,
    /// Cancel a statement after this time
    #[arg(long, env = "SELVEDGE_POSTGRES_STATEMENT_TIMEOUT", value_name = "DURATION", default_value = "10s",
          value_parser = duration::between("100ms", "1h"))]
    postgres_statement_timeout: Duration,
    /// Give a connection up after this time without an answer
    #[arg(long, env = "SELVEDGE_POSTGRES_ANSWER_TIMEOUT", value_name = "DURATION", default_value = "15s",
          value_parser = duration::between("100ms", "1h"))]
    postgres_answer_timeout: Duration,
    /// Check the connection that listens for notifications at this interval
    #[arg(long, env = "SELVEDGE_POSTGRES_LISTEN_CHECK", value_name = "DURATION", default_value = "10s",
          value_parser = duration::between("100ms", "1h"))]
    postgres_listen_check: Duration,
}

/// Parses the name of a schema. Postgres would shorten a longer one silently.
fn schema(text: &str) -> Result<String, String> {
    match text.len() {
        1..=50 => Ok(text.to_owned()),
        _ => Err("must have between 1 and 50 bytes".into()),
    }
}

impl PostgresArguments {
    /// Returns the settings of the store.
    pub fn settings(&self) -> PostgresSettings {
        PostgresSettings {
            schema: self.postgres_schema.clone(),
            writers: self.postgres_writers.into(),
            readers: self.postgres_readers.into(),
            background: self.postgres_background.into(),
            lock_timeout: self.postgres_lock_timeout,
            statement_timeout: self.postgres_statement_timeout,
            answer_timeout: self.postgres_answer_timeout,
            connect_timeout: self.postgres_connect_timeout,
            listen_check: self.postgres_listen_check,
        }
    }
}

/// All settings of this file.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    #[command(flatten)]
    keys: KeyArguments,
    #[command(flatten)]
    tls: TlsArguments,
    #[command(flatten)]
    limits: LimitArguments,
    #[command(flatten)]
    background: BackgroundArguments,
    #[command(flatten)]
    defaults: DefaultArguments,
    #[command(flatten)]
    webhooks: WebhookArguments,
    #[command(flatten)]
    postgres: PostgresArguments,
}

impl Settings {
    /// Returns the path of the file with the administrator's key.
    pub fn admin_key_file(&self) -> Option<PathBuf> {
        self.keys.admin_key_file.clone()
    }

    /// Returns the options of authentication.
    pub fn auth(&self, admin_key: Option<AdminKey>, keys_required: bool) -> AuthOptions {
        AuthOptions {
            admin_key,
            keys_required,
            trusted_proxies: self.keys.trusted_proxies.clone(),
            requests_per_second: self.keys.key_requests,
        }
    }

    /// The namespace that the reconcilers of this server handle. Default: all.
    pub fn reconciler_namespace(&self) -> Option<&str> {
        self.background.reconciler_namespace.as_deref()
    }

    /// Returns the options of the engine, without the secret and the namespace of the reconcilers.
    pub fn engine(&self) -> Options {
        Options {
            defaults: self.defaults.defaults(),
            create_namespaces: self.keys.create_namespaces,
            ..self.background.options(self.limits.grace)
        }
    }

    /// Returns the settings of a Postgres store.
    pub fn postgres(&self) -> PostgresSettings {
        self.postgres.settings()
    }

    /// Returns the options of the server, without authentication. Reads the certificate.
    pub fn server(&self) -> Result<selvedge_server::Options, Failure> {
        let limits = &self.limits;
        Ok(selvedge_server::Options {
            grace: limits.grace,
            keep_alive: limits.keep_alive,
            connections: ConnectionLimits {
                connections: limits.max_connections as usize,
                head_time: limits.head_time,
                handshake_time: limits.handshake_time,
                head_bytes: limits.head_bytes as u32,
                streams: limits.max_streams,
                send_time: limits.send_time,
            },
            body_bytes: limits.body_bytes as usize,
            response_bytes: limits.response_bytes as usize,
            body_time: limits.body_time,
            body_part_time: limits.body_part_time,
            tls: self.tls.load()?,
            tls_reload: self.tls.tls_reload,
            auth: AuthOptions::default(),
            metrics: HttpMetrics::default(),
            draining: Draining::default(),
            webhooks: self.webhooks.options(),
            chaos: Chaos::default(),
            configuration: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use selvedge_core::Backoff;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        settings: Settings,
    }

    #[test]
    fn the_defaults_are_those_of_the_libraries() {
        let settings = Command::parse_from(["serve"]).settings;
        assert_eq!(format!("{:?}", settings.engine()), format!("{:?}", Options::default()));
        assert_eq!(format!("{:?}", settings.postgres()), format!("{:?}", PostgresSettings::default()));
        let server = settings.server().expect("there are no files to read");
        assert_eq!(format!("{server:?}"), format!("{:?}", selvedge_server::Options::default()));
    }

    #[test]
    fn the_head_of_a_request_fits_into_the_buffer_of_the_library() {
        assert!(Command::try_parse_from(["serve", "--head-bytes", "400KiB"]).is_ok());
        let refused = Command::try_parse_from(["serve", "--head-bytes", "401KiB"]).err();
        let refused = refused.map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("between 8KiB and 400KiB"), "{refused}");
    }

    #[test]
    fn defaults_of_executions_are_settings() {
        let arguments = "serve --retention 1d --max-retries 5 --backoff-max 10s --idempotency-window 1h \
                         --suspension-timeout 2d --lease-ttl 5s";
        let defaults = Command::parse_from(arguments.split_whitespace()).settings.engine().defaults;
        let retry = defaults.retry.expect("the retry is another one");
        assert_eq!((retry.max_retries, retry.max_interruptions), (5, 5));
        assert!(matches!(retry.backoff, Backoff::Exponential { initial_ms: 1000, max_ms: 10_000, .. }));
        let hour = 3_600_000;
        assert_eq!((defaults.retention_ms, defaults.idempotency_window_ms), (24 * hour, Some(hour)));
        assert_eq!((defaults.suspension_timeout_ms, defaults.lease_ttl_ms), (Some(48 * hour), 5000));
    }

    #[test]
    fn a_certificate_needs_its_key() {
        for one in ["--tls-cert", "--tls-key"] {
            let settings = Command::parse_from(["serve", one, "file"]).settings;
            assert!(matches!(settings.server(), Err(Failure::Usage(text)) if text.contains(one)));
        }
    }

    #[test]
    fn an_unknown_reconciler_is_refused_with_the_known_ones() {
        assert_eq!(interval("lease_expiry=500ms"), Ok(("lease_expiry".into(), Duration::from_millis(500))));
        assert!(interval("leases=1s").is_err_and(|error| error.contains("lease_expiry")));
    }
}
