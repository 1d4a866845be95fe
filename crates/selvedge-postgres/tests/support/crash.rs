//! Stands between a store and Postgres, and lets the store's server die at a chosen statement of its transactions: all its
//! connections are cut at once, and it gets no new one until it is revived.

use super::proxy::{listen, message, pass_startup, words, write};
use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// When the server dies. Statements of transactions are counted from 0, from `begin` to `commit`, one transaction after
/// the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The statement never reaches Postgres.
    Before(usize),
    /// Postgres has executed it, and its answer is lost.
    After(usize),
}

/// A proxy whose client dies when it is told to.
pub struct Crasher {
    address: String,
    plan: Arc<Plan>,
}

struct Plan {
    script: Mutex<Script>,
    dead: watch::Sender<bool>,
}

/// What is counted, while it is.
#[derive(Default)]
struct Script {
    counts: bool,
    at: Option<At>,
    statements: Vec<String>,
}

impl Crasher {
    /// A proxy to the server at `url`.
    pub async fn start(url: &str) -> Crasher {
        let (listener, server, address) = listen(url).await;
        let plan = Arc::new(Plan { script: Mutex::default(), dead: watch::Sender::new(false) });
        tokio::spawn(accept(listener, server, plan.clone()));
        Crasher { address, plan }
    }

    /// The address of the proxy.
    pub fn url(&self) -> &str {
        &self.address
    }

    /// Begins to count, and dies there.
    pub fn arm(&self, at: At) {
        *self.script() = Script { counts: true, at: Some(at), statements: Vec::new() };
    }

    /// Comes back when it has died.
    pub async fn has_died(&self) {
        let mut dead = self.plan.dead.subscribe();
        let _ = dead.wait_for(|dead| *dead).await;
    }

    /// Stops counting, and lives again if it had died. Says whether it had, and gives the statements that were counted.
    pub fn revive(&self) -> (bool, Vec<String>) {
        let script = std::mem::take(&mut *self.script());
        (self.plan.dead.send_replace(false), script.statements)
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.plan.script.lock().expect("nobody panics with the script")
    }
}

impl Plan {
    fn die(&self) {
        self.dead.send_replace(true);
    }

    /// Counts a statement; says whether, and when, it is the last.
    fn count(&self, text: &str) -> Option<At> {
        let mut script = self.script.lock().expect("nobody panics with the script");
        if !script.counts {
            return None;
        }
        let number = script.statements.len();
        script.statements.push(text.lines().next().unwrap_or_default().to_owned());
        script.at.filter(|at| matches!(at, At::Before(n) | At::After(n) if *n == number))
    }
}

async fn accept(listener: TcpListener, server: String, plan: Arc<Plan>) {
    while let Ok((client, _)) = listener.accept().await {
        let (server, plan) = (server.clone(), plan.clone());
        if *plan.dead.borrow() {
            continue;
        }
        tokio::spawn(async move {
            let mut dead = plan.dead.subscribe();
            let server = TcpStream::connect(server).await?;
            client.set_nodelay(true)?;
            server.set_nodelay(true)?;
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let last = Arc::new(Mutex::new(None));
            tokio::select! {
                ended = forwards(from_client, to_server, plan.clone(), last.clone()) => ended,
                ended = backwards(from_server, to_client, plan.clone(), last) => ended,
                _ = dead.wait_for(|dead| *dead) => Ok(()),
            }
        });
    }
}

/// The number of the answer after which the server dies: every `sync` and every simple query gets one.
type Last = Arc<Mutex<Option<usize>>>;

/// Client to server. Stops after the statement that is the last.
async fn forwards(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    plan: Arc<Plan>,
    last: Last,
) -> io::Result<()> {
    pass_startup(&mut client, &mut server).await?;
    let mut texts: HashMap<String, String> = HashMap::new();
    // The first answer is to the connection itself.
    let (mut asked, mut inside) = (1, false);
    loop {
        let (kind, body) = message(&mut client).await?;
        let statement = match kind {
            b'P' => {
                texts.insert(words(&body, 0), words(&body, 1));
                None
            }
            b'B' => texts.get(&words(&body, 1)).cloned(),
            b'Q' => Some(words(&body, 0)),
            _ => None,
        };
        if let Some(text) = statement {
            inside |= text.eq_ignore_ascii_case("begin");
            let ends = ["commit", "rollback"].iter().any(|end| text.eq_ignore_ascii_case(end));
            match inside.then(|| plan.count(&text)).flatten() {
                None => {}
                Some(At::Before(_)) => {
                    plan.die();
                    return Ok(());
                }
                Some(At::After(_)) => *last.lock().expect("nobody panics with it") = Some(asked + 1),
            }
            inside &= !ends;
        }
        let asks = matches!(kind, b'S' | b'Q');
        asked += usize::from(asks);
        write(&mut server, kind, &body).await?;
        let is_last = *last.lock().expect("nobody panics with it") == Some(asked);
        if asks && is_last {
            pending::<()>().await;
        }
    }
}

/// Server to client. The answer to the last statement is not passed on.
async fn backwards(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    plan: Arc<Plan>,
    last: Last,
) -> io::Result<()> {
    let mut answered = 0;
    loop {
        let (kind, body) = message(&mut server).await?;
        let last = *last.lock().expect("nobody panics with it");
        answered += usize::from(kind == b'Z');
        if last == Some(answered) {
            plan.die();
            return Ok(());
        }
        if last != Some(answered + 1) {
            write(&mut client, kind, &body).await?;
        }
    }
}
