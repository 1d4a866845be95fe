//! Tokens: what one allows, that it allows nothing else, and that it shows up nowhere.

use crate::client::{Server, op_with, text_of};
use selvedge_core::Timestamp;
use selvedge_core::token::Secret;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::MakeWriter;

/// An execution that waits for `go` with these waitpoints, and they with their tokens.
async fn suspended(server: &Server, waitpoints: Value) -> (String, Vec<Value>) {
    let id = server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let more = json!({ "condition": { "signal": "go" }, "waitpoints": waitpoints });
    let made = server.suspend("i", &claim, more).await;
    (id, made["waitpoints"].as_array().expect("waitpoints").clone())
}

fn path(waitpoint: &Value) -> String {
    format!("/v1/waitpoints/{}/signal", text_of(&waitpoint["id"]))
}

fn invalid() -> (u16, String, String) {
    (401, "invalid_token".into(), "".into())
}

#[tokio::test]
async fn a_token_is_all_that_a_delivery_needs_and_a_repeat_gets_the_first_answer() {
    let server = Server::start().await;
    let (id, made) = suspended(&server, json!([{ "name": "go", "source": "ann" }])).await;
    let body = json!({ "token": made[0]["token"], "payload": { "yes": true } });
    // No key, and one that is none, are all the same here.
    let headers = [("authorization", "Bearer nonsense")];
    let first = server.send("POST", &path(&made[0]), &headers, body.to_string().into()).await;
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!((&first.json()["effect"], &first.json()["number"]), (&json!("resumed"), &json!(1)));
    for body in [
        body,
        json!({ "token": made[0]["token"] }),
        json!({ "token": made[0]["token"], "payload": "other", "name": "other", "idempotency_key": "k" }),
    ] {
        let again = server.post(&path(&made[0]), body).await;
        assert_eq!((again.status, again.text()), (200, first.text()));
    }
    let signals = server.listed(&id, "signals").await;
    assert_eq!(signals.len(), 1, "it allows one delivery");
    assert_eq!((&signals[0]["name"], &signals[0]["source"]), (&json!("go"), &json!("ann")));
    assert_eq!((&signals[0]["waitpoint"], &signals[0]["waitpoint_id"]), (&json!("go"), &made[0]["id"]));
    assert_eq!((&signals[0]["effect"], &signals[0]["taken_by"]), (&json!("resumed"), &json!(1)));
    let listed = server.listed(&id, "waitpoints").await;
    assert_eq!((&listed[0]["state"], &listed[0]["signal"]), (&json!("delivered"), &json!(1)));
    let claim = server.claim("i", 1).await.remove(0);
    let signal = json!({ "name": "go", "payload": { "yes": true }, "source": "ann", "waitpoint": "go" });
    assert_eq!(claim["signals"], json!([signal]));
    // Also after the execution has ended, and nothing else then.
    server.complete("i", &claim, json!(null)).await;
    let again = server.post(&path(&made[0]), json!({ "token": made[0]["token"] })).await;
    assert_eq!(again.text(), first.text());
}

#[tokio::test]
async fn what_is_not_the_token_of_the_waitpoint_is_refused() {
    let server = Server::start().await;
    let (id, made) = suspended(&server, json!(["go", "other"])).await;
    let token = text_of(&made[0]["token"]);
    let altered = token.replacen("v1.", "v2.", 1);
    let cut = &token[..token.len() - 1];
    for wrong in [
        json!(made[1]["token"]),
        json!(altered),
        json!(cut),
        json!(format!("{token} ")),
        json!(""),
        json!("x".repeat(100_000)),
        json!(null),
    ] {
        let reply = server.post(&path(&made[0]), json!({ "token": wrong })).await;
        assert_eq!(reply.problem(), invalid(), "{wrong}");
        assert_eq!(reply.header("www-authenticate"), "Bearer");
        assert!(!reply.text().contains(cut), "{}", reply.text());
    }
    assert_eq!(server.post(&path(&made[0]), json!({})).await.problem(), invalid());
    assert_eq!(server.execution(&id).await["state"], "suspended");
    assert_eq!(server.listed(&id, "signals").await, [Value::Null; 0]);
}

#[tokio::test]
async fn a_wrong_field_of_a_delivery_is_named() {
    let server = Server::start().await;
    let (_, made) = suspended(&server, json!(["go", "other"])).await;
    let token = &made[0]["token"];
    for (body, status, code, pointer) in [
        (json!({ "token": 7 }), 422, "invalid_field", "/token"),
        (json!({ "token": token, "name": "" }), 422, "invalid_field", "/name"),
        (json!({ "token": token, "name": "other" }), 422, "invalid_field", "/name"),
        (
            json!({ "token": token, "idempotency_key": "x".repeat(513) }),
            422,
            "invalid_field",
            "/idempotency_key",
        ),
        (json!({ "token": token, "source": "me" }), 422, "unknown_field", "/source"),
        (json!({ "token": token, "payload": "x".repeat(256 * 1024) }), 413, "payload_too_large", "/payload"),
    ] {
        let reply = server.post(&path(&made[0]), body.clone()).await;
        assert_eq!(reply.problem(), (status, code.into(), pointer.into()), "{pointer}");
        assert!(!reply.text().contains(&text_of(token)), "{}", reply.text());
    }
    // A key that a signal of other content had is refused where the key stands.
    let (_, more) = suspended(&server, json!(["go"])).await;
    let execution =
        server.get("/v1/executions?state=suspended&limit=1").await.json()["items"][0]["id"].clone();
    server.signal(&text_of(&execution), json!({ "name": "x", "idempotency_key": "k" })).await;
    let body = json!({ "token": more[0]["token"] }).to_string();
    let reply = server.send("POST", &path(&more[0]), &[("idempotency-key", "k")], body.into()).await;
    assert_eq!(reply.problem(), (409, "idempotency_mismatch".into(), "/headers/idempotency-key".into()));
}

#[tokio::test]
async fn approval_by_two_of_three_people_is_three_waitpoints() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let people = ["ann", "bob", "cid"];
    let condition = json!({ "count": { "n": 2, "of": people, "distinct": "waitpoints" } });
    let more = json!({ "condition": condition, "waitpoints": people });
    let made = server.suspend("i", &claim, more).await["waitpoints"].clone();
    let approve = async |place: usize| {
        let body = json!({ "token": made[place]["token"], "payload": place });
        server.post(&path(&made[place]), body).await.json()["effect"].clone()
    };
    assert_eq!(approve(2).await, "counted");
    assert_eq!(approve(2).await, "counted", "the first answer again, and no second voice");
    assert_eq!(server.execution(&id).await["state"], "suspended");
    assert_eq!(approve(0).await, "resumed");
    assert_eq!(approve(1).await, "buffered");
    let claim = server.claim("i", 1).await.remove(0);
    let voices: Vec<_> = claim["signals"]
        .as_array()
        .expect("signals")
        .iter()
        .map(|one| (&one["source"], &one["payload"]))
        .collect();
    assert_eq!(voices, [(&json!("cid"), &json!(2)), (&json!("ann"), &json!(0))]);
}

#[tokio::test]
async fn keys_are_rotated_and_old_tokens_are_accepted_for_a_while() {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let options = Options { reconcilers: false, ..Options::default() };
    let server = Server::start_with(options, clock.clone()).await;
    let (_, old) = suspended(&server, json!(["a", "b"])).await;
    let rotate = "/v1/admin/waitpoint-keys/rotate";
    for (body, code, pointer) in [
        (json!({}), "invalid_field", "/grace_ms"),
        (json!({ "grace_ms": -1 }), "invalid_field", "/grace_ms"),
        (json!({ "grace_ms": "1h" }), "invalid_field", "/grace_ms"),
        (json!({ "grace_ms": 1, "keys": 2 }), "unknown_field", "/keys"),
    ] {
        assert_eq!(server.post(rotate, body).await.problem(), (422, code.into(), pointer.into()));
    }
    let rotated = server.post(rotate, json!({ "grace_ms": 1000 })).await;
    assert_eq!((rotated.status, &rotated.json()["grace_ms"]), (200, &json!(1000)), "{}", rotated.text());
    let key = text_of(&rotated.json()["key_id"]);
    let (_, new) = suspended(&server, json!(["go"])).await;
    assert!(text_of(&new[0]["token"]).contains(&key), "what is made after that is signed with the new key");
    let events = server.get("/v1/events?types=operator.token_keys_rotated").await.json();
    let data = json!({ "key": key, "grace_ms": 1000 });
    assert_eq!((&events["items"][0]["actor"], &events["items"][0]["data"]), (&json!("admin"), &data));

    let deliver = async |made: &Value| server.post(&path(made), json!({ "token": made["token"] })).await;
    assert_eq!(deliver(&old[0]).await.status, 200);
    clock.advance_ms(1000);
    assert_eq!(deliver(&old[1]).await.problem(), invalid());
    assert_eq!(deliver(&new[0]).await.json()["effect"], "resumed");
}

#[tokio::test]
async fn a_token_of_another_secret_is_refused() {
    let options = |byte: u8| Options {
        reconcilers: false,
        secret: Some(Secret::new(vec![byte; 32]).expect("is long enough")),
        ..Options::default()
    };
    let server = Server::start_with(options(1), Clock::system()).await;
    let (_, made) = suspended(&server, json!(["go"])).await;
    let other = Server::start_with(options(2), Clock::system()).await;
    let (_, others) = suspended(&other, json!(["go"])).await;
    let body = json!({ "token": others[0]["token"] });
    assert_eq!(server.post(&path(&made[0]), body.clone()).await.problem(), invalid());
    assert_eq!(other.post(&path(&made[0]), body).await.problem().0, 404);
}

/// What is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no panic")).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

#[tokio::test]
async fn a_token_shows_up_in_no_list_no_event_no_page_and_no_log() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone());
    // The server and the engine run on this thread.
    let _logged = tracing::subscriber::set_default(subscriber.finish());
    let mut server = Server::start().await;
    let mut feed = server.live("/v1/events", &[]).await;
    let (id, mut made) = suspended(&server, json!(["go", "revoked"])).await;
    server.post(&path(&made[0]), json!({ "token": made[1]["token"] })).await;
    server.post(&path(&made[0]), json!({ "token": made[0]["token"], "payload": 1 })).await;
    server.post(&path(&made[0]), json!({ "token": made[0]["token"], "payload": 1 })).await;
    server.post(&format!("/v1/waitpoints/{}/revoke", text_of(&made[1]["id"])), json!({})).await;
    server.post(&path(&made[1]), json!({ "token": made[1]["token"] })).await;
    let reply =
        server.post("/v1/workers/i/claim", json!({ "worker": "w", "lanes": ["default"], "max": 1 })).await;
    let claim = reply.json()["claims"][0].clone();
    let kept = server.report("i", op_with("waitpoint", &claim, json!({ "name": "kept" }))).await;
    made.push(kept["waitpoints"][0].clone());

    let mut shown = vec![("claim".to_owned(), reply.text())];
    for list in [
        "",
        "/signals",
        "/steps",
        "/waitpoints",
        "/attempts",
        "/events",
        "/explain",
        "/result",
        "/stream",
        "/summary",
    ] {
        let path = format!("/v1/executions/{id}{list}");
        shown.push((path.clone(), server.get(&path).await.text()));
    }
    for path in ["/", "/v1/executions", "/v1/events?limit=500", "/v1/flows", "/v1/workers", "/metrics"] {
        shown.push((path.to_owned(), server.get(path).await.text()));
    }
    let told = feed.messages(12).await;
    shown.extend(told.into_iter().map(|message| ("the feed".to_owned(), message.data)));
    server.stop().await;
    server.engine.shutdown().await;
    // So that something is logged in any case.
    tracing::info!("that was all");
    let logged = log.text();
    assert!(logged.contains("that was all"));
    shown.push(("the log".to_owned(), logged));
    for waitpoint in &made {
        let token = text_of(&waitpoint["token"]);
        let code = token.rsplit('.').next().expect("its code");
        for (place, text) in &shown {
            assert!(!text.contains(&token) && !text.contains(code), "{place} shows a token: {text}");
        }
    }
}
