//! A proxy between a store and Postgres that simulates a crash of the store's server at a chosen statement: all its
//! connections are cut at once, and new ones are refused until the server is revived.

use super::proxy::{listen, message, pass_startup, words, write};
use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The moment of the crash. Statements of transactions are counted from 0, from `begin` to `commit`, across transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// The statement never reaches Postgres.
    Before(usize),
    /// Postgres has executed the statement, and its answer is lost.
    After(usize),
}

/// A proxy whose client crashes at a chosen statement.
pub struct CrashProxy {
    address: String,
    plan: Arc<Plan>,
}

struct Plan {
    script: Mutex<Script>,
    dead: watch::Sender<bool>,
}

/// The statements counted so far, and the one at which to crash.
#[derive(Default)]
struct Script {
    counts: bool,
    at: Option<CrashPoint>,
    statements: Vec<String>,
}

impl CrashProxy {
    /// Starts a proxy to the Postgres server at `url`.
    pub async fn start(url: &str) -> CrashProxy {
        let (listener, server, address) = listen(url).await;
        let plan = Arc::new(Plan { script: Mutex::default(), dead: watch::Sender::new(false) });
        tokio::spawn(accept(listener, server, plan.clone()));
        CrashProxy { address, plan }
    }

    /// Returns the address of the proxy.
    pub fn url(&self) -> &str {
        &self.address
    }

    /// Starts to count statements, to crash at this one.
    pub fn arm(&self, at: CrashPoint) {
        *self.script() = Script { counts: true, at: Some(at), statements: Vec::new() };
    }

    /// Waits for the crash.
    pub async fn has_died(&self) {
        let mut dead = self.plan.dead.subscribe();
        let _ = dead.wait_for(|dead| *dead).await;
    }

    /// Stops counting and allows connections again. Returns whether the server had crashed, and the counted statements.
    pub fn revive(&self) -> (bool, Vec<String>) {
        let script = std::mem::take(&mut *self.script());
        (self.plan.dead.send_replace(false), script.statements)
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.plan.script.lock().expect("the mutex is not poisoned")
    }
}

impl Plan {
    fn die(&self) {
        self.dead.send_replace(true);
    }

    /// Counts a statement. Returns the crash point if the crash happens at this statement.
    fn count(&self, text: &str) -> Option<CrashPoint> {
        let mut script = self.script.lock().expect("the mutex is not poisoned");
        if !script.counts {
            return None;
        }
        let number = script.statements.len();
        script.statements.push(text.lines().next().unwrap_or_default().to_owned());
        script.at.filter(|at| matches!(at, CrashPoint::Before(n) | CrashPoint::After(n) if *n == number))
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

/// The number of the answer after which the server crashes. Every `sync` and every simple query has one answer.
type Last = Arc<Mutex<Option<usize>>>;

/// Forwards messages of the client to the server, up to the statement at which to crash.
async fn forwards(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    plan: Arc<Plan>,
    last: Last,
) -> io::Result<()> {
    pass_startup(&mut client, &mut server).await?;
    let mut texts: HashMap<String, String> = HashMap::new();
    // The first answer is that to the startup message.
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
                Some(CrashPoint::Before(_)) => {
                    plan.die();
                    return Ok(());
                }
                Some(CrashPoint::After(_)) => {
                    *last.lock().expect("the mutex is not poisoned") = Some(asked + 1)
                }
            }
            inside &= !ends;
        }
        let asks = matches!(kind, b'S' | b'Q');
        asked += usize::from(asks);
        write(&mut server, kind, &body).await?;
        let is_last = *last.lock().expect("the mutex is not poisoned") == Some(asked);
        if asks && is_last {
            pending::<()>().await;
        }
    }
}

/// Forwards messages of the server to the client, except the answer to the statement at which to crash.
async fn backwards(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    plan: Arc<Plan>,
    last: Last,
) -> io::Result<()> {
    let mut answered = 0;
    loop {
        let (kind, body) = message(&mut server).await?;
        let last = *last.lock().expect("the mutex is not poisoned");
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
