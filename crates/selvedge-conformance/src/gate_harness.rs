//! The harness of gates: short words for what draws on them, how they are configured and looked at, and what they hold.

use super::harness::{Harness, fence};
use selvedge_core::amount::Amount;
use selvedge_core::filter::{Filter, Place};
use selvedge_core::gate::draws::draws_on;
use selvedge_core::gate::draws::fairness_line;
use selvedge_core::gate::{
    Amounts, BudgetScope, Config, Draws, Gate, GateKind, GateName, LedgerEntry, Limit, Rate,
};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::gates::budget::{Breach, Reset, Spend};
use selvedge_core::rules::gates::check::CheckGate;
use selvedge_core::rules::gates::configure::{Configure, Configured};
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::{Draft, ExecutionId, Name, Refusal, State};

/// More of anything than a case has.
const ALL: u32 = 100_000;

/// One that is active only while fewer than so many others with this key are.
pub fn keyed(key: &str, limit: u32) -> Draft {
    drawing(Draws { concurrency: Some((Name::trusted(key), limit)), ..Draws::default() })
}

/// One that draws on quotas.
pub fn quoted(quotas: &[&str]) -> Draft {
    let quotas = quotas.iter().map(|name| Name::trusted(name)).collect();
    drawing(Draws { quotas, ..Draws::default() })
}

/// One that may spend so many tokens of a budget.
pub fn spending(budget: &str, reserve: u32) -> Draft {
    drawing(Draws { budgets: vec![(Name::trusted(budget), tokens(reserve))], ..Draws::default() })
}

/// One that takes turns with the others that have its fairness key.
pub fn taking_turns(key: &str) -> Draft {
    drawing(Draws { fairness_key: Some(Name::trusted(key)), ..Draws::default() })
}

/// One that draws on this.
pub fn drawing(draws: Draws) -> Draft {
    Draft { draws, ..Draft::new("kind") }
}

/// So many tokens; nothing where it is zero.
pub fn tokens(count: u32) -> Amounts {
    let some = (count > 0).then(|| ("tokens".to_owned(), Amount::whole(count)));
    some.into_iter().collect()
}

/// At most so many at once.
pub fn at_once(limit: u32) -> Config {
    Config { concurrency: Some(limit), ..Config::default() }
}

/// At most so many starts in a window.
pub fn starts(count: u32, window_ms: i64) -> Config {
    Config { rate: Some(Rate { count, window_ms }), ..Config::default() }
}

/// At most so many tokens.
pub fn at_most(hard: u32) -> Config {
    let limit = Limit { hard: Some(Amount::whole(hard)), soft: None };
    Config { limits: [("tokens".to_owned(), limit)].into(), ..Config::default() }
}

/// At most so many tokens for each part.
pub fn at_most_each(hard: u32, scope: BudgetScope) -> Config {
    Config { scope, ..at_most(hard) }
}

/// Who was claimed.
pub fn ids(claimed: &[Claimed]) -> Vec<ExecutionId> {
    claimed.iter().map(|one| one.execution.id).collect()
}

impl Harness {
    /// The name of a gate.
    pub fn named(&self, kind: GateKind, name: &str) -> GateName {
        GateName::new(self.namespace, kind, Name::trusted(name))
    }

    /// A lane.
    pub fn lane(&self, name: &str) -> GateName {
        self.named(GateKind::Lane, name)
    }

    /// A concurrency key.
    pub fn key(&self, name: &str) -> GateName {
        self.named(GateKind::Key, name)
    }

    /// A quota.
    pub fn quota(&self, name: &str) -> GateName {
        self.named(GateKind::Quota, name)
    }

    /// A budget.
    pub fn budget(&self, name: &str) -> GateName {
        self.named(GateKind::Budget, name)
    }

    /// The line of a fairness key among those of the kind `kind` in the lane `default`.
    pub async fn line(&self, key: &str) -> GateName {
        fairness_line(self.namespace, self.class("default", "kind").await, &Name::trusted(key))
    }

    /// A gate, if it has a row.
    pub async fn find_gate(&self, name: &GateName) -> Option<Gate> {
        let mut found = self.store.fetch_gates(&[name.id()]).await.expect("gates are read");
        assert!(found.len() <= 1, "one number names one gate");
        found.pop()
    }

    /// A gate; one that nothing went through where it has no row.
    pub async fn gate(&self, name: &GateName) -> Gate {
        self.find_gate(name).await.unwrap_or_else(|| Gate::new(name.clone()))
    }

    /// Configures a gate, and gives the answer.
    pub async fn try_configure(
        &self,
        gate: &GateName,
        config: Option<Config>,
    ) -> Result<Configured, Refusal> {
        self.run(Configure { gate: gate.clone(), config, actor: Name::trusted("operator") }).await
    }

    /// Configures a gate.
    pub async fn configure(&self, gate: &GateName, config: Config) -> Configured {
        self.try_configure(gate, Some(config)).await.expect("it is configured")
    }

    /// Removes the configuration of a gate.
    pub async fn unconfigure(&self, gate: &GateName) {
        self.try_configure(gate, None).await.expect("it was configured");
    }

    /// Looks at a gate whether it is due or not; says how many may go on.
    pub async fn look_at(&self, gate: &GateName) -> u32 {
        self.run(CheckGate { gate: gate.clone(), stopped: false, now: true }).await.released
    }

    /// Looks at a gate if it is due; says how many may go on.
    pub async fn look_if_due(&self, gate: &GateName) -> u32 {
        self.run(CheckGate { gate: gate.clone(), stopped: false, now: false }).await.released
    }

    /// Looks at every gate that is due, as reconcilers do: what runs under a budget that is used up is stopped first.
    pub async fn look_at_due(&self) {
        for gate in self.store.due_gates(None, ALL).await.expect("due gates are read") {
            let stopped = gate.state.stops;
            if stopped {
                self.stop(&gate.name).await;
            }
            self.run(CheckGate { gate: gate.name, stopped, now: false }).await;
        }
    }

    /// Stops what runs and draws on a budget that is used up; says how many that were.
    pub async fn stop(&self, gate: &GateName) -> usize {
        let running = Filter { states: vec![StateName::Active], ..Filter::all(gate.namespace) };
        let none: Option<Place> = None;
        let page = self.store.list(&running, none, ALL).await.expect("executions are listed");
        let mut stopped = 0;
        for row in page.into_iter().map(|stored| stored.execution).filter(|row| draws_on(row, gate)) {
            let breach = Breach { execution: row.id, gate: gate.clone() };
            stopped += usize::from(self.run(breach).await.expect("the row can be read"));
        }
        stopped
    }

    /// The command that says what was spent of a budget.
    pub fn spend_command(&self, budget: &str, usage: Amounts, by: Option<ExecutionId>) -> Spend {
        let (namespace, budget) = (self.namespace, Name::trusted(budget));
        Spend { namespace, budget, usage, dedup_key: None, execution: by }
    }

    /// So many tokens were spent of a budget.
    pub async fn spend(&self, budget: &str, count: u32, by: Option<ExecutionId>) {
        let counted = self.run(self.spend_command(budget, tokens(count), by)).await;
        assert_eq!(counted, Ok(true), "it is counted");
    }

    /// A worker says that so many tokens were spent.
    pub async fn use_up(&self, claimed: &Claimed, budget: &str, count: u32) -> Result<(), Refusal> {
        let spend = self.spend_command(budget, tokens(count), Some(claimed.execution.id));
        self.report(fence(claimed), Op::Usage(spend)).await.map(|_| ())
    }

    /// Sets the usage of a budget back.
    pub async fn reset(&self, gate: &GateName) {
        let reset = Reset { gate: gate.clone(), actor: Name::trusted("operator") };
        self.run(reset).await.expect("it is reset");
    }

    /// How many tokens of a budget are used, and how many reserved.
    pub async fn used_and_reserved(&self, gate: &GateName) -> (Amounts, Amounts) {
        let state = self.gate(gate).await.state;
        (state.used, state.reserved)
    }

    /// What an execution has spent.
    pub async fn ledger_of(&self, id: ExecutionId) -> Vec<LedgerEntry> {
        self.store.ledger_of(id).await.expect("the ledger is read")
    }

    /// How many wait for a gate.
    pub async fn held_by(&self, gate: &GateName) -> u64 {
        self.store.held_by(gate.id(), ALL.into()).await.expect("what is held is counted")
    }

    /// Asserts that an execution is held by a gate.
    #[track_caller]
    pub fn is_held(&self, id: ExecutionId, gate: &GateName) -> impl Future<Output = ()> {
        let (harness, gate) = (self.clone(), gate.clone());
        let caller = std::panic::Location::caller();
        async move {
            let state = harness.row(id).await.state;
            assert_eq!(state, State::Held(gate.into()), "at {caller}");
        }
    }

    /// Asserts how these executions stand.
    #[track_caller]
    pub fn stand(&self, ids: &[ExecutionId], expected: &[StateName]) -> impl Future<Output = ()> {
        let (harness, ids, expected) = (self.clone(), ids.to_vec(), expected.to_vec());
        let caller = std::panic::Location::caller();
        async move {
            let mut states = Vec::new();
            for id in ids {
                states.push(harness.state(id).await);
            }
            assert_eq!(states, expected, "at {caller}");
        }
    }
}
