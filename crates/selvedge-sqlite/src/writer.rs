//! The one thread that writes, and its group commit.
//!
//! Jobs come over a channel. All that wait when a transaction begins run in it one after another, each in a savepoint of
//! its own, and share its one wait for the disk: a job that fails, or whose decision panics, takes back its own savepoint
//! and nothing else. Answers are sent after the commit, so what was answered is on disk; if the process dies before, nobody
//! was told.
//!
//! When SQLite gives up the whole transaction in the middle (a full disk), the jobs that already ran in it are told so and
//! the others go on in a new one. The thread ends when the store is closed or dropped, after the jobs that were sent.

use crate::clock::Clock;
use crate::failure::failure;
use crate::job::{Desk, Job};
use rusqlite::Connection;
use selvedge_store::Error;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::Receiver;

/// The most jobs that share one commit.
const GROUP: usize = 64;
/// The log is copied into the database when it has grown to this many pages.
const CHECKPOINT_PAGES: i64 = 4096;
/// A page of the write-ahead log with its header, in bytes.
const FRAME_BYTES: i64 = 4096 + 24;

/// What was written so far.
#[derive(Debug, Default)]
pub struct Figures {
    commits: AtomicI64,
    bytes: AtomicI64,
    /// The pages in the write-ahead log.
    pages: AtomicI64,
}

impl Figures {
    /// Commits, and bytes of write-ahead log.
    pub fn so_far(&self) -> (i64, i64) {
        let read = |figure: &AtomicI64| figure.load(Ordering::Relaxed);
        (read(&self.commits), read(&self.bytes))
    }

    /// Counts a commit after which the log has this many pages.
    fn count(&self, pages: i64) {
        let before = self.pages.swap(pages, Ordering::Relaxed);
        let written = if pages > before { pages - before } else { pages };
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(written * FRAME_BYTES, Ordering::Relaxed);
    }
}

/// The thread's own things.
pub struct Writer {
    connection: Connection,
    clock: Arc<Clock>,
    figures: Arc<Figures>,
}

impl Writer {
    /// A writer on this connection, which counts into `figures`.
    pub fn new(
        mut connection: Connection,
        clock: Arc<Clock>,
        figures: Arc<Figures>,
    ) -> Result<Writer, Error> {
        let counting = figures.clone();
        let hook = move |_: &mut rusqlite::hooks::Wal, pages| {
            counting.count(i64::from(pages));
            Ok(())
        };
        connection.wal_hook(Some(hook)).map_err(failure)?;
        Ok(Writer { connection, clock, figures })
    }

    /// Writes until nobody can send any more and everything that was sent is done.
    pub fn run(self, jobs: &Receiver<Box<dyn Job>>) {
        while let Ok(first) = jobs.recv() {
            let mut group = VecDeque::from([first]);
            group.extend(jobs.try_iter().take(GROUP - 1));
            while !group.is_empty() {
                self.commit(&mut group);
            }
            if self.figures.pages.load(Ordering::Relaxed) >= CHECKPOINT_PAGES {
                self.checkpoint("pragma wal_checkpoint(passive)");
            }
        }
        self.checkpoint("pragma busy_timeout = 1000; pragma wal_checkpoint(truncate)");
        if let Err((_, error)) = self.connection.close() {
            tracing::warn!(%error, "the database did not close well");
        }
    }

    /// Runs jobs of the group in one transaction, until all are done or the transaction is lost, and answers them.
    fn commit(&self, group: &mut VecDeque<Box<dyn Job>>) {
        let mut ran = Vec::with_capacity(group.len());
        let outcome = self
            .execute("begin immediate")
            .and_then(|()| self.run_all(group, &mut ran))
            .and_then(|()| self.execute("commit"));
        if let Err(error) = &outcome {
            tracing::error!(%error, "a transaction failed");
            self.give_up();
        }
        if ran.is_empty() {
            // It could not be begun: so it is for all of them.
            ran.extend(group.drain(..));
        }
        for job in ran {
            job.answer(outcome.clone());
        }
    }

    fn run_all(&self, group: &mut VecDeque<Box<dyn Job>>, ran: &mut Vec<Box<dyn Job>>) -> Result<(), Error> {
        while let Some(mut job) = group.pop_front() {
            let alive = self.run_one(&mut *job);
            ran.push(job);
            alive?;
        }
        Ok(())
    }

    /// Runs one job in a savepoint. An error is one of the whole transaction.
    fn run_one(&self, job: &mut dyn Job) -> Result<(), Error> {
        self.execute("savepoint job")?;
        let desk = Desk { connection: &self.connection, now: self.clock.now() };
        let succeeded = job.run(&desk);
        if self.connection.is_autocommit() {
            let why = "the database gave up the transaction; the disk may be full";
            return Err(Error::Unavailable(why.into()));
        }
        if !succeeded {
            desk.take_back()?;
        }
        self.execute("release job")
    }

    /// Ends a transaction that failed, if the database did not.
    fn give_up(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.execute("rollback")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    /// Copies the write-ahead log into the database. What it cannot do now it does the next time.
    fn checkpoint(&self, statements: &str) {
        if let Err(error) = self.connection.execute_batch(statements) {
            tracing::warn!(%error, "a checkpoint failed");
        }
    }

    fn execute(&self, statement: &str) -> Result<(), Error> {
        let mut statement = self.connection.prepare_cached(statement).map_err(failure)?;
        statement.execute(()).map(drop).map_err(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::job;
    use tokio::sync::oneshot;

    fn writer(set_up: &str) -> Writer {
        let connection = Connection::open_in_memory().expect("a database in memory opens");
        connection.execute_batch(set_up).expect("it is set up");
        let clock = Arc::new(Clock::starting_at(0));
        Writer::new(connection, clock, Arc::default()).expect("a writer is made")
    }

    /// A job that inserts so many bytes.
    fn insert(bytes: usize) -> (Box<dyn Job>, oneshot::Receiver<Result<(), Error>>) {
        job(move |desk| {
            let row = [vec![7_u8; bytes]];
            let inserted = desk.connection.execute("insert into letters values (?1)", row);
            inserted.map(drop).map_err(failure)
        })
    }

    fn rows(writer: &Writer) -> i64 {
        let count = "select count(*) from letters";
        let counted = writer.connection.query_row(count, (), |row| row.get(0));
        counted.expect("rows are counted")
    }

    #[test]
    fn a_full_disk_fails_what_shared_the_transaction_and_the_writer_goes_on() {
        let writer = writer("pragma max_page_count = 20; create table letters (body blob)");
        let (jobs, mut answers): (VecDeque<_>, Vec<_>) = [10, 1_000_000, 10].map(insert).into_iter().unzip();
        let mut group = jobs;
        writer.commit(&mut group);
        assert_eq!(group.len(), 1, "the last one was not begun");
        let early = answers[0].try_recv().expect("it is answered");
        let full = answers[1].try_recv().expect("it is answered");
        assert!(matches!(early, Err(Error::Unavailable(_))), "{early:?}");
        assert!(matches!(full, Err(Error::Unavailable(_))), "{full:?}");
        assert_eq!(rows(&writer), 0);
        writer.commit(&mut group);
        assert!(answers[2].try_recv().expect("it is answered").is_ok());
        assert_eq!(rows(&writer), 1);
    }

    #[test]
    fn a_job_that_fails_takes_back_only_what_it_did() {
        let writer = writer("create table letters (body blob)");
        let (before, mut first) = insert(1);
        let (fails, mut second) = job(|desk: &Desk<'_>| {
            let inserted = desk.connection.execute("insert into letters values (x'00')", ());
            inserted.map_err(failure)?;
            Err::<(), Error>(Error::Failed("on purpose".into()))
        });
        let (after, mut third) = insert(1);
        writer.commit(&mut VecDeque::from([before, fails, after]));
        let answers = [&mut first, &mut second, &mut third].map(|answer| answer.try_recv());
        let succeeded = answers.map(|answer| answer.expect("it is answered").is_ok());
        assert_eq!(succeeded, [true, false, true]);
        assert_eq!(rows(&writer), 2);
    }

    #[test]
    fn a_transaction_that_cannot_be_begun_fails_everyone_in_its_group() {
        let writer = writer("create table letters (body blob); begin");
        let (jobs, mut answers): (VecDeque<_>, Vec<_>) = [1, 1].map(insert).into_iter().unzip();
        let mut group = jobs;
        writer.commit(&mut group);
        assert!(group.is_empty());
        for answer in &mut answers {
            assert!(answer.try_recv().expect("it is answered").is_err());
        }
        let (job, mut answer) = insert(1);
        writer.commit(&mut VecDeque::from([job]));
        assert!(answer.try_recv().expect("it is answered").is_ok(), "the writer has recovered");
    }
}
