//! Minute rollups, and the depths of lanes.

use crate::harness::{Harness, Worker};
use selvedge_core::class::UNPOOLED;
use selvedge_core::flow::FlowState;
use selvedge_core::rollup::{Rollup, RollupKey, RollupQuery, RollupRow, minute_of};
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::{ClassId, Classes, Draft, Name, Timestamp};
use selvedge_store::Depth;

const MINUTE_MS: i64 = 60_000;

fn row(
    harness: &Harness,
    minute_at: Timestamp,
    lane: Option<&str>,
    server: i64,
    submitted: u64,
) -> RollupRow {
    let key = RollupKey { minute_at, lane: lane.map(Name::trusted), server };
    let mut rollup = Rollup { submitted, ..Rollup::default() };
    rollup.queue.add(1_500);
    RollupRow { namespace: harness.namespace, key, rollup }
}

async fn save(harness: &Harness, rows: &[RollupRow]) {
    harness.store.save_rollups(rows).await.expect("rollups are saved");
}

async fn list(harness: &Harness, query: &RollupQuery, limit: u32) -> Vec<RollupRow> {
    harness.store.rollups(query, limit).await.expect("rollups are read")
}

pub async fn rollups_are_replaced_by_their_key_and_listed_in_its_order(harness: &Harness) {
    let other = harness.in_namespace("other").await;
    let first = minute_of(harness.now().await);
    let (second, third) = (first.plus_ms(MINUTE_MS), first.plus_ms(2 * MINUTE_MS));
    let rows = [
        row(harness, first, None, 7, 1),
        row(harness, first, Some("Z"), -3, 2),
        row(harness, first, Some("a"), i64::MIN, 3),
        row(harness, first, Some("a"), i64::MAX, 4),
        row(harness, second, Some("a"), -3, 5),
        row(harness, second, Some("ä lane"), -3, 6),
        row(harness, third, Some("a"), 7, 7),
    ];
    let shuffled: Vec<RollupRow> = rows.iter().rev().cloned().collect();
    save(harness, &shuffled).await;
    save(&other, &[row(&other, first, Some("a"), 7, 100)]).await;
    save(harness, &[]).await;
    // A repeated save, as after a lost answer, and one with a later total.
    save(harness, &shuffled).await;
    let later = row(harness, second, Some("a"), -3, 50);
    save(harness, std::slice::from_ref(&later)).await;
    let mut expected = rows.to_vec();
    expected[4] = later;

    let query = RollupQuery {
        namespace: harness.namespace,
        lane: None,
        from: first,
        to: third.plus_ms(MINUTE_MS),
        after: None,
    };
    assert_eq!(list(harness, &query, 100).await, expected);
    let of_lane = RollupQuery { lane: Some(Name::trusted("a")), ..query.clone() };
    let in_lane: Vec<RollupRow> = expected.iter().filter(|row| of_lane.matches(row)).cloned().collect();
    assert_eq!(in_lane.len(), 4);
    for (query, expected) in [(&query, &expected), (&of_lane, &in_lane)] {
        let mut paged = Vec::new();
        let mut page = query.clone();
        loop {
            let rows = list(harness, &page, 2).await;
            page.after = rows.last().map(|row| row.key.clone());
            paged.extend(rows);
            if page.after.is_none() {
                break;
            }
        }
        assert_eq!(&paged, expected, "page by page");
        for (from, to) in [(second, third), (third, third), (second.plus_ms(1), third.plus_ms(1))] {
            let bounded = RollupQuery { from, to, ..query.clone() };
            let expected: Vec<RollupRow> =
                expected.iter().filter(|row| bounded.matches(row)).cloned().collect();
            assert_eq!(list(harness, &bounded, 100).await, expected, "from {from:?} to {to:?}");
        }
    }
}

pub async fn old_rollups_are_deleted_in_bounded_pages(harness: &Harness) {
    let now = minute_of(harness.now().await);
    let rows: Vec<RollupRow> =
        (0..5).map(|age| row(harness, now.minus_ms(age * 3_600_000), Some("a"), 1, age as u64)).collect();
    save(harness, &rows).await;
    let delete = async |keep_ms, limit| {
        harness.store.delete_old_rollups(keep_ms, limit).await.expect("old rollups are deleted")
    };
    assert_eq!(delete(24 * 3_600_000, 100).await, 0, "none is that old");
    assert_eq!(delete(90 * MINUTE_MS, 2).await, 2);
    assert_eq!(delete(90 * MINUTE_MS, 2).await, 1);
    assert_eq!(delete(90 * MINUTE_MS, 2).await, 0);
    let query = RollupQuery {
        namespace: harness.namespace,
        lane: None,
        from: Timestamp::default(),
        to: now.plus_ms(MINUTE_MS),
        after: None,
    };
    assert_eq!(list(harness, &query, 100).await, [rows[1].clone(), rows[0].clone()]);
}

pub async fn live_executions_are_counted_by_class_and_state_with_the_oldest(harness: &Harness) {
    let other = harness.in_namespace("other").await;
    let before = harness.now().await;
    let kinds = UNPOOLED + 3;
    for number in 0..kinds {
        harness.submit(Draft { lane: "crowded".into(), ..Draft::new(format!("kind {number}")) }).await;
        other.submit(Draft { lane: "crowded".into(), ..Draft::new("kind") }).await;
    }
    harness
        .submit(Draft { lane: "late".into(), delay: Some(When::AfterMs(3_600_000)), ..Draft::new("kind") })
        .await;
    let claimed = harness.claim_as(&Worker::new("one").on(&["crowded"]), 2).await;
    let after = harness.now().await;

    let mut classes = Classes::default();
    classes.add(harness.store.classes_after(ClassId(0)).await.expect("classes are read"));
    let lanes = ["crowded", "late"].map(Name::trusted);
    let ranges: Vec<ClassId> =
        lanes.iter().flat_map(|lane| classes.ranges_of(harness.namespace, lane)).collect();
    let depths =
        async |bound| harness.store.depths(harness.namespace, &ranges, bound).await.expect("depths are read");
    let found = depths(1000).await;
    let sum = |depths: &[Depth], lane: &Name, state: StateName| {
        let in_lane = |depth: &&Depth| depth.state == state && classes.lane_of(depth.range) == Some(lane);
        depths.iter().filter(in_lane).map(|depth| depth.count).sum::<u64>()
    };
    let [crowded, late] = &lanes;
    assert_eq!(sum(&found, crowded, StateName::Waiting), kinds as u64 - 2, "{found:?}");
    assert_eq!(sum(&found, crowded, StateName::Active), 2);
    assert_eq!(sum(&found, late, StateName::Delayed), 1);
    assert_eq!(found.iter().map(|depth| depth.count).sum::<u64>(), kinds as u64 + 1, "{found:?}");
    assert!(found.iter().all(|depth| before <= depth.oldest_at && depth.oldest_at <= after), "{found:?}");
    let earliest =
        claimed.iter().filter_map(|one| one.execution.state.lease()).map(|lease| lease.claimed_at).min();
    let active = found.iter().filter(|depth| depth.state == StateName::Active);
    assert_eq!(active.map(|depth| depth.oldest_at).min(), earliest, "since the claim");
    let bounded = depths(1).await;
    assert!(bounded.iter().all(|depth| depth.count == 1), "{bounded:?}");
    let flows = async |state, bound| {
        harness.store.count_flows(harness.namespace, state, bound).await.expect("flows are counted")
    };
    assert_eq!((flows(FlowState::Running, 10).await, flows(FlowState::Completed, 10).await), (0, 0));
}
