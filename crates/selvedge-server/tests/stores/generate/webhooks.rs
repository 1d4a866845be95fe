//! A webhook with a delivery in each state, and every event of webhooks. It is paused, so that no server delivers for it.

use crate::driver::Driver;
use bytes::Bytes;
use selvedge_core::rules::webhook::{RecordDeliveries, RetryPolicy};
use selvedge_core::webhook::{
    Attempted, Delivery, DeliveryDetail, DeliveryId, DeliveryState, Outcome, WebhookName,
};
use selvedge_core::{ExecutionId, FlowId, Name, Timestamp};
use serde_json::json;
use uuid::Uuid;

/// Plays the scene.
pub async fn play(driver: &Driver) {
    let config = json!({ "url": "https://example.com/hook?a=b", "types": ["execution.completed"], "paused": true,
        "filter": { "tag": "team:blue" } });
    driver.configure("webhooks/kept", config.clone()).await;
    driver.server.call_ok("PATCH", "/v1/webhooks/kept", json!({ "filter": null })).await;
    let rotate = json!({ "grace_ms": crate::driver::FOREVER_MS });
    driver.server.call_ok("POST", "/v1/webhooks/kept/rotate-secret", rotate).await;
    driver.configure("webhooks/brief", config).await;
    driver.server.call_ok("DELETE", "/v1/webhooks/brief", json!({})).await;
    let engine = &driver.server.engine;
    let namespace = engine.namespace("default").await.expect("the namespace exists");
    let name = WebhookName { namespace: namespace.id(), name: Name::trusted("kept") };
    let failed = Outcome::Failed { status: Some(503), error: "status 503".into() };
    // The last one is dead after its first failure.
    for (number, outcome, give_up_ms) in
        [(1, Outcome::Delivered(204), 1000), (2, failed.clone(), 1000), (3, failed.clone(), 0)]
    {
        loop {
            let webhook = engine.store().webhook(&name).await.expect("webhooks are read").expect("it exists");
            let cursor = format!("{number:024x}");
            let delivery = Delivery {
                webhook: webhook.detail.id,
                number: 0,
                id: DeliveryId::of(webhook.detail.id, &cursor),
                state: DeliveryState::Pending,
                detail: DeliveryDetail {
                    cursor,
                    kind: "execution.completed".into(),
                    event_at: Timestamp::from_millis(1_700_000_000_000),
                    execution: Some(ExecutionId(Uuid::from_u128(number))),
                    flow: Some(FlowId(Uuid::from_u128(number))),
                    ..DeliveryDetail::default()
                },
                body: Bytes::from_static(b"{\"type\":\"execution.completed\"}"),
            };
            let record = RecordDeliveries {
                name: name.clone(),
                id: webhook.detail.id,
                fence: webhook.detail.fence,
                passed: None,
                attempts: vec![Attempted { delivery, outcome: outcome.clone() }],
                missed: 1,
                policy: RetryPolicy { first_ms: 1000, max_ms: 1000, give_up_ms, pause_ms: i64::MAX },
            };
            // The sender of this server may have taken the lease in between.
            if engine.record_deliveries(record).await.expect("the deliveries are recorded").is_some() {
                break;
            }
        }
    }
}
