//! Connections: a program moves from an embedded engine to a server by changing its address.

use crate::{Engine, Error, Namespace};
use selvedge_client::Options;
use std::fmt;

/// The environment variable with the API key.
const KEY: &str = "SELVEDGE_KEY";

/// Connects to an address: a server at `http://…` or `https://…`, or the store of an embedded engine at `memory:`,
/// `sqlite:PATH` or `postgres://…`. A server's key is that in `SELVEDGE_KEY`, if it is set; [`Client::with_options`] takes
/// another.
///
/// ```
/// use selvedge::{Context, Failure, Submission, Worker};
/// use std::time::Duration;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), selvedge::Error> {
/// let connection = selvedge::connect("memory:").await?; // or http://127.0.0.1:7878
/// let namespace = connection.namespace("default").await?;
/// let worker = Worker::new(namespace.clone(), "greeter")
///     .handler("greet", |ctx: Context| async move { Ok::<_, Failure>(format!("Hello, {}!", ctx.input::<String>()?)) })
///     .start()?;
/// let id = Submission::new("greet").input("Ada")?.submit(&namespace).await?.execution.id;
/// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("the execution ends");
/// assert_eq!(ended.json::<String>()?, "Hello, Ada!");
/// worker.drain().await;
/// connection.close().await;
/// # Ok(())
/// # }
/// ```
pub async fn connect(address: &str) -> Result<Connection, Error> {
    match address.starts_with("http://") || address.starts_with("https://") {
        true => {
            let key = std::env::var(KEY).ok().filter(|key| !key.is_empty());
            Ok(Connection::Remote(Client::with_options(address, Options { key, ..Options::default() })?))
        }
        false => Ok(Connection::Embedded(Engine::open(address).await?)),
    }
}

/// A connection to an engine. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Connection {
    /// An engine in this process.
    Embedded(Engine),
    /// A server, reached over HTTP.
    Remote(Client),
}

impl Connection {
    /// Returns the handle of a namespace.
    pub async fn namespace(&self, name: &str) -> Result<Namespace, Error> {
        match self {
            Connection::Embedded(engine) => engine.namespace(name).await,
            Connection::Remote(client) => client.namespace(name),
        }
    }

    /// Shuts an embedded engine down. A server keeps running.
    pub async fn close(self) {
        match self {
            Connection::Embedded(engine) => {
                engine.shutdown().await;
            }
            Connection::Remote(_) => {}
        }
    }
}

/// A client of a server. Cheap to clone; all clones share their connections.
#[derive(Clone)]
pub struct Client {
    server: String,
    options: Options,
    http: selvedge_client::Client,
}

impl Client {
    /// Returns a client of the server at this address, without a key. No connection is made yet.
    pub fn new(server: &str) -> Result<Client, Error> {
        Client::with_options(server, Options::default())
    }

    /// Returns a client of the server at this address.
    ///
    /// ```
    /// use selvedge::{Client, ClientOptions};
    ///
    /// let options = ClientOptions { key: Some("secret".into()), ..ClientOptions::default() };
    /// let client = Client::with_options("https://selvedge.example.org", options)?;
    /// let namespace = client.namespace("billing")?;
    /// assert_eq!(namespace.name(), "billing");
    /// # Ok::<_, selvedge::Error>(())
    /// ```
    pub fn with_options(server: &str, options: Options) -> Result<Client, Error> {
        let http = selvedge_client::Client::with_options(server, options.clone())?;
        Ok(Client { server: server.to_owned(), options, http })
    }

    /// Returns the handle of a namespace. The server checks with each call that the key may use it.
    pub fn namespace(&self, name: &str) -> Result<Namespace, Error> {
        let options = Options { namespace: Some(name.to_owned()), ..self.options.clone() };
        let client = selvedge_client::Client::with_options(&self.server, options)?;
        Ok(Namespace::remote(name.to_owned(), client))
    }

    /// Returns the handle of the namespace that the key has, or that the options name. Workers whose key has several namespaces
    /// claim from all of them.
    pub fn namespace_of_key(&self) -> Result<Namespace, Error> {
        let name = self.options.namespace.clone().unwrap_or_default();
        Ok(Namespace::remote(name, self.http.clone()))
    }

    /// Returns the HTTP client, for endpoints that have no method here.
    pub fn http(&self) -> &selvedge_client::Client {
        &self.http
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.server).finish_non_exhaustive()
    }
}
