//! Rows of flows: read back as they were written, guarded by their versions, and counted by addition.

use crate::cases::execution::guards::assert_nothing_saved;
use crate::harness::Harness;
use crate::harness::by_hand::{self, counts};
use selvedge_core::flow::{CancelMode, FlowCancel, FlowDetail, FlowSpec, FlowState};
use selvedge_core::join::{Edge, EdgeCondition, GroupDecision, Join, JoinPolicy, OnSatisfied, Resolution};
use selvedge_core::rows::{Inserted, Members, NodeEntry, ResultChange, Updated};
use selvedge_core::rows::{Queries, UnreadWrites};
use selvedge_core::schedule::Scheduled;
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::table::{Access, Entries, Guarded, Request};
use selvedge_core::wiring::{Child, Downstream, Node, Upstream, Wiring};
use selvedge_core::{Changes, Draft, Execution, ExecutionId, Flow, FlowId, Name, Needs, State, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

async fn stored(harness: &Harness, id: FlowId) -> Flow {
    harness.flow_of(id).flow().await
}

pub async fn a_flow_with_every_rare_field_is_read_back_equal(harness: &Harness) {
    let now = harness.now().await;
    let full = Flow {
        name: Some(Name::trusted("a näme")),
        tags: [("a".into(), "b \"c\"".into()), ("ü".into(), String::new())].into(),
        spec: FlowSpec {
            deadline_at: Some(now.plus_ms(5)),
            retention_ms: i64::from(u32::MAX) * 1000,
            idempotency_key: Some(Name::trusted("key")),
            kept_until: Some(now.plus_ms(9)),
            digest: u64::MAX - 1,
            scheduled: Some(Scheduled { schedule: Name::trusted("a \"s\""), at: now, is_awaited: true }),
        },
        version: 77,
        state: FlowState::Cancelled,
        ended_at: Some(now.minus_ms(1)),
        detail: FlowDetail {
            cancel: Some(FlowCancel {
                mode: CancelMode::Pending,
                actor: Name::trusted("operator"),
                reason: Some("a \"reason\"".into()),
                draining: true,
            }),
            member_cancelled: true,
            deleting: true,
        },
        counts: counts(&StateName::ALL.map(|state| (state, 3 + state.code() as i32))),
        ..by_hand::flow(harness, now.minus_ms(1_000_000))
    };
    let plain = by_hand::flow(harness, now);
    by_hand::insert_flows(harness, &[full.clone(), plain.clone()]).await;
    for flow in [&full, &plain] {
        assert_eq!(stored(harness, flow.id).await, *flow);
        for needs in [
            Needs { flows: Request::locking([flow.id]), ..Needs::default() },
            Needs { flows: Request::reading([flow.id]), ..Needs::default() },
            Needs {
                growing: Request::locking([flow.id]),
                flows: Request::locking([flow.id]),
                ..Needs::default()
            },
        ] {
            assert_eq!(harness.load(needs).await.flows, std::slice::from_ref(flow));
        }
    }
    let unknown = FlowId(Uuid::now_v7());
    assert!(harness.store.fetch_flows(&[unknown]).await.expect("rows are read").is_empty());
    let missing = Needs {
        flows: Request::default().and(Access::Lock, [unknown]).and(Access::Read, [unknown]),
        ..Needs::default()
    };
    assert!(harness.load(missing).await.flows.is_empty());
}

/// Returns a node with every optional field set.
async fn node(harness: &Harness, flow: FlowId, name: &str) -> Execution {
    let other = || ExecutionId(Uuid::now_v7());
    let mut row = by_hand::row(harness, harness.class("default", "kind").await, harness.now().await);
    let node = Node {
        name: Name::trusted(name),
        depth: 7,
        parent: Some(other()),
        tells_if_awaited: true,
        delay: Some(When::AfterMs(9)),
        flow_deadline_at: Some(row.submitted_at.plus_ms(10_000_000)),
    };
    let mut spec = (*row.spec).clone();
    spec.node = Some(node);
    row.spec = Arc::new(spec);
    row.flow = Some(flow);
    row.state = State::WaitingDependencies;
    row.join = Some(Join {
        policy: JoinPolicy::Quorum { k: 2, on_satisfied: OnSatisfied::LetRun },
        edges: vec![
            Edge { resolution: Resolution::Holds, generation: 0 },
            Edge { resolution: Resolution::Dead, generation: 300 },
            Edge { resolution: Resolution::Pending, generation: 1 },
        ],
        decision: GroupDecision::Pending,
    });
    let upstreams = EdgeCondition::ALL.map(|when| Upstream { execution: other(), when });
    row.wiring = Some(Arc::new(Wiring {
        upstreams: upstreams.to_vec(),
        downstreams: vec![Downstream { execution: other(), edge: 70_000 }],
        children: vec![
            Child { execution: other(), detached: true },
            Child { execution: other(), detached: false },
        ],
    }));
    row
}

fn named(row: &Execution, name: &str) -> NodeEntry {
    NodeEntry {
        flow: row.flow.expect("it has a flow"),
        name: Name::trusted(name),
        submitted_at: row.submitted_at,
        execution: row.id,
    }
}

pub async fn wiring_and_join_of_a_node_are_read_back_equal_everywhere(harness: &Harness) {
    let flow = by_hand::flow(harness, harness.now().await);
    by_hand::insert_flows(harness, std::slice::from_ref(&flow)).await;
    let row = node(harness, flow.id, "node").await;
    let mut changes = by_hand::inserting(std::slice::from_ref(&row));
    changes.unread.flow_counts.push((flow.id, counts(&[(StateName::WaitingDependencies, 1)])));
    harness.save(changes).await;
    assert_eq!(harness.row(row.id).await, row);
    assert_eq!(harness.flow_of(flow.id).members().await, std::slice::from_ref(&row));
    let members = Members { flow: flow.id, skip: 0, limit: u32::MAX };
    for needs in [
        Needs { executions: Request::locking([row.id]), ..Needs::default() },
        Needs { executions: Request::default().and(Access::LockIfFree, [row.id]), ..Needs::default() },
        Needs { executions: Request::reading([row.id]), ..Needs::default() },
        Needs { queries: Queries { members: vec![members], ..Queries::default() }, ..Needs::default() },
    ] {
        assert_eq!(harness.load(needs).await.executions, std::slice::from_ref(&row));
    }
    let shown = harness
        .load(Needs { queries: Queries { members: vec![members], ..Queries::default() }, ..Needs::default() })
        .await
        .found
        .members;
    assert_eq!(shown, [(members, vec![row.id])]);
}

pub async fn wiring_and_flow_are_written_only_when_they_change(harness: &Harness) {
    let before = harness.submit(Draft::new("kind")).await;
    let flow = by_hand::flow(harness, harness.now().await);
    by_hand::insert_flows(harness, std::slice::from_ref(&flow)).await;
    let wired = node(harness, flow.id, "node").await;
    let update = |from: &Execution, rewired| {
        let execution = Execution {
            version: from.version + 1,
            flow: wired.flow,
            wiring: wired.wiring.clone(),
            join: wired.join.clone(),
            ..from.clone()
        };
        let expected_version = from.version;
        let updated =
            Updated { execution, expected_version, result: ResultChange::Keep, rewired, input: None };
        Changes { executions: Guarded::updating([updated]), ..Changes::default() }
    };
    harness.save(update(&before, true)).await;
    let row = harness.row(before.id).await;
    assert_eq!((row.flow, &row.wiring, &row.join), (wired.flow, &wired.wiring, &wired.join));
    let mut moved = update(&row, false);
    moved.executions.updated[0].execution.join = None;
    harness.save(moved).await;
    let row = harness.row(before.id).await;
    assert_eq!(
        (row.flow, &row.wiring, &row.join),
        (wired.flow, &wired.wiring, &None),
        "the join is always written"
    );
}

pub async fn inserting_an_existing_flow_id_saves_nothing_and_is_begun_again(harness: &Harness) {
    let taken = by_hand::flow(harness, harness.now().await);
    by_hand::insert_flows(harness, std::slice::from_ref(&taken)).await;
    let other = Flow { name: Some(Name::trusted("other")), ..taken.clone() };
    assert_nothing_saved(harness, |changes| changes.flows.inserted.push(other)).await;
    assert_eq!(stored(harness, taken.id).await, taken);
}

pub async fn updating_or_deleting_an_outdated_flow_version_saves_nothing(harness: &Harness) {
    let flow = by_hand::flow(harness, harness.now().await);
    by_hand::insert_flows(harness, std::slice::from_ref(&flow)).await;
    let changed = |id| Flow { id, version: 9, state: FlowState::Failed, ..flow.clone() };
    for (id, expected) in [(flow.id, 2), (flow.id, 0), (FlowId(Uuid::now_v7()), 1)] {
        assert_nothing_saved(harness, |changes| changes.flows.updated.push((changed(id), expected))).await;
        assert_nothing_saved(harness, |changes| changes.flows.deleted.push((id, expected))).await;
    }
    assert_eq!(stored(harness, flow.id).await, flow);
}

pub async fn adding_an_existing_node_name_saves_nothing_and_is_begun_again(harness: &Harness) {
    let flow = harness.flow("a b").await;
    let mut taken = named(&flow.row("b").await, "a");
    assert_nothing_saved(harness, |changes| changes.nodes.written.push(taken.clone())).await;
    let a = flow.id("a").await;
    assert_eq!(flow.members().await.len(), 2);
    let other = by_hand::flow(harness, harness.now().await);
    taken.flow = other.id;
    let changes = Changes {
        flows: Guarded::inserting([other.clone()]),
        nodes: Entries::writing([taken]),
        ..Changes::default()
    };
    harness.save(changes).await;
    assert_eq!(flow.id("a").await, a);
    assert_eq!(harness.flow_of(other.id).id("a").await, flow.id("b").await, "a name is free in another flow");
}

pub async fn an_update_of_a_flow_keeps_its_counts_and_a_count_keeps_the_rest(harness: &Harness) {
    let now = harness.now().await;
    let flow = Flow { counts: counts(&[(StateName::Waiting, 2)]), ..by_hand::flow(harness, now) };
    by_hand::insert_flows(harness, std::slice::from_ref(&flow)).await;
    let updated = Flow { version: 2, tags: [("a".into(), "b".into())].into(), ..flow.clone() };
    let stale = Flow { counts: counts(&[]), ..updated.clone() };
    let both = Changes {
        flows: Guarded::updating([(stale, 1)]),
        unread: UnreadWrites {
            flow_counts: vec![(flow.id, counts(&[(StateName::Waiting, -1), (StateName::Completed, 1)]))],
            ..UnreadWrites::default()
        },
        ..Changes::default()
    };
    let transaction = harness.save(both).await;
    assert_eq!(transaction.emptied, []);
    let expected =
        Flow { version: 3, counts: counts(&[(StateName::Waiting, 1), (StateName::Completed, 1)]), ..updated };
    assert_eq!(stored(harness, flow.id).await, expected);
}

/// Adds to the counts of a flow. Returns true if the flow was left without live members.
async fn add(harness: &Harness, id: FlowId, more: &[(StateName, i32)]) -> bool {
    let counted = vec![(id, counts(more))];
    let transaction = harness
        .save(Changes {
            unread: UnreadWrites { flow_counts: counted, ..UnreadWrites::default() },
            ..Changes::default()
        })
        .await;
    assert!(transaction.emptied.is_empty() || transaction.emptied == [id]);
    !transaction.emptied.is_empty()
}

pub async fn a_count_reports_a_flow_that_is_left_without_live_members(harness: &Harness) {
    let flow = by_hand::flow(harness, harness.now().await);
    by_hand::insert_flows(harness, std::slice::from_ref(&flow)).await;
    for (state, outcome) in
        [StateName::WaitingDependencies, StateName::Waiting, StateName::Delayed, StateName::Active]
            .into_iter()
            .zip([StateName::Completed, StateName::Failed, StateName::Cancelled, StateName::Skipped])
    {
        assert!(!add(harness, flow.id, &[(state, 2)]).await, "{state:?} is live");
        assert!(!add(harness, flow.id, &[(state, -1), (outcome, 1)]).await);
        assert!(add(harness, flow.id, &[(state, -1), (StateName::Expired, 1)]).await, "the last one ended");
    }
    let row = stored(harness, flow.id).await;
    assert_eq!((row.version, row.counts.total(), row.counts.live()), (13, 8, 0));
}

pub async fn an_addition_to_the_counts_leaves_the_state_of_a_flow(harness: &Harness) {
    let now = harness.now().await;
    let ended = Flow {
        state: FlowState::Failed,
        ended_at: Some(now),
        counts: counts(&[(StateName::Failed, 1), (StateName::Skipped, 2)]),
        ..by_hand::flow(harness, now)
    };
    by_hand::insert_flows(harness, std::slice::from_ref(&ended)).await;
    assert!(!add(harness, ended.id, &[(StateName::Skipped, -1), (StateName::Failed, 1)]).await);
    let row = stored(harness, ended.id).await;
    assert_eq!((row.state, row.ended_at), (FlowState::Failed, Some(now)));
    assert!(!add(harness, ended.id, &[(StateName::Skipped, -1), (StateName::WaitingDependencies, 1)]).await);
    let row = stored(harness, ended.id).await;
    assert_eq!((row.state, row.ended_at, row.version), (FlowState::Failed, Some(now), 3), "rules decide it");
    assert_eq!(row.counts.live(), 1);
}

pub async fn concurrent_counts_are_all_added(harness: &Harness) {
    const TASKS: usize = 24;
    let flow = by_hand::flow(harness, harness.now().await);
    by_hand::insert_flows(harness, std::slice::from_ref(&flow)).await;
    crate::harness::concurrently(TASKS, |task| {
        let (harness, id) = (harness.clone(), flow.id);
        async move { add(&harness, id, &[(StateName::ALL[task % StateName::ALL.len()], 1)]).await }
    })
    .await;
    let row = stored(harness, flow.id).await;
    assert_eq!((row.counts.total(), row.version), (TASKS as i32, TASKS as u32 + 1));
}

pub async fn nodes_are_found_by_name_until_they_are_removed(harness: &Harness) {
    let flow = harness.flow("a ä").await;
    let other = harness.flow("a").await;
    let wanted = |flow: FlowId, name: &str| (flow, Name::trusted(name));
    let nodes =
        vec![wanted(flow.id, "a"), wanted(flow.id, "ä"), wanted(other.id, "a"), wanted(other.id, "ä")];
    let find = async || {
        let found =
            harness.load(Needs { nodes: Request::reading(nodes.clone()), ..Needs::default() }).await.nodes;
        found.into_iter().map(|(flow, name, id)| (flow, name.to_string(), id)).collect::<BTreeSet<_>>()
    };
    let [a, umlaut, others] = [flow.id("a").await, flow.id("ä").await, other.id("a").await];
    let all = BTreeSet::from([
        (flow.id, "a".to_owned(), a),
        (flow.id, "ä".to_owned(), umlaut),
        (other.id, "a".to_owned(), others),
    ]);
    assert_eq!(find().await, all);
    let nodes_removed = vec![wanted(flow.id, "a")];
    let outbox_removed = vec![];
    let (row, version) = (harness.row(a).await, 1);
    let deleted = vec![(row.id, version)];
    harness
        .save(Changes {
            nodes: Entries::removing(nodes_removed),
            outbox: Entries::removing(outbox_removed),
            executions: Guarded::deleting(deleted),
            ..Changes::default()
        })
        .await;
    assert_eq!(find().await.len(), 2);
    assert_eq!(flow.members().await.len(), 1);
}

pub async fn members_are_read_in_pages_in_the_order_of_their_submission(harness: &Harness) {
    let flow = by_hand::flow(harness, harness.now().await);
    by_hand::insert_flows(harness, std::slice::from_ref(&flow)).await;
    let class = harness.class("default", "kind").await;
    let start = harness.now().await;
    let mut rows = Vec::new();
    for index in [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5] {
        rows.push(Execution { flow: Some(flow.id), ..by_hand::row(harness, class, start.minus_ms(index)) });
    }
    by_hand::insert(harness, &rows).await;
    let mut expected: Vec<(Timestamp, ExecutionId)> =
        rows.iter().map(|row| (row.submitted_at, row.id)).collect();
    expected.sort();
    let expected: Vec<ExecutionId> = expected.into_iter().map(|(_, id)| id).collect();
    for limit in [1, 3, 11, 100] {
        let mut ids: Vec<ExecutionId> = Vec::new();
        loop {
            let page = Members { flow: flow.id, skip: ids.len() as u32, limit };
            let read = harness.store.members(page).await.expect("members are read");
            let shown = harness
                .load(Needs {
                    queries: Queries { members: vec![page], ..Queries::default() },
                    ..Needs::default()
                })
                .await;
            let read: Vec<ExecutionId> = read.iter().map(|row| row.id).collect();
            assert_eq!(shown.found.members, [(page, read.clone())]);
            let loaded: BTreeSet<ExecutionId> = shown.executions.iter().map(|row| row.id).collect();
            assert_eq!(loaded, read.iter().copied().collect());
            assert!(read.len() <= limit as usize);
            if read.is_empty() {
                break;
            }
            ids.extend(read);
        }
        assert_eq!(ids, expected, "in pages of {limit}");
    }
}

pub async fn results_are_loaded_if_requested(harness: &Harness) {
    let class = harness.class("default", "kind").await;
    let row = by_hand::row(harness, class, harness.now().await);
    let without = by_hand::row(harness, class, harness.now().await);
    let insert = |execution: &Execution, result: Option<&'static str>| Inserted {
        execution: execution.clone(),
        input: by_hand::INPUT.into(),
        result: result.map(Into::into),
    };
    let mut inserted = vec![insert(&row, Some("\"a result\"")), insert(&without, None)];
    inserted.sort_by_key(|one| one.execution.id);
    harness.save(Changes { executions: Guarded::inserting(inserted), ..Changes::default() }).await;
    let relatives = vec![row.id, without.id, ExecutionId(Uuid::now_v7())];
    let shown =
        harness.load(Needs { relatives: Request::reading(relatives), ..Needs::default() }).await.relatives;
    let shown = shown.into_iter().map(|stored| stored.relative);
    let mut shown: Vec<_> = shown.map(|one| (one.execution, one.outcome, one.result)).collect();
    shown.sort();
    let mut expected = vec![(row.id, None, Some("\"a result\"".into())), (without.id, None, None)];
    expected.sort();
    assert_eq!(shown, expected);
    assert!(
        harness
            .load(Needs { executions: Request::reading([row.id]), ..Needs::default() })
            .await
            .relatives
            .is_empty()
    );
}
