//! The counts of lanes.

use crate::harness::{Harness, Worker};
use selvedge_core::class::UNPOOLED;
use selvedge_core::{ClassId, Classes, Draft, Name};
use selvedge_store::LaneCounts;

pub async fn lanes_are_counted_by_their_waiting_and_active_executions(harness: &Harness) {
    let other = harness.in_namespace("other").await;
    let kinds = UNPOOLED + 4;
    for number in 0..kinds {
        let kind = format!("kind {number}");
        for lane in ["crowded", "claimed"] {
            harness.submit(Draft { lane: lane.into(), ..Draft::new(&kind) }).await;
        }
        other.submit(Draft { lane: "crowded".into(), ..Draft::new(&kind) }).await;
    }
    harness.submit(Draft { lane: "small".into(), ..Draft::new("kind") }).await;
    let claimed = harness.claim_as(&Worker::new("one").on(&["claimed"]), kinds as u32 - 1).await;
    assert_eq!(claimed.len(), kinds - 1);
    other.claim_as(&Worker::new("two").on(&["crowded"]), 5).await;

    let mut classes = Classes::default();
    classes.add(harness.store.classes_after(ClassId(0)).await.expect("classes are read"));
    let lanes = ["small", "crowded", "claimed", "empty"];
    let ranges = lanes.map(|lane| classes.ranges_of(harness.namespace, &Name::trusted(lane)));
    let count = async |bound| {
        harness.store.count_lanes(harness.namespace, &ranges, bound).await.expect("lanes are counted")
    };
    let counts =
        |waiting: usize, active: usize| LaneCounts { waiting: waiting as u64, active: active as u64 };
    assert_eq!(
        count(1_000).await,
        [counts(1, 0), counts(kinds, 0), counts(1, kinds - 1), counts(0, 0)],
        "{ranges:?}"
    );
    assert_eq!(count(3).await, [counts(1, 0), counts(3, 0), counts(1, kinds - 1), counts(0, 0)]);
}
