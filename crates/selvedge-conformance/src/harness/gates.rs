//! Helpers for gates: drafts that draw on them, their configuration, checks of due gates, and assertions about held
//! executions.

use super::{Harness, fence};
use selvedge_core::amount::Amount;
use selvedge_core::filter::{Filter, ListPosition, Payloads};
use selvedge_core::gate::draws::draws_on;
use selvedge_core::gate::draws::fairness_line;
use selvedge_core::gate::{
    Adoption, Amounts, BudgetScope, Config, Gate, GateKind, GateName, LedgerEntry, Limit, Rate, RequiredGates,
};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::gates::adopt::Adopt;
use selvedge_core::rules::gates::budget::{Breach, Counted, Reset, Spend};
use selvedge_core::rules::gates::check::CheckGate;
use selvedge_core::rules::gates::configure::{Configure, Configured, Setting};
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::{Draft, ExecutionId, Name, Refusal, State};
use selvedge_store::ReconcilerScope;

/// More rows than any case has.
const ALL: u32 = 100_000;

/// Returns a draft with a concurrency key and its limit.
pub fn with_key(key: &str, limit: u32) -> Draft {
    with_draws(RequiredGates { concurrency: Some((Name::trusted(key), limit)), ..RequiredGates::default() })
}

/// Returns a draft that draws on quotas.
pub fn with_quotas(quotas: &[&str]) -> Draft {
    let quotas = quotas.iter().map(|name| Name::trusted(name)).collect();
    with_draws(RequiredGates { quotas, ..RequiredGates::default() })
}

/// Returns a draft that reserves tokens of a budget.
pub fn with_budget(budget: &str, reserve: u32) -> Draft {
    with_draws(RequiredGates {
        budgets: vec![(Name::trusted(budget), tokens(reserve))],
        ..RequiredGates::default()
    })
}

/// Returns a draft with a fairness key.
pub fn with_fairness_key(key: &str) -> Draft {
    with_draws(RequiredGates { fairness_key: Some(Name::trusted(key)), ..RequiredGates::default() })
}

/// Returns a draft with these draws.
pub fn with_draws(required_gates: RequiredGates) -> Draft {
    Draft { required_gates, ..Draft::new("kind") }
}

/// Returns an amount of tokens; empty if `count` is 0.
pub fn tokens(count: u32) -> Amounts {
    let some = (count > 0).then(|| ("tokens".to_owned(), Amount::whole(count)));
    some.into_iter().collect()
}

/// Returns a configuration that limits the number of active executions.
pub fn concurrency(limit: u32) -> Config {
    Config { concurrency: Some(limit), ..Config::default() }
}

/// Returns a configuration that limits the number of starts in any window.
pub fn rate(count: u32, window_ms: i64) -> Config {
    Config { rate: Some(Rate { count, window_ms }), ..Config::default() }
}

/// Returns a configuration with a hard limit of tokens.
pub fn token_limit(hard: u32) -> Config {
    let limit = Limit { hard: Some(Amount::whole(hard)), soft: None };
    Config { limits: [("tokens".to_owned(), limit)].into(), ..Config::default() }
}

/// Returns a configuration with a hard limit of tokens for each part.
pub fn token_limit_each(hard: u32, scope: BudgetScope) -> Config {
    Config { scope, ..token_limit(hard) }
}

/// Returns the ids of claimed executions.
pub fn ids(claimed: &[Claimed]) -> Vec<ExecutionId> {
    claimed.iter().map(|one| one.execution.id).collect()
}

impl Harness {
    /// Returns the name of a gate in the harness's namespace.
    pub fn named(&self, kind: GateKind, name: &str) -> GateName {
        GateName::new(self.namespace, kind, Name::trusted(name))
    }

    /// Returns the name of a lane.
    pub fn lane(&self, name: &str) -> GateName {
        self.named(GateKind::Lane, name)
    }

    /// Returns the name of a concurrency key.
    pub fn key(&self, name: &str) -> GateName {
        self.named(GateKind::Key, name)
    }

    /// Returns the name of a quota.
    pub fn quota(&self, name: &str) -> GateName {
        self.named(GateKind::Quota, name)
    }

    /// Returns the name of a budget.
    pub fn budget(&self, name: &str) -> GateName {
        self.named(GateKind::Budget, name)
    }

    /// Returns the fairness line of a fairness key, for the kind `kind` in the lane `default`.
    pub async fn line(&self, key: &str) -> GateName {
        fairness_line(self.namespace, self.class("default", "kind").await, &Name::trusted(key))
    }

    /// Returns a gate, if it has a row.
    pub async fn find_gate(&self, name: &GateName) -> Option<Gate> {
        let mut found = self.store.fetch_gates(&[name.id()]).await.expect("gates are read");
        assert!(found.len() <= 1, "one number names one gate");
        found.pop()
    }

    /// Returns a gate; an unused one if it has no row.
    pub async fn gate(&self, name: &GateName) -> Gate {
        self.find_gate(name).await.unwrap_or_else(|| Gate::new(name.clone()))
    }

    /// Configures a gate and returns the reply, which may be a refusal.
    pub async fn try_configure(
        &self,
        gate: &GateName,
        config: Option<Config>,
    ) -> Result<Configured, Refusal> {
        self.set_gate(gate, config.map_or(Setting::Remove, Setting::Replace)).await
    }

    /// Changes the configuration of a gate and returns the reply, which may be a refusal.
    pub async fn set_gate(&self, gate: &GateName, setting: Setting) -> Result<Configured, Refusal> {
        let configure = Configure { gate: gate.clone(), setting, actor: Name::trusted("operator") };
        let configured = self.run(configure).await?;
        if configured.gate.state.adoption == Some(Adoption::Counting) {
            self.adopt(gate).await;
        }
        Ok(configured)
    }

    /// Counts the active executions of a lane as the engine does, in chunks of three. Returns how many it adopted.
    pub async fn adopt(&self, lane: &GateName) -> u32 {
        let (ends, active) = (self.gate(lane).await.state.adoption, self.active().await);
        let chunks: Vec<Vec<ExecutionId>> = active.chunks(3).map(<[ExecutionId]>::to_vec).collect();
        let mut adopted = 0;
        for executions in chunks {
            adopted += self.run(Adopt { lane: lane.clone(), executions, ends: None }).await;
        }
        self.run(Adopt { lane: lane.clone(), executions: Vec::new(), ends }).await;
        adopted
    }

    /// Returns the active executions.
    async fn active(&self) -> Vec<ExecutionId> {
        let active = Filter { states: vec![StateName::Active], ..Filter::all(self.namespace) };
        let rows = self.store.list(&active, None, ALL, Payloads::NONE).await.expect("executions are listed");
        rows.rows.into_iter().map(|stored| stored.execution.id).collect()
    }

    pub async fn configure(&self, gate: &GateName, config: Config) -> Configured {
        self.try_configure(gate, Some(config)).await.expect("it is configured")
    }

    /// Removes the configuration of a gate.
    pub async fn unconfigure(&self, gate: &GateName) {
        self.try_configure(gate, None).await.expect("it was configured");
    }

    /// Checks a gate, due or not, and returns how many executions it released.
    pub async fn check_gate(&self, gate: &GateName) -> u32 {
        self.run(CheckGate { gate: gate.clone(), stopped: false, now: true }).await.released
    }

    /// Checks a gate if it is due and returns how many executions it released.
    pub async fn check_gate_if_due(&self, gate: &GateName) -> u32 {
        self.run(CheckGate { gate: gate.clone(), stopped: false, now: false }).await.released
    }

    /// Checks every due gate as the reconciler does: active executions of an exhausted budget are stopped first.
    pub async fn check_due_gates(&self) {
        for gate in self.store.due_gates(&ReconcilerScope::ALL, None, ALL).await.expect("due gates are read")
        {
            let stopped = gate.state.stops;
            if stopped {
                self.stop(&gate.name).await;
            }
            if gate.state.adoption.is_some() {
                self.adopt(&gate.name).await;
            }
            self.run(CheckGate { gate: gate.name, stopped, now: false }).await;
        }
    }

    /// Stops the active executions that draw on an exhausted budget and returns how many.
    pub async fn stop(&self, gate: &GateName) -> usize {
        let active = Filter { states: vec![StateName::Active], ..Filter::all(gate.namespace) };
        let none: Option<ListPosition> = None;
        let page =
            self.store.list(&active, none, ALL, Payloads::NONE).await.expect("executions are listed").rows;
        let mut stopped = 0;
        for row in page.into_iter().map(|stored| stored.execution).filter(|row| draws_on(row, gate)) {
            let breach = Breach { execution: row.id, gate: gate.clone() };
            stopped += usize::from(self.run(breach).await.expect("the row can be read"));
        }
        stopped
    }

    /// Returns the command that records usage of a budget.
    pub fn spend_command(&self, budget: &str, usage: Amounts, by: Option<ExecutionId>) -> Spend {
        let (namespace, budget) = (self.namespace, Name::trusted(budget));
        Spend { namespace, budget, usage, dedup_key: None, execution: by }
    }

    /// Records the usage of tokens of a budget.
    pub async fn spend(&self, budget: &str, count: u32, by: Option<ExecutionId>) {
        let counted = self.run(self.spend_command(budget, tokens(count), by)).await;
        assert!(!counted.expect("the budget exists").duplicate, "it is counted");
    }

    /// Reports the usage of tokens as the worker of a claimed execution.
    pub async fn report_usage(
        &self,
        claimed: &Claimed,
        budget: &str,
        count: u32,
    ) -> Result<Counted, Refusal> {
        let spend = self.spend_command(budget, tokens(count), Some(claimed.execution.id));
        let reported = self.report(fence(claimed), Op::Usage(spend)).await?;
        Ok(reported.usage.expect("the effect of usage is reported"))
    }

    /// Resets the usage of a budget.
    pub async fn reset(&self, gate: &GateName) {
        let reset = Reset { gate: gate.clone(), actor: Name::trusted("operator") };
        self.run(reset).await.expect("it is reset");
    }

    /// Returns the used and the reserved amounts of a budget.
    pub async fn used_and_reserved(&self, gate: &GateName) -> (Amounts, Amounts) {
        let state = self.gate(gate).await.state;
        (state.used, state.reserved)
    }

    /// Returns the ledger entries of an execution.
    pub async fn ledger_of(&self, id: ExecutionId) -> Vec<LedgerEntry> {
        self.store.ledger_of(id).await.expect("the ledger is read")
    }

    /// Returns the number of executions that a gate holds.
    pub async fn held_by(&self, gate: &GateName) -> u64 {
        self.store.held_by(gate.id(), ALL.into()).await.expect("held executions are counted")
    }

    /// Asserts that an execution is held by a gate.
    #[track_caller]
    pub fn assert_held(&self, id: ExecutionId, gate: &GateName) -> impl Future<Output = ()> {
        let (harness, gate) = (self.clone(), gate.clone());
        let caller = std::panic::Location::caller();
        async move {
            let state = harness.row(id).await.state;
            assert_eq!(state, State::Held(gate.into()), "at {caller}");
        }
    }

    /// Asserts the states of these executions.
    #[track_caller]
    pub fn assert_states_of(&self, ids: &[ExecutionId], expected: &[StateName]) -> impl Future<Output = ()> {
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
