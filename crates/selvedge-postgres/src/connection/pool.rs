//! Pools, and the connections they lend. No call waits for a silent server for longer than a deadline.
//!
//! A connection returns to its pool only if the server has answered every statement and no transaction is open. Otherwise
//! it is closed: a caller that goes away, or a deadline that passes, never leaves a busy connection to the next caller.
//!
//! A connection may be swallowed by the network: packets vanish, and no error ever comes. TCP notices that only while the
//! other end acknowledges nothing. So every statement has a deadline as well, which each answer of a pipeline extends.
//! One silent connection makes the idle ones suspect too, in all pools: those used before are closed instead of lent. A
//! connection that was not lent for a while is probed first.

use super::failure::{StatementError, failure, no_connection};
use super::fence::Fence;
use super::growth::Growth;
use super::lineage::Lineage;
use super::tls::Tls;
use super::{Caches, Endpoint, Settings, preparation};
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Timeouts,
};
use futures_util::future::maybe_done;
use selvedge_store::Error;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

/// The time since its last use after which a connection is probed before it is lent.
const PROBE_AFTER: Duration = Duration::from_secs(5);
/// The longest time that a probe, or the request to cancel a statement, may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The last time at which a connection of this store was found to be silent.
#[derive(Default)]
pub struct Silence(Mutex<Option<Instant>>);

impl Silence {
    fn notice(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Reports whether a connection was found to be silent within this time.
    fn within(&self, time: Duration) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|at| at.elapsed() <= time)
    }
}

/// The statements that an abandoned connection leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abandoned {
    /// A request to the server cancels them: nobody needs their result.
    Cancelled,
    /// They are not cancelled. A commit that waits for a standby must not be cut short, which would make it visible.
    LeftAlone,
}

#[derive(Clone)]
pub struct Connections {
    pool: Pool,
    silence: Arc<Silence>,
    connect_timeout: Duration,
    answer_timeout: Duration,
    abandoned: Abandoned,
    tls: Tls,
    fence: Arc<Fence>,
}

impl Connections {
    /// Returns a pool of `size` connections. Every new connection is compared with the history that this process knows.
    pub fn new(
        endpoint: &Endpoint,
        settings: &Settings,
        (size, abandoned): (usize, Abandoned),
        silence: &Arc<Silence>,
        caches: &Caches,
    ) -> Result<Connections, Error> {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(endpoint.config().clone(), endpoint.clone(), recycling);
        let limit = settings.connect_timeout;
        let pool = Pool::builder(manager)
            .max_size(size)
            .timeouts(Timeouts { wait: Some(limit), create: Some(limit), recycle: Some(limit) })
            .runtime(Runtime::Tokio1)
            .post_create(set_up(preparation(settings), limit, caches.clone()))
            .pre_recycle(check(silence.clone(), caches.lineage.clone()))
            .post_recycle(refresh_plans(caches.growth.clone()))
            .build()
            .map_err(|error| Error::Failed(error.to_string()))?;
        Ok(Connections {
            pool,
            silence: silence.clone(),
            connect_timeout: limit,
            answer_timeout: settings.answer_timeout(),
            abandoned,
            tls: endpoint.tls(),
            fence: caches.fence.clone(),
        })
    }

    /// Lends a connection. The time limit covers the wait for a free one, and opening and setting up a new one.
    pub async fn get(&self) -> Result<Connection, Error> {
        self.fence.check()?;
        let client = timeout(self.connect_timeout, self.pool.get()).await.map_err(|_elapsed| {
            let ms = self.connect_timeout.as_millis();
            Error::Unavailable(format!("no connection to Postgres within {ms} ms"))
        })?;
        // A new connection may have shown that the schema is too new.
        self.fence.check()?;
        Ok(Connection {
            client: Some(client.map_err(no_connection)?),
            silence: self.silence.clone(),
            answer_timeout: self.answer_timeout,
            abandoned: self.abandoned,
            tls: self.tls.clone(),
            unanswered: AtomicUsize::new(0),
            in_transaction: AtomicBool::new(false),
        })
    }

    /// Closes the idle connections, and each other one when it returns.
    pub fn close(&self) {
        self.pool.close();
    }
}

/// Prepares a new connection, and compares its database with the history that this process knows.
fn set_up(prepare: String, limit: Duration, caches: Caches) -> Hook {
    Hook::async_fn(move |client, _| {
        let (prepare, caches) = (prepare.clone(), caches.clone());
        Box::pin(async move {
            let set_up = async {
                client.batch_execute(&prepare).await?;
                caches.connected(client).await
            };
            let Ok(checked) = timeout(limit, set_up).await else {
                return Err(HookError::message("a new connection does not answer"));
            };
            checked.map_err(HookError::Backend)?.map_err(|what| {
                let text = "the database has another history than this process knows";
                tracing::error!(what, "{text}; restart it");
                HookError::message(format!("{text}: {what}"))
            })
        })
    })
}

/// Drops the plans of a connection that is lent again, if they were made for smaller tables.
fn refresh_plans(growth: Arc<Growth>) -> Hook {
    Hook::async_fn(move |client, metrics| {
        let growth = growth.clone();
        Box::pin(async move { growth.keep_plans_fresh(client, metrics).await.map_err(HookError::Backend) })
    })
}

/// Refuses an idle connection that is probably silent, or may lead to a server of the past. An unanswered probe makes all
/// others suspect.
fn check(silence: Arc<Silence>, lineage: Arc<Lineage>) -> Hook {
    Hook::async_fn(move |client, metrics| {
        let (silence, lineage) = (silence.clone(), lineage.clone());
        Box::pin(async move {
            if lineage.is_older(metrics.created) {
                return Err(HookError::message("the connection may lead to another server"));
            }
            let unused = metrics.last_used();
            if silence.within(unused) {
                return Err(HookError::message("the connection is suspect"));
            }
            if unused < PROBE_AFTER {
                return Ok(());
            }
            match timeout(PROBE_TIMEOUT, client.simple_query("")).await {
                Ok(answer) => answer.map(drop).map_err(HookError::Backend),
                Err(_elapsed) => {
                    silence.notice();
                    Err(HookError::message("the connection is silent"))
                }
            }
        })
    })
}

/// A connection that a pool has lent.
pub struct Connection {
    /// Present until the connection is dropped.
    client: Option<Object>,
    silence: Arc<Silence>,
    answer_timeout: Duration,
    abandoned: Abandoned,
    tls: Tls,
    /// The number of calls that were begun and have no answer.
    unanswered: AtomicUsize,
    in_transaction: AtomicBool,
}

impl Connection {
    /// Returns the driver's connection, for [`Connection::answer`].
    pub fn client(&self) -> &Object {
        self.client.as_ref().expect("the connection is there until it is dropped")
    }

    /// Waits for an answer, up to the deadline. If the answer does not come, or the caller goes away, the connection is
    /// closed when it is dropped.
    pub async fn answer<T>(&self, answer: impl Future<Output = T>) -> Result<T, StatementError> {
        self.unanswered.fetch_add(1, Ordering::SeqCst);
        match timeout(self.answer_timeout, answer).await {
            Ok(answer) => {
                self.unanswered.fetch_sub(1, Ordering::SeqCst);
                Ok(answer)
            }
            Err(_elapsed) => {
                self.silence.notice();
                Err(StatementError::Silent(self.answer_timeout))
            }
        }
    }

    /// Prepares a statement, unless this connection has prepared it before.
    pub async fn prepare_cached(&self, text: &str) -> Result<Statement, StatementError> {
        Ok(self.answer(self.client().prepare_cached(text)).await??)
    }

    /// Runs a prepared statement and returns its rows.
    pub async fn query(
        &self,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StatementError> {
        Ok(self.answer(self.client().query(statement, parameters)).await??)
    }

    /// Runs a prepared statement that returns one row.
    pub async fn query_one(
        &self,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, StatementError> {
        Ok(self.answer(self.client().query_one(statement, parameters)).await??)
    }

    /// Runs a prepared statement and returns the number of rows that it changed.
    pub async fn execute(
        &self,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, StatementError> {
        Ok(self.answer(self.client().execute(statement, parameters)).await??)
    }

    pub async fn batch_execute(&self, text: &str) -> Result<(), StatementError> {
        Ok(self.answer(self.client().batch_execute(text)).await??)
    }

    /// Runs `work` in a transaction that `begin` starts. An error of `work` rolls it back.
    pub async fn transaction<T>(
        &self,
        begin: &str,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.enter_transaction();
        self.batch_execute(begin).await.map_err(failure)?;
        match work.await {
            Ok(done) => {
                self.batch_execute("commit").await.map_err(failure)?;
                self.leave_transaction();
                Ok(done)
            }
            Err(error) => {
                self.roll_back().await;
                Err(error)
            }
        }
    }

    /// Marks the beginning of a transaction: until it is left, dropping the connection closes it.
    pub fn enter_transaction(&self) {
        self.in_transaction.store(true, Ordering::SeqCst);
    }

    /// Marks the end of a transaction, which the server has confirmed.
    pub fn leave_transaction(&self) {
        self.in_transaction.store(false, Ordering::SeqCst);
    }

    /// Rolls the transaction back, unless it is over. If the server does not confirm it, the connection is closed when it is
    /// dropped.
    pub async fn roll_back(&self) {
        let is_silent = self.unanswered.load(Ordering::SeqCst) > 0;
        let is_over = !self.in_transaction.load(Ordering::SeqCst);
        if !is_silent && !is_over && self.batch_execute("rollback").await.is_ok() {
            self.leave_transaction();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        let is_busy = *self.unanswered.get_mut() > 0;
        if !is_busy && !*self.in_transaction.get_mut() {
            return;
        }
        let client = Object::take(client);
        if is_busy
            && self.abandoned == Abandoned::Cancelled
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (token, tls) = (client.cancel_token(), self.tls.clone());
            runtime.spawn(async move { timeout(PROBE_TIMEOUT, token.cancel_query(tls)).await });
        }
    }
}

pub type Parameters<'a> = Vec<Box<dyn ToSql + Sync + Send + 'a>>;

/// Borrows parameters as the driver takes them.
pub fn as_refs<'p>(parameters: &'p Parameters<'_>) -> Vec<&'p (dyn ToSql + Sync)> {
    parameters.iter().map(|value| value.as_ref() as &(dyn ToSql + Sync)).collect()
}

/// Statements that are sent together on one connection. The server runs them in the order in which they were added.
pub struct Pipeline<'a> {
    connection: &'a Connection,
    statements: Vec<(Statement, Parameters<'a>)>,
}

impl<'a> Pipeline<'a> {
    pub fn new(connection: &'a Connection) -> Self {
        Pipeline { connection, statements: Vec::new() }
    }

    /// Adds a statement, which is prepared first if this connection has not used it before.
    pub async fn add(&mut self, text: &str, parameters: Parameters<'a>) -> Result<(), StatementError> {
        let statement = self.connection.prepare_cached(text).await?;
        self.statements.push((statement, parameters));
        Ok(())
    }

    /// Sends all statements and waits for all answers, which are returned in order. After an error the server skips the
    /// rest of the transaction, so the first error is the cause of all others. The outer error means that the connection
    /// was silent before the last answer.
    pub async fn run(self) -> Result<Vec<Result<Vec<Row>, StatementError>>, StatementError> {
        let client = self.connection.client();
        let mut running: Vec<_> = self
            .statements
            .iter()
            .map(|(statement, parameters)| {
                let parameters = as_refs(parameters);
                Box::pin(maybe_done(async move { client.query(statement, &parameters).await }))
            })
            .collect();
        let mut answered = 0;
        while answered < running.len() {
            // The first poll of a query sends it, and the first round of polls is in order.
            let next_answer = poll_fn(|context| {
                let mut ready = 0;
                for one in &mut running {
                    ready += usize::from(one.as_mut().poll(context).is_ready());
                }
                if ready > answered { Poll::Ready(ready) } else { Poll::Pending }
            });
            answered = self.connection.answer(next_answer).await?;
        }
        let answers = running.iter_mut().filter_map(|one| Pin::as_mut(one).take_output());
        Ok(answers.map(|answer| answer.map_err(StatementError::from)).collect())
    }
}
