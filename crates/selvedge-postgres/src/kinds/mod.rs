//! The kinds of rows, and the two halves of a transaction that walk them. Each noun has a file with its statements, its columns,
//! how it is loaded and saved, and its reads. To add a noun, add a file and name it in the lists below.
//!
//! Loading: all statements that a decision needs are sent together, in the order of [`LOADS`], and their answers are gathered.
//! The server runs them in that order, so locks are taken in the global order. Rows that a lock protects are read by a
//! statement behind it: relatives and records after executions and the outbox, held executions after their gate, leases after
//! their session. The first lock of all, even before the time is read, is the writers' advisory lock, which is only shared: see
//! `bounds` and `log`.
//!
//! Saving: all statements that save changes are sent together with `commit`, in the order of [`SAVES`]. Guards are inside the
//! statements: a failing guard aborts the transaction on the server before it reaches the `commit`.

pub mod api_keys;
pub mod bulk_jobs;
pub mod classes;
pub mod due;
pub mod executions;
pub mod flows;
pub mod gates;
pub mod inbox;
pub mod keys;
pub mod log;
pub mod namespaces;
pub mod outbox;
pub mod projection;
pub mod records;
pub mod rollups;
pub mod schedules;
pub mod secret;
pub mod sessions;
pub mod signals;
pub mod steps;
pub mod streams;
pub mod token_keys;
pub mod waitpoints;
pub mod webhooks;

use crate::bounds::{Bounds, Written};
use crate::connection::lineage::Lineage;
use crate::connection::{Connection, Parameters, Pipeline, StatementError};
use crate::sql::Micros;
use crate::store_clock;
use crate::transaction::Failed;
use selvedge_core::table::{Access, Request};
use selvedge_core::{Changes, FlowId, Needs, Rows};
use selvedge_store::Error;
use std::time::Duration;
use tokio_postgres::Row;

/// The requests of a load, in the global lock order: see [`Stage`](selvedge_core::driver::Stage).
pub const LOADS: &[fn(&mut Asking<'_>)] = &[
    api_keys::lock,
    bulk_jobs::lock,
    webhooks::lock,
    inbox::lock,
    schedules::load,
    flows::load_nodes,
    executions::lock,
    keys::read,
    outbox::lock,
    flows::read,
    gates::load_lanes,
    executions::lock_candidates,
    gates::lock,
    flows::lock,
    executions::read,
    streams::read,
    signals::read,
    steps::read,
    waitpoints::read,
    token_keys::read,
    webhooks::read_deliveries,
    sessions::load,
    classes::read,
];

/// The writes of a save. Rows that many transactions want at once are written late, so that no transaction holds them while it
/// waits for others: the counts of flows, sessions, gates, the ledger, token keys, API keys, webhooks, the pairs of class and
/// priority, and attempts of the projection. The counts of flows come before the sessions, as in the order of loads. The
/// number of the log is drawn last.
pub const SAVES: &[fn(&mut Saving<'_>)] = &[
    executions::delete,
    streams::delete,
    signals::delete,
    steps::delete,
    waitpoints::delete,
    executions::save,
    streams::save,
    signals::save,
    steps::save,
    waitpoints::save,
    executions::save_tags,
    keys::save,
    flows::save_nodes,
    outbox::save,
    flows::save,
    flows::add_counts,
    sessions::save,
    gates::save,
    token_keys::save,
    api_keys::save,
    bulk_jobs::save,
    webhooks::save,
    schedules::save,
    inbox::save,
    classes::save,
    projection::delete,
    log::append,
];

/// Returns every statement, in the order of their paths.
#[cfg(any(test, feature = "testing"))]
pub fn statements() -> Vec<&'static crate::sql::Statement> {
    use crate::{bounds, connection, coverage, diagnosis, settled};

    let modules = [
        api_keys::STATEMENTS,
        bounds::STATEMENTS,
        bulk_jobs::STATEMENTS,
        classes::STATEMENTS,
        connection::STATEMENTS,
        coverage::STATEMENTS,
        diagnosis::STATEMENTS,
        due::STATEMENTS,
        executions::STATEMENTS,
        flows::STATEMENTS,
        gates::STATEMENTS,
        inbox::STATEMENTS,
        keys::STATEMENTS,
        log::STATEMENTS,
        namespaces::STATEMENTS,
        outbox::STATEMENTS,
        projection::STATEMENTS,
        rollups::STATEMENTS,
        schedules::STATEMENTS,
        sessions::STATEMENTS,
        settled::STATEMENTS,
        signals::STATEMENTS,
        steps::STATEMENTS,
        store_clock::STATEMENTS,
        streams::STATEMENTS,
        token_keys::STATEMENTS,
        waitpoints::STATEMENTS,
        webhooks::STATEMENTS,
    ];
    let mut all: Vec<&crate::sql::Statement> = modules.into_iter().flatten().copied().collect();
    all.sort_unstable_by_key(|statement| statement.path);
    all
}

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
pub fn only_locks(_: &[Row], _: &mut Loading) -> Result<(), Error> {
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

pub struct Begin {
    /// The key of the advisory lock that all writers share.
    pub writers_key: i64,
    /// The time limit of each statement, if it differs from that of the connection.
    pub patience: Option<Duration>,
}

impl Begin {
    /// Adds the statements that begin the transaction and take the writers' lock.
    fn ask(self, asking: &mut Asking<'_>) {
        asking.add("begin", vec![], only_locks);
        if let Some(patience) = self.patience {
            let text =
                "select set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true)";
            let ms = |time: Duration| Box::new(time.as_millis().max(1).to_string());
            asking.add(text, vec![ms(patience / LOCK_PATIENCE), ms(patience)], only_locks);
        }
        asking.add("select pg_advisory_xact_lock_shared($1)", vec![Box::new(self.writers_key)], only_locks);
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
    for ask in LOADS {
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

/// The outcome of a committed save.
#[derive(Debug, Default)]
pub struct Saved {
    /// The number of the log entry.
    pub entry: Option<i64>,
    /// Flows that are running without a live member now.
    pub emptied: Vec<FlowId>,
}

/// The outcome of a save and its commit, or the error because of which the commit had no effect.
pub type Answer = Result<Saved, StatementError>;

/// Takes the answer of a statement.
type Take = fn(&[Row], &mut Saved);

/// Statements to send, in order.
pub struct Saving<'a> {
    pub changes: &'a Changes,
    /// Pairs of class and priority whose revision is written.
    pub pairs: &'a [Written],
    pub lineage: &'a Lineage,
    statements: Vec<(&'static str, Parameters<'a>, Take)>,
}

impl<'a> Saving<'a> {
    pub fn add(&mut self, text: &'static str, parameters: Parameters<'a>, take: Take) {
        self.statements.push((text, parameters, take));
    }

    /// Adds a statement that saves these rows, if there are any.
    pub fn rows<R>(
        &mut self,
        rows: &'a [R],
        text: &'static str,
        parameters: impl FnOnce(&'a [R]) -> Parameters<'a>,
    ) {
        if !rows.is_empty() {
            self.add(text, parameters(rows), ignore);
        }
    }
}

pub fn ignore(_: &[Row], _: &mut Saved) {}

/// Saves all changes and commits. An outer error means that the transaction may still be open: nothing was sent, or the
/// connection was silent.
pub async fn save_and_commit(
    client: &Connection,
    changes: &Changes,
    pairs: &[Written],
    lineage: &Lineage,
) -> Result<Answer, StatementError> {
    let mut saving = Saving { changes, pairs, lineage, statements: Vec::new() };
    for save in SAVES {
        save(&mut saving);
    }
    let mut pipeline = Pipeline::new(client);
    let mut takes: Vec<Take> = Vec::new();
    for (text, parameters, take) in saving.statements {
        takes.push(take);
        pipeline.add(text, parameters).await?;
    }
    takes.push(ignore);
    pipeline.add("commit", vec![]).await?;
    Ok(answer(pipeline.run().await?, &takes))
}

/// Reads the answers of the statements, unless one failed.
fn answer(answers: Vec<Result<Vec<Row>, StatementError>>, takes: &[Take]) -> Answer {
    let mut saved = Saved::default();
    for (answer, take) in answers.into_iter().zip(takes) {
        take(&answer?, &mut saved);
    }
    Ok(saved)
}
