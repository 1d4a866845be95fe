//! Load for gates: thirty-two claimers on four servers that process executions behind a limit, and a replay of the log
//! that measures how the limit was used.
//!
//! The number of an entry is drawn while the gates of its transaction are locked, so the log has the entries of one
//! gate in the order in which it admitted them.

use super::server::{Server, claim_of, claim_wait, fence, operator};
use super::{PlainConnection, Sandbox, stop, wait_until};
use selvedge_conformance::invariants;
use selvedge_engine::core::amount::Amount;
use selvedge_engine::core::fact;
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

/// The number of concurrent claimers.
pub const CLAIMERS: usize = 32;

/// The smallest stored code of a terminal state.
const FIRST_TERMINAL: i16 = 10;

/// Returns a draft with a concurrency key.
pub fn with_concurrency_key(key: &str, limit: u32) -> Draft {
    let concurrency = Some((Name::trusted(key), limit));
    Draft { required_gates: RequiredGates { concurrency, ..RequiredGates::default() }, ..Draft::new("kind") }
}

/// Returns a draft with a quota.
pub fn with_quota(quota: &str) -> Draft {
    Draft {
        required_gates: RequiredGates { quotas: vec![Name::trusted(quota)], ..RequiredGates::default() },
        ..Draft::new("kind")
    }
}

/// Returns a draft that reserves tokens of a budget.
pub fn with_budget(budget: &str, reserve: u32) -> Draft {
    let budgets = vec![(Name::trusted(budget), tokens(reserve))];
    Draft { required_gates: RequiredGates { budgets, ..RequiredGates::default() }, ..Draft::new("kind") }
}

/// Returns a draft with a fairness key.
pub fn with_fairness_key(key: &str) -> Draft {
    let fairness_key = Some(Name::trusted(key));
    Draft { required_gates: RequiredGates { fairness_key, ..RequiredGates::default() }, ..Draft::new("kind") }
}

/// Returns an amount of tokens.
pub fn tokens(count: u32) -> Amounts {
    [("tokens".to_owned(), Amount::whole(count))].into()
}

/// Returns the configuration of a limit of concurrent executions.
pub fn concurrency_limit(limit: u32) -> Config {
    Config { concurrency: Some(limit), ..Config::default() }
}

/// Returns the configuration of a limit of starts per window.
pub fn start_rate(count: u32, window_ms: i64) -> Config {
    Config { rate: Some(Rate { count, window_ms }), ..Config::default() }
}

/// Returns the configuration of a hard limit of tokens.
pub fn hard_limit(limit: u32) -> Config {
    let limit = Limit { hard: Some(Amount::whole(limit)), soft: None };
    Config { limits: [("tokens".to_owned(), limit)].into(), ..Config::default() }
}

/// Configures a gate, and retries while other transactions are in the way.
pub async fn configure(server: &Server, kind: GateKind, name: &str, config: Config) {
    wait_until("the gate is configured", async || {
        match server.namespace.configure(kind, name, Some(config.clone()), &operator()).await {
            Ok(_) => true,
            Err(Error::Store(error)) if error.is_transient() => false,
            Err(error) => panic!("the gate is not configured: {error}"),
        }
    })
    .await;
}

/// Four servers with all background work.
pub struct Fleet {
    /// The servers.
    pub servers: Vec<Server>,
    stores: Vec<Arc<PostgresStore>>,
    sandbox: Sandbox,
}

impl Fleet {
    /// Starts the servers in a database of their own.
    pub async fn start() -> Fleet {
        let sandbox = Sandbox::with_own_database().await;
        let (mut servers, mut stores) = (Vec::new(), Vec::new());
        for number in 0..4 {
            let options = Options { poll: Duration::from_secs(1), ..Options::default() };
            // Longer than Postgres takes to detect a deadlock.
            let settings =
                Settings { readers: 3, lock_timeout: Duration::from_secs(20), ..sandbox.settings() };
            let store = sandbox.store_with(&format!("engine{number}"), settings).await;
            stores.push(store.clone());
            servers.push(Server::new(store, options).await);
        }
        Fleet { servers, stores, sandbox }
    }

    /// Returns the first server.
    pub fn first(&self) -> &Server {
        &self.servers[0]
    }

    /// Returns the store of the first server.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.first().engine.store()
    }

    /// Opens a plain connection.
    pub async fn plain(&self) -> PlainConnection {
        self.sandbox.plain().await
    }

    /// Claims and completes this number of executions with all claimers. `before` runs before each completion.
    pub async fn process_all<F>(
        &self,
        count: usize,
        before: impl Fn(Server, Claimed) -> F + Clone + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let completed = Arc::new(AtomicUsize::new(0));
        let mut claimers = JoinSet::new();
        for number in 0..CLAIMERS {
            let (server, completed, before) =
                (self.servers[number % 4].clone(), completed.clone(), before.clone());
            claimers.spawn(async move {
                while completed.load(Ordering::SeqCst) < count {
                    let claim = claim_of(&format!("worker{number}"), fastrand::u32(1..4));
                    let claimed = server.namespace.claim(claim_wait(claim, Duration::from_millis(300))).await;
                    for one in claimed.expect("the claim is answered") {
                        before(server.clone(), one.clone()).await;
                        server.complete(fence(&one)).await.expect("the lease is held");
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
            panic!("{} of {count} are completed; {}", completed.load(Ordering::SeqCst), self.left().await);
        }
        assert_eq!(completed.load(Ordering::SeqCst), count);
    }

    /// Waits until all executions have ended. Panics with the live ones after a timeout.
    pub async fn all_have_ended(&self) {
        let plain = self.plain().await;
        let live = format!("select count(*) from executions where state < {FIRST_TERMINAL}");
        let ended = wait_until("everything has ended", async || plain.number(&live, &[]).await == 0);
        if tokio::time::timeout(super::LONG / 2, ended).await.is_err() {
            panic!("some executions have not ended: {}", self.left().await);
        }
    }

    /// Describes live executions and gates, for the panic of a test that timed out.
    async fn left(&self) -> String {
        let plain = self.plain().await;
        let mut left = String::new();
        let executions = format!(
            "select concat_ws(' ', id, 'state', state, 'gate', gate, 'priority', claim_priority, ready_order, spec, detail)
             from executions where state < {FIRST_TERMINAL} limit 20"
        );
        for text in [executions.as_str(), "select gates::text from gates"] {
            for row in plain.query(text, &[]).await.expect("the read succeeds") {
                left.push_str(&format!("\n{}", row.get::<_, &str>(0)));
            }
        }
        left
    }

    /// Reads the whole log.
    pub async fn log(&self) -> Vec<Event> {
        let rows = self.plain().await.query("select body from log order by number", &[]).await;
        let rows = rows.expect("the log is read");
        rows.iter().flat_map(|row| unpack(row.get(0)).expect("the entry is readable")).collect()
    }

    /// Checks the invariants of all rows and of the whole log, stops the servers, and checks that there was no
    /// deadlock. Returns the number of retried transactions.
    pub async fn check_and_stop(self) -> u64 {
        let broken = invariants::check(&**self.store()).await;
        assert!(broken.is_empty(), "invariants are broken: {broken:#?}");
        stop(self.servers.iter().map(|server| &server.engine)).await;
        wait_until("all connections are closed", async || {
            let mut open = 0;
            for number in 0..4 {
                open += self.sandbox.connections(&format!("engine{number}")).await;
            }
            open == 0
        })
        .await;
        assert_eq!(self.sandbox.deadlocks().await, 0, "transactions deadlocked");
        self.stores.iter().map(|store| store.conflicts()).sum()
    }
}

/// Does nothing before the completion.
pub async fn complete_at_once(_: Server, _: Claimed) {}

/// Reports usage of at most `most` tokens, sometimes in two reports, and some reports twice.
pub async fn spend_some(server: Server, claimed: Claimed, budget: &'static str, most: u32) {
    let id = claimed.execution.id;
    for part in 0..fastrand::u32(1..3) {
        let spend = Spend {
            namespace: server.namespace.id(),
            budget: Name::trusted(budget),
            usage: tokens(fastrand::u32(0..most / 2)),
            dedup_key: Some(Name::trusted(&format!("{id}-{}-{part}", claimed.execution.epoch))),
            execution: Some(id),
        };
        for _ in 0..fastrand::u32(1..3) {
            let reported = server.report(fence(&claimed), Op::Usage(spend.clone())).await;
            reported.expect("the usage is counted once");
        }
    }
}

/// A replay of the log for the executions of one gate: how the gate was used at each claim.
#[derive(Default)]
pub struct GateReplay {
    active: BTreeSet<ExecutionId>,
    /// The number of active executions right after each claim.
    pub active_at_claims: Vec<usize>,
    /// The time of each claim, in microseconds.
    pub starts: Vec<i64>,
    /// The number of configurations before each claim.
    pub configured: Vec<usize>,
    /// The usage and the reservations right after each claim, in whole tokens.
    pub spent_at_claims: Vec<(u64, u64)>,
    /// The usage of each period.
    pub by_period: BTreeMap<u32, Amount>,
    /// The numbers of claims and completions of each execution.
    pub done: BTreeMap<ExecutionId, (u32, u32)>,
    /// The number of times that an execution was held.
    pub held: usize,
}

impl GateReplay {
    /// Replays the log for these executions, each of which reserves `reserve` tokens.
    pub fn replay(log: &[Event], of: impl Fn(ExecutionId) -> bool, reserve: u32) -> GateReplay {
        let mut replay = GateReplay::default();
        let (mut configured, mut used, mut period) = (0, Amount::default(), 0);
        for event in log {
            match &event.fact {
                Fact::GateConfigured { .. } => configured += 1,
                Fact::BudgetReset(fact::BudgetReset { period: next, .. }) => {
                    (used, period) = (Amount::default(), *next)
                }
                Fact::Spent(fact::Spent { amounts, .. }) => {
                    let more = amounts.get("tokens").copied().unwrap_or_default();
                    used += more;
                    *replay.by_period.entry(period).or_default() += more;
                }
                _ => {}
            }
            let Some(id) = event.execution.filter(|id| of(*id)) else { continue };
            let (claims, completions) = replay.done.entry(id).or_default();
            *claims += u32::from(matches!(event.fact, Fact::Claimed { .. }));
            *completions += u32::from(matches!(event.fact, Fact::Completed { .. }));
            replay.held += usize::from(matches!(event.fact, Fact::Held { .. }));
            if attempt_end(&event.fact).is_some() {
                assert!(replay.active.remove(&id), "{id} was not active: {event:?}");
            }
            if matches!(event.fact, Fact::Claimed { .. }) {
                assert!(replay.active.insert(id), "{id} was claimed twice");
                replay.active_at_claims.push(replay.active.len());
                replay.starts.push(event.at.micros());
                replay.configured.push(configured);
                let reserved = replay.active.len() as u64 * u64::from(reserve);
                replay.spent_at_claims.push((used.millionths() as u64 / 1_000_000, reserved));
            }
        }
        replay
    }

    /// Returns the largest number of active executions.
    pub fn most_active(&self) -> usize {
        self.active_at_claims.iter().copied().max().unwrap_or_default()
    }

    /// Returns the largest number of starts in any window of this length.
    pub fn most_starts(&self, window_ms: i64) -> usize {
        let mut starts = self.starts.clone();
        starts.sort_unstable();
        let within = |(index, first): (usize, &i64)| {
            starts[index..].iter().take_while(|at| **at - first < window_ms * 1000).count()
        };
        starts.iter().enumerate().map(within).max().unwrap_or_default()
    }

    /// Asserts that each of these executions was claimed and completed once, and no other one was.
    pub fn assert_each_ran_once(&self, ids: &[ExecutionId]) {
        let wanted: BTreeMap<ExecutionId, (u32, u32)> = ids.iter().map(|id| (*id, (1, 1))).collect();
        assert!(
            self.done == wanted,
            "lost or repeated: {:?}",
            self.done.iter().find(|(_, done)| **done != (1, 1))
        );
    }
}
