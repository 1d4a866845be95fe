//! The client: the address of a server, the key, and pooled connections.

use crate::address::{ServerAddress, api_path};
use crate::{Error, Request, Retries, tls};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Method;
use hyper::header::HeaderValue;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(crate) type Connections = legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The settings of a client.
#[derive(Clone)]
pub struct Options {
    /// The API key. Default: none.
    pub key: Option<String>,
    /// The namespace, for a key that has several. Default: that of the key.
    pub namespace: Option<String>,
    /// A PEM file with the certificates to trust. Default: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// The longest time until a connection is made. Default: 5 s.
    pub connect_timeout: Duration,
    /// The longest time until an answer begins, beyond the time for which the request asks the server to wait. Default: 20 s.
    pub answer_timeout: Duration,
    /// The rule for repeating requests. Default: for 30 s.
    pub retries: Retries,
    /// The name of the program, for the header `User-Agent`.
    pub user_agent: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            key: None,
            namespace: None,
            ca_file: None,
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(20),
            retries: Retries::default(),
            user_agent: concat!("selvedge-rust/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl fmt::Debug for Options {
    /// Leaves the key out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("namespace", &self.namespace).field("retries", &self.retries).finish()
    }
}

/// A client of one server. Cheap to clone; all clones share their connections.
#[derive(Clone)]
pub struct Client(pub(crate) Arc<Inner>);

#[derive(Clone)]
pub(crate) struct Inner {
    pub(crate) address: ServerAddress,
    pub(crate) connections: Connections,
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) namespace: Option<HeaderValue>,
    pub(crate) user_agent: HeaderValue,
    pub(crate) answer_timeout: Duration,
    pub(crate) retries: Retries,
}

impl Client {
    /// Returns a client of the server at this address, with default options.
    pub fn new(server: &str) -> Result<Client, Error> {
        Client::with_options(server, Options::default())
    }

    /// Returns a client of the server at this address. No connection is made yet.
    pub fn with_options(server: &str, options: Options) -> Result<Client, Error> {
        let address = ServerAddress::parse(server)?;
        let connector =
            tls::connector(address.is_tls(), options.ca_file.as_deref(), options.connect_timeout)?;
        let connections = legacy::Client::builder(TokioExecutor::new())
            // Shorter than the idle limit of a server, so that a request rarely meets a connection that is being closed.
            .pool_idle_timeout(Duration::from_secs(20))
            .pool_timer(TokioTimer::new())
            .build(connector);
        let mut authorization = match &options.key {
            Some(key) => Some(header(&format!("Bearer {key}"), "the API key")?),
            None => None,
        };
        authorization.iter_mut().for_each(|value| value.set_sensitive(true));
        let namespace = options.namespace.as_deref().map(|name| header(name, "the namespace")).transpose()?;
        Ok(Client(Arc::new(Inner {
            address,
            connections,
            authorization,
            namespace,
            user_agent: header(&options.user_agent, "the user agent")?,
            answer_timeout: options.answer_timeout,
            retries: options.retries,
        })))
    }

    /// Returns a client of the same server, with the same connections and another rule for repeating requests.
    pub fn with_retries(&self, retries: Retries) -> Client {
        Client(Arc::new(Inner { retries, ..(*self.0).clone() }))
    }

    /// Returns the address of the server.
    pub fn server(&self) -> &str {
        self.0.address.as_str()
    }

    /// Reports whether the server is on this machine.
    pub fn is_loopback(&self) -> bool {
        self.0.address.is_loopback()
    }

    /// Begins a `GET` of an API resource: `&["executions", id]` is `/v1/executions/ID`.
    pub fn get(&self, segments: &[&str]) -> Request {
        self.request(Method::GET, api_path(segments))
    }

    /// Begins a `POST`.
    pub fn post(&self, segments: &[&str]) -> Request {
        self.request(Method::POST, api_path(segments))
    }

    /// Begins a `PUT`.
    pub fn put(&self, segments: &[&str]) -> Request {
        self.request(Method::PUT, api_path(segments))
    }

    /// Begins a `PATCH`, a JSON merge patch.
    pub fn patch(&self, segments: &[&str]) -> Request {
        self.request(Method::PATCH, api_path(segments))
    }

    /// Begins a `DELETE`.
    pub fn delete(&self, segments: &[&str]) -> Request {
        self.request(Method::DELETE, api_path(segments))
    }

    /// Begins a request of a path outside of `/v1`, such as `/readyz`. The path is sent as given.
    pub fn request(&self, method: Method, path: impl Into<String>) -> Request {
        Request::new(self.clone(), method, path.into())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.server()).finish()
    }
}

fn header(text: &str, what: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(text)
        .map_err(|_| Error::Request(format!("{what} has characters that no header may have")))
}
