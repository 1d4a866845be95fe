//! Sends one delivery to a receiver, bounded in time and in the size of the response.
//!
//! The name is looked up here and every address is checked; the connection goes to one of the checked addresses, so a name
//! that later leads elsewhere changes nothing. Redirects are not followed and no proxy is used. Connections are kept for the
//! next deliveries to the same receiver, for a short time, so that a name that moves is looked up again.

use super::WebhookOptions;
use super::address::{Target, check_address, parse};
use axum::http::{Request, header};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use selvedge_core::webhook::{Outcome, sign};
use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The part of a response that is read, in bytes. The rest is dropped with the connection.
const RESPONSE_BYTES: usize = 64 * 1024;
/// The longest time for the body of a response, after its status.
const BODY_TIME: Duration = Duration::from_secs(1);
/// The time for which a connection is used, and the time for which it may be idle.
const CONNECTION_TIME: Duration = Duration::from_secs(60);
const IDLE_TIME: Duration = Duration::from_secs(5);

/// The addresses of a name.
pub type Resolved<'a> = BoxFuture<'a, io::Result<Vec<SocketAddr>>>;

/// Looks names up.
pub trait Resolve: Debug + Send + Sync + 'static {
    /// Returns the addresses of a host.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolved<'a>;
}

#[derive(Debug)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolved<'a> {
        async move { Ok(lookup_host((host, port)).await?.collect()) }.boxed()
    }
}

/// A message to a receiver.
pub struct Message {
    /// The id of the delivery.
    pub id: String,
    /// The time of the attempt, in seconds since the Unix epoch.
    pub seconds: i64,
    pub signature: String,
    pub body: Bytes,
}

impl Message {
    /// Returns a message that these secrets sign now. Without secrets: the reason why it cannot be signed.
    pub fn signed(secrets: Option<&[[u8; 32]]>, id: String, body: Bytes) -> Result<Message, String> {
        let Some(secrets) = secrets else {
            return Err("the root secret of the server has changed; rotate the secret of the webhook".into());
        };
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as i64);
        let signature = sign(secrets, &id, seconds, &body);
        Ok(Message { id, seconds, signature, body })
    }
}

/// A receiver, with the connections that are open.
pub struct Receiver {
    target: Result<Target, String>,
    options: Arc<WebhookOptions>,
    idle: Mutex<Vec<Connection>>,
}

/// A connection to a receiver. Closed when it is dropped.
struct Connection {
    requests: SendRequest<Full<Bytes>>,
    task: JoinHandle<()>,
    opened: Instant,
    used: Instant,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The reason why there is no response.
enum SendError {
    /// The receiver closed a kept connection before it answered: a new one may work.
    Stale,
    /// Any other reason.
    Failed(String),
}

impl Receiver {
    /// Returns the receiver at a URL. Every delivery to a URL that is not allowed fails.
    pub fn new(url: &str, options: Arc<WebhookOptions>) -> Receiver {
        let target = parse(url, options.allow_private).map_err(|detail| format!("the URL {detail}"));
        Receiver { target, options, idle: Mutex::default() }
    }

    /// Sends a message.
    pub async fn post(&self, message: &Message) -> Outcome {
        let failed = |status, error| Outcome::Failed { status, error };
        match timeout(self.options.timeout, self.exchange(message)).await {
            Ok(Ok(status @ 200..=299)) => Outcome::Delivered(status),
            Ok(Ok(status @ 300..=399)) => {
                failed(Some(status), format!("status {status}; redirects are not followed"))
            }
            Ok(Ok(status)) => failed(Some(status), format!("status {status}")),
            Ok(Err(error)) => failed(None, error),
            Err(_) => {
                let ms = self.options.timeout.as_millis();
                failed(None, format!("no response within {ms} ms"))
            }
        }
    }

    async fn exchange(&self, message: &Message) -> Result<u16, String> {
        let target = self.target.as_ref().map_err(String::clone)?;
        if let Some(connection) = self.take_idle() {
            match self.send(target, connection, message).await {
                Err(SendError::Stale) => {}
                Err(SendError::Failed(error)) => return Err(error),
                Ok(status) => return Ok(status),
            }
        }
        let connection = self.connect(target).await?;
        self.send(target, connection, message).await.map_err(|error| match error {
            SendError::Stale => "the receiver closed the connection without a response".into(),
            SendError::Failed(error) => error,
        })
    }

    /// Sends a message and returns the status of the response.
    async fn send(
        &self,
        target: &Target,
        mut connection: Connection,
        message: &Message,
    ) -> Result<u16, SendError> {
        let request = Request::post(target.path.as_str())
            .header(header::HOST, target.authority.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, concat!("selvedge/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", message.id.as_str())
            .header("webhook-timestamp", message.seconds)
            .header("webhook-signature", message.signature.as_str())
            .body(Full::new(message.body.clone()))
            .map_err(|error| SendError::Failed(format!("cannot make the request: {error}")))?;
        if connection.requests.ready().await.is_err() {
            return Err(SendError::Stale);
        }
        let response = connection.requests.send_request(request).await.map_err(|error| {
            match error.is_canceled() || error.is_closed() || error.is_incomplete_message() {
                true => SendError::Stale,
                false => SendError::Failed(format!("no valid response: {error}")),
            }
        })?;
        let status = response.status().as_u16();
        // The status decides. The rest of the response only decides whether the connection is kept.
        if timeout(BODY_TIME, read_whole(response.into_body())).await.unwrap_or(false) {
            connection.used = Instant::now();
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        Ok(status)
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| {
            connection.opened.elapsed() < CONNECTION_TIME
                && connection.used.elapsed() < IDLE_TIME
                && !connection.requests.is_closed()
        });
        idle.pop()
    }

    /// Opens a connection to one of the addresses of the receiver, all of which must be allowed.
    async fn connect(&self, target: &Target) -> Result<Connection, String> {
        let addresses = match target.host.parse::<IpAddr>() {
            Ok(ip) => vec![SocketAddr::new(ip, target.port)],
            Err(_) => {
                let found = self.options.resolver.resolve(&target.host, target.port).await;
                found.map_err(|error| format!("cannot look up {}: {error}", target.host))?
            }
        };
        for address in &addresses {
            check_address(address.ip(), self.options.allow_private)
                .map_err(|detail| format!("{} {detail}", target.host))?;
        }
        let mut last = format!("{} has no address", target.host);
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    return self.handshake(target, stream).await;
                }
                Err(error) => last = format!("cannot connect to {address}: {error}"),
            }
        }
        Err(last)
    }

    async fn handshake(&self, target: &Target, stream: TcpStream) -> Result<Connection, String> {
        if !target.is_tls {
            return speak_http(stream).await;
        }
        let name = ServerName::try_from(target.host.clone())
            .map_err(|_| format!("{} is not a valid name of a server", target.host))?;
        let connector = TlsConnector::from(tls_config(&self.options)?);
        let stream = connector.connect(name, stream).await;
        speak_http(stream.map_err(|error| format!("no TLS connection to {}: {error}", target.host))?).await
    }
}

/// Begins HTTP/1.1 on a stream.
async fn speak_http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Connection, String> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(RESPONSE_BYTES);
    let opened = builder.handshake(TokioIo::new(stream)).await;
    let (requests, connection) = opened.map_err(|error| format!("no HTTP connection: {error}"))?;
    let task = tokio::spawn(async {
        let _ = connection.await;
    });
    Ok(Connection { requests, task, opened: Instant::now(), used: Instant::now() })
}

/// Reads a body. Returns false if it is too large or ends early.
async fn read_whole(body: Incoming) -> bool {
    let mut body = pin!(body);
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        bytes += frame.data_ref().map_or(0, Bytes::len);
        if bytes > RESPONSE_BYTES {
            return false;
        }
    }
    true
}

/// Returns the configuration of TLS. The certificates of the system are read once.
fn tls_config(options: &WebhookOptions) -> Result<Arc<ClientConfig>, String> {
    static SYSTEM: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let with = |roots: Arc<RootCertStore>| {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("cannot use TLS: {error}"))?
            .with_root_certificates(roots);
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok::<_, String>(Arc::new(config))
    };
    if let Some(roots) = &options.roots {
        return with(roots.clone());
    }
    if let Some(config) = SYSTEM.get() {
        return Ok(config.clone());
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("the machine of the server has no root certificates".into());
    }
    Ok(SYSTEM.get_or_init(|| with(Arc::new(roots)).expect("ring supports TLS 1.2 and 1.3")).clone())
}
