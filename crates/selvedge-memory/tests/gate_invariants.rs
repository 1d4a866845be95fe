//! The invariant checker finds violations in gates: each test corrupts one thing in a sound store and expects a
//! message.

use selvedge_conformance::{Harness, invariants};
use selvedge_core::amount::Amount;
use selvedge_core::execution::Slots;
use selvedge_core::gate::{Amounts, Config, Gate, GateKind, GateName, LedgerEntry, Limit, RequiredGates};
use selvedge_core::rows::{ResultChange, Updated};
use selvedge_core::rules::gates::budget::Spend;
use selvedge_core::table::Guarded;
use selvedge_core::{Changes, Draft, Execution, ExecutionId, Name, State};
use selvedge_memory::MemoryStore;
use std::sync::Arc;

/// A sound store with an active execution that draws on a key, a quota and a budget in a limited lane, one that is held
/// by the same key, and two with a fairness key.
struct SoundStore {
    harness: Harness,
    active: ExecutionId,
    held: ExecutionId,
    line: [ExecutionId; 2],
}

fn tokens(count: u32) -> Amounts {
    [("tokens".to_owned(), Amount::whole(count))].into()
}

fn drawing() -> Draft {
    let required_gates = RequiredGates {
        budgets: vec![(Name::trusted("budget"), tokens(3))],
        quotas: vec![Name::trusted("quota")],
        concurrency: Some((Name::trusted("key"), 1)),
        fairness_key: None,
    };
    Draft { required_gates, ..Draft::new("kind") }
}

impl SoundStore {
    async fn new() -> SoundStore {
        let harness = Harness::new(Arc::new(MemoryStore::new())).await;
        let limit = Limit { hard: Some(Amount::whole(10)), soft: None };
        let limits = [("tokens".to_owned(), limit)].into();
        let slots = Config { concurrency: Some(5), ..Config::default() };
        for (kind, name, config) in [
            (GateKind::Lane, "default", slots.clone()),
            (GateKind::Quota, "quota", slots),
            (GateKind::Budget, "budget", Config { limits, ..Config::default() }),
        ] {
            let gate = GateName::new(harness.namespace, kind, Name::trusted(name));
            harness.configure(&gate, config).await;
        }
        let rows = harness.submit_all(vec![drawing(); 2]).await;
        assert_eq!(harness.claim(9).await.len(), 1);
        let spend = Spend {
            namespace: harness.namespace,
            budget: Name::trusted("budget"),
            usage: tokens(2),
            dedup_key: None,
            execution: Some(rows[0].id),
        };
        assert!(!harness.run(spend).await.expect("it is counted").duplicate);
        let fairness_key = Some(Name::trusted("tenant"));
        let fair = Draft {
            required_gates: RequiredGates { fairness_key, ..RequiredGates::default() },
            ..Draft::new("kind")
        };
        let line = harness.submit_all(vec![fair; 2]).await;
        SoundStore { harness, active: rows[0].id, held: rows[1].id, line: [line[0].id, line[1].id] }
    }

    fn name(&self, kind: GateKind, name: &str) -> GateName {
        GateName::new(self.harness.namespace, kind, Name::trusted(name))
    }

    async fn line(&self) -> GateName {
        let class = self.harness.row(self.line[0]).await.class;
        self.name(GateKind::Fair, "tenant").part(Name::trusted(&class.to_string()))
    }

    /// Returns the changes that edit a gate.
    async fn gate(&self, name: GateName, edit: impl FnOnce(&mut Gate)) -> Changes {
        let mut gate = self.harness.store.fetch_gates(&[name.id()]).await.expect("gates are read").remove(0);
        let expected = Some(gate.version);
        edit(&mut gate);
        gate.version += 1;
        Changes { gates: Guarded::writing([(gate, expected)]), ..Changes::default() }
    }

    /// Returns the changes that edit an execution.
    async fn row(&self, id: ExecutionId, edit: impl FnOnce(&mut Execution)) -> Changes {
        let mut execution = self.harness.row(id).await;
        let expected_version = execution.version;
        edit(&mut execution);
        let (result, rewired) = (ResultChange::Keep, false);
        let updated = vec![Updated { execution, expected_version, result, rewired, input: None }];
        Changes { executions: Guarded::updating(updated), ..Changes::default() }
    }

    /// Saves changes and asserts that the checker reports `message`.
    async fn assert_found(&self, message: &str, changes: Changes) {
        assert_eq!(invariants::check(&*self.harness.store).await, Vec::<String>::new());
        self.harness.save(changes).await;
        let violations = invariants::check(&*self.harness.store).await;
        assert!(
            violations.iter().any(|what| what.contains(message)),
            "{message:?} is not in {violations:#?}"
        );
    }
}

#[tokio::test]
async fn a_gate_that_counts_wrongly_is_found() {
    for (kind, name) in [(GateKind::Lane, "default"), (GateKind::Key, "key"), (GateKind::Quota, "quota")] {
        let store = SoundStore::new().await;
        let changes = store.gate(store.name(kind, name), |gate| gate.active += 1).await;
        store.assert_found("1 slots are taken, and it counts 2", changes).await;
    }
    let store = SoundStore::new().await;
    let budget = store.name(GateKind::Budget, "budget");
    let changes = store.gate(budget, |gate| gate.state.reserved = tokens(4)).await;
    store.assert_found("is reserved, and it counts", changes).await;
}

#[tokio::test]
async fn an_active_execution_without_its_slots_is_found() {
    let store = SoundStore::new().await;
    let changes = store.row(store.active, |row| row.detail.slots = Slots::default()).await;
    store.assert_found("it is active, draws on", changes).await;
    let store = SoundStore::new().await;
    let changes = store.row(store.held, |row| row.detail.slots.drawn = true).await;
    store.assert_found("it is not active and has taken", changes).await;
}

#[tokio::test]
async fn a_budget_that_differs_from_its_ledger_is_found() {
    let store = SoundStore::new().await;
    let budget = store.name(GateKind::Budget, "budget");
    let changes = store.gate(budget.clone(), |gate| gate.state.used = tokens(1)).await;
    store.assert_found("its ledger sums to", changes).await;
    let store = SoundStore::new().await;
    let entry = LedgerEntry { gate: budget.id(), period: 0, execution: None, spent: tokens(1) };
    store.assert_found("its ledger sums to", Changes { ledger: vec![entry], ..Changes::default() }).await;
}

#[tokio::test]
async fn an_execution_that_is_never_released_is_found() {
    let store = SoundStore::new().await;
    let changes = store.gate(store.name(GateKind::Key, "key"), |gate| gate.active = 0).await;
    store.assert_found("nothing will release that execution", changes).await;
    let store = SoundStore::new().await;
    let budget = store.name(GateKind::Budget, "budget");
    let changes = store.row(store.held, |row| row.state = State::Held(budget.into())).await;
    store.assert_found("nothing will release that execution", changes).await;
    let store = SoundStore::new().await;
    let line = store.line().await;
    let changes = store.gate(line, |gate| gate.active = 0).await;
    store.assert_found("nothing will release that execution", changes).await;
}

#[tokio::test]
async fn an_execution_that_waits_for_a_gate_it_does_not_draw_on_is_found() {
    let store = SoundStore::new().await;
    let other = store.name(GateKind::Key, "another");
    let changes = store.row(store.held, |row| row.state = State::Held(other.into())).await;
    store.assert_found("on which it does not draw", changes).await;
}

#[tokio::test]
async fn a_fairness_line_with_two_heads_is_found() {
    let store = SoundStore::new().await;
    let changes = store
        .row(store.line[1], |row| {
            row.state = State::Waiting;
            row.detail.own_priority = Some(row.priority);
        })
        .await;
    store.assert_found("2 heads may be claimed", changes).await;
    let store = SoundStore::new().await;
    let changes = store.row(store.line[1], |row| row.detail.own_priority = Some(row.priority)).await;
    store.assert_found("it is the head of a fairness line", changes).await;
}

#[tokio::test]
async fn an_empty_gate_with_a_row_is_found() {
    let store = SoundStore::new().await;
    let quota = store.name(GateKind::Quota, "quota");
    let changes = store
        .gate(quota, |gate| {
            gate.active = 0;
            gate.config = None;
        })
        .await;
    store.assert_found("it has a row, and the row is empty", changes).await;
}
