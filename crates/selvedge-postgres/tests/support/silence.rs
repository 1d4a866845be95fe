//! A proxy between a store and Postgres that swallows data: connections stay open, bytes are accepted in both directions,
//! and none arrives. Neither end learns that the other one has closed.

use super::proxy::listen;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A proxy whose connections can fall silent.
pub struct SilentProxy {
    address: String,
    plan: Arc<Plan>,
    accepting: JoinHandle<()>,
}

struct Plan {
    /// The number of connections accepted so far. They are numbered from 1.
    accepted: AtomicU64,
    /// Connections up to this number are silent.
    silent_upto: watch::Sender<u64>,
}

impl SilentProxy {
    /// Starts a proxy to the server at `url`.
    pub async fn start(url: &str) -> SilentProxy {
        let (listener, server, address) = listen(url).await;
        let plan = Arc::new(Plan { accepted: AtomicU64::new(0), silent_upto: watch::Sender::new(0) });
        let accepting = tokio::spawn(accept(listener, server, plan.clone()));
        SilentProxy { address, plan, accepting }
    }

    /// Returns the address of the proxy.
    pub fn url(&self) -> &str {
        &self.address
    }

    /// Returns the number of connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.plan.accepted.load(Ordering::SeqCst)
    }

    /// Makes the existing connections silent for good. New ones work, as after a failover.
    pub fn swallow_existing(&self) {
        self.plan.silent_upto.send_replace(self.accepted());
    }

    /// Makes all connections silent, also new ones, until [`SilentProxy::swallow_existing`] is called.
    pub fn swallow_all(&self) {
        self.plan.silent_upto.send_replace(u64::MAX);
    }
}

impl Drop for SilentProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: String, plan: Arc<Plan>) {
    // Dropped with this task, which closes all connections.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let number = plan.accepted.fetch_add(1, Ordering::SeqCst) + 1;
        let (server, plan) = (server.clone(), plan.clone());
        connections.spawn(async move {
            let server = TcpStream::connect(server).await?;
            client.set_nodelay(true)?;
            server.set_nodelay(true)?;
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::select! {
                ended = pass(from_client, to_server, plan.silent_upto.subscribe(), number) => ended,
                ended = pass(from_server, to_client, plan.silent_upto.subscribe(), number) => ended,
            }
        });
    }
}

/// Passes bytes on while the connection is not silent, and discards them afterwards.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    silent_upto: watch::Receiver<u64>,
    number: u64,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut bytes).await?;
        let is_silent = number <= *silent_upto.borrow();
        match (read, is_silent) {
            (0, true) => return pending().await,
            (0, false) => return Ok(()),
            (_, true) => {}
            (read, false) => to.write_all(&bytes[..read]).await?,
        }
    }
}
