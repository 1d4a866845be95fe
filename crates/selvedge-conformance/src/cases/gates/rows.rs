//! Rows of gates, held executions and the ledger: read back equal, guarded, found in order, and added up exactly.

use crate::cases::execution::guards::assert_nothing_saved;
use crate::cases::execution::rows::assert_read_everywhere;
use crate::harness::by_hand;
use crate::harness::concurrently;
use crate::harness::gates::{concurrency, ids, token_limit, tokens, with_key};
use crate::harness::sketch::Sketch;
use crate::harness::{Harness, fence};
use bytes::Bytes;
use selvedge_core::amount::Amount;
use selvedge_core::execution::{Slots, Spec};
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::flow::FlowState;
use selvedge_core::gate::{
    Amounts, BudgetScope, Config, Gate, GateId, GateKind, GateName, GateState, LaneState, LedgerEntry, Limit,
    OnHard, Rate, RequiredGates,
};
use selvedge_core::rows::{HeldBy, KeyName, KeyRow, KeyScope, ResultChange, Updated};
use selvedge_core::rows::{Queries, UnreadWrites};
use selvedge_core::rules::flows::whole::SettleFlow;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::suspension::Condition;
use selvedge_core::table::{Entries, Guarded, Request};
use selvedge_core::{Changes, Draft, Execution, ExecutionId, Name, Needs, State, Timestamp};
use selvedge_store::{Demand, FlowDue, ReconcilerScope};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

fn amounts(list: &[(&str, &str)]) -> Amounts {
    let amount = |text: &str| Amount::parse(text).expect("it is an amount");
    list.iter().map(|(dimension, text)| ((*dimension).to_owned(), amount(text))).collect()
}

fn new(harness: &Harness, kind: GateKind, name: &str) -> Gate {
    Gate { version: 1, active: 1, ..Gate::new(harness.named(kind, name)) }
}

fn part(gate: &Gate, part: &str) -> Gate {
    Gate { name: gate.name.clone().part(Name::trusted(part)), ..gate.clone() }
}

async fn put(harness: &Harness, gates: &[Gate]) {
    let mut gates: Vec<(Gate, Option<u32>)> = gates.iter().map(|gate| (gate.clone(), None)).collect();
    gates.sort_by_key(|(gate, _)| gate.id());
    harness.save(Changes { gates: Guarded::writing(gates), ..Changes::default() }).await;
}

/// Asserts that every query returns this gate.
async fn assert_gate_read_everywhere(harness: &Harness, gate: &Gate) {
    assert_eq!(harness.find_gate(&gate.name).await.as_ref(), Some(gate), "by fetch");
    let queries: [fn(GateId) -> Needs; 3] = [
        |id| Needs { lanes: Request::locking([id]), ..Needs::default() },
        |id| Needs { gates: Request::locking([id]), ..Needs::default() },
        |id| Needs { parts: Request::locking([id]), ..Needs::default() },
    ];
    for needs in queries {
        let rows = harness.load(needs(gate.id())).await;
        assert_eq!(rows.gates, std::slice::from_ref(gate), "in a transaction");
    }
}

/// Returns a gate with every field set to a value that is easily lost.
fn full_gate(harness: &Harness, kind: GateKind, now: Timestamp) -> Gate {
    let rate = Rate { count: 1_000_000, window_ms: 7_200_000 };
    let limit = |hard: Option<&str>, soft: Option<&str>| Limit {
        hard: hard.and_then(Amount::parse),
        soft: soft.and_then(Amount::parse),
    };
    let mut state = GateState {
        used: amounts(&[("tokens", "123456789012.000001"), ("cöst \"€\"", "0.1")]),
        reserved: amounts(&[("tokens", "0.000001")]),
        period: 7,
        resets_at: Some(now.plus_ms(3_600_000)),
        stops: true,
        ..GateState::default()
    };
    // The largest possible window.
    (0..300).for_each(|step| state.starts.start(rate, now.plus_ms(step * 60_000)));
    Gate {
        version: 1_000_000,
        config: Some(Config {
            state: LaneState::Draining,
            concurrency: Some(0),
            rate: Some(rate),
            weight: Some(3),
            limits: [
                ("tokens".to_owned(), limit(Some("2000000000000"), None)),
                ("cöst \"€\"".to_owned(), limit(Some("0"), Some("0.000001"))),
                ("soft".to_owned(), limit(None, Some("5"))),
            ]
            .into(),
            scope: BudgetScope::Flow,
            period_ms: Some(86_400_000),
            on_hard: OnHard::Suspend,
        }),
        active: i32::MAX as u32,
        state,
        due_at: Some(now.minus_ms(5)),
        ..new(harness, kind, "a 'näme' with \\ and \"quotes\"")
    }
}

pub async fn a_gate_is_read_back_equal_in_every_field(harness: &Harness) {
    let now = harness.now().await;
    for kind in GateKind::ALL {
        let full = full_gate(harness, kind, now);
        let part = Gate { config: None, ..part(&full, "a pärt") };
        let plain = new(harness, kind, "plain");
        let by_default = Gate { config: Some(Config::default()), ..new(harness, kind, "by default") };
        let gates = [full, part, plain, by_default];
        put(harness, &gates).await;
        for gate in &gates {
            assert_gate_read_everywhere(harness, gate).await;
        }
    }
}

pub async fn a_changed_gate_is_read_back_equal(harness: &Harness) {
    let now = harness.now().await;
    let before = full_gate(harness, GateKind::Budget, now);
    put(harness, std::slice::from_ref(&before)).await;
    let plain =
        Gate { name: before.name.clone(), version: before.version + 1, ..new(harness, GateKind::Budget, "") };
    for (gate, expected) in
        [(plain.clone(), before.version), (Gate { version: 7, ..before.clone() }, plain.version)]
    {
        harness
            .save(Changes { gates: Guarded::writing([(gate.clone(), Some(expected))]), ..Changes::default() })
            .await;
        assert_gate_read_everywhere(harness, &gate).await;
    }
    harness.save(Changes { gates: Guarded::deleting([(before.id(), 7)]), ..Changes::default() }).await;
    assert_eq!(harness.find_gate(&before.name).await, None);
    put(harness, std::slice::from_ref(&plain)).await;
    assert_gate_read_everywhere(harness, &plain).await;
}

pub async fn requested_gates_are_distinguished_from_existing_ones(harness: &Harness) {
    let [lane, quota] = [GateKind::Lane, GateKind::Quota].map(|kind| new(harness, kind, "name"));
    let budget = part(&new(harness, GateKind::Budget, "name"), "a part");
    put(harness, &[lane.clone(), budget.clone()]).await;
    let needs = Needs {
        lanes: Request::locking([lane.id()]),
        gates: Request::locking([quota.id()]),
        parts: Request::locking([budget.id()]),
        ..Needs::default()
    };
    let found = harness.load(needs).await;
    assert_eq!(found.gates, [lane.clone(), budget.clone()]);
    let ids = [budget.id(), GateId(1), lane.id()];
    let mut fetched = harness.store.fetch_gates(&ids).await.expect("gates are read");
    fetched.sort_by_key(Gate::id);
    let mut expected = vec![budget, lane];
    expected.sort_by_key(Gate::id);
    assert_eq!(fetched, expected);
}

pub async fn configured_gates_are_listed_by_name_in_pages(harness: &Harness) {
    let other_namespace = harness.in_namespace("beside").await;
    let configured = |harness: &Harness, kind, name: &str| Gate {
        config: Some(concurrency(1)),
        ..new(harness, kind, name)
    };
    let names = ["A", "Z", "a", "a b", "a-b", "ab", "z", "ä", "€"];
    let mut gates: Vec<Gate> =
        names.iter().rev().map(|name| configured(harness, GateKind::Quota, name)).collect();
    gates.extend([
        new(harness, GateKind::Quota, "not configured"),
        configured(harness, GateKind::Lane, "b"),
        configured(&other_namespace, GateKind::Quota, "c"),
    ]);
    put(harness, &gates).await;
    let page = async |after: Option<&str>, limit| {
        let after = after.map(Name::trusted);
        let listed =
            harness.store.list_gates(harness.namespace, GateKind::Quota, after.as_ref(), limit).await;
        listed.expect("gates are listed")
    };
    let all = page(None, 100).await;
    assert_eq!(all.iter().map(|gate| gate.name.name.as_str()).collect::<Vec<_>>(), names);
    assert!(all.iter().all(|gate| gates.contains(gate)));
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let next = page(after.as_deref(), 2).await;
        assert!(next.len() <= 2);
        let Some(last) = next.last() else { break };
        after = Some(last.name.name.to_string());
        seen.extend(next);
    }
    assert_eq!(seen, all);
    assert_eq!(page(Some("a"), 1).await[0].name.name.as_str(), "a b");
    assert!(page(Some("€"), 9).await.is_empty());
}

pub async fn the_parts_of_a_gate_are_listed_by_id(harness: &Harness) {
    let budget = new(harness, GateKind::Budget, "each");
    let mut parts: Vec<Gate> = (0..5).map(|number| part(&budget, &format!("part {number}"))).collect();
    let others = [
        part(&new(harness, GateKind::Budget, "other"), "part 1"),
        part(&new(harness, GateKind::Fair, "each"), "1"),
    ];
    put(harness, &[std::slice::from_ref(&budget), &parts[..], &others].concat()).await;
    parts.sort_by_key(Gate::id);
    let of = async |limit| harness.store.parts_of(&budget.name, limit).await.expect("parts are read");
    assert_eq!(of(100).await, parts);
    assert_eq!(of(2).await, parts[..2]);
    assert!(harness.store.parts_of(&harness.budget("none"), 9).await.expect("parts are read").is_empty());
}

pub async fn due_gates_are_found_earliest_first_and_in_pages(harness: &Harness) {
    let now = harness.now().await;
    let at = |name: &str, due_at| Gate { due_at, ..new(harness, GateKind::Quota, name) };
    let overview = async || harness.store.overview().await.expect("the overview is read").due.of::<Gate>();
    put(harness, &[at("never", None)]).await;
    assert_eq!(overview().await, None);
    let later = now.plus_ms(3_600_000);
    put(harness, &[at("later", Some(later))]).await;
    assert_eq!(overview().await, Some(later));
    let mut due: Vec<Gate> = [30, 10, 20, 20, 20]
        .into_iter()
        .enumerate()
        .map(|(number, ago)| at(&format!("due {number}"), Some(now.minus_ms(ago))))
        .collect();
    put(harness, &due).await;
    due.sort_by_key(|gate| (gate.due_at, gate.id()));
    assert_eq!(overview().await, due[0].due_at);
    let found = async |after, limit| {
        harness.store.due_gates(&ReconcilerScope::ALL, after, limit).await.expect("due gates are read")
    };
    assert_eq!(found(None, 100).await, due);
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let page = found(after, 2).await;
        let Some(last) = page.last() else { break };
        after = last.due_at.map(|at| (at, last.id()));
        seen.extend(page);
    }
    assert_eq!(seen, due);
    // A checked gate is no longer found.
    let done = Gate { due_at: None, version: 2, ..due[0].clone() };
    harness.save(Changes { gates: Guarded::writing([(done, Some(1))]), ..Changes::default() }).await;
    assert_eq!(found(None, 1).await, due[1..2]);
}

pub async fn writing_an_outdated_gate_saves_nothing_and_is_begun_again(harness: &Harness) {
    let kept = new(harness, GateKind::Key, "kept");
    let absent = new(harness, GateKind::Key, "absent");
    put(harness, std::slice::from_ref(&kept)).await;
    let written = |gate: &Gate, expected| Changes {
        gates: Guarded::writing([(Gate { active: 9, ..gate.clone() }, expected)]),
        ..Changes::default()
    };
    for outdated in [
        written(&kept, None),
        written(&kept, Some(0)),
        written(&kept, Some(2)),
        written(&absent, Some(1)),
        Changes { gates: Guarded::deleting([(kept.id(), 2)]), ..Changes::default() },
        Changes { gates: Guarded::deleting([(absent.id(), 1)]), ..Changes::default() },
    ] {
        assert_nothing_saved(harness, |changes| {
            changes.gates = outdated.gates;
            changes.ledger = vec![entry(&kept, 0, None, &[("tokens", "1")])];
        })
        .await;
        assert_eq!(harness.find_gate(&kept.name).await.as_ref(), Some(&kept));
        assert_eq!(harness.find_gate(&absent.name).await, None);
        assert!(harness.store.ledger(kept.id(), 0).await.expect("rows are read").is_empty());
    }
    let gates_deleted = vec![(kept.id(), 1)];
    harness
        .save(Changes {
            gates: Guarded { deleted: gates_deleted, ..Guarded::writing([(absent.clone(), None)]) },
            ..Changes::default()
        })
        .await;
    assert_eq!(
        (harness.find_gate(&kept.name).await, harness.find_gate(&absent.name).await),
        (None, Some(absent))
    );
}

pub async fn a_gate_created_concurrently_is_created_once(harness: &Harness) {
    let name = harness.key("new");
    let tasks = concurrently(6, |_| {
        let (store, name) = (harness.store.clone(), name.clone());
        async move {
            let asked = Needs { gates: Request::locking([name.id()]), ..Needs::default() };
            let add = crate::harness::runner::decision(
                move |_| asked.clone(),
                move |rows| {
                    let before = rows.gates.first().cloned();
                    let expected = before.as_ref().map(|gate| gate.version);
                    let mut gate = before.unwrap_or_else(|| Gate::new(name.clone()));
                    (gate.active, gate.version) = (gate.active + 1, gate.version + 1);
                    Demand::Save(Box::new(Changes {
                        gates: Guarded::writing([(gate, expected)]),
                        ..Changes::default()
                    }))
                },
            );
            store.transact(add).await.expect("it commits")
        }
    });
    tasks.await;
    let gate = harness.gate(&name).await;
    assert_eq!((gate.active, gate.version), (6, 6));
    // The invariants would not hold: no execution has taken its slots.
    harness.save(Changes { gates: Guarded::deleting([(name.id(), 6)]), ..Changes::default() }).await;
}

pub async fn slots_are_given_back_to_a_gate_that_was_not_loaded_up_to_the_taken_ones(harness: &Harness) {
    let before = harness.now().await;
    let taken = Gate { active: 3, ..new(harness, GateKind::Key, "tenant") };
    put(harness, std::slice::from_ref(&taken)).await;
    let free = |count| Changes {
        unread: UnreadWrites {
            slots_freed: vec![(GateId(7), 1), (taken.id(), count)],
            ..UnreadWrites::default()
        },
        ..Changes::default()
    };
    let free = |count| {
        let mut changes = free(count);
        changes.unread.slots_freed.sort();
        changes
    };
    harness.save(free(2)).await;
    let gate = harness.gate(&taken.name).await;
    assert_eq!((gate.active, gate.version), (1, 2));
    assert!(
        gate.due_at.is_some_and(|at| at >= before),
        "it is due, because the save does not know what it holds: {gate:?}"
    );
    harness.save(free(2)).await;
    let again = harness.gate(&taken.name).await;
    assert_eq!(
        again,
        Gate { active: 0, version: 3, due_at: gate.due_at, ..taken.clone() },
        "its due time is not postponed"
    );
    assert!(harness.store.fetch_gates(&[GateId(7)]).await.expect("gates are read").is_empty());
}

fn entry(gate: &Gate, period: u32, execution: Option<ExecutionId>, spent: &[(&str, &str)]) -> LedgerEntry {
    LedgerEntry { gate: gate.id(), period, execution, spent: amounts(spent) }
}

pub async fn spent_amounts_add_up_exactly_and_outlive_their_execution(harness: &Harness) {
    let rows = harness.submit_all(vec![Draft::new("kind"); 2]).await;
    let (one, two) = (&rows[0], &rows[1]);
    let budget = new(harness, GateKind::Budget, "tokens");
    let entry = |period, execution: Option<ExecutionId>, spent: &[(&str, &str)]| {
        entry(&budget, period, execution, spent)
    };
    for _ in 0..10 {
        let ledger = vec![
            entry(1, Some(one.id), &[("dollars", "0.1")]),
            entry(1, None, &[("dollars", "0.000001")]),
            entry(1, Some(one.id), &[("pages", "2")]),
        ];
        harness.save(Changes { ledger, ..Changes::default() }).await;
    }
    let ledger = vec![entry(2, Some(one.id), &[("dollars", "5")]), entry(1, Some(two.id), &[("pages", "1")])];
    harness.save(Changes { ledger, ..Changes::default() }).await;
    let by_none = entry(1, None, &[("dollars", "0.00001")]);
    let of_one = entry(1, Some(one.id), &[("dollars", "1"), ("pages", "20")]);
    let (later, of_two) =
        (entry(2, Some(one.id), &[("dollars", "5")]), entry(1, Some(two.id), &[("pages", "1")]));
    let ledger = async |period| {
        let mut entries = harness.store.ledger(budget.id(), period).await.expect("the ledger is read");
        entries.sort_by_key(|entry| entry.execution);
        entries
    };
    let of = async |id| {
        let mut entries = harness.store.ledger_of(id).await.expect("the ledger is read");
        entries.sort_by_key(|entry| entry.period);
        entries
    };
    let mut all = vec![by_none, of_one.clone(), of_two.clone()];
    all.sort_by_key(|entry| entry.execution);
    assert_eq!(ledger(1).await, all);
    assert_eq!(of(one.id).await, [of_one, later]);
    assert!(ledger(0).await.is_empty() && of(crate::harness::new_id()).await.is_empty());
    // Amounts spent in the deleting transaction are kept too.
    let deleted = vec![(one.id, one.version)];
    let last = entry(1, Some(one.id), &[("pages", "0.5")]);
    harness
        .save(Changes { executions: Guarded::deleting(deleted), ledger: vec![last], ..Changes::default() })
        .await;
    assert_eq!(ledger(1).await, [entry(1, None, &[("dollars", "1.00001"), ("pages", "20.5")]), of_two]);
    assert_eq!(ledger(2).await, [entry(2, None, &[("dollars", "5")])]);
    assert!(of(one.id).await.is_empty());
}

/// Returns a row that draws on gates of every kind.
async fn drawing_row(harness: &Harness, gate: &GateName) -> Execution {
    let required_gates = RequiredGates {
        budgets: vec![
            (gate.name.clone(), amounts(&[("tokens", "0.000001")])),
            (Name::trusted("other"), Amounts::new()),
        ],
        quotas: vec![Name::trusted("a"), Name::trusted("ä \"b\"")],
        concurrency: Some((Name::trusted("key"), 1_000_000_000)),
        fairness_key: Some(Name::trusted("tenant \\")),
    };
    let row = by_hand::row(harness, harness.class("default", "kind").await, harness.now().await);
    Execution { spec: Arc::new(Spec { required_gates, ..Spec::default() }), priority: 3, ..row }
}

pub async fn executions_that_wait_for_a_gate_are_read_back_equal(harness: &Harness) {
    let now = harness.now().await;
    let gate = harness.budget("a 'büdget'").part(Name::trusted("a pärt"));
    let held = Execution { state: State::Held(gate.clone().into()), ..drawing_row(harness, &gate).await };
    let condition =
        Condition::Any(vec![Condition::operator(), Condition::Gate { gate: gate.clone(), open: false }]);
    let suspended =
        by_hand::suspended(drawing_row(harness, &gate).await, now, vec![by_hand::wait(condition)]);
    let session = by_hand::session(harness, "one", 30_000, now);
    by_hand::put_sessions(harness, std::slice::from_ref(&session)).await;
    let mut leased = by_hand::with_lease(drawing_row(harness, &gate).await, &session, now);
    let parts = vec![Some(Name::trusted("a pärt")), None];
    leased.detail.slots = Slots { lane: Some(Name::trusted("default")), drawn: true, parts };
    let mut head = drawing_row(harness, &gate).await;
    head.detail.own_priority = Some(head.priority);
    by_hand::insert(harness, &[held.clone(), suspended.clone(), leased.clone(), head.clone()]).await;
    for row in [&held, &suspended, &leased, &head] {
        assert_read_everywhere(harness, row).await;
    }
    assert_eq!(harness.held_by(&gate).await, 2);
    let listed = Filter { states: vec![StateName::Held], ..Filter::all(harness.namespace) };
    let listed =
        harness.store.list(&listed, None, 9, Payloads::NONE).await.expect("executions are listed").rows;
    assert_eq!(listed.iter().map(|stored| &stored.execution).collect::<Vec<_>>(), [&held]);
    let candidates = harness.claim(9).await;
    assert_eq!(candidates.len(), 1, "only waiting executions are claimed");
    // An execution that is no longer held is no longer found.
    let ready = Execution { state: State::Waiting, version: 2, ..held };
    let updated = Updated {
        execution: ready,
        expected_version: 1,
        result: ResultChange::Keep,
        rewired: false,
        input: None,
    };
    harness.save(Changes { executions: Guarded::updating([updated]), ..Changes::default() }).await;
    assert_eq!(harness.held_by(&gate).await, 1);
}

pub async fn held_executions_are_found_in_claim_order(harness: &Harness) {
    let class = harness.class("default", "kind").await;
    let now = harness.now().await;
    let (gate, other) = (harness.key("tenant"), harness.key("other"));
    let row = |gate: &GateName, priority, ago: i64| Execution {
        state: State::Held(gate.clone().into()),
        priority,
        ready_order: now.minus_ms(ago),
        ..by_hand::row(harness, class, now)
    };
    let rows = [row(&gate, 0, 1), row(&gate, 0, 2), row(&gate, 9, 1), row(&gate, -3, 9), row(&other, 5, 5)];
    by_hand::insert(harness, &rows).await;
    let order = [&rows[2], &rows[1], &rows[0], &rows[3]];
    for limit in 1..=5 {
        let asked = HeldBy::first(gate.id(), limit);
        let unknown = HeldBy::first(GateId(7), limit);
        let found = harness
            .load(Needs {
                queries: Queries { held: vec![asked, unknown], ..Queries::default() },
                ..Needs::default()
            })
            .await;
        let expected: Vec<ExecutionId> = order.iter().take(limit as usize).map(|row| row.id).collect();
        let held =
            |of: HeldBy| found.found.held.iter().find(|(asked, _)| *asked == of).map(|(_, ids)| ids.clone());
        assert_eq!((held(asked), held(unknown)), (Some(expected.clone()), Some(Vec::new())));
        for id in expected {
            let row = rows.iter().find(|row| row.id == id);
            assert_eq!(found.executions.iter().find(|row| row.id == id), row, "with its row");
        }
    }
    for (bound, count) in [(0, 0), (3, 3), (9, 4)] {
        assert_eq!(harness.store.held_by(gate.id(), bound).await.expect("they are counted"), count);
    }
}

pub async fn a_held_execution_that_another_transaction_has_locked_is_skipped(harness: &Harness) {
    let first = harness.leased(with_key("a", 1)).await;
    let held = harness.submit_all(vec![with_key("a", 1); 2]).await;
    assert!(harness.claim(9).await.is_empty());
    let key = harness.key("a");
    let asked = Needs {
        queries: Queries { held: vec![HeldBy::first(key.id(), 4)], ..Queries::default() },
        ..Needs::default()
    };
    if harness.store.describe().writers < 2 {
        // Transactions run one after the other, so no other transaction can have the lock.
        assert_eq!(harness.load(asked).await.found.held[0].1, [held[0].id, held[1].id]);
        return;
    }
    let (row_locked, when_row_locked) = channel();
    let (unlock, may_unlock) = channel();
    let may_unlock = Mutex::new(may_unlock);
    let lock = Needs { executions: Request::locking([held[0].id]), ..Needs::default() };
    let holder = crate::harness::runner::decision(
        move |_| lock.clone(),
        move |_| {
            row_locked.send(()).expect("the case waits for it");
            tokio::task::block_in_place(|| {
                crate::harness::runner::locked(&may_unlock).recv().expect("the case sends it");
            });
            Demand::Save(Box::default())
        },
    );
    let store = harness.store.clone();
    let holder = tokio::spawn(async move { store.transact(holder).await.expect("it ends") });
    tokio::task::block_in_place(|| when_row_locked.recv().expect("it locks the row"));
    let rows = harness.load(asked).await;
    assert!(rows.executions.iter().all(|row| row.id != held[0].id), "it is skipped");
    assert!(rows.executions.iter().any(|row| row.id == held[1].id), "the other is loaded");
    // The end of the active execution releases the other, and the gate is due for a check of the rest.
    harness.complete(&first, b"1").await;
    harness.assert_states_of(&[held[0].id, held[1].id], &[StateName::Held, StateName::Waiting]).await;
    assert!(harness.gate(&key).await.due_at.is_some());
    unlock.send(()).expect("the holder waits for it");
    holder.await.expect("it ends");
    // The slot is promised to the released execution.
    assert_eq!(harness.check_gate(&key).await, 0);
    let other = harness.claim(9).await;
    assert_eq!(ids(&other), [held[1].id]);
    harness.complete(&other[0], b"1").await;
    harness.assert_states_of(&[held[0].id, held[1].id], &[StateName::Waiting, StateName::Completed]).await;
}

pub async fn a_flow_counts_held_members_and_stays_running(harness: &Harness) {
    let quota = harness.quota("none");
    harness.configure(&quota, concurrency(0)).await;
    let sketch =
        Sketch::from("a b").node("b", |draft| draft.required_gates.quotas = vec![Name::trusted("none")]);
    let flow = harness.flow(sketch).await;
    assert_eq!(harness.claim(9).await.len(), 1);
    flow.assert_states("a=active b=held").await;
    let members = flow.members().await;
    let leased = members.iter().find(|row| row.node() == Some("a")).expect("it exists");
    let fence = selvedge_core::rules::report::Fence::of(leased).expect("it is active");
    harness.report(fence, Op::Complete { result: "1".into() }).await.expect("it is completed");
    let counts = flow.flow().await.counts;
    assert_eq!((counts.of(StateName::Held), counts.of(StateName::Completed)), (1, 1));
    let due = harness
        .store
        .due_flows(&ReconcilerScope::ALL, FlowDue::Settle, None, 9)
        .await
        .expect("due flows are read");
    assert!(due.is_empty(), "one of its members is live");
    assert_eq!(harness.run(SettleFlow { flow: flow.id }).await, None);
    assert_eq!(flow.flow().await.state, FlowState::Running);
    harness.unconfigure(&quota).await;
    flow.complete("b").await;
    assert_eq!(flow.drained_state().await, FlowState::Completed);
}

pub async fn a_deduplication_key_of_usage_is_kept_until_it_expires(harness: &Harness) {
    let now = harness.now().await;
    let key = |text: &str, at: Timestamp| KeyRow {
        name: KeyName { namespace: harness.namespace, scope: KeyScope::Usage, key: Name::trusted(text) },
        subject: None,
        digest: u64::MAX,
        answer: Bytes::new(),
        expires_at: Some(at),
    };
    let keys = vec![key("budget:a", now.plus_ms(3_600_000)), key("budget:b", now.minus_ms(3_600_000))];
    harness.save(Changes { keys: Entries::writing(keys.clone()), ..Changes::default() }).await;
    let names: Vec<KeyName> = keys.iter().map(|key| key.name.clone()).collect();
    let found =
        async || harness.load(Needs { keys: Request::reading(names.clone()), ..Needs::default() }).await.keys;
    assert_eq!(found().await.len(), 2);
    assert_eq!(harness.store.delete_expired_keys(9).await.expect("keys are deleted"), 1);
    assert_eq!(found().await, keys[..1]);
}

pub async fn a_held_execution_stays_held_when_rules_change_it(harness: &Harness) {
    harness.configure(&harness.budget("month"), token_limit(5)).await;
    harness.spend("month", 5, None).await;
    let id = harness.submit(crate::harness::gates::with_budget("month", 1)).await.id;
    assert!(harness.claim(9).await.is_empty());
    let tag = Action::Tag { set: [("a".into(), "b".into())].into(), remove: vec![] };
    harness.operate(id, tag).await.expect("it is tagged");
    harness.signal(id, "go").await;
    let row = harness.row(id).await;
    assert_eq!((row.state.clone(), row.tags.len()), (State::Held(harness.budget("month").into()), 1));
    assert_read_everywhere(harness, &row).await;
    harness.reset(&harness.budget("month")).await;
    let claimed = harness.claim_again(id).await;
    assert_eq!(claimed.execution.detail.record.untaken, 1, "the signal is kept");
    harness.report(fence(&claimed), Op::Complete { result: "1".into() }).await.expect("it is completed");
    assert_eq!(harness.used_and_reserved(&harness.budget("month")).await, (tokens(0), tokens(0)));
}
