//! Webhooks: rows are read back as they were written, one server at a time owns a webhook, and a late owner records nothing.

use crate::harness::signals::name;
use crate::harness::{Harness, concurrently};
use bytes::Bytes;
use selvedge_core::fact::{self, Fact, WebhookChange};
use selvedge_core::rules::CallKey;
use selvedge_core::rules::keyed::Keyed;
use selvedge_core::rules::webhook::{
    ConfigureWebhook, LeaseWebhooks, NewWebhook, Passed, RecordDeliveries, Recorded, ReplayDelivery,
    RetryPolicy, RotateWebhookSecret, WebhookPatch, WebhookSetting,
};
use selvedge_core::webhook::{
    Attempted, DELIVERED_KEPT, Delivery, DeliveryDetail, DeliveryId, DeliveryState, Outcome, PauseReason,
    Webhook, WebhookConfig, WebhookFilter, WebhookId, WebhookName,
};
use selvedge_core::{ExecutionId, FlowId, Refusal, Timestamp};
use selvedge_store::DeliveryPage;
use uuid::Uuid;

const POLICY: RetryPolicy =
    RetryPolicy { first_ms: 1000, max_ms: 60_000, give_up_ms: 3_600_000, pause_ms: 7_200_000 };

fn named(harness: &Harness, text: &str) -> WebhookName {
    WebhookName { namespace: harness.namespace, name: name(text) }
}

fn config() -> WebhookConfig {
    WebhookConfig {
        url: "https://example.com/é?a=\"b\"".into(),
        types: vec!["execution.completed".into()],
        filter: WebhookFilter {
            execution: Some(ExecutionId(Uuid::from_u128(1))),
            flow: Some(FlowId(Uuid::from_u128(2))),
            tag: Some(("team".into(), "blue \"quoted\"".into())),
        },
    }
}

fn put(harness: &Harness, text: &str) -> ConfigureWebhook {
    let new = NewWebhook { id: WebhookId(Uuid::now_v7()), cursor: "start".into(), fingerprint: -7 };
    let setting = WebhookSetting::Replace { config: config(), paused: false, new };
    ConfigureWebhook { name: named(harness, text), setting, actor: name("operator") }
}

async fn create(harness: &Harness, text: &str) -> Webhook {
    let configured = harness.run(put(harness, text)).await.expect("the webhook is created");
    assert!(configured.created);
    configured.webhook
}

async fn find(harness: &Harness, text: &str) -> Option<Webhook> {
    harness.store.webhook(&named(harness, text)).await.expect("webhooks are read")
}

async fn lease(harness: &Harness, owner: u128, text: &str, ttl_ms: i64) -> Option<Webhook> {
    let names = vec![named(harness, text)];
    harness.run(LeaseWebhooks { owner: Uuid::from_u128(owner), names, ttl_ms }).await.pop()
}

/// Returns a new delivery of an event.
fn delivery(webhook: &Webhook, cursor: &str) -> Delivery {
    let id = webhook.detail.id;
    Delivery {
        webhook: id,
        number: 0,
        id: DeliveryId::of(id, cursor),
        state: DeliveryState::Pending,
        detail: DeliveryDetail {
            cursor: cursor.into(),
            kind: "execution.completed".into(),
            event_at: Timestamp::from_millis(5),
            execution: Some(ExecutionId(Uuid::from_u128(9))),
            flow: None,
            ..DeliveryDetail::default()
        },
        body: Bytes::from_static(b"{\"type\":\"execution.completed\",\"data\":{\"x\":\"\xc3\xa9\"}}"),
    }
}

fn failed() -> Outcome {
    Outcome::Failed { status: Some(500), error: "status 500".into() }
}

fn record(webhook: &Webhook, attempts: Vec<Attempted>) -> RecordDeliveries {
    RecordDeliveries {
        name: webhook.name.clone(),
        id: webhook.detail.id,
        fence: webhook.detail.fence,
        passed: Some(Passed { cursor: "next".into(), at: None }),
        attempts,
        missed: 0,
        policy: POLICY,
    }
}

async fn recorded(harness: &Harness, record: RecordDeliveries) -> Recorded {
    harness.run(record).await.expect("the owner records")
}

async fn list(harness: &Harness, webhook: &Webhook, state: Option<DeliveryState>) -> Vec<Delivery> {
    let page = DeliveryPage { webhook: webhook.detail.id, state, before: None, limit: 9999, bodies: true };
    harness.store.deliveries(&page).await.expect("deliveries are read")
}

pub async fn a_webhook_is_read_back_with_every_field_and_changes_raise_its_version(harness: &Harness) {
    let created = create(harness, "w \"é\"").await;
    assert_eq!(find(harness, "w \"é\"").await, Some(created.clone()));
    assert_eq!((created.version, created.detail.generation), (1, 1));
    let again = harness.run(put(harness, "w \"é\"")).await.expect("it is replaced");
    assert_eq!((again.created, &again.webhook), (false, &created), "an equal configuration changes nothing");
    let patch = |patch| ConfigureWebhook {
        name: created.name.clone(),
        setting: WebhookSetting::Patch(patch),
        actor: name("operator"),
    };
    let paused =
        WebhookPatch { paused: Some(true), url: Some("https://b/".into()), ..WebhookPatch::default() };
    let paused = harness.run(patch(paused)).await.expect("it is changed").webhook;
    assert_eq!((paused.version, paused.detail.generation), (2, 2));
    assert_eq!(paused.detail.paused, Some(PauseReason::Operator));
    assert_eq!(paused.detail.config, WebhookConfig { url: "https://b/".into(), ..config() });
    assert_eq!(find(harness, "w \"é\"").await, Some(paused));
    let unknown = ConfigureWebhook { name: named(harness, "none"), ..patch(WebhookPatch::default()) };
    assert_eq!(harness.run(unknown).await.expect_err("it does not exist").code(), "not_found");
    let changes: Vec<WebhookChange> = harness
        .log()
        .await
        .into_iter()
        .flat_map(|(_, events)| events)
        .filter_map(|event| match event.fact {
            Fact::WebhookChanged(fact::WebhookChanged { change, .. }) => Some(change),
            _ => None,
        })
        .collect();
    assert_eq!(changes, [WebhookChange::Created, WebhookChange::Paused(PauseReason::Operator)]);
}

pub async fn webhooks_are_listed_in_pages_by_name(harness: &Harness) {
    for text in ["b", "B", "a", "é", "c"] {
        create(harness, text).await;
    }
    let page = async |after: Option<&str>, limit| -> Vec<String> {
        let after = after.map(|text| named(harness, text));
        let found = harness.store.webhooks(Some(harness.namespace), after.as_ref(), limit).await;
        found.expect("webhooks are read").iter().map(|webhook| webhook.name.name.to_string()).collect()
    };
    assert_eq!(page(None, 3).await, ["B", "a", "b"]);
    assert_eq!(page(Some("b"), 9).await, ["c", "é"]);
    assert_eq!(harness.store.webhooks(None, None, 9).await.expect("webhooks are read").len(), 5);
}

pub async fn two_creations_at_once_create_one_webhook(harness: &Harness) {
    let all = concurrently(4, |_| {
        let harness = harness.clone();
        async move { harness.run(put(&harness, "w")).await.expect("it is created or replaced") }
    })
    .await;
    assert_eq!(all.iter().filter(|one| one.created).count(), 1);
    let stored = find(harness, "w").await.expect("it exists");
    assert!(all.iter().all(|one| one.webhook.detail.id == stored.detail.id));
}

pub async fn a_webhook_has_one_owner_until_its_lease_ends(harness: &Harness) {
    create(harness, "w").await;
    let all = concurrently(4, |owner| {
        let harness = harness.clone();
        async move { lease(&harness, owner as u128 + 1, "w", 3_600_000).await }
    })
    .await;
    let owners: Vec<Webhook> = all.into_iter().flatten().collect();
    assert_eq!(owners.len(), 1, "{owners:?}");
    let owner = owners[0].detail.lease.expect("it is leased").owner.as_u128();
    assert_eq!(owners[0].detail.fence, 1);
    let renewed = lease(harness, owner, "w", 100).await.expect("its owner renews it");
    assert_eq!(renewed.detail.fence, 1);
    harness.advance_past(100).await;
    let next = lease(harness, owner + 1, "w", 3_600_000).await.expect("it is free");
    assert_eq!(next.detail.fence, 2);
    assert_eq!(lease(harness, owner, "w", 1).await, None);
    assert_eq!(lease(harness, owner + 1, "w", 0).await, None);
    let again = lease(harness, owner, "w", 1000).await.expect("it was given back");
    assert_eq!(again.detail.fence, 3);
    assert_eq!(lease(harness, 1, "none", 1000).await, None);
}

pub async fn a_late_owner_records_nothing(harness: &Harness) {
    create(harness, "w").await;
    let first = lease(harness, 1, "w", 1).await.expect("it is free");
    harness.advance_past(1).await;
    let second = lease(harness, 2, "w", 3_600_000).await.expect("it is free again");
    let attempt = Attempted { delivery: delivery(&first, "1"), outcome: Outcome::Delivered(200) };
    assert_eq!(harness.run(record(&first, vec![attempt.clone()])).await, None);
    assert_eq!(list(harness, &first, None).await, []);
    let stored = find(harness, "w").await.expect("it exists");
    assert_eq!((stored.detail.cursor.as_str(), stored.detail.delivered), ("start", 0));
    let recorded = recorded(harness, record(&second, vec![attempt])).await;
    assert_eq!((recorded.webhook.detail.cursor.as_str(), recorded.webhook.detail.delivered), ("next", 1));
    assert_eq!(find(harness, "w").await, Some(recorded.webhook));
}

pub async fn deliveries_are_read_back_by_state_newest_first(harness: &Harness) {
    create(harness, "w").await;
    let webhook = lease(harness, 1, "w", 3_600_000).await.expect("it is free");
    let outcomes = [Outcome::Delivered(204), failed(), Outcome::Waits];
    let attempts = (1..).zip(outcomes).map(|(cursor, outcome): (u32, _)| Attempted {
        delivery: delivery(&webhook, &cursor.to_string()),
        outcome,
    });
    let reply = recorded(harness, record(&webhook, attempts.collect())).await;
    let detail = &reply.webhook.detail;
    assert_eq!((detail.pending, detail.delivered, detail.dead, detail.next_number), (2, 1, 0, 4));
    assert_eq!(detail.failing_since, None, "one of them succeeded");
    let all = list(harness, &webhook, None).await;
    assert_eq!(all.iter().map(|one| one.number).collect::<Vec<_>>(), [3, 2, 1]);
    let pending = list(harness, &webhook, Some(DeliveryState::Pending)).await;
    assert_eq!(pending.iter().rev().cloned().collect::<Vec<_>>(), reply.pending);
    assert_eq!(list(harness, &webhook, Some(DeliveryState::Delivered)).await, [all[2].clone()]);
    assert_eq!(all[1].body, delivery(&webhook, "2").body);
    assert_eq!((all[1].detail.attempts, all[1].detail.status), (1, Some(500)));
    assert!(all[1].detail.next_at > Some(reply.now) && all[2].detail.next_at.is_none());
    let page =
        DeliveryPage { webhook: webhook.detail.id, state: None, before: Some(3), limit: 1, bodies: false };
    let found = harness.store.deliveries(&page).await.expect("deliveries are read");
    assert_eq!(found, [Delivery { body: Bytes::new(), ..all[1].clone() }]);
    // A success of a delivery that failed before changes its row.
    let again = Attempted { delivery: all[1].clone(), outcome: Outcome::Delivered(200) };
    let reply = recorded(harness, record(&webhook, vec![again])).await;
    assert_eq!((reply.webhook.detail.pending, reply.webhook.detail.delivered), (1, 2));
    let stored = list(harness, &webhook, Some(DeliveryState::Delivered)).await;
    assert_eq!(
        stored.iter().map(|one| (one.number, one.detail.status)).collect::<Vec<_>>(),
        [(2, Some(200)), (1, Some(204))]
    );
}

pub async fn a_delivery_that_fails_for_too_long_is_dead_until_it_is_replayed(harness: &Harness) {
    create(harness, "w").await;
    let webhook = lease(harness, 1, "w", 3_600_000).await.expect("it is free");
    let policy = RetryPolicy { give_up_ms: 50, pause_ms: 1, ..POLICY };
    let attempt = Attempted { delivery: delivery(&webhook, "1"), outcome: failed() };
    let first = recorded(harness, RecordDeliveries { policy, ..record(&webhook, vec![attempt]) }).await;
    assert_eq!(first.webhook.detail.failing_since, Some(first.now));
    assert_eq!((first.webhook.detail.paused, first.dead), (None, 0));
    harness.advance_past(50).await;
    let attempt = Attempted { delivery: first.pending[0].clone(), outcome: failed() };
    let last = recorded(harness, RecordDeliveries { policy, ..record(&webhook, vec![attempt]) }).await;
    let detail = &last.webhook.detail;
    assert_eq!((detail.pending, detail.dead, last.dead), (0, 1, 1));
    assert_eq!(detail.paused, Some(PauseReason::Failing), "it failed for longer than allowed");
    let dead = list(harness, &webhook, Some(DeliveryState::Dead)).await.remove(0);
    let replay = |key: &str| Keyed {
        call_key: Some(CallKey { key: name(key), digest: 1 }),
        rule: ReplayDelivery { name: webhook.name.clone(), id: dead.id },
        keeps_refusals: false,
    };
    let replayed = harness.run(replay("once")).await.expect("it is replayed");
    let again = harness.run(replay("once")).await.expect("it is answered");
    assert!(!replayed.duplicate && again.duplicate);
    assert_eq!(replayed.done, again.done);
    assert_eq!((replayed.done.state, replayed.done.detail.attempts), (DeliveryState::Pending, 0));
    assert_eq!(list(harness, &webhook, Some(DeliveryState::Pending)).await, [replayed.done]);
    let stored = find(harness, "w").await.expect("it exists").detail;
    assert_eq!((stored.pending, stored.dead), (1, 0));
    assert!(stored.generation > detail.generation, "the owner reads the deliveries again");
    let other = create(harness, "other").await;
    let foreign = ReplayDelivery { name: other.name, id: dead.id };
    let refused: Refusal = harness.run(foreign).await.expect_err("it is of another webhook");
    assert_eq!(refused.code(), "not_found");
}

pub async fn old_successes_are_deleted_and_nothing_else(harness: &Harness) {
    create(harness, "w").await;
    let webhook = lease(harness, 1, "w", 3_600_000).await.expect("it is free");
    let first = [failed(), Outcome::Delivered(200), Outcome::Delivered(200)];
    let attempts = (1..).zip(first).map(|(cursor, outcome): (u32, _)| Attempted {
        delivery: delivery(&webhook, &cursor.to_string()),
        outcome,
    });
    recorded(harness, record(&webhook, attempts.collect())).await;
    let more = (4..DELIVERED_KEPT + 4).map(|cursor| Attempted {
        delivery: delivery(&webhook, &cursor.to_string()),
        outcome: Outcome::Delivered(200),
    });
    recorded(harness, record(&webhook, more.collect())).await;
    let delivered = list(harness, &webhook, Some(DeliveryState::Delivered)).await;
    assert_eq!(delivered.len() as u64, DELIVERED_KEPT);
    assert_eq!(delivered.last().map(|one| one.number), Some(4));
    let pending = list(harness, &webhook, Some(DeliveryState::Pending)).await;
    assert_eq!(pending.iter().map(|one| one.number).collect::<Vec<_>>(), [1]);
}

pub async fn a_deleted_webhook_leaves_no_delivery_and_a_new_one_has_another_id(harness: &Harness) {
    let (first, other) = (create(harness, "w").await, create(harness, "other").await);
    for text in ["w", "other"] {
        let webhook = lease(harness, 1, text, 3_600_000).await.expect("it is free");
        let attempt = Attempted { delivery: delivery(&webhook, "1"), outcome: failed() };
        recorded(harness, record(&webhook, vec![attempt])).await;
    }
    let remove = ConfigureWebhook { setting: WebhookSetting::Remove, ..put(harness, "w") };
    harness.run(remove.clone()).await.expect("it is deleted");
    assert_eq!(find(harness, "w").await, None);
    assert_eq!(list(harness, &first, None).await, []);
    assert_eq!(list(harness, &other, None).await.len(), 1);
    assert_eq!(harness.run(record(&first, vec![])).await, None);
    assert_eq!(harness.run(remove).await.expect_err("it is gone").code(), "not_found");
    let second = create(harness, "w").await;
    assert_ne!(second.detail.id, first.detail.id);
    let leased = lease(harness, 2, "w", 3_600_000).await.expect("it is free");
    let late = RecordDeliveries { fence: leased.detail.fence, ..record(&first, vec![]) };
    assert_eq!(harness.run(late).await, None, "the owner of the deleted one records nothing");
    assert_eq!(second.version, 1);
}

pub async fn missed_events_are_counted_and_published(harness: &Harness) {
    create(harness, "w").await;
    let webhook = lease(harness, 1, "w", 3_600_000).await.expect("it is free");
    for count in [3, 4] {
        recorded(harness, RecordDeliveries { missed: count, ..record(&webhook, vec![]) }).await;
    }
    assert_eq!(find(harness, "w").await.expect("it exists").detail.missed, 7);
    let log = harness.log().await;
    let facts = log.iter().flat_map(|(_, events)| events).map(|event| &event.fact);
    let missed: Vec<&WebhookChange> = facts
        .filter_map(|fact| match fact {
            Fact::WebhookChanged(fact::WebhookChanged {
                change: change @ WebhookChange::Missed { .. },
                ..
            }) => Some(change),
            _ => None,
        })
        .collect();
    let expected =
        [WebhookChange::Missed { count: 3, total: 3 }, WebhookChange::Missed { count: 4, total: 7 }];
    assert_eq!(missed, expected.iter().collect::<Vec<_>>());
}

pub async fn a_rotation_keeps_the_old_key_for_its_grace_period(harness: &Harness) {
    let created = create(harness, "w").await;
    let rotate = |grace_ms| RotateWebhookSecret {
        name: created.name.clone(),
        grace_ms,
        fingerprint: 5,
        actor: name("operator"),
    };
    let rotated = harness.run(rotate(50)).await.expect("it is rotated");
    assert_eq!(rotated.key, 2);
    let keys = |webhook: &Webhook| webhook.detail.keys.iter().map(|key| key.number).collect::<Vec<_>>();
    assert_eq!(keys(&rotated.webhook), [1, 2]);
    assert!(rotated.webhook.detail.keys[0].expires_at.is_some());
    assert_eq!(find(harness, "w").await, Some(rotated.webhook));
    harness.advance_past(50).await;
    let again = harness.run(rotate(0)).await.expect("it is rotated");
    assert_eq!((keys(&again.webhook), again.key), (vec![3], 3));
    assert_eq!(harness.run(rotate(-1)).await.expect_err("it is refused").code(), "invalid_field");
}
