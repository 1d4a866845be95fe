//! `selvedge serve`: serves the API of a store until a signal, then drains in bounded time.
//!
//! The store is opened before the port is bound, so that a second server on the same file gets the error that names the
//! first one. The only line on standard output is printed when the server is ready. On a signal the server accepts no
//! more connections, waiting requests are answered at once, and the engine finishes the work it has accepted. A second
//! signal exits at once.

use crate::admin_key;
use crate::duration;
use crate::failure::Failure;
use crate::flag;
use crate::secret::{self, ChosenSecret};
use crate::signals::Signals;
use clap::Args;
use selvedge::{Address, Engine, Options};
use selvedge_server::{AddressBlock, AuthOptions, check_listen};
use std::future::Future;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The interval at which waiting claims poll the store if there are no notifications from other servers.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The time from the signal to the end of the process, if the store does not answer.
const GRACE: Duration = Duration::from_secs(10);
/// The part of it that is left to the engine, however long requests took.
const LEAST_GRACE: Duration = Duration::from_secs(2);

/// The arguments of `selvedge serve`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// Use this store: sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE or memory:
    #[arg(
        long,
        env = "SELVEDGE_STORE",
        hide_env_values = true,
        value_name = "ADDRESS",
        default_value = "sqlite:selvedge.db"
    )]
    pub store: String,
    /// Listen on this address; port 0 chooses a free port. Without SELVEDGE_ADMIN_KEY only loopback is allowed
    #[arg(long, env = "SELVEDGE_LISTEN", value_name = "IP:PORT", default_value = "127.0.0.1:7878")]
    pub listen: String,
    /// Keep events in the event log for at least this long, for example 12h or 7d; older events are deleted in whole
    /// periods
    #[arg(long, env = "SELVEDGE_LOG_WINDOW", value_name = "DURATION", default_value = "7d")]
    pub log_window: String,
    /// Read the root secret of waitpoint tokens from this file; every server of a store needs the same secret. The
    /// variable SELVEDGE_SECRET can hold the secret itself [default: a secret that the store keeps]
    #[arg(long, env = secret::FILE_VARIABLE, value_name = "PATH")]
    pub secret_file: Option<PathBuf>,
    /// Read the administrator's key from this file; it turns API keys on. The variable SELVEDGE_ADMIN_KEY can hold the key
    /// itself [default: no keys, loopback only]
    #[arg(long, env = admin_key::FILE_VARIABLE, value_name = "PATH")]
    pub admin_key_file: Option<PathBuf>,
    /// Believe the header X-Forwarded-For of proxies with these addresses, for example 10.0.0.0/8,192.0.2.7; it decides
    /// whose failed attempts are counted together
    #[arg(long, env = "SELVEDGE_TRUSTED_PROXIES", value_name = "BLOCKS", value_delimiter = ',')]
    pub trusted_proxies: Vec<AddressBlock>,
    /// Poll the store for the work of other servers instead of using LISTEN, which some connection poolers do not
    /// support
    #[arg(long, env = "SELVEDGE_POLL", value_parser = flag::parser("SELVEDGE_POLL"))]
    pub poll: bool,
    /// Print the ready line as a JSON object
    #[arg(long, env = "SELVEDGE_JSON", value_parser = flag::parser("SELVEDGE_JSON"))]
    pub json: bool,
}

const EXAMPLES: &str = "\
Examples:
  selvedge serve
  selvedge serve --store sqlite:/var/lib/selvedge/work.db --listen 127.0.0.1:9000
  SELVEDGE_STORE=postgres://ada:secret@db/selvedge selvedge serve --json";

/// Serves until a signal.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let Some(server) = Server::open_unless_stopped(&arguments, &mut signals).await? else {
        return Ok(());
    };
    print(&server.ready_line(arguments.json))?;
    server.serve(signals, async {}).await
}

/// A server with its store open and its port bound.
pub struct Server {
    /// The engine of the store.
    pub engine: Engine,
    /// The URL of the API.
    pub url: String,
    address: Address,
    listener: TcpListener,
    auth: AuthOptions,
}

impl Server {
    /// Opens the store, binds the port and starts the engine. Returns none if a signal comes first.
    pub async fn open_unless_stopped(
        arguments: &Arguments,
        signals: &mut Signals,
    ) -> Result<Option<Server>, Failure> {
        tokio::select! {
            opened = Server::open(arguments) => opened.map(Some),
            _ = signals.next() => Ok(None),
        }
    }

    async fn open(arguments: &Arguments) -> Result<Server, Failure> {
        let admin_key = admin_key::choose(arguments.admin_key_file.clone()).await?;
        let listen = parse_listen(&arguments.listen)?;
        if admin_key.is_none() {
            check_listen(listen).map_err(|refused| Failure::Usage(refused.to_string()))?;
        }
        let log_window = duration::parse(&arguments.log_window).map_err(|error| {
            let window = &arguments.log_window;
            Failure::Usage(format!("--log-window or SELVEDGE_LOG_WINDOW is {window:?}: {error}"))
        })?;
        let address: Address = arguments.store.parse().map_err(|error: selvedge::Error| {
            Failure::Usage(format!("--store or SELVEDGE_STORE: {error}"))
        })?;
        let ChosenSecret { secret, source } = secret::choose(arguments.secret_file.clone()).await?;
        let opened = address.open().await;
        let opened = opened.map_err(|error| Failure::of_store(&address, &error))?;
        let bound = TcpListener::bind(listen).await;
        let bound = bound.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (local, listener) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                opened.store().close().await;
                return Err(cannot_listen(listen, &error));
            }
        };
        let url = format!("http://{local}");
        opened.served_at(&url);
        let mut options = Options { log_window, secret, ..Options::default() };
        if arguments.poll {
            (options.notifications, options.poll) = (false, POLL_INTERVAL);
        }
        let engine = Engine::start(opened.store(), options).await;
        let engine = engine.map_err(|error| Failure::of_store(&address, &error))?;
        tracing::info!("{source}");
        let has_keys = engine.clone().into_inner().has_api_keys().await;
        let keys_required = has_keys.map_err(|error| Failure::of_store(&address, &error))?;
        let auth =
            AuthOptions { admin_key, keys_required, trusted_proxies: arguments.trusted_proxies.clone() };
        match (auth.is_on(), auth.admin_key.is_some()) {
            (true, true) => tracing::info!("requests need an API key"),
            (true, false) => tracing::warn!(
                "requests need an API key, because the store has keys; set SELVEDGE_ADMIN_KEY if no administrator has one"
            ),
            (false, _) => {
                tracing::info!("there are no API keys: every user of this machine is the administrator")
            }
        }
        Ok(Server { engine, url, address, listener, auth })
    }

    /// Returns the line that is printed when the server is ready.
    pub fn ready_line(&self, json: bool) -> String {
        let (version, url, store) = (env!("CARGO_PKG_VERSION"), &self.url, self.address.to_string());
        match json {
            true => serde_json::json!({"version": version, "address": url, "store": store}).to_string(),
            false => format!("selvedge {version} listening on {url} (store {store})"),
        }
    }

    /// Serves until a signal. Then stops accepting connections, runs `drain` and shuts the engine down.
    pub async fn serve(self, mut signals: Signals, drain: impl Future<Output = ()>) -> Result<(), Failure> {
        let (stop, stopped) = oneshot::channel::<()>();
        let options = selvedge_server::Options { auth: self.auth, ..selvedge_server::Options::default() };
        let engine = self.engine.clone().into_inner();
        let serving = selvedge_server::serve_with(options, engine, self.listener, async {
            // Completes when `stop` is dropped, after the signal.
            let _ = stopped.await;
        });
        let mut serving = tokio::spawn(serving);
        let ended = tokio::select! {
            ended = &mut serving => Some(ended),
            signal = signals.next() => {
                tracing::info!("{signal}: draining");
                None
            }
        };
        let stopping_since = Instant::now();
        signals.exit_on_next();
        drop(stop);
        let ended = match ended {
            Some(ended) => {
                drain.await;
                ended
            }
            None => tokio::join!(serving, drain).0,
        };
        // Requests in progress may have used the grace period up, if the store does not answer.
        let left = GRACE.saturating_sub(stopping_since.elapsed()).max(LEAST_GRACE);
        self.engine.shutdown_within(left).await;
        tracing::info!("stopped");
        match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failure::Failed(format!("the server failed: {error}; start it again"))),
            Err(error) => Err(Failure::Failed(format!("the server failed: {error}; please report this"))),
        }
    }
}

/// Prints a line of output.
pub fn print(line: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| Failure::Failed(format!("cannot write to standard output: {error}")))
}

fn parse_listen(text: &str) -> Result<SocketAddr, Failure> {
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let listen: SocketAddr = text.parse().map_err(|_| {
        Failure::Usage(format!(
            "--listen or SELVEDGE_LISTEN is {text:?}, which is not an address; write IP:PORT, for example 127.0.0.1:7878"
        ))
    })?;
    Ok(listen)
}

fn cannot_listen(listen: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::Failed(match error.kind() {
        ErrorKind::AddrInUse => format!(
            "cannot listen on {listen}: the port is in use, perhaps by another selvedge; stop that process, or choose a free \
             port with --listen {}:0",
            listen.ip()
        ),
        _ => format!("cannot listen on {listen}: {error}; choose another address with --listen IP:PORT"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listen_address_has_an_ip_address_and_a_port() {
        let usage_error = |text: &str| match parse_listen(text) {
            Err(Failure::Usage(message)) => message,
            other => panic!("{text}: {other:?}"),
        };
        assert!(usage_error("7878").contains("IP:PORT"));
        let local = parse_listen("localhost:80").expect("localhost is loopback");
        assert_eq!(local.to_string(), "127.0.0.1:80");
    }
}
