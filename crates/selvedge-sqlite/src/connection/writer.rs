//! The one thread that writes, and its group commit.
//!
//! Jobs arrive over a channel. All jobs that are queued when a transaction begins run in it one after another, each in a
//! savepoint of its own, and share one sync of the disk. A job that fails, or whose decision panics, rolls back its own
//! savepoint only. Answers are sent after the commit, so every answered change is on disk.
//!
//! If SQLite rolls back the whole transaction in the middle (a full disk), the jobs that had run in it get an error and
//! the others run in a new transaction. The thread ends when the store is closed or dropped, after all queued jobs.
//!
//! A commit counts only if this process still owns the file: the epoch of the owner is compared in the transaction, and
//! the identity of the files after the commit, before the answers. Both cost microseconds, the sync of the disk hundreds.
//! A writer that has lost its file refuses everything from then on.

use super::job::{Job, JobContext};
use crate::clock::Clock;
use crate::connection::failure::failure;
use crate::connection::files::{Files, Loss};
use crate::connection::owner::Epoch;
use rusqlite::Connection;
use selvedge_store::Error;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// The most jobs that share one commit.
const GROUP: usize = 64;
/// The write-ahead log is checkpointed when it has grown to this many pages.
const CHECKPOINT_PAGES: i64 = 4096;
/// The size of a page of the write-ahead log with its header, in bytes.
const FRAME_BYTES: i64 = 4096 + 24;
/// The interval at which an idle writer checks its files.
const IDLE_CHECK: Duration = Duration::from_secs(1);

/// Counters of commits and written bytes.
#[derive(Debug, Default)]
pub struct Figures {
    commits: AtomicI64,
    bytes: AtomicI64,
    /// The current length of the write-ahead log, in pages.
    pages: AtomicI64,
}

impl Figures {
    /// Returns the number of commits and the bytes written to the write-ahead log since the store was opened.
    pub fn so_far(&self) -> (i64, i64) {
        let read = |figure: &AtomicI64| figure.load(Ordering::Relaxed);
        (read(&self.commits), read(&self.bytes))
    }

    /// Counts a commit after which the write-ahead log has this many pages.
    fn count(&self, pages: i64) {
        let before = self.pages.swap(pages, Ordering::Relaxed);
        let written = if pages > before { pages - before } else { pages };
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(written * FRAME_BYTES, Ordering::Relaxed);
    }
}

/// The writing connection and everything else that the thread owns.
pub struct Writer {
    connection: Connection,
    claim: Claim,
    clock: Arc<Clock>,
    figures: Arc<Figures>,
    /// Why this process no longer owns the file.
    lost: RefCell<Option<Lost>>,
}

/// The proof that this process owns the file.
pub struct Claim {
    pub epoch: Epoch,
    /// The files that were opened.
    pub files: Files,
}

/// The end of the ownership.
struct Lost {
    error: Error,
    /// True if other files are at the paths. Closing the connection would delete the write-ahead log there.
    replaced: bool,
}

impl Writer {
    /// Returns a writer on this connection that counts its commits in `figures`.
    pub fn new(
        mut connection: Connection,
        claim: Claim,
        clock: Arc<Clock>,
        figures: Arc<Figures>,
    ) -> Result<Writer, Error> {
        let counting = figures.clone();
        let hook = move |_: &mut rusqlite::hooks::Wal, pages| {
            counting.count(i64::from(pages));
            Ok(())
        };
        connection.wal_hook(Some(hook)).map_err(failure)?;
        Ok(Writer { connection, claim, clock, figures, lost: RefCell::default() })
    }

    /// Runs jobs until all senders are dropped and the queue is empty.
    pub fn run(self, jobs: &Receiver<Box<dyn Job>>) {
        loop {
            let first = match jobs.recv_timeout(IDLE_CHECK) {
                Ok(first) => first,
                Err(RecvTimeoutError::Timeout) => {
                    // Logged by the check.
                    let _ = self.check_files();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let mut group = VecDeque::from([first]);
            group.extend(jobs.try_iter().take(GROUP - 1));
            while !group.is_empty() {
                self.commit(&mut group);
            }
            if self.figures.pages.load(Ordering::Relaxed) >= CHECKPOINT_PAGES && self.check_owned().is_ok() {
                self.checkpoint("pragma wal_checkpoint(passive)");
            }
        }
        if self.lost.borrow().as_ref().is_some_and(|lost| lost.replaced) {
            // Not closed: that would delete the write-ahead log of the files that are at the paths now.
            std::mem::forget(self.connection);
            return;
        }
        self.checkpoint("pragma busy_timeout = 1000; pragma wal_checkpoint(truncate)");
        if let Err((_, error)) = self.connection.close() {
            tracing::warn!(%error, "the database could not be closed");
        }
    }

    /// Runs jobs of the group in one transaction until all have run or the transaction is lost, and answers those that
    /// ran.
    fn commit(&self, group: &mut VecDeque<Box<dyn Job>>) {
        if let Err(lost) = self.check_owned() {
            // Logged when it was lost.
            group.drain(..).for_each(|job| job.answer(Err(lost.clone())));
            return;
        }
        let mut ran = Vec::with_capacity(group.len());
        let outcome = self
            .execute("begin immediate")
            .and_then(|()| self.check_epoch())
            .and_then(|()| self.run_all(group, &mut ran))
            .and_then(|()| self.execute("commit"));
        if let Err(error) = &outcome {
            tracing::error!(%error, "a transaction failed");
            self.roll_back();
        }
        // After the commit: a log that was deleted before it has swallowed it.
        let outcome = outcome.and_then(|()| self.check_files());
        if ran.is_empty() {
            // The transaction could not be begun, so every job of the group fails.
            ran.extend(group.drain(..));
        }
        for job in ran {
            job.answer(outcome.clone());
        }
    }

    /// Fails if the ownership has been lost before.
    fn check_owned(&self) -> Result<(), Error> {
        self.lost.borrow().as_ref().map_or(Ok(()), |lost| Err(lost.error.clone()))
    }

    /// Fails if another process has opened the file since. Called in a transaction.
    fn check_epoch(&self) -> Result<(), Error> {
        let found = Epoch::read(&self.connection).map_err(failure)?;
        if found == self.claim.epoch {
            return Ok(());
        }
        let why =
            "another process has opened the file, so this one writes nothing more; stop one of them".into();
        self.lose(Lost { error: Error::Unavailable(why), replaced: false })
    }

    /// Fails if a file was deleted or replaced. If only the write-ahead log is missing, its commits are saved first.
    fn check_files(&self) -> Result<(), Error> {
        self.check_owned()?;
        let Some(Loss { path, is_log_missing }) = self.claim.files.loss() else {
            return Ok(());
        };
        let path = path.display();
        let (event, advice) = if is_log_missing {
            self.checkpoint("pragma wal_checkpoint(full)");
            ("deleted", "its commits were copied to the database; restart the server")
        } else {
            ("deleted or replaced", "stop the server, restore the files, and start it again")
        };
        let why =
            format!("{path} was {event} while the store was open, so nothing more is written; {advice}");
        tracing::error!("{why}");
        self.lose(Lost { error: Error::Unavailable(why), replaced: !is_log_missing })
    }

    fn lose(&self, lost: Lost) -> Result<(), Error> {
        let error = lost.error.clone();
        self.lost.replace(Some(lost));
        Err(error)
    }

    fn run_all(&self, group: &mut VecDeque<Box<dyn Job>>, ran: &mut Vec<Box<dyn Job>>) -> Result<(), Error> {
        while let Some(mut job) = group.pop_front() {
            let alive = self.run_one(&mut *job);
            ran.push(job);
            alive?;
        }
        Ok(())
    }

    /// Runs one job in a savepoint. Returns an error only if the whole transaction has failed.
    fn run_one(&self, job: &mut dyn Job) -> Result<(), Error> {
        self.execute("savepoint job")?;
        let context = JobContext { connection: &self.connection, now: self.clock.now() };
        let succeeded = job.run(&context);
        if self.connection.is_autocommit() {
            let why = "SQLite rolled back the transaction; the disk may be full";
            return Err(Error::Unavailable(why.into()));
        }
        if !succeeded {
            context.roll_back()?;
        }
        self.execute("release job")
    }

    /// Rolls back a failed transaction, unless SQLite has done so.
    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.execute("rollback")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    /// Copies the write-ahead log into the database. Pages that readers still need are copied the next time.
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
    use super::super::job::job;
    use super::*;
    use tokio::sync::oneshot;

    fn writer(schema: &str) -> Writer {
        let connection = Connection::open_in_memory().expect("an in-memory database opens");
        connection.execute_batch(schema).expect("the schema is created");
        let clock = Arc::new(Clock::starting_at(0));
        let claim =
            Claim { epoch: Epoch::read(&connection).expect("the epoch is read"), files: Files::default() };
        Writer::new(connection, claim, clock, Arc::default()).expect("the writer is created")
    }

    /// A job that inserts a row of so many bytes.
    fn insert(bytes: usize) -> (Box<dyn Job>, oneshot::Receiver<Result<(), Error>>) {
        job(move |context| {
            let row = [vec![7_u8; bytes]];
            let inserted = context.connection.execute("insert into letters values (?1)", row);
            inserted.map(drop).map_err(failure)
        })
    }

    fn rows(writer: &Writer) -> i64 {
        let count = "select count(*) from letters";
        let counted = writer.connection.query_row(count, (), |row| row.get(0));
        counted.expect("rows are counted")
    }

    #[test]
    fn a_full_disk_fails_the_jobs_of_the_transaction_and_the_writer_continues() {
        let writer = writer("pragma max_page_count = 20; create table letters (body blob)");
        let (jobs, mut answers): (VecDeque<_>, Vec<_>) = [10, 1_000_000, 10].map(insert).into_iter().unzip();
        let mut group = jobs;
        writer.commit(&mut group);
        assert_eq!(group.len(), 1, "the last job was not started");
        let early = answers[0].try_recv().expect("the first job is answered");
        let full = answers[1].try_recv().expect("the second job is answered");
        assert!(matches!(early, Err(Error::Unavailable(_))), "{early:?}");
        assert!(matches!(full, Err(Error::Unavailable(_))), "{full:?}");
        assert_eq!(rows(&writer), 0);
        writer.commit(&mut group);
        assert!(answers[2].try_recv().expect("the third job is answered").is_ok());
        assert_eq!(rows(&writer), 1);
    }

    #[test]
    fn a_failed_job_rolls_back_only_its_own_changes() {
        let writer = writer("create table letters (body blob)");
        let (before, mut first) = insert(1);
        let (fails, mut second) = job(|context: &JobContext<'_>| {
            let inserted = context.connection.execute("insert into letters values (x'00')", ());
            inserted.map_err(failure)?;
            Err::<(), Error>(Error::Failed("on purpose".into()))
        });
        let (after, mut third) = insert(1);
        writer.commit(&mut VecDeque::from([before, fails, after]));
        let answers = [&mut first, &mut second, &mut third].map(|answer| answer.try_recv());
        let succeeded = answers.map(|answer| answer.expect("every job is answered").is_ok());
        assert_eq!(succeeded, [true, false, true]);
        assert_eq!(rows(&writer), 2);
    }

    #[test]
    fn a_transaction_that_cannot_be_begun_fails_every_job_of_its_group() {
        let writer = writer("create table letters (body blob); begin");
        let (jobs, mut answers): (VecDeque<_>, Vec<_>) = [1, 1].map(insert).into_iter().unzip();
        let mut group = jobs;
        writer.commit(&mut group);
        assert!(group.is_empty());
        for answer in &mut answers {
            assert!(answer.try_recv().expect("every job is answered").is_err());
        }
        let (job, mut answer) = insert(1);
        writer.commit(&mut VecDeque::from([job]));
        assert!(answer.try_recv().expect("the job is answered").is_ok(), "the writer has recovered");
    }
}
