//! The loading half of a transaction: all statements that a decision needs are sent together, and their answers are
//! gathered.
//!
//! The server runs the statements in the order in which they are sent, so locks are taken in the global order, which is that
//! of [`kinds::LOADS`]. Rows that a lock protects are read by a statement behind it: relatives and records after executions
//! and the outbox, held executions after their gate, leases after their session. The first lock of all, even before the time
//! is read, is the writers' advisory lock, which is only shared: see `bounds` and `log`.

use crate::bounds::Bounds;
use crate::columns::Micros;
use crate::connection::Connection;
use crate::connection::pipeline::{Parameters, Pipeline};
use crate::kinds::{self, executions, gates};
use crate::store_clock;
use crate::transaction::Failed;
use selvedge_core::table::{Access, Request};
use selvedge_core::{Needs, Rows};
use selvedge_store::Error;
use std::time::Duration;
use tokio_postgres::Row;

/// The rows of a transaction as they are loaded.
#[derive(Default)]
pub struct Loading {
    pub rows: Rows,
    /// The indexes of those requests for held executions that met an unreadable row.
    pub damaged: Vec<usize>,
}

/// Adds the answer of a statement to the rows.
type Gather<'a> = Box<dyn FnOnce(&[Row], &mut Loading) -> Result<(), Error> + Send + 'a>;

/// Statements to send, in order.
pub struct Asking<'a> {
    pub needs: &'a Needs,
    pub bounds: &'a Bounds,
    /// The key of the advisory lock that all writers share.
    pub writers_key: i64,
    statements: Vec<(&'static str, Parameters<'static>, Gather<'a>)>,
}

impl<'a> Asking<'a> {
    /// Adds a statement.
    pub fn add(
        &mut self,
        text: &'static str,
        parameters: Parameters<'static>,
        gather: impl FnOnce(&[Row], &mut Loading) -> Result<(), Error> + Send + 'a,
    ) {
        self.statements.push((text, parameters, Box::new(gather)));
    }

    /// Adds a statement about these keys, if there are any.
    pub fn about<T>(
        &mut self,
        keys: &[T],
        text: &'static str,
        parameters: impl FnOnce(&[T]) -> Parameters<'static>,
        gather: impl FnOnce(&[Row], &mut Loading) -> Result<(), Error> + Send + 'a,
    ) {
        if !keys.is_empty() {
            self.add(text, parameters(keys), gather);
        }
    }

    /// Adds a statement that reads the rows of a request.
    pub fn read<K: Ord + Clone>(
        &mut self,
        request: &Request<K>,
        text: &'static str,
        parameters: impl FnOnce(&[K]) -> Parameters<'static>,
        gather: impl FnOnce(&[Row], &mut Loading) -> Result<(), Error> + Send + 'a,
    ) {
        self.about(&request.with(Access::Read), text, parameters, gather);
    }

    /// Adds a statement that locks the rows of a request.
    pub fn lock<K: Ord + Clone>(
        &mut self,
        request: &Request<K>,
        text: &'static str,
        parameters: impl FnOnce(&[K]) -> Parameters<'static>,
        gather: impl FnOnce(&[Row], &mut Loading) -> Result<(), Error> + Send + 'a,
    ) {
        self.about(&request.with(Access::Lock), text, parameters, gather);
    }
}

/// Ignores the answer of a statement that only locks.
pub fn ignore(_: &[Row], _: &mut Loading) -> Result<(), Error> {
    Ok(())
}

/// Decodes all rows of an answer and adds them to those of their kind. An unreadable row fails the load.
pub fn collect<T: 'static>(
    decode: fn(&Row) -> Result<T, Error>,
    of: fn(&mut Rows) -> &mut Vec<T>,
) -> impl FnOnce(&[Row], &mut Loading) -> Result<(), Error> + Send + 'static {
    move |answer, loading| {
        let rows = of(&mut loading.rows);
        for row in answer {
            rows.push(decode(row)?);
        }
        Ok(())
    }
}

/// The beginning of a transaction.
pub struct Begin {
    /// The key of the advisory lock that all writers share.
    pub writers_key: i64,
    /// The time limit of each statement, if it differs from that of the connection.
    pub patience: Option<Duration>,
}

impl Begin {
    /// Adds the statements that begin the transaction and take the writers' lock.
    fn ask(self, asking: &mut Asking<'_>) {
        asking.add("begin", vec![], ignore);
        if let Some(patience) = self.patience {
            let text =
                "select set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true)";
            let ms = |time: Duration| Box::new(time.as_millis().max(1).to_string());
            asking.add(text, vec![ms(patience / LOCK_PATIENCE), ms(patience)], ignore);
        }
        asking.add("select pg_advisory_xact_lock_shared($1)", vec![Box::new(self.writers_key)], ignore);
    }
}

/// The part of its patience that a transaction has for a lock.
const LOCK_PATIENCE: u32 = 5;

/// Loads rows, and first begins the transaction if asked to.
pub async fn load(
    client: &Connection,
    needs: &Needs,
    begin: Option<Begin>,
    writers_key: i64,
    bounds: &Bounds,
) -> Result<Rows, Failed> {
    let mut asking = Asking { needs, bounds, writers_key, statements: Vec::new() };
    if let Some(begin) = begin {
        begin.ask(&mut asking);
    }
    for ask in kinds::LOADS {
        ask(&mut asking);
    }
    // Read last, when all locks are held: so the times of a row's versions never go back.
    asking.add(&store_clock::NOW, vec![], |answer, loading| {
        loading.rows.now = answer.first().map(|row| row.get::<_, Micros>(0).time()).unwrap_or_default();
        Ok(())
    });
    let mut pipeline = Pipeline::new(client);
    let mut gathers = Vec::new();
    for (text, parameters, gather) in asking.statements {
        gathers.push(gather);
        pipeline.add(text, parameters).await?;
    }
    let mut loading = Loading::default();
    for (gather, answer) in gathers.into_iter().zip(pipeline.run().await?) {
        gather(&answer?, &mut loading)?;
    }
    let Loading { mut rows, damaged } = loading;
    gates::look_behind(client, damaged, &mut rows).await?;
    executions::finish(needs, &mut rows);
    Ok(rows)
}
