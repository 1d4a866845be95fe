//! The outbox: rows are kept until they are removed, and found by kind, oldest first, once they are old enough.

use crate::harness::Harness;
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::table::{Entries, Request};
use selvedge_core::{Changes, Needs, Timestamp};
use selvedge_store::{FlowDue, ReconcilerScope};
use std::collections::BTreeMap;
use uuid::Uuid;

fn row(harness: &Harness, kind: OutboxKind, at: Timestamp) -> OutboxRow {
    OutboxRow {
        name: OutboxName { id: Uuid::now_v7(), kind },
        at,
        position: 0,
        namespace: harness.namespace,
        tags: BTreeMap::new(),
    }
}

async fn put(harness: &Harness, rows: &[OutboxRow]) {
    let mut outbox_put = rows.to_vec();
    outbox_put.sort_by_key(|row| row.name);
    harness.save(Changes { outbox: Entries::writing(outbox_put), ..Changes::default() }).await;
}

async fn scan(
    harness: &Harness,
    kind: OutboxKind,
    stale_ms: i64,
    after: Option<&OutboxRow>,
    limit: u32,
) -> Vec<OutboxRow> {
    let after = after.map(|row| (row.at, row.name.id));
    harness
        .store
        .outbox(&ReconcilerScope::ALL, kind, stale_ms, after, limit)
        .await
        .expect("the outbox is read")
}

pub async fn an_outbox_row_is_read_back_with_every_field(harness: &Harness) {
    let now = harness.now().await;
    for kind in OutboxKind::ALL {
        let full = OutboxRow {
            position: 70_000,
            tags: [("a".into(), "b \"c\"".into()), ("ü".into(), String::new())].into(),
            ..row(harness, kind, now.minus_ms(1))
        };
        put(harness, std::slice::from_ref(&full)).await;
        assert_eq!(scan(harness, kind, 0, None, 9).await, std::slice::from_ref(&full));
        let unknown = OutboxName { id: Uuid::now_v7(), kind };
        let loaded =
            harness.load(Needs { outbox: Request::locking([full.name, unknown]), ..Needs::default() }).await;
        assert_eq!(loaded.outbox, [full]);
    }
}

pub async fn an_outbox_row_that_is_written_again_is_replaced(harness: &Harness) {
    let now = harness.now().await;
    let first = row(harness, OutboxKind::Edges, now.minus_ms(9));
    let same_id = OutboxRow {
        name: OutboxName { kind: OutboxKind::Children, ..first.name },
        ..row(harness, OutboxKind::Children, now.minus_ms(5))
    };
    put(harness, &[first.clone(), same_id.clone()]).await;
    let second = OutboxRow { at: now.minus_ms(2), position: 500, ..first.clone() };
    put(harness, std::slice::from_ref(&second)).await;
    assert_eq!(scan(harness, OutboxKind::Edges, 0, None, 9).await, std::slice::from_ref(&second));
    let unknown = OutboxName { id: Uuid::now_v7(), kind: OutboxKind::Edges };
    let outbox_removed = vec![unknown, second.name];
    harness.save(Changes { outbox: Entries::removing(outbox_removed), ..Changes::default() }).await;
    assert!(scan(harness, OutboxKind::Edges, 0, None, 9).await.is_empty());
    assert_eq!(scan(harness, OutboxKind::Children, 0, None, 9).await, [same_id]);
}

pub async fn the_outbox_is_scanned_by_kind_oldest_first_and_in_pages(harness: &Harness) {
    let now = harness.now().await;
    for kind in OutboxKind::ALL {
        let mut rows: Vec<OutboxRow> =
            [5, 1, 9, 5, 5, 2, 9].map(|ms| row(harness, kind, now.minus_ms(ms * 1000))).to_vec();
        put(harness, &rows).await;
        rows.sort_by_key(|row| (row.at, row.name.id));
        let mut paged: Vec<OutboxRow> = Vec::new();
        loop {
            let page = scan(harness, kind, 0, paged.last(), 2).await;
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= 2);
            paged.extend(page);
            assert!(paged.len() <= rows.len(), "paging never ends");
        }
        assert_eq!(paged, rows, "{kind:?}");
    }
}

pub async fn only_outbox_rows_that_are_old_enough_are_stale(harness: &Harness) {
    const HOUR_MS: i64 = 3_600_000;
    let now = harness.now().await;
    let kind = OutboxKind::Siblings;
    let [old, young] = [3, 1].map(|hours| row(harness, kind, now.minus_ms(hours * HOUR_MS)));
    put(harness, &[old.clone(), young.clone()]).await;
    assert_eq!(scan(harness, kind, 0, None, 9).await, [old.clone(), young]);
    assert_eq!(scan(harness, kind, 2 * HOUR_MS, None, 9).await, [old]);
    assert!(scan(harness, kind, 4 * HOUR_MS, None, 9).await.is_empty());
}

pub async fn the_overview_shows_the_oldest_outbox_rows_and_due_flows(harness: &Harness) {
    let empty = harness.store.overview().await.expect("the overview is read");
    assert_eq!((empty.outbox, empty.flows), (vec![], vec![]));
    let now = harness.now().await;
    let mut expected = BTreeMap::new();
    for (index, kind) in OutboxKind::ALL.into_iter().enumerate() {
        let at = now.minus_ms(1000 * (index as i64 + 1));
        put(harness, &[row(harness, kind, at.plus_ms(500)), row(harness, kind, at)]).await;
        expected.insert(kind, at);
    }
    let overview = harness.store.overview().await.expect("the overview is read");
    assert_eq!(overview.outbox.into_iter().collect::<BTreeMap<_, _>>(), expected);
    let unsettled = crate::harness::by_hand::flow(harness, now.minus_ms(77));
    let mut ended = crate::harness::by_hand::flow(harness, now);
    ended.state = selvedge_core::flow::FlowState::Completed;
    ended.ended_at = Some(now);
    ended.spec.retention_ms = 1_000_000;
    crate::harness::by_hand::insert_flows(harness, &[unsettled.clone(), ended]).await;
    let flows = harness.store.overview().await.expect("the overview is read").flows;
    let expected = [(FlowDue::Settle, unsettled.submitted_at), (FlowDue::Delete, now.plus_ms(1_000_000))];
    assert_eq!(flows.into_iter().collect::<BTreeMap<_, _>>(), expected.into());
}
