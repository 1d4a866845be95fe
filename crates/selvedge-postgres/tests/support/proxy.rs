//! Stands between a store and Postgres, and cuts a connection where a test wants it cut: around a commit.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::config::Host;

/// Where the connection of the next commit is cut.
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
    /// A proxy to the server at `url`.
    pub async fn start(url: &str) -> Proxy {
        let (listener, server, address) = listen(url).await;
        let plan = Arc::new(Plan::default());
        tokio::spawn(accept(listener, server, plan.clone()));
        Proxy { address, plan }
    }

    /// The address of the proxy.
    pub fn url(&self) -> &str {
        &self.address
    }

    /// Cuts the connection of the next commit, and only that one.
    pub fn cut_next(&self, cut: Cut) {
        *self.plan.next.lock().expect("nobody panics with the plan") = Some(cut);
    }

    /// How many connections were cut.
    pub fn cuts(&self) -> usize {
        self.plan.cuts.load(Ordering::SeqCst)
    }
}

/// Listens in front of the server at `url`: gives the listener, where the server is, and the address of the listener.
pub async fn listen(url: &str) -> (TcpListener, String, String) {
    let config: tokio_postgres::Config = url.parse().expect("the address is understood");
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        other => panic!("the proxy goes to a server by TCP, not to {other:?}"),
    };
    let server = format!("{host}:{}", config.get_ports().first().unwrap_or(&5432));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let address = url.replace(&server, &format!("127.0.0.1:{port}"));
    assert_ne!(address, url, "{server} stands in the address");
    (listener, server, address)
}

/// Passes the first message on, which has no type.
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
            let deaf = Arc::new(AtomicBool::new(false));
            // Whichever ends first takes the whole connection with it.
            tokio::select! {
                ended = forwards(from_client, to_server, plan.clone(), deaf.clone()) => ended,
                ended = backwards(from_server, to_client, plan, deaf) => ended,
            }
        });
    }
}

/// Client to server. Says nothing more to the client from just before a commit whose answer is to be lost.
async fn forwards(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    plan: Arc<Plan>,
    deaf: Arc<AtomicBool>,
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
            let cut = plan.next.lock().expect("nobody panics with the plan").take();
            match cut {
                None => {}
                Some(Cut::AfterCommit) => deaf.store(true, Ordering::SeqCst),
                Some(Cut::BeforeCommit) => {
                    plan.cuts.fetch_add(1, Ordering::SeqCst);
                    return Ok(());
                }
            }
        }
        write(&mut server, kind, &body).await?;
    }
}

/// Server to client. When it may say nothing more, it waits for the commit and then cuts.
async fn backwards(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    plan: Arc<Plan>,
    deaf: Arc<AtomicBool>,
) -> io::Result<()> {
    loop {
        let (kind, body) = message(&mut server).await?;
        if !deaf.load(Ordering::SeqCst) {
            write(&mut client, kind, &body).await?;
        } else if kind == b'C' && words(&body, 0) == "COMMIT" {
            plan.cuts.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
    }
}

/// The next message: its kind and body.
pub async fn message(from: &mut OwnedReadHalf) -> io::Result<(u8, Vec<u8>)> {
    let kind = from.read_u8().await?;
    let length = from.read_u32().await?;
    let mut body = vec![0; length as usize - 4];
    from.read_exact(&mut body).await?;
    Ok((kind, body))
}

/// Passes a message on.
pub async fn write(to: &mut OwnedWriteHalf, kind: u8, body: &[u8]) -> io::Result<()> {
    let mut whole = vec![kind];
    whole.extend((body.len() as u32 + 4).to_be_bytes());
    whole.extend(body);
    to.write_all(&whole).await
}

/// The text at this place of those that a message begins with.
pub fn words(body: &[u8], place: usize) -> String {
    let text = body.split(|byte| *byte == 0).nth(place).unwrap_or_default();
    String::from_utf8_lossy(text).trim().to_owned()
}
