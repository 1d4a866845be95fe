//! A crowd: thirty-two claimers on four engines that work off what waits behind a limit, and what the log says of the limit.
//!
//! The number of an entry is drawn while the gates of its transaction are locked, so the entries of one gate stand in the
//! log in the order in which they went through it.

use super::test_server::{TestServer, claim_of, claim_wait, fence, operator};
use super::{Plain, Sandbox, stop, until};
use selvedge_conformance::invariants;
use selvedge_engine::core::amount::Amount;
use selvedge_engine::core::gate::{Amounts, Config, GateKind, Limit, Rate, RequiredGates};
use selvedge_engine::core::history::attempt_end;
use selvedge_engine::core::log::{Event, unpack};
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::gates::budget::Spend;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::{Draft, ExecutionId, Fact, Name};
use selvedge_engine::store::Store;
use selvedge_engine::{Error, Options};
use selvedge_postgres::{PostgresStore, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// How many claim at once.
pub const CLAIMERS: usize = 32;

/// One with a concurrency key.
pub fn keyed(key: &str, limit: u32) -> Draft {
    let concurrency = Some((Name::trusted(key), limit));
    Draft { required_gates: RequiredGates { concurrency, ..RequiredGates::default() }, ..Draft::new("kind") }
}

/// One that refers to a quota.
pub fn drawing(quota: &str) -> Draft {
    Draft {
        required_gates: RequiredGates { quotas: vec![Name::trusted(quota)], ..RequiredGates::default() },
        ..Draft::new("kind")
    }
}

/// One that may spend so many tokens of a budget.
pub fn spending(budget: &str, reserve: u32) -> Draft {
    let budgets = vec![(Name::trusted(budget), tokens(reserve))];
    Draft { required_gates: RequiredGates { budgets, ..RequiredGates::default() }, ..Draft::new("kind") }
}

/// One with a fairness key.
pub fn fair(key: &str) -> Draft {
    let fairness_key = Some(Name::trusted(key));
    Draft { required_gates: RequiredGates { fairness_key, ..RequiredGates::default() }, ..Draft::new("kind") }
}

/// So many tokens.
pub fn tokens(count: u32) -> Amounts {
    [("tokens".to_owned(), Amount::whole(count))].into()
}

/// So many at once.
pub fn at_once(limit: u32) -> Config {
    Config { concurrency: Some(limit), ..Config::default() }
}

/// So many starts in a window.
pub fn rate(count: u32, window_ms: i64) -> Config {
    Config { rate: Some(Rate { count, window_ms }), ..Config::default() }
}

/// So many tokens at most.
pub fn hard(limit: u32) -> Config {
    let limit = Limit { hard: Some(Amount::whole(limit)), soft: None };
    Config { limits: [("tokens".to_owned(), limit)].into(), ..Config::default() }
}

/// Configures a gate, however often that has to be tried because others are in the way.
pub async fn configure(side: &TestServer, kind: GateKind, name: &str, config: Config) {
    until("it is configured", async || {
        match side.namespace.configure(kind, name, Some(config.clone()), &operator()).await {
            Ok(_) => true,
            Err(Error::Store(error)) if error.is_transient() => false,
            Err(error) => panic!("it is configured: {error}"),
        }
    })
    .await;
}

/// Four engines that run everything a server runs.
pub struct Crowd {
    /// The engines.
    pub sides: Vec<TestServer>,
    stores: Vec<Arc<PostgresStore>>,
    sandbox: Sandbox,
}

impl Crowd {
    /// In a database of its own.
    pub async fn gather() -> Crowd {
        let sandbox = Sandbox::alone().await;
        let (mut sides, mut stores) = (Vec::new(), Vec::new());
        for number in 0..4 {
            let options = Options { poll: Duration::from_secs(1), ..Options::default() };
            // A lock is waited for longer than it takes Postgres to find a circle.
            let settings =
                Settings { readers: 3, lock_timeout: Duration::from_secs(20), ..sandbox.settings() };
            let store = sandbox.store_with(&format!("engine{number}"), settings).await;
            stores.push(store.clone());
            sides.push(TestServer::new(store, options).await);
        }
        Crowd { sides, stores, sandbox }
    }

    /// The first engine.
    pub fn first(&self) -> &TestServer {
        &self.sides[0]
    }

    /// The store of the first engine.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.first().engine.store()
    }

    /// A connection that only looks.
    pub async fn plain(&self) -> Plain {
        self.sandbox.plain().await
    }

    /// Works off so many executions with all claimers at once. Before each is completed, `before` is done with it.
    pub async fn work_off<F>(
        &self,
        count: usize,
        before: impl Fn(TestServer, Claimed) -> F + Clone + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let completed = Arc::new(AtomicUsize::new(0));
        let mut claimers = JoinSet::new();
        for number in 0..CLAIMERS {
            let (side, completed, before) =
                (self.sides[number % 4].clone(), completed.clone(), before.clone());
            claimers.spawn(async move {
                while completed.load(Ordering::SeqCst) < count {
                    let claim = claim_of(&format!("worker{number}"), fastrand::u32(1..4));
                    let claimed = side.namespace.claim(claim_wait(claim, Duration::from_millis(300))).await;
                    for one in claimed.expect("the claim is answered") {
                        before(side.clone(), one.clone()).await;
                        side.complete(fence(&one)).await.expect("it holds the lease");
                        completed.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
        let all = async {
            while let Some(ended) = claimers.join_next().await {
                ended.expect("a claimer does not panic")
            }
        };
        if tokio::time::timeout(super::LONG * 4, all).await.is_err() {
            panic!("{} of {count} are worked off; {}", completed.load(Ordering::SeqCst), self.left().await);
        }
        assert_eq!(completed.load(Ordering::SeqCst), count);
    }

    /// Waits until everything has ended; says what is left where it does not.
    pub async fn all_have_ended(&self) {
        let plain = self.plain().await;
        let live = "select count(*) from executions where state < 10";
        let ended = until("everything has ended", async || plain.number(live, &[]).await == 0);
        if tokio::time::timeout(super::LONG / 2, ended).await.is_err() {
            panic!("some have not ended: {}", self.left().await);
        }
    }

    /// What is left, for a test that waits in vain.
    async fn left(&self) -> String {
        let plain = self.plain().await;
        let mut left = String::new();
        for text in [
            "select concat_ws(' ', id, 'state', state, 'gate', gate, 'priority', priority, ready_order, spec, detail)
             from executions where state < 10 limit 20",
            "select gates::text from gates",
        ] {
            for row in plain.query(text, &[]).await.expect("it is read") {
                left.push_str(&format!("\n{}", row.get::<_, &str>(0)));
            }
        }
        left
    }

    /// The whole log.
    pub async fn log(&self) -> Vec<Event> {
        let rows = self.plain().await.query("select body from log order by number", &[]).await;
        let rows = rows.expect("the log is read");
        rows.iter().flat_map(|row| unpack(row.get(0)).expect("the entry can be read")).collect()
    }

    /// Checks everything that must hold of all rows and the whole log, and that no two transactions waited for each other. Says
    /// how many were begun again.
    pub async fn part(self) -> u64 {
        let broken = invariants::check(&**self.store()).await;
        assert!(broken.is_empty(), "invariants are broken: {broken:#?}");
        stop(self.sides.iter().map(|side| &side.engine)).await;
        until("all connections are closed", async || {
            let mut open = 0;
            for number in 0..4 {
                open += self.sandbox.connections(&format!("engine{number}")).await;
            }
            open == 0
        })
        .await;
        assert_eq!(self.sandbox.deadlocks().await, 0, "transactions waited for each other");
        self.stores.iter().map(|store| store.conflicts()).sum()
    }
}

/// Nothing is done before the completion.
pub async fn at_once_done(_: TestServer, _: Claimed) {}

/// Spends some of the tokens that it may, sometimes in two reports, and one of them twice.
pub async fn spend_some(side: TestServer, claimed: Claimed, budget: &'static str, most: u32) {
    let id = claimed.execution.id;
    for part in 0..fastrand::u32(1..3) {
        let spend = Spend {
            namespace: side.namespace.id(),
            budget: Name::trusted(budget),
            usage: tokens(fastrand::u32(0..most / 2)),
            dedup_key: Some(Name::trusted(&format!("{id}-{}-{part}", claimed.execution.epoch))),
            execution: Some(id),
        };
        for _ in 0..fastrand::u32(1..3) {
            let reported = side.report(fence(&claimed), Op::Usage(spend.clone())).await;
            reported.expect("it is counted, once");
        }
    }
}

/// What the log says of executions that go through one gate, entry by entry.
#[derive(Default)]
pub struct Passage {
    active: BTreeSet<ExecutionId>,
    /// How many were active, right after each claim.
    pub active_at_claims: Vec<usize>,
    /// When each started, in microseconds.
    pub starts: Vec<i64>,
    /// Which configuration was the newest at each claim: how often the gate was configured before.
    pub configured: Vec<usize>,
    /// What was used and reserved right after each claim, each in whole tokens.
    pub spent_at_claims: Vec<(u64, u64)>,
    /// What was spent in each period.
    pub by_period: BTreeMap<u32, Amount>,
    /// How often each was claimed and completed.
    pub done: BTreeMap<ExecutionId, (u32, u32)>,
    /// How many times one was held.
    pub held: usize,
}

impl Passage {
    /// Replays the log for these executions, each of which reserves so many tokens.
    pub fn replay(log: &[Event], of: impl Fn(ExecutionId) -> bool, reserve: u32) -> Passage {
        let mut passage = Passage::default();
        let (mut configured, mut used, mut period) = (0, Amount::default(), 0);
        for event in log {
            match &event.fact {
                Fact::GateConfigured { .. } => configured += 1,
                Fact::BudgetReset { period: next, .. } => (used, period) = (Amount::default(), *next),
                Fact::Spent { amounts, .. } => {
                    let more = amounts.get("tokens").copied().unwrap_or_default();
                    used += more;
                    *passage.by_period.entry(period).or_default() += more;
                }
                _ => {}
            }
            let Some(id) = event.execution.filter(|id| of(*id)) else { continue };
            let (claims, completions) = passage.done.entry(id).or_default();
            *claims += u32::from(matches!(event.fact, Fact::Claimed { .. }));
            *completions += u32::from(matches!(event.fact, Fact::Completed { .. }));
            passage.held += usize::from(matches!(event.fact, Fact::Held { .. }));
            if attempt_end(&event.fact).is_some() {
                assert!(passage.active.remove(&id), "{id} was active: {event:?}");
            }
            if matches!(event.fact, Fact::Claimed { .. }) {
                assert!(passage.active.insert(id), "{id} was claimed twice");
                passage.active_at_claims.push(passage.active.len());
                passage.starts.push(event.at.micros());
                passage.configured.push(configured);
                let reserved = passage.active.len() as u64 * u64::from(reserve);
                passage.spent_at_claims.push((used.millionths() as u64 / 1_000_000, reserved));
            }
        }
        passage
    }

    /// How many were active at most.
    pub fn most_active(&self) -> usize {
        self.active_at_claims.iter().copied().max().unwrap_or_default()
    }

    /// The most starts in any window of this length.
    pub fn most_starts(&self, window_ms: i64) -> usize {
        let mut starts = self.starts.clone();
        starts.sort_unstable();
        let within = |(index, first): (usize, &i64)| {
            starts[index..].iter().take_while(|at| **at - first < window_ms * 1000).count()
        };
        starts.iter().enumerate().map(within).max().unwrap_or_default()
    }

    /// Asserts that each of these was claimed once and completed once, and nothing else was.
    pub fn did_each_once(&self, ids: &[ExecutionId]) {
        let wanted: BTreeMap<ExecutionId, (u32, u32)> = ids.iter().map(|id| (*id, (1, 1))).collect();
        assert!(
            self.done == wanted,
            "lost or done twice: {:?}",
            self.done.iter().find(|(_, done)| **done != (1, 1))
        );
    }
}
