//! The checker of the invariants finds what is wrong with gates: each test breaks one thing in a sound store and looks for the
//! words.

use selvedge_conformance::{Harness, invariants};
use selvedge_core::amount::Amount;
use selvedge_core::execution::Slots;
use selvedge_core::gate::{Amounts, Config, Draws, Gate, GateKind, GateName, LedgerEntry, Limit};
use selvedge_core::rows::{ResultChange, Updated};
use selvedge_core::rules::gates::budget::Spend;
use selvedge_core::rules::gates::configure::Configure;
use selvedge_core::table::Guarded;
use selvedge_core::{Changes, Draft, Execution, ExecutionId, Name, State};
use selvedge_memory::MemoryStore;
use std::sync::Arc;

/// A store with one that runs and draws on a key, a quota and a budget in a limited lane, one that its key holds, and two with a
/// fairness key.
struct Sound {
    harness: Harness,
    runs: ExecutionId,
    held: ExecutionId,
    line: [ExecutionId; 2],
}

fn tokens(count: u32) -> Amounts {
    [("tokens".to_owned(), Amount::whole(count))].into()
}

fn drawing() -> Draft {
    let draws = Draws {
        budgets: vec![(Name::trusted("budget"), tokens(3))],
        quotas: vec![Name::trusted("quota")],
        concurrency: Some((Name::trusted("key"), 1)),
        fairness_key: None,
    };
    Draft { draws, ..Draft::new("kind") }
}

impl Sound {
    async fn new() -> Sound {
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
            let configure = Configure { gate, config: Some(config), actor: Name::trusted("operator") };
            harness.run(configure).await.expect("it is configured");
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
        assert_eq!(harness.run(spend).await, Ok(true));
        let fairness_key = Some(Name::trusted("tenant"));
        let fair = Draft { draws: Draws { fairness_key, ..Draws::default() }, ..Draft::new("kind") };
        let line = harness.submit_all(vec![fair; 2]).await;
        Sound { harness, runs: rows[0].id, held: rows[1].id, line: [line[0].id, line[1].id] }
    }

    fn name(&self, kind: GateKind, name: &str) -> GateName {
        GateName::new(self.harness.namespace, kind, Name::trusted(name))
    }

    async fn line(&self) -> GateName {
        let class = self.harness.row(self.line[0]).await.class;
        self.name(GateKind::Fair, "tenant").part(Name::trusted(&class.to_string()))
    }

    /// The changes that edit a gate.
    async fn gate(&self, name: GateName, edit: impl FnOnce(&mut Gate)) -> Changes {
        let mut gate = self.harness.store.fetch_gates(&[name.id()]).await.expect("gates are read").remove(0);
        let expected = Some(gate.version);
        edit(&mut gate);
        gate.version += 1;
        Changes { gates: Guarded::writing([(gate, expected)]), ..Changes::default() }
    }

    /// The changes that edit an execution.
    async fn row(&self, id: ExecutionId, edit: impl FnOnce(&mut Execution)) -> Changes {
        let mut execution = self.harness.row(id).await;
        let expected_version = execution.version;
        edit(&mut execution);
        let (result, rewired) = (ResultChange::Keep, false);
        let updated = vec![Updated { execution, expected_version, result, rewired }];
        Changes { executions: Guarded::updating(updated), ..Changes::default() }
    }

    /// These changes break it, and the checker says so in these words.
    async fn is_found(&self, words: &str, changes: Changes) {
        assert_eq!(invariants::check(&*self.harness.store).await, Vec::<String>::new());
        self.harness.save(changes).await;
        let broken = invariants::check(&*self.harness.store).await;
        assert!(broken.iter().any(|what| what.contains(words)), "{words:?} is not in {broken:#?}");
    }
}

#[tokio::test]
async fn a_gate_that_counts_wrongly_is_found() {
    for (kind, name) in [(GateKind::Lane, "default"), (GateKind::Key, "key"), (GateKind::Quota, "quota")] {
        let sound = Sound::new().await;
        let changes = sound.gate(sound.name(kind, name), |gate| gate.active += 1).await;
        sound.is_found("1 slots are taken, and it counts 2", changes).await;
    }
    let sound = Sound::new().await;
    let budget = sound.name(GateKind::Budget, "budget");
    let changes = sound.gate(budget, |gate| gate.state.reserved = tokens(4)).await;
    sound.is_found("is reserved, and it counts", changes).await;
}

#[tokio::test]
async fn a_lease_that_has_not_taken_what_it_draws_on_is_found() {
    let sound = Sound::new().await;
    let changes = sound.row(sound.runs, |row| row.detail.slots = Slots::default()).await;
    sound.is_found("it runs, draws on", changes).await;
    let sound = Sound::new().await;
    let changes = sound.row(sound.held, |row| row.detail.slots.drawn = true).await;
    sound.is_found("it does not run, and has taken", changes).await;
}

#[tokio::test]
async fn a_budget_that_does_not_follow_its_ledger_is_found() {
    let sound = Sound::new().await;
    let budget = sound.name(GateKind::Budget, "budget");
    let changes = sound.gate(budget.clone(), |gate| gate.state.used = tokens(1)).await;
    sound.is_found("its ledger says", changes).await;
    let sound = Sound::new().await;
    let entry = LedgerEntry { gate: budget.id(), period: 0, execution: None, spent: tokens(1) };
    sound.is_found("its ledger says", Changes { ledger: vec![entry], ..Changes::default() }).await;
}

#[tokio::test]
async fn what_is_held_without_a_way_on_is_found() {
    let sound = Sound::new().await;
    let changes = sound.gate(sound.name(GateKind::Key, "key"), |gate| gate.active = 0).await;
    sound.is_found("nothing will let that go on", changes).await;
    let sound = Sound::new().await;
    let budget = sound.name(GateKind::Budget, "budget");
    let changes = sound.row(sound.held, |row| row.state = State::Held(budget.into())).await;
    sound.is_found("nothing will let that go on", changes).await;
    let sound = Sound::new().await;
    let line = sound.line().await;
    let changes = sound.gate(line, |gate| gate.active = 0).await;
    sound.is_found("nothing will let that go on", changes).await;
}

#[tokio::test]
async fn what_waits_for_a_gate_that_it_does_not_go_through_is_found() {
    let sound = Sound::new().await;
    let other = sound.name(GateKind::Key, "another");
    let changes = sound.row(sound.held, |row| row.state = State::Held(other.into())).await;
    sound.is_found("on which it does not draw", changes).await;
}

#[tokio::test]
async fn a_line_with_two_that_may_be_claimed_is_found() {
    let sound = Sound::new().await;
    let changes = sound
        .row(sound.line[1], |row| {
            row.state = State::Waiting;
            row.detail.head = Some(row.priority);
        })
        .await;
    sound.is_found("2 may be claimed", changes).await;
    let sound = Sound::new().await;
    let changes = sound.row(sound.line[1], |row| row.detail.head = Some(row.priority)).await;
    sound.is_found("and the first of a line", changes).await;
}

#[tokio::test]
async fn a_gate_that_is_kept_for_nothing_is_found() {
    let sound = Sound::new().await;
    let quota = sound.name(GateKind::Quota, "quota");
    let changes = sound
        .gate(quota, |gate| {
            gate.active = 0;
            gate.config = None;
        })
        .await;
    sound.is_found("it is kept, and there is nothing in it", changes).await;
}
