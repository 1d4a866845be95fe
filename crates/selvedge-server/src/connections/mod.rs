//! Connections of clients: accepts them within limits, serves their requests over HTTP/1.1 and HTTP/2, and ends them at a
//! shutdown.
//!
//! A client harms nobody else by being slow. A connection that sends no complete request head in time is closed, whether it
//! is idle or sends slowly; `idle` watches HTTP/2 connections for that. Beyond the maximum number of connections, and when the process has no file descriptor left, a
//! new connection is answered with 503 and closed, and a line in the log says why.
//!
//! A response that its client does not read ends, and so does an HTTP/1.1 connection with such a response (`sending`).
//!
//! With TLS, a connection takes its place before the handshake, which has a time limit of its own. A superfluous connection
//! is closed without an answer, because an answer would need a handshake.

mod idle;

use crate::auth;
use crate::sending::{self, ConnectionRoom, ResponseRoom, SendProgress, Sent, StreamExecutor};
use crate::shutdown::ShutdownWatch;
use crate::tls::{HTTP2, Tls};
use crate::wire::problem::{Code, Problem};
use axum::Router;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use hyper_util::service::TowerToHyperService;
use idle::{Activity, InProgress};
use std::convert::Infallible;
use std::fs::File;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// The maximum number of open connections. Default: 10 000.
    pub connections: usize,
    /// The longest time for the head of a request, counted from the end of the previous request: an idle connection is closed
    /// too. Default: 60 s.
    pub head_time: Duration,
    /// The longest time for the TLS handshake. Default: 10 s.
    pub handshake_time: Duration,
    /// The largest head of a request, in bytes. Default: 64 KiB.
    pub head_bytes: u32,
    /// The maximum number of concurrent requests on an HTTP/2 connection. Default: 200.
    pub streams: u32,
    /// The longest time in which a client takes nothing of a response. Default: 60 s.
    pub send_time: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        ConnectionLimits {
            connections: 10_000,
            head_time: Duration::from_secs(60),
            handshake_time: Duration::from_secs(10),
            head_bytes: 64 * 1024,
            streams: 200,
            send_time: Duration::from_secs(60),
        }
    }
}

/// The first bytes of an HTTP/2 connection.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The shortest and the longest pause before the rest of a preface that has arrived in part is looked for.
const PREFACE_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));
/// The time that a shutdown leaves to connections whose first bytes are on their way.
const FIRST_BYTES: Duration = Duration::from_millis(100);
/// The time between two lines in the log about refused connections.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// The pause after an error of the listener that is not about one connection.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest that a refused connection is kept open, so that its client reads the answer.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// Serves `router` on the connections of `listener` until the shutdown begins. Then no connection is accepted, open ones end
/// after their requests in progress, and the call returns when all have ended.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
    limits: ConnectionLimits,
    room: ResponseRoom,
    shutdown: ShutdownWatch,
) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let mut acceptor = Acceptor { listener, answers: tls.is_none(), reserve: reserve(), logged_at: None };
    let mut connections = JoinSet::new();
    while let Some(accepted) = shutdown.race(acceptor.accept()).await {
        // Forgets the connections that have ended.
        while connections.try_join_next().is_some() {}
        let Some(stream) = accepted else { continue };
        match slots.clone().try_acquire_owned() {
            Ok(slot) => {
                let connection = Connection {
                    router: router.clone(),
                    limits: limits.clone(),
                    room: room.clone(),
                    shutdown: shutdown.clone(),
                    _slot: slot,
                };
                connections.spawn(connection.serve(stream, tls.clone()));
            }
            Err(_all_taken) => {
                acceptor.log(&format!(
                    "all {} connections are open; a further one was refused",
                    limits.connections
                ));
                if acceptor.answers {
                    connections.spawn(refuse(stream, &FULL));
                }
            }
        }
    }
    drop(acceptor);
    while connections.join_next().await.is_some() {}
}

/// A connection that was accepted.
struct Connection {
    router: Router,
    limits: ConnectionLimits,
    room: ResponseRoom,
    shutdown: ShutdownWatch,
    _slot: OwnedSemaphorePermit,
}

impl Connection {
    /// Serves the requests of the connection.
    async fn serve(self, stream: TcpStream, tls: Option<Tls>) {
        // Responses are written whole, so delaying small packets gains nothing.
        let _ = stream.set_nodelay(true);
        let Ok(peer) = stream.peer_addr() else { return };
        match tls {
            None => {
                let spoken = timeout(self.limits.head_time, speaks_http2(&stream));
                let Some(Ok(Ok(is_http2))) = self.unless_shut_down(spoken).await else { return };
                self.serve_requests(stream, peer, is_http2).await;
            }
            Some(tls) => {
                let shaken = timeout(self.limits.handshake_time, shake_hands(stream, &tls));
                let Some(Ok(Some(stream))) = self.unless_shut_down(shaken).await else { return };
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
                self.serve_requests(stream, peer, is_http2).await;
            }
        }
    }

    /// Runs `call` to its end, or returns none and drops it soon after the shutdown has begun.
    async fn unless_shut_down<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            output = call => Some(output),
            () = async {
                self.shutdown.begun().await;
                tokio::time::sleep(FIRST_BYTES).await;
            } => None,
        }
    }

    async fn serve_requests<S>(self, stream: S, peer: SocketAddr, is_http2: bool)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Connection { router, limits, room, shutdown, _slot } = self;
        let connection_room = room.connection();
        let stream = TokioIo::new(stream);
        let service = service(router, peer, connection_room.clone());
        let ended = match is_http2 {
            true => {
                let close = Arc::new(Notify::new());
                let executor = StreamExecutor { limit: limits.send_time, room, close: close.clone() };
                let mut builder = http2::Builder::new(executor);
                builder.timer(TokioTimer::new()).max_concurrent_streams(limits.streams);
                builder.max_header_list_size(limits.head_bytes).keep_alive_interval(limits.head_time / 2);
                let activity = Activity::new();
                let service = tracked(service, activity.clone(), connection_room);
                let connection = builder.serve_connection(stream, service);
                tokio::select! {
                    biased;
                    ended = run_until_idle(connection, &shutdown, &activity, limits.head_time) => ended,
                    () = close.notified() => Ok(()),
                }
            }
            false => {
                let mut builder = http1::Builder::new();
                builder.timer(TokioTimer::new()).header_read_timeout(limits.head_time);
                builder.max_header_size(limits.head_bytes as usize);
                let progress = SendProgress::new();
                let service = sequential(service, progress.clone(), connection_room);
                let connection = builder.serve_connection(stream, service);
                tokio::select! {
                    biased;
                    ended = run(connection, &shutdown) => ended,
                    () = progress.stalled(limits.send_time) => {
                        room.count_stalled();
                        Ok(())
                    }
                }
            }
        };
        if let Err(error) = ended {
            // Clients that go away, send no HTTP or are too slow are not the server's business.
            tracing::debug!(%error, "a connection ended with an error");
        }
    }
}

/// Runs the TLS handshake. Returns none if it fails. A client that speaks HTTP without TLS is told so.
async fn shake_hands(stream: TcpStream, tls: &Tls) -> Option<TlsStream<TcpStream>> {
    let mut first = [0];
    if stream.peek(&mut first).await.ok()? == 0 {
        return None;
    }
    // The first byte of a handshake is 22; methods of HTTP are letters.
    if first[0].is_ascii_alphabetic() {
        refuse(stream, &PLAIN).await;
        return None;
    }
    match tls.acceptor().accept(stream).await {
        Ok(stream) => Some(stream),
        Err(error) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
    }
}

/// Returns the service of a connection: each request carries the connection and its room for responses.
fn service(
    router: Router,
    peer: SocketAddr,
    room: Arc<ConnectionRoom>,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> {
    let (router, connection) = (TowerToHyperService::new(router), Arc::new(auth::Connection::new(peer)));
    service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(connection.clone());
        request.extensions_mut().insert(room.clone());
        router.call(request)
    })
}

/// Returns the service of an HTTP/2 connection: counts requests in progress, and notes the progress of each response in the task
/// of its stream.
fn tracked<S>(
    service: S,
    activity: Activity,
    room: Arc<ConnectionRoom>,
) -> impl Service<Request<Incoming>, Response = Response<Sent<InProgress>>, Error = Infallible, Future: Send>
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>,
{
    service_fn(move |request| {
        let (request_in_progress, answered) = (activity.begin(), service.call(request));
        let room = room.clone();
        async move {
            let response = answered.await?;
            let progress = sending::current_progress().unwrap_or_else(SendProgress::new);
            Ok(sending::until_sent(response, progress, room, true, request_in_progress))
        }
    })
}

/// Returns the service of an HTTP/1.1 connection, which sends one response after the other: notes their progress.
fn sequential<S>(
    service: S,
    progress: Arc<SendProgress>,
    room: Arc<ConnectionRoom>,
) -> impl Service<Request<Incoming>, Response = Response<Sent<()>>, Error = Infallible, Future: Send>
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>,
{
    service_fn(move |request| {
        let (progress, room, answered) = (progress.clone(), room.clone(), service.call(request));
        async move { Ok(sending::until_sent(answered.await?, progress, room, false, ())) }
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

/// [`run`] for a connection that also ends after the time `limit` without a request. A request that crosses with the news of
/// that is still answered. A client that then does not close the connection has the same time again.
async fn run_until_idle<C: GracefulConnection>(
    connection: C,
    shutdown: &ShutdownWatch,
    activity: &Activity,
    limit: Duration,
) -> Result<(), C::Error> {
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended,
        () = shutdown.begun() => {}
        () = activity.idle(limit) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = activity.idle(limit) => Ok(()),
    }
}

/// Reports whether a connection begins with the preface of HTTP/2. Leaves the bytes to be read again.
async fn speaks_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut seen = [0; HTTP2_PREFACE.len()];
    let (mut pause, longest_pause) = PREFACE_PAUSES;
    loop {
        let count = stream.peek(&mut seen).await?;
        if count == 0 || !HTTP2_PREFACE.starts_with(&seen[..count]) {
            return Ok(false);
        }
        if count == HTTP2_PREFACE.len() {
            return Ok(true);
        }
        // The socket stays readable, so its readiness does not tell when more bytes arrive.
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(longest_pause);
    }
}

/// Accepts connections, also when no file descriptor is left.
struct Acceptor {
    listener: TcpListener,
    /// True if a connection that is refused gets an answer. With TLS that would need a handshake.
    answers: bool,
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
            match self.answers {
                true => refuse(stream, &FULL).await,
                false => drop(stream),
            }
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

/// An answer to a connection whose requests are not read.
struct Refused {
    status: &'static str,
    code: Code,
    detail: &'static str,
    headers: &'static str,
}

/// The answer when there are too many connections.
const FULL: Refused = Refused {
    status: "503 Service Unavailable",
    code: Code::Overloaded,
    detail: "the server has no room for another connection",
    headers: "retry-after: 1\r\n",
};

/// The answer to HTTP without TLS on a port that expects TLS.
const PLAIN: Refused = Refused {
    status: "400 Bad Request",
    code: Code::TlsRequired,
    detail: "this port expects TLS; use https:// in the address",
    headers: "",
};

/// Answers a connection and closes it.
async fn refuse(mut stream: TcpStream, refused: &'static Refused) {
    let Refused { status, code, detail, headers } = *refused;
    let body = Problem::new(code, detail).document();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         {headers}connection: close\r\n\r\n{body}",
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
