//! Claims: they take the first waiting executions of the worker's classes, each for one worker.

use crate::harness::runner::RulePair;
use crate::harness::{Harness, Worker};
use crate::harness::{by_hand, concurrently};
use selvedge_core::class::UNPOOLED;
use selvedge_core::execution::Spec;
use selvedge_core::gate::{GateKind, GateName, RequiredGates};
use selvedge_core::rows::{Candidates, Payload, Queries};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::operator::Action;
use selvedge_core::submission::When;
use selvedge_core::{ClassId, Draft, Execution, ExecutionId, Name, Needs, State, Timestamp};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn draft(lane: &str, priority: i64) -> Draft {
    Draft { lane: lane.into(), priority, ..Draft::new("kind") }
}

fn ids(claimed: &[Claimed]) -> Vec<ExecutionId> {
    claimed.iter().map(|one| one.execution.id).collect()
}

pub async fn claims_are_ordered_by_priority_and_then_by_age_across_classes(harness: &Harness) {
    let mut expected = Vec::new();
    for (lane, priority) in [("a", 0), ("b", 5), ("c", -3), ("b", 0), ("a", 5), ("a", -3), ("c", 0)] {
        let row = harness.submit(draft(lane, priority)).await;
        expected.push((-priority, row.ready_order, row.id));
    }
    expected.sort();
    let expected: Vec<ExecutionId> = expected.into_iter().map(|(_, _, id)| id).collect();
    let worker = Worker::new("one").on(&["a", "b", "c"]);
    let mut got = Vec::new();
    for max in [3, 1, 2, 9] {
        got.extend(ids(&harness.claim_as(&worker, max).await));
    }
    assert_eq!(got, expected);
}

pub async fn a_level_of_priority_is_worth_an_hour_of_waiting(harness: &Harness) {
    let now = harness.now().await;
    let mut rows = Vec::new();
    for (lane, priority, minutes) in
        [("a", 0, 150), ("b", 2, 0), ("a", 1, 120), ("b", 5, 0), ("a", -1, 60), ("b", 0, 30), ("a", 2, 1)]
    {
        let class = harness.class(lane, "kind").await;
        let row = by_hand::row(harness, class, now.minus_ms(minutes * 60_000));
        rows.push(Execution { priority, ..row });
    }
    by_hand::insert(harness, &rows).await;
    for (index, row) in [3, 2, 0, 6, 1, 5, 4].into_iter().map(|index| &rows[index]).enumerate() {
        let class = |other: &usize| rows[*other].class == row.class;
        let ahead = [3, 2, 0, 6, 1, 5, 4].iter().take(index).filter(|other| class(other)).count();
        assert_eq!(harness.store.ahead_of(row, 100).await.expect("rows are counted"), ahead as u64);
    }
    let worker = Worker::new("one").on(&["a", "b"]);
    let mut got = Vec::new();
    for max in [2, 1, 2, 9] {
        got.extend(ids(&harness.claim_as(&worker, max).await));
    }
    assert_eq!(got, [3, 2, 0, 6, 1, 5, 4].map(|index: usize| rows[index].id));
}

pub async fn executions_of_one_submission_are_claimed_in_their_order(harness: &Harness) {
    let rows = harness.submit_all(vec![draft("a", 0); 12]).await;
    let expected: Vec<ExecutionId> = rows.iter().map(|row| row.id).collect();
    let got = harness.claim_as(&Worker::new("one").on(&["a"]), 12).await;
    assert_eq!(ids(&got), expected);
}

pub async fn a_changed_priority_or_a_revoked_lease_changes_the_claim_order(harness: &Harness) {
    let rows = harness.submit_all(vec![draft("a", 0); 3]).await;
    let worker = Worker::new("one").on(&["a"]);
    assert_eq!(ids(&harness.claim_as(&worker, 1).await), [rows[0].id]);
    let revoke = Action::Revoke { reason: None };
    let returned = harness.operate(rows[0].id, revoke).await.expect("it is revoked");
    let raise = Action::Prioritise { priority: 1 };
    let raised = harness.operate(rows[2].id, raise).await.expect("its priority is raised");
    assert_eq!(raised.ready_order, rows[2].ready_order, "it keeps its ready order");
    let mut rest = [(returned.ready_order, returned.id), (rows[1].ready_order, rows[1].id)];
    rest.sort();
    let expected = [raised.id, rest[0].1, rest[1].1];
    assert_eq!(ids(&harness.claim_as(&worker, 9).await), expected);
}

pub async fn a_claim_takes_at_most_its_maximum_and_carries_the_inputs(harness: &Harness) {
    let drafts =
        (0..5).map(|number| Draft { input: format!("{{\"number\":{number}}}").into(), ..draft("a", 0) });
    harness.submit_all(drafts.collect()).await;
    let worker = Worker::new("one").on(&["a"]);
    let mut inputs = Vec::new();
    for expected in [2, 2, 1, 0] {
        let claimed = harness.claim_as(&worker, 2).await;
        assert_eq!(claimed.len(), expected);
        for one in claimed {
            assert_eq!(harness.row(one.execution.id).await, one.execution);
            inputs.push(one.input);
        }
    }
    let expected: Vec<String> = (0..5).map(|number| format!("{{\"number\":{number}}}")).collect();
    assert_eq!(inputs, expected);
}

pub async fn a_claim_takes_only_waiting_executions_of_its_classes(harness: &Harness) {
    let mine = harness.submit(draft("mine", 0)).await.id;
    harness.submit(draft("other", 9)).await;
    harness.in_namespace("elsewhere").await.submit(draft("mine", 9)).await;
    harness.submit(Draft { capabilities: vec!["gpu".into()], ..draft("mine", 9) }).await;
    harness.submit(Draft { delay: Some(When::AfterMs(1_000_000)), ..draft("mine", 9) }).await;
    let ended = harness.submit(draft("mine", 9)).await.id;
    let cancel = Action::Cancel { reason: None, grace_ms: 0 };
    harness.operate(ended, cancel).await.expect("it is cancelled");
    let worker = Worker::new("one").on(&["mine", "empty"]);
    assert_eq!(ids(&harness.claim_as(&worker, 9).await), [mine]);
    assert!(harness.claim_as(&worker, 9).await.is_empty());
}

/// Submits one execution each of many kinds, more than a lane has classes without a pool, with different priorities.
/// Returns them in claim order.
async fn submit_many_kinds(harness: &Harness, lane: &str) -> Vec<Execution> {
    let mut rows = Vec::new();
    for number in 0..UNPOOLED + 20 {
        let priority = [0, 3, -2][number % 3];
        rows.push(harness.submit(Draft { kind: format!("kind {number}"), ..draft(lane, priority) }).await);
    }
    rows.sort_by_key(Execution::claim_order);
    rows
}

pub async fn a_lane_with_many_kinds_is_claimed_in_order_and_by_kind(harness: &Harness) {
    let rows = submit_many_kinds(harness, "crowded").await;
    let gpu = vec!["gpu".to_owned()];
    for number in 0..UNPOOLED + 5 {
        let kind = format!("kind {number}");
        harness.submit(Draft { kind, capabilities: gpu.clone(), ..draft("crowded", 9) }).await;
    }
    let known: BTreeMap<_, _> = {
        let classes = harness.store.classes_after(ClassId(0)).await.expect("classes are read");
        classes.into_iter().collect()
    };
    let worker = Worker::new("one").on(&["crowded"]);
    let kind_of = |row: &Execution| known[&row.class].kind.to_string();
    let pooled = rows.iter().find(|row| known[&row.class].pool.is_some()).expect("a class has a pool");
    let by_kind = Worker { kinds: Some(vec![kind_of(pooled)]), ..worker.clone() };
    assert_eq!(ids(&harness.claim_as(&by_kind, 9).await), [pooled.id]);
    assert!(harness.claim_as(&by_kind, 9).await.is_empty());
    let expected: Vec<ExecutionId> = rows.iter().map(|row| row.id).filter(|id| *id != pooled.id).collect();
    let mut got = Vec::new();
    for max in [1, 7, 2, 100] {
        got.extend(ids(&harness.claim_as(&worker, max).await));
    }
    assert_eq!(got, expected);
    let capable = Worker { capabilities: gpu, ..worker };
    assert_eq!(harness.claim_as(&capable, 100).await.len(), UNPOOLED + 5);
}

pub async fn a_claim_by_kind_beside_one_of_any_kind_gets_its_executions(harness: &Harness) {
    submit_many_kinds(harness, "crowded").await;
    let any = Worker::new("any").on(&["crowded"]);
    assert_eq!(harness.claim_as(&any, 1000).await.len(), UNPOOLED + 20);
    let kind = format!("kind {}", UNPOOLED + 19);
    for _ in 0..2 {
        harness.submit(Draft { kind: kind.clone(), ..draft("crowded", 0) }).await;
    }
    // Both claims find the first execution. The one of the kind may not stay empty because the other takes it.
    let by_kind = Worker { kinds: Some(vec![kind]), ..Worker::new("kind").on(&["crowded"]) };
    let pair = RulePair(harness.claim_command(&any, 1), harness.claim_command(&by_kind, 1));
    let (first, second) = harness.run(pair).await;
    let claimed = [first, second].map(|claims| claims.expect("the claim is valid").claimed);
    assert_eq!(claimed.map(|claimed| claimed.len()), [1, 1]);
}

pub async fn candidates_are_the_first_of_their_classes_except_those_to_skip(harness: &Harness) {
    let [a, b, c] = [
        harness.class("a", "kind").await,
        harness.class("b", "kind").await,
        harness.class("c", "kind").await,
    ];
    let row = |class, priority, at| Execution {
        priority,
        ready_order: Timestamp::from_micros(at),
        ..by_hand::row(harness, class, Timestamp::from_micros(1))
    };
    let rows = [row(a, 0, 10), row(b, 0, 20), row(a, 1, 30), row(c, 9, 1), row(b, 0, 5), row(a, -1, 1)];
    by_hand::insert(harness, &rows).await;
    let order = [2, 4, 0, 1, 5].map(|index: usize| rows[index].id);
    let needs = |limit, except: &[ExecutionId]| Needs {
        queries: Queries {
            candidates: vec![Candidates { classes: vec![a, b], limit }],
            except: except.to_vec(),
            ..Queries::default()
        },
        ..Needs::default()
    };
    for limit in 0..=6 {
        let found = harness.load(needs(limit, &[])).await;
        assert_eq!(found.found.candidates, order[..(limit as usize).min(5)], "the first {limit}");
        let executions: BTreeSet<ExecutionId> = found.executions.iter().map(|row| row.id).collect();
        assert_eq!(executions, found.found.candidates.iter().copied().collect());
        assert_eq!(found.inputs.len(), found.found.candidates.len());
        assert!(found.inputs.iter().all(|(_, input)| *input == Payload::Whole(by_hand::INPUT.into())));
    }
    let found = harness.load(needs(3, &[order[0], order[2], rows[3].id])).await;
    assert_eq!(found.found.candidates, [order[1], order[3], order[4]]);
}

pub async fn candidates_behind_those_that_name_a_refusing_gate_are_found_too(harness: &Harness) {
    let class = harness.class("a", "kind").await;
    let row = |quota: Option<&str>, at| {
        let quotas = quota.map(Name::trusted).into_iter().collect();
        let required_gates = RequiredGates { quotas, ..RequiredGates::default() };
        Execution {
            spec: Arc::new(Spec { required_gates, ..Spec::default() }),
            ready_order: Timestamp::from_micros(at),
            ..by_hand::row(harness, class, Timestamp::from_micros(1))
        }
    };
    let full = "f\"u%l_l\\";
    let rows = [
        row(Some(full), 1),
        row(Some(full), 2),
        row(Some("other"), 3),
        row(Some(full), 4),
        row(None, 5),
        row(Some("f\"uxlyl"), 6),
    ];
    by_hand::insert(harness, &rows).await;
    let needs = |limit, refusing: &[&str], except: &[ExecutionId]| Needs {
        queries: Queries {
            candidates: vec![Candidates { classes: vec![class], limit }],
            refusing: refusing
                .iter()
                .map(|name| GateName::new(harness.namespace, GateKind::Quota, Name::trusted(name)))
                .collect(),
            except: except.to_vec(),
            ..Queries::default()
        },
        ..Needs::default()
    };
    let found = async |needs| -> Vec<usize> {
        let found = harness.load(needs).await.found.candidates;
        found.iter().map(|id| rows.iter().position(|row| row.id == *id).expect("it is known")).collect()
    };
    assert_eq!(found(needs(1, &[], &[])).await, [0]);
    assert_eq!(found(needs(1, &[full], &[])).await, [0, 2], "the first, and the first that may pass");
    assert_eq!(found(needs(2, &[full], &[])).await, [0, 1, 2, 4]);
    assert_eq!(found(needs(3, &[full], &[])).await, [0, 1, 2, 4, 5], "each is found once");
    assert_eq!(found(needs(1, &[full, "other"], &[])).await, [0, 4]);
    assert_eq!(found(needs(1, &[full], &[rows[0].id, rows[2].id])).await, [1, 4]);
}

pub async fn a_submission_and_a_claim_share_one_transaction(harness: &Harness) {
    let submit = harness.submit_command(vec![draft("a", 0); 2]).await;
    let claim = harness.claim_command(&Worker::new("one").on(&["a"]), 1);
    let ((submitted, claimed), transaction) = harness.transact(RulePair(submit, claim)).await;
    let first = submitted[0].as_ref().expect("it is accepted").execution.id;
    let claimed = claimed.expect("it is not refused").claimed;
    assert_eq!(ids(&claimed), [first]);
    assert_eq!(harness.row(first).await, claimed[0].execution);
    assert_eq!(harness.row(first).await.version, 2);
    assert!(transaction.entry.is_some());
    assert_eq!(harness.log().await.len(), 1);
}

pub async fn concurrent_claims_take_every_execution_exactly_once(harness: &Harness) {
    const ALL: usize = 600;
    for batch in 0..ALL / 100 {
        let drafts = (0..100).map(|index| draft(["a", "b", "c"][index % 3], (batch % 2) as i64));
        harness.submit_all(drafts.collect()).await;
    }
    let taken = Arc::new(AtomicUsize::new(0));
    let claims = concurrently(8, |task| {
        let (harness, taken) = (harness.clone(), taken.clone());
        async move {
            let lanes: &[&str] = if task % 2 == 0 { &["a", "b", "c"] } else { &["c", "a"] };
            let worker = Worker::new(&format!("task{task}")).on(lanes);
            let (mut mine, mut empty) = (Vec::new(), 0);
            while taken.load(Ordering::SeqCst) < ALL && empty < 2_000 {
                let claimed = harness.claim_as(&worker, 7).await;
                empty = if claimed.is_empty() { empty + 1 } else { 0 };
                taken.fetch_add(claimed.len(), Ordering::SeqCst);
                mine.extend(claimed);
            }
            mine
        }
    });
    let claimed: Vec<Claimed> = claims.await.into_iter().flatten().collect();
    let distinct: HashSet<ExecutionId> = claimed.iter().map(|one| one.execution.id).collect();
    assert_eq!(claimed.len(), distinct.len(), "no execution went to two workers");
    assert_eq!(distinct.len(), ALL, "no execution was lost");
    for one in claimed {
        assert!(matches!(one.execution.state, State::Active(_)) && one.execution.epoch == 1);
    }
}
