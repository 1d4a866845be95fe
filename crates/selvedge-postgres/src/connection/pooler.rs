//! Refuses an address that leads to a connection pooler in transaction mode.
//!
//! Such a pooler gives every transaction any of its sessions. The store needs sessions of its own: its settings and prepared
//! statements belong to a session, notifications arrive at one, and every new session is compared with the history that this
//! process knows, which a pooler that reconnects behind a failover would undo. A pooler in session mode is fine.
//!
//! A setting that is sent when the connection is opened reveals a pooler: PostgreSQL accepts it, poolers refuse or ignore it.
//! Then two connections reveal the mode: in session mode none ever gets the session of the other.

use super::endpoint::Exchange;
use super::failure::StatementError;
use super::{Endpoint, Settings, failure};
use selvedge_store::Error;
use std::future::Future;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

/// A setting that only this program knows.
const MARK: &str = "selvedge.session";
/// The number of comparisons of two connections. One suffices unless others use the pooler at the same time.
const ROUNDS: u32 = 10;

const REFUSED: &str = "the address leads to a connection pooler in transaction mode, which gives every transaction another \
                       session; Selvedge needs sessions of its own: connect to PostgreSQL directly, or let the pooler lend \
                       whole sessions (PgBouncer: pool_mode = session)";

/// Opens a connection, and refuses the address if it leads to a pooler in transaction mode.
pub async fn open_checked(
    endpoint: &Endpoint,
    settings: &Settings,
) -> Result<(Client, JoinHandle<()>), Error> {
    let mark = uuid::Uuid::new_v4().simple().to_string();
    let marked = endpoint.with_option(MARK, &mark);
    match marked.try_open(settings.connect_timeout).await {
        Ok(opened) => {
            let session = Session::new(opened, settings);
            let text = format!("select current_setting('{MARK}', true)");
            if session.value(&text).await.map_err(failure)?.as_ref() == Some(&mark) {
                return Ok((session.client, session.exchange));
            }
            session.exchange.abort();
        }
        // The pooler refuses settings that it does not know.
        Err(error) if error.code() == Some(&SqlState::PROTOCOL_VIOLATION) => {}
        Err(error) => return Err(failure(error)),
    }
    let [one, other, kept] = [(); 3].map(|()| endpoint.open(settings));
    let (one, other) = (Session::new(one.await?, settings), Session::new(other.await?, settings));
    let share = shares_sessions(&one, &other).await;
    one.exchange.abort();
    other.exchange.abort();
    if share.map_err(failure)? {
        return Err(Error::BadAddress(REFUSED.into()));
    }
    let (client, exchange) = kept.await?;
    Ok((client, spawn(exchange)))
}

/// Reports whether one of two connections gets a session that the other one had.
async fn shares_sessions(one: &Session, other: &Session) -> Result<bool, StatementError> {
    let number = "select pg_backend_pid()";
    // A pooler with two sessions that takes turns gives both connections another session only in the next round.
    let known = one.value(number).await?;
    for _ in 0..ROUNDS {
        let first = one.value(number).await?;
        // While the transaction is open, nobody else can have its session.
        let second = match other.value(&format!("begin; {number}")).await {
            Ok(second) => second,
            // A pooler in statement mode refuses transactions.
            Err(error) if error.code() == Some(&SqlState::PROTOCOL_VIOLATION) => return Ok(true),
            Err(error) => return Err(error),
        };
        let third = one.value(number).await?;
        other.value("rollback").await?;
        if first == second || first != third || first != known {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A connection whose statements are not prepared.
struct Session {
    client: Client,
    exchange: JoinHandle<()>,
    answer_timeout: Duration,
}

impl Session {
    fn new((client, exchange): (Client, Exchange), settings: &Settings) -> Session {
        Session { client, exchange: spawn(exchange), answer_timeout: settings.answer_timeout() }
    }

    /// Runs statements. Returns the first value of the last row.
    async fn value(&self, text: &str) -> Result<Option<String>, StatementError> {
        let answer = timeout(self.answer_timeout, self.client.simple_query(text)).await;
        let messages = answer.map_err(|_elapsed| StatementError::Silent(self.answer_timeout))??;
        Ok(messages.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        }))
    }
}

fn spawn(
    exchange: impl Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(async move { drop(exchange.await) })
}
