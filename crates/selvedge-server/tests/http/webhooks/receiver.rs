//! A receiver of webhooks on loopback.

use crate::support::within;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use serde_json::Value;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A message that a receiver got.
#[derive(Clone, Debug)]
pub struct Received {
    pub headers: HeaderMap,
    pub raw: Bytes,
    pub event: Value,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().expect("the header is text")
    }

    pub fn id(&self) -> &str {
        self.header("webhook-id")
    }

    pub fn kind(&self) -> &str {
        self.event["type"].as_str().expect("an event has a type")
    }

    pub fn execution(&self) -> &str {
        self.event["execution"].as_str().expect("the event is of an execution")
    }
}

/// The reaction of a receiver.
#[derive(Clone, Debug)]
pub enum Answer {
    Status(u16),
    /// No response.
    Hang,
    /// A response of 10 MB.
    Huge,
    Redirect(String),
    /// Closes the connection without a response.
    Close,
}

type Reaction = Arc<dyn Fn(&Received, usize) -> Answer + Send + Sync>;

/// A receiver. Ends when it is dropped.
pub struct Receiver {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    /// Starts a receiver that accepts everything.
    pub async fn start() -> Receiver {
        Self::answering(|_, _| Answer::Status(204)).await
    }

    /// Starts a receiver. The reaction gets the message and the number of earlier ones.
    pub async fn answering(
        reaction: impl Fn(&Received, usize) -> Answer + Send + Sync + 'static,
    ) -> Receiver {
        Self::listen(Arc::new(reaction), None).await
    }

    /// Starts a receiver that accepts everything over TLS.
    pub async fn over_tls(config: ServerConfig) -> Receiver {
        Self::listen(Arc::new(|_, _| Answer::Status(200)), Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn listen(reaction: Reaction, tls: Option<TlsAcceptor>) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port is bound");
        let address = listener.local_addr().expect("the listener has an address");
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let connections: Arc<AtomicUsize> = Arc::default();
        let (log, count) = (received.clone(), connections.clone());
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection is accepted");
                count.fetch_add(1, Ordering::Relaxed);
                let (reaction, log, tls) = (reaction.clone(), log.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, reaction, log).await;
                            }
                        }
                        None => serve(stream, reaction, log).await,
                    }
                });
            }
        });
        Receiver { address, received, connections, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no test panicked").clone()
    }

    /// Waits for this many messages, and returns all so far.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        within(async {
            loop {
                let received = self.received();
                if received.len() >= count {
                    return received;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    reaction: Reaction,
    log: Arc<Mutex<Vec<Received>>>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (reaction, log) = (reaction.clone(), log.clone());
        async move {
            let (parts, body) = request.into_parts();
            let raw = body.collect().await.map_err(io::Error::other)?.to_bytes();
            let event = serde_json::from_slice(&raw).expect("the body is JSON");
            let received = Received { headers: parts.headers, raw, event };
            let answer = {
                let mut log = log.lock().expect("no test panicked");
                let answer = reaction(&received, log.len());
                log.push(received);
                answer
            };
            respond(answer).await
        }
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(answer: Answer) -> io::Result<Response<Full<Bytes>>> {
    let (status, location, body) = match answer {
        Answer::Status(status) => (status, None, Bytes::new()),
        Answer::Hang => pending().await,
        Answer::Huge => (200, None, Bytes::from(vec![b'x'; 10 * 1024 * 1024])),
        Answer::Redirect(to) => (307, Some(to), Bytes::new()),
        Answer::Close => return Err(io::Error::other("closes the connection")),
    };
    let mut response = Response::builder().status(status);
    if let Some(location) = location {
        response = response.header("location", location);
    }
    response.body(Full::new(body)).map_err(io::Error::other)
}
