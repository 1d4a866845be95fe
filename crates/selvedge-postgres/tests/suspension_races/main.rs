//! Two servers do something to the same suspended execution at the same moment: what waits, what wakes it, and what ends it.
//!
//! Each race is made certain: a third connection holds a row, or the log, until the others are seen to wait, in the order
//! that the test wants, and then lets go. Nobody dispatches by himself and nothing goes by time, so that everything happens
//! when the test wants it.

#[path = "../support/mod.rs"]
mod support;

mod children;
mod crowd;
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
use selvedge_engine::core::rules::dispatch::Dispatched;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_postgres::{PostgresStore, Settings};
use std::sync::Arc;
use support::suspensions::carried;
use support::test_server::{TestServer, fence, passive_options};
use support::{LONG, Plain, Sandbox, flows};
use tokio::task::JoinHandle;

/// Two servers, and a connection to hold what both want.
struct Race {
    sandbox: Sandbox,
    stores: [Arc<PostgresStore>; 2],
    a: TestServer,
    b: TestServer,
    plain: Plain,
}

/// What is held until the servers wait.
#[derive(Clone, Copy)]
enum Hold {
    /// The row of an execution: whoever comes to it waits before it sees or changes it.
    Row(ExecutionId),
    /// The log: whoever changes something waits just before its commit, with all rows locked.
    Log,
}

impl Race {
    async fn new() -> Race {
        Self::on(Sandbox::new()).await
    }

    async fn on(sandbox: Sandbox) -> Race {
        let settings = patient(&sandbox);
        let stores =
            [sandbox.store_with("a", settings.clone()).await, sandbox.store_with("b", settings).await];
        let options = Options { dispatch: false, ..passive_options() };
        let a = TestServer::new(stores[0].clone(), options.clone()).await;
        let b = TestServer::new(stores[1].clone(), options).await;
        let plain = sandbox.plain().await;
        Race { sandbox, stores, a, b, plain }
    }

    async fn hold(&self, hold: Hold) {
        match hold {
            Hold::Row(id) => self.plain.hold(id).await,
            Hold::Log => self.plain.hold_log().await,
        }
    }

    /// Two things that wait for what is held. The first, through the server of this name, comes before the second, through
    /// the other one.
    async fn in_turn<A, B>(
        &self,
        hold: Hold,
        (who, first): (&str, impl Future<Output = A>),
        (other, second): (&str, impl Future<Output = B>),
    ) -> (A, B) {
        self.hold(hold).await;
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

    /// Something that waits for what is held, through the server of this name, and something that does not and is over
    /// before that goes on.
    async fn meanwhile<A, B>(
        &self,
        hold: Hold,
        (who, first): (&str, impl Future<Output = A>),
        second: impl Future<Output = B>,
    ) -> (A, B) {
        self.hold(hold).await;
        let second = async {
            self.sandbox.waits_for_lock(who, 1).await;
            let second = second.await;
            self.plain.release().await;
            second
        };
        tokio::join!(first, second)
    }

    /// How many transactions of each server were begun again.
    fn conflicts(&self) -> [u64; 2] {
        [self.stores[0].conflicts(), self.stores[1].conflicts()]
    }

    /// It is ready, was resumed so often, and its claim carries these signals.
    async fn is_resumed(&self, id: ExecutionId, times: usize, signals: &[&str]) -> Claimed {
        assert_eq!(self.a.times(id, "execution.resumed").await, times);
        let claimed = self.b.claim_again(id).await;
        assert_eq!(carried(&claimed), signals);
        claimed
    }

    /// The same, once and for all: it completes.
    async fn goes_on(&self, id: ExecutionId, signals: &[&str]) {
        let claimed = self.is_resumed(id, 1, signals).await;
        self.a.complete(fence(&claimed)).await.expect("it holds the lease");
        assert_eq!(self.b.row(id).await.detail.record.untaken, 0);
    }

    /// Checks everything that must hold of all rows and the whole log, and stops the servers.
    async fn end(&self) {
        flows::end(&[&self.a, &self.b]).await;
    }
}

/// A lock is waited for as long as a test holds it, and longer than it takes Postgres to find a circle.
fn patient(sandbox: &Sandbox) -> Settings {
    Settings { lock_timeout: LONG, ..sandbox.settings() }
}

/// A server with a single connection to write, which is kept busy: all that comes meanwhile goes in one batch.
struct Busy {
    plain: Plain,
    task: JoinHandle<()>,
}

impl Busy {
    /// Keeps it busy with a command on an execution whose row is held. The server is called "narrow".
    async fn keep(race: &Race, narrow: &TestServer) -> Busy {
        let plain = race.sandbox.plain().await;
        let draft = Draft { lane: "aside".into(), ..Draft::new("kind") };
        let other = race.a.submit(draft).await;
        plain.hold(other).await;
        let side = narrow.clone();
        let task = tokio::spawn(async move {
            side.operate(other, Action::Prioritise { priority: 5 }).await.expect("it is raised");
        });
        race.sandbox.waits_for_lock("narrow", 1).await;
        Busy { plain, task }
    }

    /// Lets it go on.
    async fn release(self) {
        self.plain.release().await;
        self.task.await.expect("it does not panic");
    }
}

/// Does a chunk of a row of the outbox, through the store of `side`.
async fn dispatch(side: &TestServer, row: &OutboxRow) -> Dispatched {
    Harness::new(side.engine.store().clone()).await.dispatch(row).await
}

fn advanced(changed: u32) -> Dispatched {
    Dispatched::Advanced { changed, rest: None }
}
