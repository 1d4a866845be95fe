//! `selvedge serve`: serves the API of a store until a signal, then drains in bounded time.
//!
//! The store is opened before the port is bound, so that a second server on the same file gets the error that names the
//! first one. The only line on standard output is printed when the server is ready. On a signal the server accepts no
//! more connections, waiting requests are answered at once, and the engine finishes the work it has accepted. A second
//! signal exits at once.

use crate::admin_key;
use crate::failure::Failure;
use crate::flag;
#[cfg(feature = "otlp")]
use crate::otlp::Exporter;
use crate::secret::{self, ChosenSecret};
use crate::settings::Settings;
use crate::signals::Signals;
use clap::Args;
use selvedge::{Address, Engine, Options, Store};
use selvedge_core::{Name, NamespaceId};
use selvedge_server::{Chaos, Setting, check_listen};
use selvedge_store::is_retired;
use std::future::{Future, pending};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The part of the grace period that is left to the engine, however long requests took.
const LEAST_GRACE: Duration = Duration::from_secs(2);

/// The namespace that every store has.
const DEFAULT_NAMESPACE: &str = "default";

/// The longest time that the last spans take to be sent.
#[cfg(feature = "otlp")]
const LAST_SPANS: Duration = Duration::from_secs(2);

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
    /// Serve /metrics, /healthz and /readyz without keys on this address too, for example 127.0.0.1:9100 [default: only on
    /// the address of --listen]
    #[arg(long, env = "SELVEDGE_METRICS_LISTEN", value_name = "IP:PORT")]
    pub metrics_listen: Option<String>,
    /// Read the root secret of waitpoint tokens from this file; every server of a store needs the same secret. The
    /// variable SELVEDGE_SECRET can hold the secret itself [default: a secret in a file beside a SQLite store, or in a Postgres store]
    #[arg(long, env = secret::FILE_VARIABLE, value_name = "PATH")]
    pub secret_file: Option<PathBuf>,
    /// Send traces by OTLP to this collector, for example http://127.0.0.1:4318 or https://collector.example.org [default:
    /// $OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or $OTEL_EXPORTER_OTLP_ENDPOINT, else none are sent]
    #[cfg(feature = "otlp")]
    #[arg(long, env = "SELVEDGE_OTLP_ENDPOINT", hide_env_values = true, value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// Print the ready line as a JSON object
    #[arg(long, env = "SELVEDGE_JSON", value_parser = flag::parser("SELVEDGE_JSON"))]
    pub json: bool,
    /// Read settings from this TOML file, with the names of flags: a flag or a variable comes before the file
    #[arg(long, env = "SELVEDGE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print all settings with their sources as TOML, and exit
    #[arg(long)]
    pub print_config: bool,
    /// Uses a clock that moves only when it is advanced. A flag of `dev`.
    #[arg(skip)]
    pub manual_clock: bool,
    /// Disturbs calls on purpose. A flag of `dev`.
    #[arg(skip)]
    pub chaos: Chaos,
    /// The settings with their sources, for the page of settings.
    #[arg(skip)]
    pub configuration: Vec<Setting>,
    #[command(flatten)]
    pub settings: Settings,
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
    options: selvedge_server::Options,
    metrics_listener: Option<TcpListener>,
    #[cfg(feature = "otlp")]
    exporter: Option<Exporter>,
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
        let listen = parse_address(&arguments.listen, "listen")?;
        let metrics_listen = arguments.metrics_listen.as_deref();
        let metrics_listen = metrics_listen.map(|text| parse_address(text, "metrics-listen")).transpose()?;
        let settings = &arguments.settings;
        let admin_key = admin_key::choose(settings.admin_key_file()).await?;
        if admin_key.is_none() {
            check_listen(listen).map_err(|refused| Failure::Usage(refused.to_string()))?;
        }
        let mut options = settings.server()?;
        options.chaos = arguments.chaos;
        options.configuration = arguments.configuration.clone();
        let address: Address = arguments.store.parse().map_err(|error: selvedge::Error| {
            Failure::Usage(format!("--store or SELVEDGE_STORE: {error}"))
        })?;
        let ChosenSecret { secret, source } = secret::choose(arguments.secret_file.clone()).await?;
        #[cfg(feature = "otlp")]
        let exporter = Exporter::start(arguments.otlp_endpoint.as_deref())?;
        let opened = match arguments.manual_clock {
            true => address.open_with_manual_clock(),
            false => address.open_with(settings.postgres()).await,
        };
        let opened = opened.map_err(|error| Failure::of_store(&address, &error))?;
        let bound = bind(listen, "--listen").await;
        let bound = match (bound, metrics_listen) {
            (Ok(bound), Some(address)) => {
                bind(address, "--metrics-listen").await.map(|(_, metrics)| (bound, Some(metrics)))
            }
            (bound, _) => bound.map(|bound| (bound, None)),
        };
        let ((local, listener), metrics_listener) = match bound {
            Ok(bound) => bound,
            Err(failure) => {
                opened.store().close().await;
                return Err(failure);
            }
        };
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{local}");
        opened.served_at(&url);
        let mut engine_options = Options { secret, ..settings.engine() };
        #[cfg(feature = "otlp")]
        {
            engine_options.spans = exporter.as_ref().map(|exporter| exporter.sink.clone());
        }
        let started = start(opened.store(), engine_options, settings.reconciler_namespace(), &address).await;
        let (engine, keys_required) = match started {
            Ok(started) => started,
            Err(failure) => {
                opened.store().close().await;
                return Err(failure);
            }
        };
        options.auth = settings.auth(admin_key, keys_required);
        let inner = engine.clone().into_inner();
        match (source, inner.secret_place()) {
            (Some(source), _) => tracing::info!("{source}"),
            (None, Some(place)) => secret::log_place(place, options.auth.is_on()),
            (None, None) => {}
        }
        match (options.auth.is_on(), options.auth.admin_key.is_some()) {
            (true, true) => tracing::info!("requests need an API key"),
            (true, false) => tracing::warn!(
                "requests need an API key, because the store has keys; set SELVEDGE_ADMIN_KEY if no administrator has one"
            ),
            (false, _) => {
                tracing::info!("there are no API keys: every user of this machine is the administrator")
            }
        }
        Ok(Server {
            engine,
            url,
            address,
            listener,
            options,
            metrics_listener,
            #[cfg(feature = "otlp")]
            exporter,
        })
    }

    /// Returns the line that is printed when the server is ready.
    pub fn ready_line(&self, json: bool) -> String {
        let (version, url, store) = (env!("CARGO_PKG_VERSION"), &self.url, self.address.to_string());
        let metrics = self.metrics_listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let metrics = metrics.map(|address| format!("http://{address}/metrics"));
        match (json, metrics) {
            (true, None) => {
                serde_json::json!({"version": version, "address": url, "store": store}).to_string()
            }
            (true, Some(metrics)) => {
                serde_json::json!({"version": version, "address": url, "metrics": metrics, "store": store})
                    .to_string()
            }
            (false, None) => format!("selvedge {version} listening on {url} (store {store})"),
            (false, Some(metrics)) => {
                format!("selvedge {version} listening on {url} (store {store}, metrics at {metrics})")
            }
        }
    }

    /// Serves until a signal. Then stops accepting connections, runs `drain` and shuts the engine down.
    pub async fn serve(self, mut signals: Signals, drain: impl Future<Output = ()>) -> Result<(), Failure> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (engine, grace) = (self.engine.clone().into_inner(), self.options.grace);
        // Until the process ends: the metrics of a shutdown are worth reading.
        let metrics = self.metrics_listener.map(|listener| {
            let options = selvedge_server::Options { tls: None, ..self.options.clone() };
            tokio::spawn(selvedge_server::serve_metrics(options, engine.clone(), listener, pending()))
        });
        let serving = selvedge_server::serve_with(self.options, engine, self.listener, async {
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
        let left = grace.saturating_sub(stopping_since.elapsed()).max(LEAST_GRACE);
        self.engine.shutdown_within(left).await;
        metrics.iter().for_each(JoinHandle::abort);
        #[cfg(feature = "otlp")]
        if let Some(exporter) = self.exporter {
            exporter.finish(LAST_SPANS).await;
        }
        tracing::info!("stopped");
        match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failure::Failed(format!("the server failed: {error}; start it again"))),
            Err(error) => Err(Failure::Failed(format!("the server failed: {error}; please report this"))),
        }
    }
}

/// Starts the engine. Returns it, and true if the store has API keys.
async fn start(
    store: Arc<dyn Store>,
    mut options: Options,
    namespace: Option<&str>,
    address: &Address,
) -> Result<(Engine, bool), Failure> {
    if let Some(name) = namespace {
        options.scope.namespace = Some(find_namespace(&*store, name).await?);
    }
    let engine = Engine::start(store, options).await;
    let engine = engine.map_err(|error| Failure::of_store(address, &error))?;
    match engine.clone().into_inner().has_api_keys().await {
        Ok(has_keys) => Ok((engine, has_keys)),
        Err(error) => {
            engine.shutdown_within(LEAST_GRACE).await;
            Err(Failure::of_store(address, &error.into()))
        }
    }
}

/// Returns the namespace that the reconcilers of this server handle. A name that does not exist is refused, except the one
/// that every store has.
async fn find_namespace(store: &dyn Store, name: &str) -> Result<NamespaceId, Failure> {
    let unreadable = |error| Failure::Failed(format!("cannot read the namespaces of the store: {error}"));
    let known = store.namespaces().await.map_err(unreadable)?;
    if let Some((id, _)) = known.iter().find(|(_, known)| known.as_str() == name) {
        return Ok(*id);
    }
    match name {
        DEFAULT_NAMESPACE => store.namespace(&Name::trusted(name)).await.map_err(unreadable),
        _ => {
            let known = known.iter().map(|(_, name)| name.as_str());
            let names: Vec<&str> = known.filter(|name| !is_retired(name)).collect();
            Err(Failure::Usage(format!(
                "--reconciler-namespace or SELVEDGE_RECONCILER_NAMESPACE is {name:?}, which does not exist; there are: {}",
                names.join(", ")
            )))
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

/// Parses the address of a listener, the value of this flag.
fn parse_address(text: &str, flag: &str) -> Result<SocketAddr, Failure> {
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    text.parse().map_err(|_| {
        let variable = format!("SELVEDGE_{}", flag.replace('-', "_").to_uppercase());
        Failure::Usage(format!(
            "--{flag} or {variable} is {text:?}, which is not an address; write IP:PORT, for example 127.0.0.1:7878"
        ))
    })
}

/// Binds a listener. Returns its address, in which a chosen port is filled in.
async fn bind(listen: SocketAddr, flag: &str) -> Result<(SocketAddr, TcpListener), Failure> {
    let bound = TcpListener::bind(listen).await;
    let bound = bound.and_then(|listener| Ok((listener.local_addr()?, listener)));
    bound.map_err(|error| cannot_listen(listen, flag, &error))
}

fn cannot_listen(listen: SocketAddr, flag: &str, error: &std::io::Error) -> Failure {
    Failure::Failed(match error.kind() {
        ErrorKind::AddrInUse => format!(
            "cannot listen on {listen}: the port is in use, perhaps by another selvedge; stop that process, or choose a free \
             port with {flag} {}:0",
            listen.ip()
        ),
        _ => format!("cannot listen on {listen}: {error}; choose another address with {flag} IP:PORT"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listen_address_has_an_ip_address_and_a_port() {
        let usage_error = |text: &str| match parse_address(text, "listen") {
            Err(Failure::Usage(message)) => message,
            other => panic!("{text}: {other:?}"),
        };
        assert!(usage_error("7878").contains("IP:PORT"));
        let local = parse_address("localhost:80", "listen").expect("localhost is loopback");
        assert_eq!(local.to_string(), "127.0.0.1:80");
    }
}
