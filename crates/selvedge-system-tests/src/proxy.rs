//! A proxy between a store and Postgres that cuts a connection before or after a commit.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::config::Host;

/// The point at which the connection of the next commit is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The server never sees the commit.
    BeforeCommit,
    /// The server commits, and its answer is lost.
    AfterCommit,
}

/// A proxy to Postgres.
pub struct Proxy {
    address: String,
    plan: Arc<Plan>,
}

#[derive(Default)]
struct Plan {
    next: Mutex<Option<Cut>>,
    cuts: AtomicUsize,
}

impl Proxy {
    /// Starts a proxy to the server at `url`.
    pub async fn start(url: &str) -> Proxy {
        let (listener, server, address) = listen(url).await;
        let plan = Arc::new(Plan::default());
        tokio::spawn(accept(listener, server, plan.clone()));
        Proxy { address, plan }
    }

    /// Returns the address of the proxy.
    pub fn url(&self) -> &str {
        &self.address
    }

    /// Cuts the connection of the next commit, and only that one.
    pub fn cut_next(&self, cut: Cut) {
        *self.plan.next.lock().expect("the mutex is not poisoned") = Some(cut);
    }

    /// Returns the number of connections that were cut.
    pub fn cuts(&self) -> usize {
        self.plan.cuts.load(Ordering::SeqCst)
    }
}

/// Opens a listener for a proxy to the server at `url`. Returns it with the address of the server and the URL of the
/// proxy.
pub async fn listen(url: &str) -> (TcpListener, String, String) {
    let config: tokio_postgres::Config = url.parse().expect("the address is valid");
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        other => panic!("the proxy needs a TCP address, not {other:?}"),
    };
    let server = format!("{host}:{}", config.get_ports().first().unwrap_or(&5432));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("the listener is bound").port();
    let address = url.replace(&server, &format!("127.0.0.1:{port}"));
    assert_ne!(address, url, "the URL contains {server}");
    // The proxy reads the messages.
    let separator = if address.contains('?') { '&' } else { '?' };
    (listener, server, format!("{address}{separator}sslmode=disable"))
}

/// Forwards the startup message, which has no type byte.
pub async fn pass_startup(client: &mut OwnedReadHalf, server: &mut OwnedWriteHalf) -> io::Result<()> {
    let length = client.read_u32().await?;
    let mut startup = vec![0; length as usize - 4];
    client.read_exact(&mut startup).await?;
    server.write_u32(length).await?;
    server.write_all(&startup).await
}

async fn accept(listener: TcpListener, server: String, plan: Arc<Plan>) {
    while let Ok((client, _)) = listener.accept().await {
        let (server, plan) = (server.clone(), plan.clone());
        tokio::spawn(async move {
            let server = TcpStream::connect(server).await?;
            client.set_nodelay(true)?;
            server.set_nodelay(true)?;
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let muted = Arc::new(AtomicBool::new(false));
            // The first direction that ends closes the whole connection.
            tokio::select! {
                ended = forwards(from_client, to_server, plan.clone(), muted.clone()) => ended,
                ended = backwards(from_server, to_client, plan, muted) => ended,
            }
        });
    }
}

/// Forwards messages of the client to the server. Mutes the other direction just before a commit whose answer is to be
/// lost.
async fn forwards(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    plan: Arc<Plan>,
    muted: Arc<AtomicBool>,
) -> io::Result<()> {
    pass_startup(&mut client, &mut server).await?;
    let mut commits = HashSet::new();
    loop {
        let (kind, body) = message(&mut client).await?;
        let is_commit = match kind {
            b'P' => {
                let (name, text) = (words(&body, 0), words(&body, 1));
                if text.eq_ignore_ascii_case("commit") {
                    commits.insert(name);
                }
                false
            }
            b'B' => commits.contains(&words(&body, 1)),
            b'Q' => words(&body, 0).eq_ignore_ascii_case("commit"),
            _ => false,
        };
        if is_commit {
            let cut = plan.next.lock().expect("the mutex is not poisoned").take();
            match cut {
                None => {}
                Some(Cut::AfterCommit) => muted.store(true, Ordering::SeqCst),
                Some(Cut::BeforeCommit) => {
                    plan.cuts.fetch_add(1, Ordering::SeqCst);
                    return Ok(());
                }
            }
        }
        write(&mut server, kind, &body).await?;
    }
}

/// Forwards messages of the server to the client. When muted, waits for the answer to the commit and cuts the connection.
async fn backwards(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    plan: Arc<Plan>,
    muted: Arc<AtomicBool>,
) -> io::Result<()> {
    loop {
        let (kind, body) = message(&mut server).await?;
        if !muted.load(Ordering::SeqCst) {
            write(&mut client, kind, &body).await?;
        } else if kind == b'C' && words(&body, 0) == "COMMIT" {
            plan.cuts.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
    }
}

/// Reads the next message: its type and body.
pub async fn message(from: &mut OwnedReadHalf) -> io::Result<(u8, Vec<u8>)> {
    let kind = from.read_u8().await?;
    let length = from.read_u32().await?;
    let mut body = vec![0; length as usize - 4];
    from.read_exact(&mut body).await?;
    Ok((kind, body))
}

/// Writes a message.
pub async fn write(to: &mut OwnedWriteHalf, kind: u8, body: &[u8]) -> io::Result<()> {
    let mut whole = vec![kind];
    whole.extend((body.len() as u32 + 4).to_be_bytes());
    whole.extend(body);
    to.write_all(&whole).await
}

/// Returns one of the null-terminated texts at the beginning of a message, by its index.
pub fn words(body: &[u8], place: usize) -> String {
    let text = body.split(|byte| *byte == 0).nth(place).unwrap_or_default();
    String::from_utf8_lossy(text).trim().to_owned()
}
