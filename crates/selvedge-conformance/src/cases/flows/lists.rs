//! Lists of flows: filters and pages, and due flows.

use crate::harness::Harness;
use crate::harness::by_hand::{self, counts};
use selvedge_core::flow::{FlowFilter, FlowListPosition, FlowSpec, FlowState};
use selvedge_core::state::StateName;
use selvedge_core::{Flow, FlowId, Name, Timestamp};
use selvedge_store::{DueFlow, FlowDue, ReconcilerScope};
use std::collections::BTreeMap;

const HOUR_MS: i64 = 3_600_000;

fn place(flow: &Flow) -> FlowListPosition {
    FlowListPosition { submitted_at: flow.submitted_at, id: flow.id }
}

/// Inserts flows in every state, with and without names and tags, some with equal times.
async fn varied(harness: &Harness) -> Vec<Flow> {
    let now = harness.now().await;
    let flows = (0..40_usize).map(|index| {
        let state = FlowState::ALL[index % 4];
        Flow {
            state,
            ended_at: (state != FlowState::Running).then_some(now),
            counts: counts(&[(StateName::Waiting, i32::from(state == FlowState::Running))]),
            name: (index % 3 > 0).then(|| Name::trusted(&format!("name{}", index % 3))),
            tags: match index % 5 {
                0 => BTreeMap::new(),
                value => [("tag".into(), format!("v:{value}")), ("all".into(), String::new())].into(),
            },
            ..by_hand::flow(harness, now.minus_ms((index / 4) as i64 * 1000))
        }
    });
    let flows: Vec<Flow> = flows.collect();
    by_hand::insert_flows(harness, &flows).await;
    let other_namespace = harness.in_namespace("elsewhere").await;
    let other = Flow { tags: [("all".into(), String::new())].into(), ..by_hand::flow(&other_namespace, now) };
    by_hand::insert_flows(&other_namespace, &[other]).await;
    flows
}

async fn listed(harness: &Harness, filter: &FlowFilter, limit: u32) -> Vec<Flow> {
    let (mut flows, mut after) = (Vec::new(), None);
    loop {
        let page = harness.store.list_flows(filter, after, limit).await.expect("flows are listed");
        assert!(page.len() <= limit as usize);
        let Some(last) = page.last() else { return flows };
        after = Some(place(last));
        flows.extend(page);
        assert!(flows.len() < 1000, "paging never ends");
    }
}

pub async fn a_list_of_flows_returns_those_that_match_every_part_of_its_filter_newest_first(
    harness: &Harness,
) {
    let flows = varied(harness).await;
    let all = || FlowFilter::all(harness.namespace);
    let (from, until) = (flows[30].submitted_at, flows[10].submitted_at);
    let tagged = |flow: &Flow| flow.tags.get("tag").is_some_and(|value| value == "v:3");
    let name = Name::trusted("name1");
    type Pick<'a> = Box<dyn Fn(&Flow) -> bool + 'a>;
    let ended = [FlowState::Failed, FlowState::Cancelled];
    let cases: Vec<(FlowFilter, Pick<'_>)> = vec![
        (all(), Box::new(|_| true)),
        (
            FlowFilter { states: vec![FlowState::Running], ..all() },
            Box::new(|flow| flow.state == FlowState::Running),
        ),
        (FlowFilter { states: ended.to_vec(), ..all() }, Box::new(|flow| ended.contains(&flow.state))),
        (
            FlowFilter { name: Some(name.clone()), ..all() },
            Box::new(|flow| flow.name.as_deref() == Some("name1")),
        ),
        (FlowFilter { name: Some(Name::trusted("name")), ..all() }, Box::new(|_| false)),
        (FlowFilter { tag: Some("tag:v:3".into()), ..all() }, Box::new(tagged)),
        (FlowFilter { tag: Some("all:".into()), ..all() }, Box::new(|flow| !flow.tags.is_empty())),
        (FlowFilter { tag: Some("tag:v".into()), ..all() }, Box::new(|_| false)),
        (FlowFilter { submitted_after: Some(from), ..all() }, Box::new(|flow| flow.submitted_at >= from)),
        (FlowFilter { submitted_before: Some(until), ..all() }, Box::new(|flow| flow.submitted_at < until)),
        (
            FlowFilter {
                states: vec![FlowState::Running, FlowState::Failed],
                name: Some(name.clone()),
                tag: Some("all:".into()),
                submitted_after: Some(from),
                submitted_before: Some(until),
                ..all()
            },
            Box::new(|flow| {
                [FlowState::Running, FlowState::Failed].contains(&flow.state)
                    && flow.name.as_deref() == Some("name1")
                    && !flow.tags.is_empty()
                    && flow.submitted_at >= from
                    && flow.submitted_at < until
            }),
        ),
    ];
    for (filter, pick) in cases {
        let mut expected: Vec<Flow> = flows.iter().filter(|flow| pick(flow)).cloned().collect();
        expected.sort_by_key(|flow| std::cmp::Reverse(place(flow)));
        for limit in [3, 1000] {
            assert_eq!(listed(harness, &filter, limit).await, expected, "{filter:?} in pages of {limit}");
        }
    }
}

pub async fn a_list_of_flows_follows_their_states(harness: &Harness) {
    let flow = harness.flow("a").await;
    let of = async |state| {
        let filter = FlowFilter { states: vec![state], ..FlowFilter::all(harness.namespace) };
        let flows = harness.store.list_flows(&filter, None, 9).await.expect("flows are listed");
        flows.into_iter().map(|flow| flow.id).collect::<Vec<FlowId>>()
    };
    assert_eq!((of(FlowState::Running).await, of(FlowState::Failed).await), (vec![flow.id], vec![]));
    flow.fail("a").await;
    harness.drain().await;
    assert_eq!((of(FlowState::Running).await, of(FlowState::Failed).await), (vec![], vec![flow.id]));
    flow.replay("a").await;
    assert_eq!((of(FlowState::Running).await, of(FlowState::Failed).await), (vec![flow.id], vec![]));
}

async fn due(
    harness: &Harness,
    kind: FlowDue,
    after: Option<(Timestamp, FlowId)>,
    limit: u32,
) -> Vec<DueFlow> {
    harness.store.due_flows(&ReconcilerScope::ALL, kind, after, limit).await.expect("due flows are read")
}

pub async fn due_flows_are_found_by_kind_earliest_first_and_in_pages(harness: &Harness) {
    let now = harness.now().await;
    let mut settled: Vec<Flow> = Vec::new();
    let mut unsettled: Vec<Flow> = Vec::new();
    for ms in [HOUR_MS, 5 * HOUR_MS, 1, 5 * HOUR_MS, 2] {
        let spec = FlowSpec { retention_ms: 10 * HOUR_MS, ..FlowSpec::default() };
        settled.push(Flow {
            state: FlowState::Completed,
            ended_at: Some(now.minus_ms(10 * HOUR_MS + ms)),
            tags: [("a".into(), ms.to_string())].into(),
            spec,
            ..by_hand::flow(harness, now.minus_ms(20 * HOUR_MS))
        });
        unsettled.push(Flow {
            counts: counts(&[(StateName::Completed, 1)]),
            tags: [("a".into(), ms.to_string())].into(),
            ..by_hand::flow(harness, now.minus_ms(ms))
        });
    }
    let mut later = settled[0].clone();
    later.id = FlowId(uuid::Uuid::now_v7());
    later.spec.kept_until = Some(now.plus_ms(HOUR_MS));
    let live = Flow { counts: counts(&[(StateName::WaitingDependencies, 1)]), ..by_hand::flow(harness, now) };
    let mut all = [settled.clone(), unsettled.clone()].concat();
    all.extend([later, live]);
    by_hand::insert_flows(harness, &all).await;
    for (kind, flows) in [(FlowDue::Settle, &unsettled), (FlowDue::Delete, &settled)] {
        let mut paged: Vec<DueFlow> = Vec::new();
        loop {
            let page = due(harness, kind, paged.last().map(|one| (one.due_at, one.flow)), 2).await;
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= 2);
            paged.extend(page);
            assert!(paged.len() <= flows.len(), "{kind:?}: paging never ends");
        }
        assert_eq!(due(harness, kind, None, 100).await, paged, "{kind:?}");
        assert!(paged.is_sorted_by_key(|one| (one.due_at, one.flow)));
        assert_eq!(paged.len(), flows.len());
        for one in paged {
            let flow = flows.iter().find(|flow| flow.id == one.flow).expect("it is due");
            assert_eq!((one.namespace, &one.tags), (harness.namespace, &flow.tags));
            if kind == FlowDue::Delete {
                assert_eq!(Some(one.due_at), flow.delete_at());
            }
        }
    }
}
