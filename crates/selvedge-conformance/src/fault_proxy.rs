//! A proxy between a server and its database that injects faults of a network: connections that are closed, delayed, silent,
//! half closed, or cut in the middle of a message. It can also lead new connections to another database server, as a
//! failover does.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A fault of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Closes the connection at both ends, as after a crash of the server's host.
    Drop,
    /// Delays all bytes.
    Delay(Duration),
    /// Accepts bytes in both directions and delivers none. Neither end learns that the other one has closed.
    Swallow,
    /// Closes the direction from the server to the client. Bytes of the client still arrive.
    HalfClose,
    /// Closes the connection after this number of further bytes from the server.
    CutAfter(usize),
}

/// The connections that a fault applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The open connections. New ones work.
    Existing,
    /// All connections, also new ones.
    All,
}

/// A proxy to one server.
pub struct FaultProxy {
    address: SocketAddr,
    plan: Arc<Plan>,
    accepting: JoinHandle<()>,
}

struct Plan {
    /// The address that new connections lead to.
    server: Mutex<String>,
    /// The number of connections accepted so far. They are numbered from 1.
    accepted: AtomicU64,
    fault: watch::Sender<Injected>,
}

/// The latest fault, and the last connection that it applies to.
#[derive(Clone, Copy, Default)]
struct Injected {
    fault: Option<Fault>,
    upto: u64,
}

impl FaultProxy {
    /// Starts a proxy to the server at `address`, which is a host and a port.
    pub async fn start(address: &str) -> FaultProxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let plan = Arc::new(Plan {
            server: Mutex::new(address.to_owned()),
            accepted: AtomicU64::new(0),
            fault: watch::Sender::new(Injected::default()),
        });
        FaultProxy {
            address: listener.local_addr().expect("the listener is bound"),
            plan: plan.clone(),
            accepting: tokio::spawn(accept(listener, plan)),
        }
    }

    /// Starts a proxy to the server of a URL such as `postgres://user@host:port/database`. Returns it with the same URL, which
    /// leads to the proxy.
    pub async fn start_for(url: &str) -> (FaultProxy, String) {
        let (_, rest) = url.split_once("://").expect("the URL has a scheme");
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let server = authority.rsplit('@').next().unwrap_or_default();
        assert!(server.contains(':'), "{url} names a host and a port");
        let proxy = FaultProxy::start(server).await;
        let url = url.replacen(server, &proxy.address.to_string(), 1);
        (proxy, url)
    }

    /// Returns the number of connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.plan.accepted.load(Ordering::SeqCst)
    }

    /// Injects a fault. It replaces the fault before.
    pub fn inject(&self, fault: Fault, reach: Reach) {
        let upto = match reach {
            Reach::Existing => self.accepted(),
            Reach::All => u64::MAX,
        };
        self.plan.fault.send_replace(Injected { fault: Some(fault), upto });
    }

    /// Leads new connections to another server.
    pub fn redirect(&self, address: &str) {
        *self.plan.server.lock().unwrap_or_else(PoisonError::into_inner) = address.to_owned();
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, plan: Arc<Plan>) {
    // Dropped with this task, which closes all connections.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let number = plan.accepted.fetch_add(1, Ordering::SeqCst) + 1;
        connections.spawn(connect(client, number, plan.clone()));
    }
}

async fn connect(client: TcpStream, number: u64, plan: Arc<Plan>) -> io::Result<()> {
    let address = plan.server.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let server = TcpStream::connect(address).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let pass = |from, to, is_answer| Pass { from, to, is_answer, number, injected: plan.fault.subscribe() };
    tokio::select! {
        ended = pass(from_client, to_server, false).run() => ended,
        ended = pass(from_server, to_client, true).run() => ended,
    }
}

/// One direction of a connection.
struct Pass {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    /// True if the bytes come from the database server.
    is_answer: bool,
    number: u64,
    injected: watch::Receiver<Injected>,
}

impl Pass {
    /// Returns the fault of this connection.
    fn fault(&mut self) -> Option<Fault> {
        let Injected { fault, upto } = *self.injected.borrow_and_update();
        fault.filter(|_| self.number <= upto)
    }

    /// Passes bytes on. Returns when the connection is to be closed.
    async fn run(mut self) -> io::Result<()> {
        let mut bytes = vec![0; 64 * 1024];
        // The bytes that were passed since the last change of the fault.
        let mut passed = 0;
        loop {
            let fault = self.fault();
            match fault {
                Some(Fault::Drop) => return Ok(()),
                Some(Fault::HalfClose) if self.is_answer => {
                    self.to.shutdown().await?;
                    return pending().await;
                }
                Some(Fault::CutAfter(limit)) if self.is_answer && passed >= limit => return Ok(()),
                _ => {}
            }
            let read = tokio::select! {
                biased;
                _ = self.injected.changed() => {
                    passed = 0;
                    continue;
                }
                read = self.from.read(&mut bytes) => read?,
            };
            match (read, fault) {
                (0, Some(Fault::Swallow)) => return pending().await,
                (0, _) => return Ok(()),
                (_, Some(Fault::Swallow)) => {}
                (_, Some(Fault::Delay(delay))) => {
                    tokio::time::sleep(delay).await;
                    self.to.write_all(&bytes[..read]).await?;
                }
                (_, Some(Fault::CutAfter(limit))) if self.is_answer => {
                    let left = read.min(limit - passed);
                    self.to.write_all(&bytes[..left]).await?;
                    passed += left;
                }
                (_, _) => self.to.write_all(&bytes[..read]).await?,
            }
        }
    }
}
