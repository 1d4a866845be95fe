//! Gates in the file: what is stored, unreadable rows, the ledger after deletions, and the cost of held executions.

use crate::support::{Directory, harness, plain_connection, steps};
use rusqlite::params;
use rusqlite::types::Null;
use selvedge_conformance::{Harness, decision};
use selvedge_core::amount::Amount;
use selvedge_core::gate::{
    Amounts, Config, Gate, GateId, GateKind, GateName, GateState, LedgerEntry, Limit, Rate,
};
use selvedge_core::rows::{HeldBy, ResultChange, Updated};
use selvedge_core::rows::{Queries, UnreadWrites};
use selvedge_core::table::{Guarded, Request};
use selvedge_core::{Changes, Draft, Execution, ExecutionId, Name, Needs, State, Timestamp};
use selvedge_sqlite::SqliteStore;
use selvedge_store::{Demand, Error, ReconcilerScope, Transaction, Transactions};

fn gate(harness: &Harness, kind: GateKind, name: &str) -> Gate {
    Gate { version: 1, ..Gate::new(GateName::new(harness.namespace, kind, Name::trusted(name))) }
}

fn part(gate: &Gate, part: &str) -> Gate {
    Gate { name: gate.name.clone().part(Name::trusted(part)), config: None, ..gate.clone() }
}

fn amounts(of: &[(&str, &str)]) -> Amounts {
    let amount = |text: &str| Amount::parse(text).expect("the text is an amount");
    of.iter().map(|(dimension, text)| ((*dimension).to_owned(), amount(text))).collect()
}

/// Inserts gates.
async fn add(harness: &Harness, gates: &[Gate]) {
    let gates = gates.iter().map(|gate| (gate.clone(), None));
    harness.save(Changes { gates: Guarded::writing(gates), ..Changes::default() }).await;
}

async fn fetched(harness: &Harness, gate: &Gate) -> Option<Gate> {
    harness.store.fetch_gates(&[gate.id()]).await.expect("gates are read").pop()
}

/// Returns the configured gates of a kind after a name.
async fn listed(harness: &Harness, kind: GateKind, after: Option<&str>) -> Vec<Gate> {
    let after = after.map(Name::trusted);
    let listed = harness.store.list_gates(harness.namespace, kind, after.as_ref(), 9).await;
    listed.expect("gates are listed")
}

async fn try_save(harness: &Harness, changes: Changes) -> Result<Transaction, Error> {
    let save = decision(|_| Needs::default(), move |_| Demand::Save(Box::new(changes.clone())));
    harness.store.transact(save).await
}

#[tokio::test]
async fn gates_and_the_ledger_are_unchanged_after_reopening() {
    let directory = Directory::new();
    let before = harness(&directory).await;
    let now = before.now().await;
    let mut quota = gate(&before, GateKind::Quota, "mails");
    let rate = Rate { count: 3, window_ms: 1000 };
    quota.config = Some(Config { rate: Some(rate), concurrency: Some(u32::MAX), ..Config::default() });
    quota.state.starts.start(rate, now);
    (quota.active, quota.version) = (u32::MAX, u32::MAX);
    let mut budget = gate(&before, GateKind::Budget, "tokens");
    let limit = Limit { hard: Some(Amount::whole(9)), soft: None };
    budget.config = Some(Config { limits: [("dollars".into(), limit)].into(), ..Config::default() });
    let mut flow = part(&budget, "a flow");
    flow.state = GateState { used: amounts(&[("dollars", "0.1")]), period: 7, ..GateState::default() };
    flow.due_at = Some(now.minus_ms(5));
    let mut lane = part(&budget, "a lane");
    lane.due_at = Some(now.plus_ms(3_600_000));
    let key = Gate { active: 2, ..gate(&before, GateKind::Key, "tenant") };
    let gates = [quota, budget, flow, lane, key];
    let spent = LedgerEntry {
        gate: gates[2].id(),
        period: 7,
        execution: None,
        spent: amounts(&[("dollars", "0.1")]),
    };
    let new = gates.iter().map(|gate| (gate.clone(), None));
    before
        .save(Changes { gates: Guarded::writing(new), ledger: vec![spent.clone()], ..Changes::default() })
        .await;
    before.store.close().await;
    drop(before);

    let after = harness(&directory).await;
    for gate in &gates {
        assert_eq!(fetched(&after, gate).await.as_ref(), Some(gate));
    }
    let [quota, budget, flow, lane, _] = &gates;
    let store = &after.store;
    assert_eq!(listed(&after, GateKind::Quota, None).await, std::slice::from_ref(quota));
    assert_eq!(listed(&after, GateKind::Budget, None).await, std::slice::from_ref(budget));
    assert_eq!(listed(&after, GateKind::Budget, Some("tokens")).await, []);
    assert_eq!(listed(&after, GateKind::Key, None).await, [], "it is not configured");
    let mut parts = vec![flow.clone(), lane.clone()];
    parts.sort_by_key(Gate::id);
    assert_eq!(store.parts_of(&budget.name, 9).await.expect("parts are read"), parts);
    assert_eq!(store.parts_of(&budget.name, 1).await.expect("parts are read"), parts[..1]);
    assert_eq!(
        store.due_gates(&ReconcilerScope::ALL, None, 9).await.expect("gates are read"),
        std::slice::from_ref(flow)
    );
    assert_eq!(store.overview().await.expect("the overview is read").due.of::<Gate>(), flow.due_at);
    assert_eq!(store.ledger(flow.id(), 7).await.expect("the ledger is read"), [spent]);
    assert_eq!(store.ledger(flow.id(), 8).await.expect("the ledger is read"), []);
}

#[tokio::test]
async fn due_gates_are_listed_earliest_first_and_page_by_page() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let now = harness.now().await;
    // Two gates have the same time: they are listed in the order of their ids, some of which are negative.
    let due = |number: i64| Gate {
        due_at: Some(now.minus_ms(number / 2)),
        ..gate(&harness, GateKind::Key, &format!("key {number}"))
    };
    let mut gates: Vec<Gate> = (2..20).map(due).collect();
    assert!(gates.iter().any(|gate| gate.id().0 < 0) && gates.iter().any(|gate| gate.id().0 > 0));
    add(&harness, &gates).await;
    gates.sort_by_key(|gate| (gate.due_at, gate.id()));
    let mut found = Vec::new();
    let mut after: Option<(Timestamp, GateId)> = None;
    loop {
        let page = harness.store.due_gates(&ReconcilerScope::ALL, after, 5).await.expect("gates are read");
        let Some(last) = page.last() else { break };
        after = last.due_at.map(|at| (at, last.id()));
        found.extend(page);
    }
    assert_eq!(found, gates);
}

#[tokio::test]
async fn a_gate_that_changed_exists_or_is_deleted_refuses_the_whole_save() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let (kept, absent) = (gate(&harness, GateKind::Key, "kept"), gate(&harness, GateKind::Key, "absent"));
    add(&harness, std::slice::from_ref(&kept)).await;
    let row = harness.submit(Draft::new("kind")).await;
    let moved = Gate { version: 3, active: 5, ..kept.clone() };
    for (refused, expected) in [
        (
            Changes { gates: Guarded::writing([(moved.clone(), None)]), ..Changes::default() },
            "concurrency kept exists",
        ),
        (
            Changes { gates: Guarded::writing([(moved, Some(2))]), ..Changes::default() },
            "concurrency kept has moved",
        ),
        (
            Changes { gates: Guarded::writing([(absent.clone(), Some(1))]), ..Changes::default() },
            "absent has moved",
        ),
        (Changes { gates: Guarded::deleting([(kept.id(), 2)]), ..Changes::default() }, "has moved"),
        (Changes { gates: Guarded::deleting([(absent.id(), 1)]), ..Changes::default() }, "has moved"),
    ] {
        let changes = Changes { executions: Guarded::deleting([(row.id, row.version)]), ..refused };
        let error = try_save(&harness, changes).await.expect_err("the call is refused");
        assert!(matches!(&error, Error::Contended(why) if why.contains(expected)), "{error:?}");
        assert_eq!(harness.row(row.id).await, row, "the other changes are rolled back");
        assert_eq!(fetched(&harness, &kept).await.as_ref(), Some(&kept));
        assert_eq!(fetched(&harness, &absent).await, None);
    }
    let gates_deleted = vec![(kept.id(), 1)];
    harness
        .save(Changes {
            gates: Guarded { deleted: gates_deleted, ..Guarded::writing([(absent.clone(), None)]) },
            ..Changes::default()
        })
        .await;
    assert_eq!((fetched(&harness, &kept).await, fetched(&harness, &absent).await), (None, Some(absent)));
}

#[tokio::test]
async fn slots_are_given_back_to_a_gate_that_was_not_read_and_never_more_than_were_taken() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let taken = Gate { active: 3, ..gate(&harness, GateKind::Key, "tenant") };
    add(&harness, std::slice::from_ref(&taken)).await;
    let free = |count| Changes {
        unread: UnreadWrites {
            slots_freed: vec![(taken.id(), count), (GateId(7), 1)],
            ..UnreadWrites::default()
        },
        ..Changes::default()
    };
    let before = harness.now().await;
    harness.save(free(2)).await;
    let freed = fetched(&harness, &taken).await.expect("it exists");
    assert_eq!(freed, Gate { active: 1, version: 2, due_at: freed.due_at, ..taken.clone() });
    assert!(
        freed.due_at.is_some_and(|at| at >= before),
        "the held executions are unknown: {:?}",
        freed.due_at
    );
    harness.save(free(2)).await;
    let again = Gate { active: 0, version: 3, due_at: freed.due_at, ..taken.clone() };
    assert_eq!(fetched(&harness, &taken).await, Some(again), "the due time stays the same");
    assert!(harness.store.fetch_gates(&[GateId(7)]).await.expect("gates are read").is_empty());
}

#[tokio::test]
async fn usage_adds_up_exactly_and_stays_counted_when_its_execution_is_deleted() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let (one, two) = (harness.submit(Draft::new("kind")).await, harness.submit(Draft::new("kind")).await);
    let budget = gate(&harness, GateKind::Budget, "tokens");
    let entry = |period, execution: Option<ExecutionId>, spent: &[(&str, &str)]| LedgerEntry {
        gate: budget.id(),
        period,
        execution,
        spent: amounts(spent),
    };
    // Usage is always saved with a change of a gate, as by the rules.
    let spend = |ledger| Changes {
        ledger,
        unread: UnreadWrites { slots_freed: vec![(GateId(1), 1)], ..UnreadWrites::default() },
        ..Changes::default()
    };
    for _ in 0..10 {
        let ledger = vec![
            entry(1, Some(one.id), &[("dollars", "0.1")]),
            entry(1, None, &[("dollars", "0.000001")]),
            entry(1, Some(one.id), &[("pages", "2")]),
        ];
        harness.save(spend(ledger)).await;
    }
    let ledger = vec![entry(2, Some(one.id), &[("dollars", "5")]), entry(1, Some(two.id), &[("pages", "1")])];
    harness.save(spend(ledger)).await;
    let by_none = entry(1, None, &[("dollars", "0.00001")]);
    let of_one = entry(1, Some(one.id), &[("dollars", "1"), ("pages", "20")]);
    let (later, of_two) =
        (entry(2, Some(one.id), &[("dollars", "5")]), entry(1, Some(two.id), &[("pages", "1")]));
    let ledger = async |period| harness.store.ledger(budget.id(), period).await.expect("the ledger is read");
    let of = async |id| harness.store.ledger_of(id).await.expect("the ledger is read");
    assert_eq!(ledger(1).await, [by_none, of_one.clone(), of_two.clone()]);
    assert_eq!(of(one.id).await, [of_one, later]);

    // Usage in the transaction that deletes the execution stays counted too.
    let deleted = vec![(one.id, one.version)];
    let last = entry(1, Some(one.id), &[("pages", "0.5")]);
    harness
        .save(Changes { executions: Guarded::deleting(deleted), ledger: vec![last], ..Changes::default() })
        .await;
    assert_eq!(ledger(1).await, [entry(1, None, &[("dollars", "1.00001"), ("pages", "20.5")]), of_two]);
    assert_eq!(ledger(2).await, [entry(2, None, &[("dollars", "5")])]);
    assert_eq!(of(one.id).await, []);
}

#[tokio::test]
async fn an_unreadable_gate_is_named_and_hides_no_other_due_gate() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let now = harness.now().await;
    let due =
        |name, ago_ms| Gate { due_at: Some(now.minus_ms(ago_ms)), ..gate(&harness, GateKind::Quota, name) };
    let (bad, good) = (due("bad", 9), due("good", 5));
    add(&harness, &[bad.clone(), good.clone()]).await;
    for spoil in ["state = '{'", "state = null, config = '[7]'", "config = null, kind = 77"] {
        plain_connection(&directory)
            .execute(&format!("update gates set {spoil} where id = ?1"), [bad.id().0])
            .expect("the row is updated");
        let error = harness.store.fetch_gates(&[bad.id()]).await.expect_err("the row is unreadable");
        assert!(error.to_string().contains(&format!("gate {} cannot be read", bad.id().0)), "{error}");
        let found = harness.store.due_gates(&ReconcilerScope::ALL, None, 1).await.expect("gates are read");
        assert_eq!(found, std::slice::from_ref(&good));
    }
}

/// Makes waiting executions held by a gate.
async fn hold(harness: &Harness, rows: &[Execution], gate: &GateName) -> Vec<Execution> {
    let held = |row: &Execution| Execution {
        state: State::Held(gate.clone().into()),
        version: row.version + 1,
        ..row.clone()
    };
    let held: Vec<Execution> = rows.iter().map(held).collect();
    let updated = |row: &Execution| Updated {
        execution: row.clone(),
        expected_version: row.version - 1,
        result: ResultChange::Keep,
        rewired: false,
        input: None,
    };
    harness
        .save(Changes { executions: Guarded::updating(held.iter().map(updated)), ..Changes::default() })
        .await;
    held
}

#[tokio::test]
async fn held_executions_are_listed_in_claim_order_and_unreadable_ones_are_skipped() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let urgent = |priority| Draft { priority, ..Draft::new("kind") };
    let rows = harness.submit_all(vec![urgent(1), urgent(5), urgent(1), urgent(9), urgent(1)]).await;
    let (tenant, other) =
        (gate(&harness, GateKind::Key, "tenant").name, gate(&harness, GateKind::Key, "other").name);
    let held = hold(&harness, &rows[..4], &tenant).await;
    hold(&harness, &rows[4..], &other).await;
    assert!(harness.claim(9).await.is_empty(), "all executions are held");
    plain_connection(&directory)
        .execute("update executions set detail = '{' where id = ?1", [held[1].id.0.as_bytes()])
        .expect("the row is updated");
    let asked = HeldBy::first(tenant.id(), 2);
    let unknown = HeldBy::first(GateId(7), 2);
    let found = harness
        .load(Needs {
            queries: Queries { held: vec![asked, unknown], ..Queries::default() },
            ..Needs::default()
        })
        .await;
    let (first, second) = (&held[3], &held[0]);
    assert_eq!(found.found.held, [(asked, vec![first.id, second.id]), (unknown, Vec::new())]);
    assert_eq!(found.executions, [first.clone(), second.clone()]);
    let [(unreadable, why)] = &found.unreadable[..] else { panic!("{:?}", found.unreadable) };
    assert_eq!(*unreadable, held[1].id);
    assert!(why.contains("detail"), "{why}");
    for (bound, count) in [(0, 0), (3, 3), (9, 4)] {
        assert_eq!(harness.store.held_by(tenant.id(), bound).await.expect("the count succeeds"), count);
    }
}

#[tokio::test]
async fn requested_gates_are_reported_whether_they_exist_or_not() {
    let directory = Directory::new();
    let harness = harness(&directory).await;
    let [lane, quota] = [GateKind::Lane, GateKind::Quota].map(|kind| gate(&harness, kind, "name"));
    let budget = part(&gate(&harness, GateKind::Budget, "name"), "a part");
    add(&harness, &[lane.clone(), budget.clone()]).await;
    let needs = Needs {
        lanes: Request::locking([lane.id()]),
        gates: Request::locking([quota.id()]),
        parts: Request::locking([budget.id()]),
        ..Needs::default()
    };
    let found = harness.load(needs).await;
    assert_eq!(found.gates, [lane, budget]);
}

/// Inserts executions of class 1 that gate 1 holds.
const HELD: &str = "
with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?1)
insert into executions (
  id, partition, namespace, class, submitted_at, version, state, claim_priority, ready_order, rank, epoch, gate, history,
  held_by
)
select randomblob(16), 0, 1, 1, n, 1, 5, 0, n, n, 1, 1, x'', x'00'
from numbers
";

/// Inserts one waiting execution of class 1, and one that gate 2 holds.
const BESIDE: &str = "
insert into executions (
  id, partition, namespace, class, submitted_at, version, state, claim_priority, ready_order, rank, epoch, gate, history,
  held_by
)
values
  (cast(zeroblob(15) || x'02' as blob), 0, 1, 1, 5, 1, 5, 0, 5, 5, 0, 2, x'', x'00'),
  (cast(zeroblob(15) || x'01' as blob), 0, 1, 1, 5, 1, 0, 0, 5, 5, 0, null, x'', null);
insert into gates values (1, 1, 2, 'tenant', null, 1, null, 1, null, 9), (2, 1, 2, 'other', null, 1, null, 1, null, 9);
";

#[tokio::test]
async fn slow_a_claim_takes_as_many_steps_among_a_million_held_as_among_one() {
    let directory = Directory::new();
    let store = SqliteStore::open(&directory.database()).await;
    store.expect("the store opens").close().await;
    let connection = plain_connection(&directory);
    connection.execute_batch(BESIDE).expect("the rows are inserted");
    let place = connection.last_insert_rowid();
    let claim = || {
        [
            steps(&connection, "executions/find_candidates", [1]),
            steps(&connection, "executions/read_candidate", [place, 1000]),
            steps(&connection, "executions/count_ahead", params![1, 6, b"", 100]),
            steps(&connection, "gates/read", [1]),
            steps(&connection, "gates/give_back", [1, 0, 9]),
            steps(&connection, "gates/list_due", params![9, -1, i64::MIN, Null]),
            steps(&connection, "gates/find_next_due", ()),
            steps(&connection, "executions/find_held", params![2, i64::MIN, b""]),
            steps(&connection, "executions/count_held", [1, 1]),
            steps(&connection, "leases/list_expired", params![9, b"", 100, Null, Null]),
        ]
    };
    connection.execute(HELD, [1]).expect("the row is inserted");
    let among_one = claim();
    connection.execute(HELD, [1_000_000]).expect("the rows are inserted");
    assert_eq!(claim(), among_one);
}
