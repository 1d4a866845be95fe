//! Waitpoints in the hands of operators and of token holders: lists over executions, answers, new tokens, and looks.

use crate::support::{Server, op_with, text_of};
use selvedge_core::Timestamp;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::{Value, json};

/// Submits an execution and suspends it until the signal `go`, with these waitpoints. Returns its id and the waitpoints
/// with their tokens.
async fn suspend_with(server: &Server, waitpoints: Value) -> (String, Vec<Value>) {
    let (id, claim) = server.submit_and_claim().await;
    let fields = json!({ "condition": { "signal": "go" }, "waitpoints": waitpoints });
    let suspended = server.suspend("i", &claim, fields).await;
    (id, suspended["waitpoints"].as_array().expect("waitpoints is an array").clone())
}

fn path(waitpoint: &Value, call: &str) -> String {
    format!("/v1/waitpoints/{}/{call}", text_of(&waitpoint["id"]))
}

/// Returns the names of the waitpoints that a query lists, over all its pages.
async fn listed(server: &Server, query: &str, limit: u32) -> Vec<String> {
    let mut names = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.read(&format!("waitpoints?limit={limit}{query}{cursor}")).await;
        let items = page["items"].as_array().expect("items is an array");
        assert!(items.len() <= limit as usize);
        names.extend(items.iter().map(|item| text_of(&item["name"])));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return names,
        }
    }
}

#[tokio::test]
async fn waitpoints_are_listed_over_executions_by_state_source_and_execution() {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let options = Options { reconcilers: false, ..Options::default() };
    let server = Server::start_with(options, clock.clone()).await;
    let mut all = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let point =
            json!([{ "name": name, "source": if name < "c" { "ann" } else { "bob" }, "expires_ms": 1000 }]);
        all.push(suspend_with(&server, point).await);
        clock.advance_ms(1);
    }
    let reply = server.post(&path(&all[0].1[0], "signal"), json!({ "token": all[0].1[0]["token"] })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    server.post(&path(&all[1].1[0], "revoke"), json!({})).await;
    clock.advance_ms(998);
    server.engine.tick("waitpoint_expiry").await.expect("the tick succeeds");
    let execution = format!("&execution={}", all[1].0);
    for (query, names) in [
        ("", &["d", "c", "b", "a"][..]),
        ("&state=open", &["d"]),
        ("&state=delivered", &["a"]),
        ("&state=revoked", &["b"]),
        ("&state=expired", &["c"]),
        ("&source=ann", &["b", "a"]),
        ("&source=bob&state=open", &["d"]),
        ("&source=nobody", &[]),
        (&execution, &["b"]),
        (&format!("{execution}&state=open"), &[]),
        (&format!("{execution}&state=revoked&source=ann"), &["b"]),
        ("&execution=00000000-0000-7000-8000-000000000000", &[]),
    ] {
        for limit in [1, 2, 50] {
            assert_eq!(listed(&server, query, limit).await, names, "{query} in pages of {limit}");
        }
    }
    let item = server.read("waitpoints?state=revoked").await["items"][0].clone();
    assert_eq!(
        (&item["execution"], &item["signals"], &item["prompt"]),
        (&json!(all[1].0), &json!(["b"]), &json!(null))
    );
    assert_eq!(item.get("token"), None);
    assert_eq!(server.read(&format!("waitpoints/{}", text_of(&item["id"]))).await, item);
    for (query, status, code, pointer) in [
        ("state=closed", 422, "invalid_field", "/query/state"),
        ("execution=7", 422, "invalid_field", "/query/execution"),
        ("lane=a", 422, "unknown_field", "/query/lane"),
        ("cursor=x", 400, "invalid_cursor", ""),
    ] {
        let problem = server.get(&format!("/v1/waitpoints?{query}")).await.problem();
        assert_eq!(problem, (status, code.into(), pointer.into()));
    }
    let unknown = server.get("/v1/waitpoints/00000000-0000-7000-8000-000000000000").await;
    assert_eq!(unknown.problem().0, 404);
}

#[tokio::test]
async fn whoever_has_the_token_sees_the_question_and_the_choices() {
    let server = Server::start().await;
    let asked = json!([{ "name": "pay", "signals": ["go", "no"], "prompt": "Pay 7 EUR?", "expires_ms": 60_000 }, "plain"]);
    let (id, waitpoints) = suspend_with(&server, asked).await;
    let look = async |token: &Value| {
        let headers = [("authorization", "Bearer nonsense")];
        let body = json!({ "token": token }).to_string();
        server.send("POST", &path(&waitpoints[0], "look"), &headers, body.into()).await
    };
    let token = &waitpoints[0]["token"];
    let seen = look(token).await;
    assert_eq!(seen.status, 200, "{}", seen.text());
    let seen = seen.json();
    assert_eq!((&seen["prompt"], &seen["signals"]), (&json!("Pay 7 EUR?"), &json!(["go", "no"])));
    assert_eq!((&seen["state"], seen["expires_at"].is_string()), (&json!("open"), true));
    for (invalid, status) in [(&waitpoints[1]["token"], 401), (&json!(""), 401), (&json!(null), 401)] {
        let refused = look(invalid).await;
        assert_eq!(refused.problem(), (status, "invalid_token".into(), "".into()));
        assert!(!refused.text().contains("EUR"), "{}", refused.text());
    }
    assert_eq!(server.execution(&id).await["state"], "suspended", "a look changes nothing");
    // The token sends one of its signals and no other.
    let send = async |body: Value| server.post(&path(&waitpoints[0], "signal"), body).await;
    for body in [
        json!({ "token": token }),
        json!({ "token": token, "name": "pay" }),
        json!({ "token": token, "name": "x" }),
    ] {
        assert_eq!(send(body).await.problem(), (422, "invalid_field".into(), "/name".into()));
    }
    let sent = send(json!({ "token": token, "name": "go" })).await.json();
    assert_eq!((&sent["effect"], &sent["duplicate"]), (&json!("resumed"), &json!(false)));
    assert_eq!(look(token).await.json()["state"], "delivered");
}

#[tokio::test]
async fn an_operator_answers_a_waitpoint_in_place_of_the_token_holder() {
    let server = Server::start().await;
    let asked = json!([{ "name": "pay", "source": "ann", "signals": ["go", "no"] }, "other"]);
    let (id, waitpoints) = suspend_with(&server, asked).await;
    let answer = async |body: Value| server.post(&path(&waitpoints[0], "answer"), body).await;
    for (body, code, pointer) in [
        (json!({}), "invalid_field", "/name"),
        (json!({ "name": "maybe" }), "invalid_field", "/name"),
        (json!({ "token": "t" }), "unknown_field", "/token"),
    ] {
        assert_eq!(answer(body).await.problem(), (422, code.into(), pointer.into()));
    }
    let first = answer(json!({ "name": "go", "payload": { "by": "phone" } })).await;
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!((&first.json()["effect"], &first.json()["duplicate"]), (&json!("resumed"), &json!(false)));
    let again = answer(json!({ "name": "no" })).await.json();
    assert_eq!((&again["effect"], &again["duplicate"]), (&json!("resumed"), &json!(true)));
    let late = json!({ "token": waitpoints[0]["token"], "name": "no" });
    assert_eq!(server.post(&path(&waitpoints[0], "signal"), late).await.json()["duplicate"], true);
    let signals = server.list_of(&id, "signals").await;
    assert_eq!(signals.len(), 1);
    assert_eq!((&signals[0]["name"], &signals[0]["source"]), (&json!("go"), &json!("ann")));
    assert_eq!(
        (&signals[0]["waitpoint"], &signals[0]["payload"]),
        (&json!("pay"), &json!({ "by": "phone" }))
    );
    let events = server.read("events?types=signal.delivered").await;
    assert_eq!(events["items"][0]["actor"], "admin", "the event names the operator");
    server.post(&path(&waitpoints[1], "revoke"), json!({})).await;
    let closed = server.post(&path(&waitpoints[1], "answer"), json!({})).await;
    assert_eq!(closed.problem(), (409, "wrong_state".into(), "".into()));
    let unknown = json!({ "id": "00000000-0000-7000-8000-000000000000" });
    assert_eq!(server.post(&path(&unknown, "answer"), json!({})).await.problem().0, 404);
}

#[tokio::test]
async fn a_token_that_is_issued_again_ends_the_old_one() {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let options = Options { reconcilers: false, ..Options::default() };
    let server = Server::start_with(options, clock.clone()).await;
    let (id, waitpoints) = suspend_with(&server, json!([{ "name": "go", "expires_ms": 1000 }])).await;
    let waitpoint = &waitpoints[0];
    let send = async |token: &Value| server.post(&path(waitpoint, "signal"), json!({ "token": token })).await;
    let reissue = async |body: Value| server.post(&path(waitpoint, "reissue"), body).await;
    let issued = reissue(json!({})).await;
    assert_eq!(issued.status, 200, "{}", issued.text());
    let second = issued.json()["token"].clone();
    assert_ne!(second, waitpoint["token"]);
    assert_eq!(issued.json()["waitpoint"]["expires_at"], "2023-11-14T22:13:21.000Z", "its expiry stays");
    assert_eq!(send(&waitpoint["token"]).await.problem().1, "invalid_token");
    clock.advance_ms(1000);
    assert_eq!(send(&second).await.problem().1, "token_expired");
    assert_eq!(reissue(json!({})).await.problem(), (422, "invalid_field".into(), "/expires_ms".into()));
    let third = reissue(json!({ "expires_ms": 5000 })).await.json();
    assert_eq!(
        (&third["waitpoint"]["state"], &third["waitpoint"]["expires_at"]),
        (&json!("open"), &json!("2023-11-14T22:13:26.000Z"))
    );
    assert_eq!(send(&second).await.problem().1, "invalid_token");
    assert_eq!(send(&third["token"]).await.json()["effect"], "resumed");
    assert_eq!(reissue(json!({})).await.problem(), (409, "wrong_state".into(), "".into()));
    let events = server.read("events?types=waitpoint.reissued").await;
    let events = events["items"].as_array().expect("items is an array");
    assert_eq!(
        (events.len(), &events[0]["actor"], &events[0]["execution"]),
        (2, &json!("admin"), &json!(id))
    );
}

#[tokio::test]
async fn the_keys_of_tokens_are_listed_with_their_expiry() {
    let server = Server::start().await;
    assert_eq!(server.read("admin/waitpoint-keys").await, json!({ "items": [], "next_cursor": null }));
    let (_, claim) = server.submit_and_claim().await;
    server.report("i", op_with("waitpoint", &claim, json!({ "name": "w" }))).await;
    let first = server.read("admin/waitpoint-keys").await["items"][0].clone();
    assert_eq!(first["expires_at"], json!(null));
    let rotated = server.post("/v1/admin/waitpoint-keys/rotate", json!({ "grace_ms": 60_000 })).await.json();
    let keys = server.read("admin/waitpoint-keys").await["items"].clone();
    assert_eq!((&keys[0]["key_id"], &keys[0]["expires_at"]), (&rotated["key_id"], &json!(null)));
    assert_eq!(keys[1]["key_id"], first["key_id"]);
    assert!(text_of(&keys[1]["expires_at"]) > text_of(&keys[0]["created_at"]), "{keys}");
}
