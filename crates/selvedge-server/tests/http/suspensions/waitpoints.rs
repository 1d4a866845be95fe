//! Waitpoints: creation by workers, lists, revocation and expiry.

use crate::support::{Server, op_with, text_of};
use selvedge_core::Timestamp;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::json;

#[tokio::test]
async fn a_waitpoint_is_created_before_or_with_the_suspension() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let early = json!({ "name": "early", "source": "bank", "expires_ms": 60_000 });
    let created = server.report("i", op_with("waitpoint", &claim, early.clone())).await;
    assert_eq!((&created["ok"], &created["state"]), (&json!(true), &json!("active")));
    let waitpoint = &created["waitpoints"][0];
    assert_eq!(
        (&waitpoint["name"], created["waitpoints"].as_array().map(Vec::len)),
        (&json!("early"), Some(1))
    );
    assert!(waitpoint["id"].is_string() && waitpoint["token"].is_string());
    let again = server.report("i", op_with("waitpoint", &claim, early)).await;
    assert_eq!(again, created, "an open waitpoint is returned again");

    let condition = json!({ "count": { "n": 2, "of": ["early", "late"], "distinct": "waitpoints" } });
    let with = json!(["early", { "name": "late", "source": "shop" }]);
    let other = op_with("suspend", &claim, json!({ "condition": condition, "waitpoints": with }));
    let problem = server.report("i", other).await["error"].clone();
    assert_eq!(problem["code"], "idempotency_mismatch", "the open waitpoint has the source bank: {problem}");
    let with = json!([{ "name": "early", "source": "bank" }, { "name": "late", "source": "shop" }]);
    let suspended = server.suspend("i", &claim, json!({ "condition": condition, "waitpoints": with })).await;
    assert_eq!(suspended["state"], "suspended");
    assert_eq!(suspended["waitpoints"][0], *waitpoint);
    assert_eq!(suspended["waitpoints"][1]["name"], "late");

    let page = server.get(&format!("/v1/executions/{id}/waitpoints?limit=1")).await.json();
    let listed = &page["items"][0];
    for (field, value) in [
        ("id", waitpoint["id"].clone()),
        ("name", json!("early")),
        ("source", json!("bank")),
        ("state", json!("open")),
        ("signal", json!(null)),
    ] {
        assert_eq!(listed[field], value, "{field}");
    }
    assert!(text_of(&listed["created_at"]) < text_of(&listed["expires_at"]));
    let next = text_of(&page["next_cursor"]);
    let rest = server.get(&format!("/v1/executions/{id}/waitpoints?cursor={next}")).await.json();
    assert_eq!((&rest["items"][0]["name"], &rest["next_cursor"]), (&json!("late"), &json!(null)));
    assert_eq!(rest["items"][0]["expires_at"], json!(null));
    let events = server.get("/v1/events?types=waitpoint.created").await.json();
    let data = &events["items"][0]["data"];
    assert_eq!((&data["waitpoint"], &data["name"]), (&waitpoint["id"], &json!("early")));
    assert_eq!(data["expires_at"], listed["expires_at"]);
}

#[tokio::test]
async fn an_expired_waitpoint_refuses_its_token_and_is_listed_as_expired() {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let options = Options { reconcilers: false, ..Options::default() };
    let server = Server::start_with(options, clock.clone()).await;
    let (id, claim) = server.submit_and_claim().await;
    let short = json!({ "name": "short", "expires_ms": 1000 });
    let created = server.report("i", op_with("waitpoint", &claim, short)).await["waitpoints"][0].clone();
    assert_eq!(server.list_of(&id, "waitpoints").await[0]["expires_at"], "2023-11-14T22:13:21.000Z");
    clock.advance_ms(1000);
    let path = format!("/v1/waitpoints/{}/signal", text_of(&created["id"]));
    let body = json!({ "token": created["token"] });
    // The expiry time decides, not whether the reconciler has run.
    for _ in 0..2 {
        let reply = server.post(&path, body.clone()).await;
        assert_eq!(reply.problem(), (401, "token_expired".into(), "".into()));
        assert_eq!(reply.header("www-authenticate"), "Bearer");
        server.engine.tick("waitpoint_expiry").await.expect("the tick succeeds");
    }
    assert_eq!(server.list_of(&id, "waitpoints").await[0]["state"], "expired");
    let events = server.get("/v1/events?types=waitpoint.expired").await.json();
    assert_eq!(events["items"][0]["data"], json!({ "waitpoint": created["id"], "name": "short" }));
}

#[tokio::test]
async fn a_revoked_waitpoint_refuses_its_token() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let fields = json!({ "condition": { "signal": "go" }, "waitpoints": ["go", "other"] });
    let created = server.suspend("i", &claim, fields).await["waitpoints"].clone();
    let waitpoint = text_of(&created[0]["id"]);
    let revoke = format!("/v1/waitpoints/{waitpoint}/revoke");
    let unknown = server.post(&revoke, json!({ "reason": "x" })).await;
    assert_eq!(unknown.problem(), (422, "unknown_field".into(), "/reason".into()));
    let revoked = server.post(&revoke, json!({})).await;
    assert_eq!(revoked.status, 200, "{}", revoked.text());
    let revoked = revoked.json()["waitpoint"].clone();
    assert_eq!(
        (&revoked["id"], &revoked["state"], revoked.get("token")),
        (&json!(waitpoint), &json!("revoked"), None)
    );
    let again = server.send("POST", &revoke, &[], Vec::new()).await;
    assert_eq!(again.json()["waitpoint"], revoked);

    let signal = format!("/v1/waitpoints/{waitpoint}/signal");
    let reply = server.post(&signal, json!({ "token": created[0]["token"] })).await;
    assert_eq!(reply.problem(), (401, "token_revoked".into(), "".into()));
    assert_eq!(server.execution(&id).await["state"], "suspended");
    let events = server.get("/v1/events?types=waitpoint.revoked").await.json();
    assert_eq!(
        (&events["items"][0]["actor"], events["items"].as_array().map(Vec::len)),
        (&json!("admin"), Some(1))
    );
    // The other waitpoint still accepts its delivery, and a delivered waitpoint cannot be revoked.
    let other = text_of(&created[1]["id"]);
    let path = format!("/v1/waitpoints/{other}/signal");
    let body = json!({ "token": created[1]["token"] });
    assert_eq!(server.post(&path, body).await.json()["effect"], "buffered");
    let late = server.post(&format!("/v1/waitpoints/{other}/revoke"), json!({})).await.json();
    assert_eq!((&late["waitpoint"]["state"], &late["waitpoint"]["signal"]), (&json!("delivered"), &json!(1)));
}
