//! Two servers act on the same suspended execution at the same moment: suspend, resume, end it.
//!
//! Each race is made certain: a third connection locks a row, or blocks all commits, waits until the servers wait in the
//! order that the test needs, and releases them. No dispatcher and no reconciler runs unless a test calls it.

mod children;
mod concurrent_claims;
mod deadlocks;
mod endings;
mod signals;
mod steps;
mod timeouts;
mod tokens;

use selvedge_conformance::Harness;
use selvedge_engine::Options;
use selvedge_engine::core::outbox::OutboxRow;
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::flows::dispatch::Dispatched;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_postgres::{PostgresStore, Settings};
use selvedge_system_tests::server::{Server, fence, passive_options};
use selvedge_system_tests::suspensions::carried_signals;
use selvedge_system_tests::{LONG, PlainConnection, Sandbox, flows};
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Two servers, and a connection to block both.
struct Race {
    sandbox: Sandbox,
    stores: [Arc<PostgresStore>; 2],
    a: Server,
    b: Server,
    plain: PlainConnection,
}

/// The point at which servers are blocked.
#[derive(Clone, Copy)]
enum Block {
    /// The row of an execution is locked: transactions wait before they read it under lock or change it.
    Row(ExecutionId),
    /// Commits are blocked: transactions wait just before their commit, with all rows locked.
    Commits,
}

impl Race {
    async fn new() -> Race {
        Self::in_sandbox(Sandbox::new()).await
    }

    async fn in_sandbox(sandbox: Sandbox) -> Race {
        let settings = patient(&sandbox);
        let stores =
            [sandbox.store_with("a", settings.clone()).await, sandbox.store_with("b", settings).await];
        let options = Options { dispatch: false, ..passive_options() };
        let a = Server::new(stores[0].clone(), options.clone()).await;
        let b = Server::new(stores[1].clone(), options).await;
        let plain = sandbox.plain().await;
        Race { sandbox, stores, a, b, plain }
    }

    async fn block(&self, block: Block) {
        match block {
            Block::Row(id) => self.plain.lock_execution(id).await,
            Block::Commits => self.plain.block_commits().await,
        }
    }

    /// Runs two calls that are both blocked, the first through the server of this name before the second through the
    /// other one.
    async fn in_turn<A, B>(
        &self,
        block: Block,
        (who, first): (&str, impl Future<Output = A>),
        (other, second): (&str, impl Future<Output = B>),
    ) -> (A, B) {
        self.block(block).await;
        let second = async {
            self.sandbox.waits_for_lock(who, 1).await;
            second.await
        };
        let release = async {
            self.sandbox.waits_for_lock(who, 1).await;
            self.sandbox.waits_for_lock(other, 1).await;
            self.plain.release().await;
        };
        let (first, second, ()) = tokio::join!(first, second, release);
        (first, second)
    }

    /// Runs a call that is blocked, through the server of this name, and a call that is not and ends before the first
    /// continues.
    async fn meanwhile<A, B>(
        &self,
        block: Block,
        (who, first): (&str, impl Future<Output = A>),
        second: impl Future<Output = B>,
    ) -> (A, B) {
        self.block(block).await;
        let second = async {
            self.sandbox.waits_for_lock(who, 1).await;
            let second = second.await;
            self.plain.release().await;
            second
        };
        tokio::join!(first, second)
    }

    /// Returns the number of retried transactions of each server.
    fn conflicts(&self) -> [u64; 2] {
        [self.stores[0].conflicts(), self.stores[1].conflicts()]
    }

    /// Checks that an execution was resumed this number of times and that its claim carries these signals. Returns the
    /// claim.
    async fn is_resumed(&self, id: ExecutionId, times: usize, signals: &[&str]) -> Claimed {
        assert_eq!(self.a.count_events(id, "execution.resumed").await, times);
        let claimed = self.b.claim_again(id).await;
        assert_eq!(carried_signals(&claimed), signals);
        claimed
    }

    /// Checks that an execution was resumed once, and completes it.
    async fn resumes(&self, id: ExecutionId, signals: &[&str]) {
        let claimed = self.is_resumed(id, 1, signals).await;
        self.a.complete(fence(&claimed)).await.expect("the lease is held");
        assert_eq!(self.b.row(id).await.detail.record.untaken, 0);
    }

    /// Checks the invariants of all rows and of the whole log, and stops the servers.
    async fn check_and_stop(&self) {
        flows::check_and_stop(&[&self.a, &self.b]).await;
    }
}

/// Returns settings with a lock timeout that no test reaches and that is longer than Postgres takes to detect a deadlock.
fn patient(sandbox: &Sandbox) -> Settings {
    Settings { lock_timeout: LONG, ..sandbox.settings() }
}

/// A server whose single connection for transactions is busy, so that all calls that arrive meanwhile share one batch.
struct BusyWriter {
    plain: PlainConnection,
    task: JoinHandle<()>,
}

impl BusyWriter {
    /// Keeps the writer busy with an operation on an execution whose row is locked. The server's connections are named
    /// "narrow".
    async fn keep(race: &Race, narrow: &Server) -> BusyWriter {
        let plain = race.sandbox.plain().await;
        let draft = Draft { lane: "aside".into(), ..Draft::new("kind") };
        let other = race.a.submit(draft).await;
        plain.lock_execution(other).await;
        let server = narrow.clone();
        let task = tokio::spawn(async move {
            server.operate(other, Action::Prioritise { priority: 5 }).await.expect("the priority is raised");
        });
        race.sandbox.waits_for_lock("narrow", 1).await;
        BusyWriter { plain, task }
    }

    /// Lets the writer continue.
    async fn release(self) {
        self.plain.release().await;
        self.task.await.expect("the task does not panic");
    }
}

/// Processes a chunk of an outbox row through the store of `server`.
async fn dispatch(server: &Server, row: &OutboxRow) -> Dispatched {
    Harness::new(server.engine.store().clone()).await.dispatch(row).await
}

fn advanced(changed: u32) -> Dispatched {
    Dispatched::Advanced { changed, rest: None }
}
