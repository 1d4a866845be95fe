//! Waitpoints: made by workers, listed, revoked, expired.

use crate::client::{Server, op_with, text_of};
use selvedge_core::Timestamp;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::{Value, json};

async fn running(server: &Server) -> (String, Value) {
    let id = server.submit(json!({ "kind": "k" })).await;
    (id, server.claim("i", 1).await.remove(0))
}

#[tokio::test]
async fn a_waitpoint_is_made_before_or_with_the_suspension() {
    let server = Server::start().await;
    let (id, claim) = running(&server).await;
    let early = json!({ "name": "early", "source": "bank", "expires_ms": 60_000 });
    let made = server.report("i", op_with("waitpoint", &claim, early.clone())).await;
    assert_eq!((&made["ok"], &made["state"]), (&json!(true), &json!("active")));
    let waitpoint = &made["waitpoints"][0];
    assert_eq!((&waitpoint["name"], made["waitpoints"].as_array().map(Vec::len)), (&json!("early"), Some(1)));
    assert!(waitpoint["id"].is_string() && waitpoint["token"].is_string());
    let again = server.report("i", op_with("waitpoint", &claim, early)).await;
    assert_eq!(again, made, "one that is open is given again");

    let condition = json!({ "count": { "n": 2, "of": ["early", "late"], "distinct": "waitpoints" } });
    let with = json!(["early", { "name": "late", "source": "shop" }]);
    let other = op_with("suspend", &claim, json!({ "condition": condition, "waitpoints": with }));
    let problem = server.report("i", other).await["error"].clone();
    assert_eq!(problem["code"], "idempotency_mismatch", "the open one speaks for the bank: {problem}");
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
    let told = &events["items"][0]["data"];
    assert_eq!((&told["waitpoint"], &told["name"]), (&waitpoint["id"], &json!("early")));
    assert_eq!(told["expires_at"], listed["expires_at"]);
}

#[tokio::test]
async fn a_waitpoint_that_expires_is_shown_so() {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let options = Options { reconcilers: false, ..Options::default() };
    let server = Server::start_with(options, clock.clone()).await;
    let (id, claim) = running(&server).await;
    let short = json!({ "name": "short", "expires_ms": 1000 });
    let made = server.report("i", op_with("waitpoint", &claim, short)).await["waitpoints"][0].clone();
    assert_eq!(server.listed(&id, "waitpoints").await[0]["expires_at"], "2023-11-14T22:13:21.000Z");
    clock.advance_ms(1000);
    let path = format!("/v1/waitpoints/{}/signal", text_of(&made["id"]));
    let body = json!({ "token": made["token"] });
    // Its time counts, and not whether somebody has noticed.
    for _ in 0..2 {
        let reply = server.post(&path, body.clone()).await;
        assert_eq!(reply.problem(), (401, "token_expired".into(), "".into()));
        assert_eq!(reply.header("www-authenticate"), "Bearer");
        server.engine.tick("waitpoint_expiry").await.expect("the tick runs");
    }
    assert_eq!(server.listed(&id, "waitpoints").await[0]["state"], "expired");
    let events = server.get("/v1/events?types=waitpoint.expired").await.json();
    assert_eq!(events["items"][0]["data"], json!({ "waitpoint": made["id"], "name": "short" }));
}

#[tokio::test]
async fn a_waitpoint_that_is_revoked_takes_no_delivery() {
    let server = Server::start().await;
    let (id, claim) = running(&server).await;
    let more = json!({ "condition": { "signal": "go" }, "waitpoints": ["go", "other"] });
    let made = server.suspend("i", &claim, more).await["waitpoints"].clone();
    let waitpoint = text_of(&made[0]["id"]);
    let revoke = format!("/v1/waitpoints/{waitpoint}/revoke");
    let unknown = server.post(&revoke, json!({ "reason": "x" })).await;
    assert_eq!(unknown.problem(), (422, "unknown_field".into(), "/reason".into()));
    let revoked = server.post(&revoke, json!({})).await;
    assert_eq!(revoked.status, 200, "{}", revoked.text());
    let shown = revoked.json()["waitpoint"].clone();
    assert_eq!(
        (&shown["id"], &shown["state"], shown.get("token")),
        (&json!(waitpoint), &json!("revoked"), None)
    );
    let again = server.send("POST", &revoke, &[], Vec::new()).await;
    assert_eq!(again.json()["waitpoint"], shown);

    let signal = format!("/v1/waitpoints/{waitpoint}/signal");
    let reply = server.post(&signal, json!({ "token": made[0]["token"] })).await;
    assert_eq!(reply.problem(), (401, "token_revoked".into(), "".into()));
    assert_eq!(server.execution(&id).await["state"], "suspended");
    let events = server.get("/v1/events?types=waitpoint.revoked").await.json();
    assert_eq!(
        (&events["items"][0]["actor"], events["items"].as_array().map(Vec::len)),
        (&json!("admin"), Some(1))
    );
    // The other one still does, and one that has taken its delivery stays as it is.
    let other = text_of(&made[1]["id"]);
    let path = format!("/v1/waitpoints/{other}/signal");
    let body = json!({ "token": made[1]["token"] });
    assert_eq!(server.post(&path, body).await.json()["effect"], "buffered");
    let late = server.post(&format!("/v1/waitpoints/{other}/revoke"), json!({})).await.json();
    assert_eq!((&late["waitpoint"]["state"], &late["waitpoint"]["signal"]), (&json!("delivered"), &json!(1)));
}
