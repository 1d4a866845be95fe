//! The database that an address names, and the one way to open a connection to it.
//!
//! The driver knows `sslmode=disable`, `prefer` and `require`. The other modes and `sslrootcert` are read here, with the
//! meaning that they have for `psql`:
//!
//! | `sslmode` | encrypted | the certificate |
//! | --- | --- | --- |
//! | `disable` | never | |
//! | `prefer`, the default | if the server can | is not checked |
//! | `require` | always | is checked as by `verify-ca` if there is an `sslrootcert`, else not |
//! | `verify-ca` | always | has a trusted root |
//! | `verify-full` | always | has a trusted root and names the host |
//!
//! With `sslrootcert=system` the default is `verify-full`, and every other mode is refused: anyone can get a certificate that
//! has one of these roots, so a root without the name proves nothing.

use super::Settings;
use super::certificates::{Check, Roots, SYSTEM};
use super::failure::{StatementError, failure};
use super::tls::{HandshakeError, Tls, TlsStream};
use deadpool_postgres::Connect;
use percent_encoding::percent_decode_str;
use selvedge_store::Error;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Socket};

/// The longest that opening a TCP connection to the server may take.
const TCP_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time without packets after which TCP asks the other end whether it is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// The time between two such questions, and how many may stay unanswered.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_RETRIES: u32 = 3;
/// The time after which TCP gives up a connection whose packets are not acknowledged.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(15);

/// The environment variable with the file of root certificates, unless the address names one.
const ROOTS_VARIABLE: &str = "PGSSLROOTCERT";

/// The half of a connection that exchanges messages with the server while it is polled.
pub type Exchange = tokio_postgres::Connection<Socket, TlsStream>;

/// A database, and the rules for connections to it.
#[derive(Clone)]
pub struct Endpoint {
    config: Config,
    tls: Tls,
    checks_certificate: bool,
}

impl Endpoint {
    /// Parses a URL, and reads the root certificates that it names.
    pub fn parse(url: &str) -> Result<Endpoint, Error> {
        let invalid = |cause: String| {
            Error::BadAddress(format!(
                "invalid Postgres address ({cause}); write postgres://USER:PASSWORD@HOST:PORT/DATABASE"
            ))
        };
        // The driver would also take `host=… sslmode=…`, whose parameters of TLS are not read here.
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(invalid("it is not a URL".into()));
        }
        let (url, parameters) = take_tls_parameters(url);
        let mut config: Config =
            url.parse().map_err(|error: tokio_postgres::Error| invalid(error.to_string()))?;
        if config.get_application_name().is_none() {
            config.application_name("selvedge");
        }
        if config.get_hosts().is_empty() {
            // A TLS handshake needs the name or the address of the host.
            for address in config.get_hostaddrs().to_vec() {
                config.host(address.to_string());
            }
        }
        config
            .connect_timeout(TCP_CONNECT_TIMEOUT)
            .keepalives(true)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_RETRIES)
            .tcp_user_timeout(TCP_USER_TIMEOUT);
        let (mode, check) = parameters.read()?;
        config.ssl_mode(mode);
        let checks_certificate = !matches!(check, Check::Nothing);
        let tls = Tls::new(check).map_err(|error| Error::Failed(format!("TLS cannot be used: {error}")))?;
        Ok(Endpoint { config, tls, checks_certificate })
    }

    /// Returns the endpoint with another name of this program, by which administrators recognise the connection.
    pub fn named(&self, application: &str) -> Endpoint {
        let mut named = self.clone();
        named.config.application_name(application);
        named
    }

    /// Returns the endpoint with a setting that the server receives when a connection is opened.
    pub fn with_option(&self, name: &str, value: &str) -> Endpoint {
        let mut endpoint = self.clone();
        let options = endpoint.config.get_options().map_or_else(String::new, |options| format!("{options} "));
        endpoint.config.options(format!("{options}-c {name}={value}"));
        endpoint
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Reports whether the certificate of the server must have a trusted root.
    pub fn checks_certificate(&self) -> bool {
        self.checks_certificate
    }

    /// Returns the TLS of further connections, such as the one that cancels a statement.
    pub fn tls(&self) -> Tls {
        self.tls.clone()
    }

    /// Opens a connection outside of the pools. The time limit covers the whole handshake.
    pub async fn open(&self, settings: &Settings) -> Result<(Client, Exchange), Error> {
        self.try_open(settings.connect_timeout).await.map_err(failure)
    }

    /// Opens a connection outside of the pools, within a time limit.
    pub async fn try_open(&self, limit: Duration) -> Result<(Client, Exchange), StatementError> {
        let opened = timeout(limit, self.connect()).await;
        Ok(opened.map_err(|_elapsed| StatementError::Silent(limit))??)
    }

    /// Opens a connection. With `prefer`, a server whose handshake fails is used without TLS.
    async fn connect(&self) -> Result<(Client, Exchange), tokio_postgres::Error> {
        let refused = match self.config.connect(self.tls.clone()).await {
            Err(error) if self.config.get_ssl_mode() == SslMode::Prefer && is_about_tls(&error) => error,
            opened => return opened,
        };
        tracing::debug!(error = %StatementError::from(refused), "connecting without TLS, as sslmode=prefer allows");
        let mut plain = self.config.clone();
        plain.ssl_mode(SslMode::Disable).connect(self.tls.clone()).await
    }
}

/// Reports whether the TLS handshake has failed.
fn is_about_tls(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.is::<HandshakeError>())
}

type Opening<'a> =
    Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), tokio_postgres::Error>> + Send + 'a>>;

impl Connect for Endpoint {
    /// Opens a connection of a pool.
    fn connect(&self, _config: &Config) -> Opening<'_> {
        Box::pin(async {
            let (client, exchange) = Endpoint::connect(self).await?;
            let exchange = tokio::spawn(async move {
                if let Err(error) = exchange.await {
                    tracing::warn!(error = %StatementError::from(error), "a connection to Postgres was lost");
                }
            });
            Ok((client, exchange))
        })
    }
}

/// The parameters of an address that concern TLS.
#[derive(Debug, Default, PartialEq)]
struct TlsParameters {
    mode: Option<String>,
    roots: Option<String>,
}

impl TlsParameters {
    /// Returns the driver's mode and the check of certificates.
    fn read(self) -> Result<(SslMode, Check), Error> {
        let roots =
            self.roots.or_else(|| std::env::var(ROOTS_VARIABLE).ok().filter(|roots| !roots.is_empty()));
        let load = |mode: &str, roots: Option<String>| match roots {
            Some(roots) => Roots::load(&roots).map_err(Error::BadAddress),
            None => Err(Error::BadAddress(format!(
                "sslmode={mode} needs the root certificates that it trusts; add sslrootcert=FILE to the address, or \
                 sslrootcert=system for those of this machine"
            ))),
        };
        let is_system = roots.as_deref() == Some(SYSTEM);
        let default = if is_system { "verify-full" } else { "prefer" };
        match self.mode.as_deref().unwrap_or(default) {
            weak @ ("disable" | "prefer" | "require" | "verify-ca") if is_system => {
                Err(Error::BadAddress(format!(
                    "sslmode={weak} cannot be used with sslrootcert=system, because anyone can get a certificate with these \
                     roots; use sslmode=verify-full, or name a file with sslrootcert"
                )))
            }
            "disable" => Ok((SslMode::Disable, Check::Nothing)),
            "prefer" => Ok((SslMode::Prefer, Check::Nothing)),
            "require" if roots.is_none() => Ok((SslMode::Require, Check::Nothing)),
            mode @ ("require" | "verify-ca") => Ok((SslMode::Require, Check::Root(load(mode, roots)?))),
            mode @ "verify-full" => Ok((SslMode::Require, Check::RootAndName(load(mode, roots)?))),
            other => Err(Error::BadAddress(format!(
                "sslmode={other} is unknown; use disable, prefer, require, verify-ca or verify-full"
            ))),
        }
    }
}

/// Removes the parameters that concern TLS from an address.
fn take_tls_parameters(url: &str) -> (String, TlsParameters) {
    let mut taken = TlsParameters::default();
    // A password may contain a question mark.
    let after_password = url.find('@').unwrap_or_default();
    let Some(query) = url[after_password..].find('?').map(|at| after_password + at) else {
        return (url.to_owned(), taken);
    };
    let mut kept = Vec::new();
    for parameter in url[query + 1..].split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = || Some(percent_decode_str(value).decode_utf8_lossy().into_owned());
        match name {
            "sslmode" => taken.mode = value(),
            "sslrootcert" => taken.roots = value(),
            _ => kept.push(parameter),
        }
    }
    let mut rest = url[..query].to_owned();
    if !kept.is_empty() {
        rest = format!("{rest}?{}", kept.join("&"));
    }
    (rest, taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_tls_are_taken_from_an_address_and_others_stay() {
        let taken = |mode: Option<&str>, roots: Option<&str>| TlsParameters {
            mode: mode.map(str::to_owned),
            roots: roots.map(str::to_owned),
        };
        let cases = [
            ("postgres://h/d", "postgres://h/d", taken(None, None)),
            ("postgres://h/d?sslmode=require", "postgres://h/d", taken(Some("require"), None)),
            (
                "postgres://u:a?sslmode=b@h/d?connect_timeout=3&sslrootcert=%2Fetc%2Fa%20b.crt&sslmode=verify-ca&x=1",
                "postgres://u:a?sslmode=b@h/d?connect_timeout=3&x=1",
                taken(Some("verify-ca"), Some("/etc/a b.crt")),
            ),
        ];
        for (url, rest, parameters) in cases {
            assert_eq!(take_tls_parameters(url), (rest.to_owned(), parameters), "{url}");
        }
    }

    #[test]
    fn an_unknown_mode_and_missing_roots_are_refused_with_the_remedy() {
        let refused = |url: &str| match Endpoint::parse(url).err() {
            Some(Error::BadAddress(detail)) => detail,
            other => panic!("{url}: {other:?}"),
        };
        assert!(refused("postgres://h/d?sslmode=always").contains("verify-full"));
        assert!(refused("postgres://h/d?sslmode=verify-full").contains("sslrootcert=FILE"));
        let missing = refused("postgres://h/d?sslmode=verify-ca&sslrootcert=/does/not/exist");
        assert!(missing.contains("/does/not/exist"), "{missing}");
        assert!(Endpoint::parse("postgres://h/d?sslmode=disable").is_ok());
        assert!(refused("host=h dbname=d sslmode=disable").contains("postgres://USER"));
    }

    #[test]
    fn the_roots_of_the_machine_are_used_with_the_check_of_the_name_only() {
        let read = |mode: Option<&str>| {
            TlsParameters { mode: mode.map(str::to_owned), roots: Some("system".into()) }.read()
        };
        for weak in ["disable", "prefer", "require", "verify-ca"] {
            let refused = read(Some(weak));
            assert!(
                matches!(&refused, Err(Error::BadAddress(text)) if text.contains("sslmode=verify-full")),
                "{weak}: {refused:?}"
            );
        }
        for full in [None, Some("verify-full")] {
            match read(full) {
                Ok((SslMode::Require, Check::RootAndName(_))) => {}
                // A machine without roots.
                Err(Error::BadAddress(text)) => assert!(text.contains("no root certificate"), "{text}"),
                other => panic!("{full:?}: {other:?}"),
            }
        }
    }
}
