//! `selvedge serve`: the API on a store, until a signal; then a drain in bounded time.
//!
//! The store is opened before the port is taken, so that a second server on the same file learns who has it. The one
//! line on standard output comes when calls are answered. On a signal the server accepts nothing more, calls that wait
//! answer at once, and the engine ends what it has accepted; a second signal exits at once.

use crate::duration;
use crate::failure::Failure;
use crate::secret;
use crate::signals::Signals;
use clap::Args;
use clap::builder::FalseyValueParser;
use selvedge::{Address, Engine, Options};
use std::future::Future;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// How often waiting claims ask the store where nobody tells them of other servers' work.
const POLL: Duration = Duration::from_millis(500);

/// What to serve, and where.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// The store: sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE or memory:
    #[arg(
        long,
        env = "SELVEDGE_STORE",
        hide_env_values = true,
        value_name = "ADDRESS",
        default_value = "sqlite:selvedge.db"
    )]
    pub store: String,
    /// The address to listen on, loopback only; port 0 takes a free one
    #[arg(long, env = "SELVEDGE_LISTEN", value_name = "IP:PORT", default_value = "127.0.0.1:7878")]
    pub listen: String,
    /// How long the event log keeps what happened, such as 12h or 7d; whole periods leave it at a time
    #[arg(long, env = "SELVEDGE_LOG_WINDOW", value_name = "DURATION", default_value = "7d")]
    pub log_window: String,
    /// A file with the root secret of the tokens of waitpoints, the same for every server of a store; SELVEDGE_SECRET may
    /// hold the secret itself [default: one that the store keeps]
    #[arg(long, env = secret::FILE_VARIABLE, value_name = "PATH")]
    pub secret_file: Option<PathBuf>,
    /// Look for what other servers do instead of listening for it: where LISTEN is not to be had, as behind some poolers
    #[arg(long, env = "SELVEDGE_POLL", value_parser = FalseyValueParser::new())]
    pub poll: bool,
    /// Print the ready line as a JSON object
    #[arg(long, env = "SELVEDGE_JSON", value_parser = FalseyValueParser::new())]
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
    print(&server.ready(arguments.json))?;
    server.serve(signals, async {}).await
}

/// A server that is about to serve.
pub struct Server {
    /// Its engine.
    pub engine: Engine,
    /// Where it can be reached.
    pub url: String,
    address: Address,
    listener: TcpListener,
}

impl Server {
    /// Opens the store, takes the port and starts the engine; none if a signal came first.
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
        refuse_keys()?;
        let listen = parse_listen(&arguments.listen)?;
        let log_window = duration::parse(&arguments.log_window)
            .map_err(|wrong| Failure::Usage(format!("--log-window {:?}: {wrong}", arguments.log_window)))?;
        let address: Address =
            arguments.store.parse().map_err(|error: selvedge::Error| Failure::Usage(error.to_string()))?;
        let secret::Chosen { secret, source } = secret::choose(arguments.secret_file.clone()).await?;
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
            (options.notifications, options.poll) = (false, POLL);
        }
        let engine = Engine::start(opened.store(), options).await;
        let engine = engine.map_err(|error| Failure::of_store(&address, &error))?;
        tracing::info!("{source}");
        Ok(Server { engine, url, address, listener })
    }

    /// The line that says that it is ready.
    pub fn ready(&self, json: bool) -> String {
        let (version, url, store) = (env!("CARGO_PKG_VERSION"), &self.url, self.address.to_string());
        match json {
            true => serde_json::json!({"version": version, "address": url, "store": store}).to_string(),
            false => format!("selvedge {version} listening on {url} (store {store})"),
        }
    }

    /// Serves until a signal; then stops accepting, drains what runs beside the server, and shuts the engine down.
    pub async fn serve(self, mut signals: Signals, drain: impl Future<Output = ()>) -> Result<(), Failure> {
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = selvedge_server::serve(self.engine.clone().into_inner(), self.listener, async {
            // The sender lives until the signal.
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
        signals.exit_on_next();
        drop(stop);
        let ended = match ended {
            Some(ended) => {
                drain.await;
                ended
            }
            None => tokio::join!(serving, drain).0,
        };
        self.engine.shutdown().await;
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

/// Keys do not exist yet: whoever asks for them must not get a server that is open to everybody on this machine.
fn refuse_keys() -> Result<(), Failure> {
    match std::env::var_os("SELVEDGE_ADMIN_KEY") {
        None => Ok(()),
        Some(_) => Err(Failure::Usage(
            "SELVEDGE_ADMIN_KEY is set, but this version has no API keys yet; unset it to serve without, on loopback only"
                .into(),
        )),
    }
}

fn parse_listen(text: &str) -> Result<SocketAddr, Failure> {
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let listen: SocketAddr = text.parse().map_err(|_| {
        Failure::Usage(format!(
            "--listen {text:?} is not an address; write IP:PORT, for example 127.0.0.1:7878"
        ))
    })?;
    selvedge_server::check_listen(listen).map_err(|refused| Failure::Usage(refused.to_string()))?;
    Ok(listen)
}

fn cannot_listen(listen: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::Failed(match error.kind() {
        ErrorKind::AddrInUse => format!(
            "cannot listen on {listen}: the port is in use, perhaps by another selvedge; stop that one, or choose a free \
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
    fn an_address_to_listen_on_is_refused_unless_it_is_loopback() {
        let usage = |text: &str| match parse_listen(text) {
            Err(Failure::Usage(message)) => message,
            other => panic!("{text}: {other:?}"),
        };
        assert!(usage("0.0.0.0:7878").contains("loopback"));
        assert!(usage("7878").contains("IP:PORT"));
        let local = parse_listen("localhost:80").expect("is loopback");
        assert_eq!(local.to_string(), "127.0.0.1:80");
    }
}
