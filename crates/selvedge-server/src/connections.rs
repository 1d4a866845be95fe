//! Connections of clients: accepts them within limits, serves their requests over HTTP/1.1 and HTTP/2, and ends them at a
//! shutdown.
//!
//! A client harms nobody else by being slow. A connection that sends no complete request head in time is closed, whether it
//! is idle or sends slowly. Beyond the maximum number of connections, and when the process has no file descriptor left, a
//! new connection is answered with 503 and closed, and a line in the log says why.

use crate::auth::Connection;
use crate::shutdown::ShutdownWatch;
use crate::wire::problem::{Code, Problem};
use axum::Router;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::fs::File;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The limits of connections.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// The maximum number of open connections. Default: 10 000.
    pub connections: usize,
    /// The longest time for the head of a request, counted from the end of the previous request: an idle connection is closed
    /// too. Default: 60 s.
    pub head_time: Duration,
    /// The largest head of a request, in bytes. Default: 64 KiB.
    pub head_bytes: u32,
    /// The maximum number of concurrent requests on an HTTP/2 connection. Default: 200.
    pub streams: u32,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        ConnectionLimits {
            connections: 10_000,
            head_time: Duration::from_secs(60),
            head_bytes: 64 * 1024,
            streams: 200,
        }
    }
}

/// The first bytes of an HTTP/2 connection.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The pause before the rest of a preface that has arrived in part is looked for.
const PREFACE_PAUSE: Duration = Duration::from_millis(5);
/// The time between two lines in the log about refused connections.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// The pause after an error of the listener that is not about one connection.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest that a refused connection is kept open, so that its client reads the answer.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// Serves `router` on the connections of `listener` until the shutdown begins. Then no connection is accepted, open ones end
/// after their requests in progress, and the call returns when all have ended.
pub async fn serve(listener: TcpListener, router: Router, limits: ConnectionLimits, shutdown: ShutdownWatch) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let mut acceptor = Acceptor { listener, reserve: reserve(), logged_at: None };
    let mut connections = JoinSet::new();
    while let Some(accepted) = shutdown.race(acceptor.accept()).await {
        // Forgets the connections that have ended.
        while connections.try_join_next().is_some() {}
        let Some(stream) = accepted else { continue };
        match slots.clone().try_acquire_owned() {
            Ok(slot) => {
                connections.spawn(connection(stream, router.clone(), limits.clone(), shutdown.clone(), slot));
            }
            Err(_all_taken) => {
                acceptor.log(&format!(
                    "all {} connections are open; a further one was refused",
                    limits.connections
                ));
                connections.spawn(refuse(stream));
            }
        }
    }
    drop(acceptor);
    while connections.join_next().await.is_some() {}
}

/// Serves the requests of one connection.
async fn connection(
    stream: TcpStream,
    router: Router,
    limits: ConnectionLimits,
    shutdown: ShutdownWatch,
    _slot: OwnedSemaphorePermit,
) {
    // Responses are written whole, so delaying small packets gains nothing.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(is_http2)) = timeout(limits.head_time, speaks_http2(&stream)).await else { return };
    let Ok(peer) = stream.peer_addr() else { return };
    let (stream, service) = (TokioIo::new(stream), service(router, peer));
    let ended = match is_http2 {
        true => {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).max_concurrent_streams(limits.streams);
            builder.max_header_list_size(limits.head_bytes).keep_alive_interval(limits.head_time / 2);
            run(builder.serve_connection(stream, service), &shutdown).await
        }
        false => {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(limits.head_time);
            builder.max_header_size(limits.head_bytes as usize);
            run(builder.serve_connection(stream, service), &shutdown).await
        }
    };
    if let Err(error) = ended {
        // Clients that go away, send no HTTP or are too slow are not the server's business.
        tracing::debug!(%error, "a connection ended with an error");
    }
}

/// Returns the service of a connection: each request carries the connection.
fn service(
    router: Router,
    peer: SocketAddr,
) -> impl Service<
    Request<Incoming>,
    Response = Response,
    Error = Infallible,
    Future = impl Future<Output = Result<Response, Infallible>> + Send,
> {
    let (router, connection) = (TowerToHyperService::new(router), Arc::new(Connection::new(peer)));
    service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(connection.clone());
        router.call(request)
    })
}

/// Runs a connection to its end. When the shutdown begins, it ends after its requests in progress.
async fn run<C: GracefulConnection>(connection: C, shutdown: &ShutdownWatch) -> Result<(), C::Error> {
    let mut connection = pin!(connection);
    match shutdown.race(connection.as_mut()).await {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

/// Reports whether a connection begins with the preface of HTTP/2. Leaves the bytes to be read again.
async fn speaks_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut seen = [0; HTTP2_PREFACE.len()];
    loop {
        let count = stream.peek(&mut seen).await?;
        if count == 0 || !HTTP2_PREFACE.starts_with(&seen[..count]) {
            return Ok(false);
        }
        if count == HTTP2_PREFACE.len() {
            return Ok(true);
        }
        // The socket stays readable, so its readiness does not tell when more bytes arrive.
        tokio::time::sleep(PREFACE_PAUSE).await;
    }
}

/// Accepts connections, also when no file descriptor is left.
struct Acceptor {
    listener: TcpListener,
    /// A descriptor that is given up to accept and refuse a connection when there is no other.
    reserve: Option<File>,
    /// The time of the last line in the log about refused connections.
    logged_at: Option<Instant>,
}

impl Acceptor {
    /// Accepts a connection. Returns none after an error, and after a connection that had to be refused.
    async fn accept(&mut self) -> Option<TcpStream> {
        let error = match self.listener.accept().await {
            Ok((stream, _)) => return Some(stream),
            Err(error) => error,
        };
        if is_about_one_connection(&error) {
            return None;
        }
        self.log(&format!("cannot accept connections: {error}"));
        if self.reserve.take().is_some()
            && let Ok(Ok((stream, _))) = timeout(PAUSE, self.listener.accept()).await
        {
            refuse(stream).await;
        }
        self.reserve = reserve();
        tokio::time::sleep(PAUSE).await;
        None
    }

    /// Writes a line to the log, but not for every connection.
    fn log(&mut self, line: &str) {
        if self.logged_at.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            self.logged_at = Some(Instant::now());
            tracing::warn!("{line}");
        }
    }
}

fn reserve() -> Option<File> {
    File::open("/dev/null").ok()
}

fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Answers a connection with 503 and closes it.
async fn refuse(mut stream: TcpStream) {
    let body = Problem::new(Code::Overloaded, "the server has no room for another connection").document();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let answered = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing with unread bytes would discard the answer.
        let mut unread = [0; 4096];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = timeout(REFUSAL_TIME, answered).await;
}
