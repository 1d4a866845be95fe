//! Tokens of waitpoints: what they authorise, key rotation, and that they are never shown.

use crate::support::{Server, op_with, text_of};
use selvedge_core::Timestamp;
use selvedge_core::token::Secret;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard};
use tracing_subscriber::fmt::MakeWriter;

/// Suspends an execution until the signal `go`, with these waitpoints. Returns its id and the waitpoints with their
/// tokens.
async fn suspend_with(server: &Server, waitpoints: Value) -> (String, Vec<Value>) {
    let (id, claim) = server.submit_and_claim().await;
    let fields = json!({ "condition": { "signal": "go" }, "waitpoints": waitpoints });
    let suspended = server.suspend("i", &claim, fields).await;
    (id, suspended["waitpoints"].as_array().expect("waitpoints is an array").clone())
}

fn signal_path(waitpoint: &Value) -> String {
    format!("/v1/waitpoints/{}/signal", text_of(&waitpoint["id"]))
}

fn invalid_token() -> (u16, String, String) {
    (401, "invalid_token".into(), "".into())
}

#[tokio::test]
async fn a_token_alone_authorises_one_delivery_and_a_repeat_gets_the_first_response() {
    let server = Server::start().await;
    let (id, waitpoints) = suspend_with(&server, json!([{ "name": "go", "source": "ann" }])).await;
    let body = json!({ "token": waitpoints[0]["token"], "payload": { "yes": true } });
    // The authorization header is ignored.
    let headers = [("authorization", "Bearer nonsense")];
    let first = server.send("POST", &signal_path(&waitpoints[0]), &headers, body.to_string().into()).await;
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!((&first.json()["effect"], &first.json()["number"]), (&json!("resumed"), &json!(1)));
    assert_eq!(first.json()["duplicate"], false);
    let mut repeated = first.json();
    repeated["duplicate"] = json!(true);
    for body in [
        body,
        json!({ "token": waitpoints[0]["token"] }),
        json!({ "token": waitpoints[0]["token"], "payload": "other", "name": "other", "idempotency_key": "k" }),
    ] {
        let again = server.post(&signal_path(&waitpoints[0]), body).await;
        assert_eq!((again.status, again.json()), (200, repeated.clone()));
    }
    let signals = server.list_of(&id, "signals").await;
    assert_eq!(signals.len(), 1, "a token authorises one delivery");
    assert_eq!((&signals[0]["name"], &signals[0]["source"]), (&json!("go"), &json!("ann")));
    assert_eq!((&signals[0]["waitpoint"], &signals[0]["waitpoint_id"]), (&json!("go"), &waitpoints[0]["id"]));
    assert_eq!((&signals[0]["effect"], &signals[0]["taken_by"]), (&json!("resumed"), &json!(1)));
    let listed = server.list_of(&id, "waitpoints").await;
    assert_eq!((&listed[0]["state"], &listed[0]["signal"]), (&json!("delivered"), &json!(1)));
    let claim = server.claim("i", 1).await.remove(0);
    let signal = json!({ "name": "go", "payload": { "yes": true }, "source": "ann", "waitpoint": "go" });
    assert_eq!(claim["signals"], json!([signal]));
    // A repeat gets the first response even after the execution has ended.
    server.complete("i", &claim, json!(null)).await;
    let again = server.post(&signal_path(&waitpoints[0]), json!({ "token": waitpoints[0]["token"] })).await;
    assert_eq!(again.json(), repeated);
}

#[tokio::test]
async fn anything_but_the_token_of_the_waitpoint_is_refused() {
    let server = Server::start().await;
    let (id, waitpoints) = suspend_with(&server, json!(["go", "other"])).await;
    let token = text_of(&waitpoints[0]["token"]);
    let altered = token.replacen("v1.", "v2.", 1);
    let truncated = &token[..token.len() - 1];
    for invalid in [
        json!(waitpoints[1]["token"]),
        json!(altered),
        json!(truncated),
        json!(format!("{token} ")),
        json!(""),
        json!("x".repeat(100_000)),
        json!(null),
    ] {
        let reply = server.post(&signal_path(&waitpoints[0]), json!({ "token": invalid })).await;
        assert_eq!(reply.problem(), invalid_token(), "{invalid}");
        assert_eq!(reply.header("www-authenticate"), "Bearer");
        assert!(!reply.text().contains(truncated), "{}", reply.text());
    }
    assert_eq!(server.post(&signal_path(&waitpoints[0]), json!({})).await.problem(), invalid_token());
    assert_eq!(server.execution(&id).await["state"], "suspended");
    assert_eq!(server.list_of(&id, "signals").await, [Value::Null; 0]);
}

#[tokio::test]
async fn an_invalid_field_of_a_delivery_is_named() {
    let server = Server::start().await;
    let (_, waitpoints) = suspend_with(&server, json!(["go", "other"])).await;
    let token = &waitpoints[0]["token"];
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
        let reply = server.post(&signal_path(&waitpoints[0]), body.clone()).await;
        assert_eq!(reply.problem(), (status, code.into(), pointer.into()), "{pointer}");
        assert!(!reply.text().contains(&text_of(token)), "{}", reply.text());
    }
    // A key that another signal has used is refused with a pointer to the header.
    let (_, reused_key) = suspend_with(&server, json!(["go"])).await;
    let execution =
        server.get("/v1/executions?state=suspended&limit=1").await.json()["items"][0]["id"].clone();
    server.signal(&text_of(&execution), json!({ "name": "x", "idempotency_key": "k" })).await;
    let body = json!({ "token": reused_key[0]["token"] }).to_string();
    let reply =
        server.send("POST", &signal_path(&reused_key[0]), &[("idempotency-key", "k")], body.into()).await;
    assert_eq!(reply.problem(), (409, "idempotency_mismatch".into(), "/headers/idempotency-key".into()));
}

#[tokio::test]
async fn two_of_three_people_approve_through_waitpoints() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let people = ["ann", "bob", "cid"];
    let condition = json!({ "count": { "n": 2, "of": people, "distinct": "waitpoints" } });
    let fields = json!({ "condition": condition, "waitpoints": people });
    let waitpoints = server.suspend("i", &claim, fields).await["waitpoints"].clone();
    let approve = async |person: usize| {
        let body = json!({ "token": waitpoints[person]["token"], "payload": person });
        server.post(&signal_path(&waitpoints[person]), body).await.json()["effect"].clone()
    };
    assert_eq!(approve(2).await, "counted");
    assert_eq!(approve(2).await, "counted", "a repeat gets the first response and is not counted");
    assert_eq!(server.execution(&id).await["state"], "suspended");
    assert_eq!(approve(0).await, "resumed");
    let late = server.post(&signal_path(&waitpoints[1]), json!({ "token": waitpoints[1]["token"] })).await;
    assert_eq!(late.problem(), (401, "token_expired".into(), "".into()), "the vote is over");
    let claim = server.claim("i", 1).await.remove(0);
    let approvals: Vec<_> = claim["signals"]
        .as_array()
        .expect("signals is an array")
        .iter()
        .map(|signal| (&signal["source"], &signal["payload"]))
        .collect();
    assert_eq!(approvals, [(&json!("cid"), &json!(2)), (&json!("ann"), &json!(0))]);
}

#[tokio::test]
async fn tokens_of_a_rotated_key_are_accepted_during_the_grace_period() {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let options = Options { reconcilers: false, ..Options::default() };
    let server = Server::start_with(options, clock.clone()).await;
    let (_, old) = suspend_with(&server, json!(["a", "b"])).await;
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
    let (_, new) = suspend_with(&server, json!(["go"])).await;
    assert!(text_of(&new[0]["token"]).contains(&key), "new tokens are signed with the new key");
    let events = server.get("/v1/events?types=operator.token_keys_rotated").await.json();
    let data = json!({ "key": key, "grace_ms": 1000 });
    assert_eq!((&events["items"][0]["actor"], &events["items"][0]["data"]), (&json!("admin"), &data));

    let deliver = async |waitpoint: &Value| {
        server.post(&signal_path(waitpoint), json!({ "token": waitpoint["token"] })).await
    };
    assert_eq!(deliver(&old[0]).await.status, 200);
    clock.advance_ms(1000);
    assert_eq!(deliver(&old[1]).await.problem(), invalid_token());
    assert_eq!(deliver(&new[0]).await.json()["effect"], "resumed");
}

#[tokio::test]
async fn a_token_of_another_secret_is_refused() {
    let options = |byte: u8| Options {
        reconcilers: false,
        secret: Some(Secret::new(vec![byte; 32]).expect("the secret is long enough")),
        ..Options::default()
    };
    let server = Server::start_with(options(1), Clock::system()).await;
    let (_, waitpoints) = suspend_with(&server, json!(["go"])).await;
    let other = Server::start_with(options(2), Clock::system()).await;
    let (_, others) = suspend_with(&other, json!(["go"])).await;
    let body = json!({ "token": others[0]["token"] });
    assert_eq!(server.post(&signal_path(&waitpoints[0]), body.clone()).await.problem(), invalid_token());
    assert_eq!(other.post(&signal_path(&waitpoints[0]), body).await.problem().0, 404);
}

/// Captures the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().expect("no writer of the log panics")
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.lock()).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.lock().extend_from_slice(text);
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
async fn a_token_is_in_no_list_event_page_or_log() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone());
    // The server and the engine run on this thread.
    let _capturing = tracing::subscriber::set_default(subscriber.finish());
    let mut server = Server::start().await;
    let mut feed = server.open_stream("/v1/events", &[]).await;
    let (id, mut waitpoints) = suspend_with(&server, json!(["go", "revoked"])).await;
    server.post(&signal_path(&waitpoints[0]), json!({ "token": waitpoints[1]["token"] })).await;
    server.post(&signal_path(&waitpoints[0]), json!({ "token": waitpoints[0]["token"], "payload": 1 })).await;
    server.post(&signal_path(&waitpoints[0]), json!({ "token": waitpoints[0]["token"], "payload": 1 })).await;
    server.post(&format!("/v1/waitpoints/{}/revoke", text_of(&waitpoints[1]["id"])), json!({})).await;
    server.post(&signal_path(&waitpoints[1]), json!({ "token": waitpoints[1]["token"] })).await;
    let reply =
        server.post("/v1/workers/i/claim", json!({ "worker": "w", "lanes": ["default"], "max": 1 })).await;
    let claim = reply.json()["claims"][0].clone();
    let kept = server.report("i", op_with("waitpoint", &claim, json!({ "name": "kept" }))).await;
    waitpoints.push(kept["waitpoints"][0].clone());

    let mut texts = vec![("claim".to_owned(), reply.text())];
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
        texts.push((path.clone(), server.get(&path).await.text()));
    }
    for path in ["/", "/v1/executions", "/v1/events?limit=500", "/v1/flows", "/v1/workers", "/metrics"] {
        texts.push((path.to_owned(), server.get(path).await.text()));
    }
    let messages = feed.messages(12).await;
    texts.extend(messages.into_iter().map(|message| ("the feed".to_owned(), message.data)));
    server.stop().await;
    server.engine.shutdown().await;
    // Proves that the log is captured.
    tracing::info!("end of the test");
    let logged = log.text();
    assert!(logged.contains("end of the test"));
    texts.push(("the log".to_owned(), logged));
    for waitpoint in &waitpoints {
        let token = text_of(&waitpoint["token"]);
        let signature = token.rsplit('.').next().expect("a token has a signature");
        for (source, text) in &texts {
            assert!(!text.contains(&token) && !text.contains(signature), "{source} shows a token: {text}");
        }
    }
}

#[tokio::test]
async fn an_address_with_many_wrong_tokens_has_to_wait_but_valid_tokens_from_it_work() {
    let server = Server::start().await;
    let (_, waitpoints) = suspend_with(&server, json!(["go", "other"])).await;
    let id = text_of(&waitpoints[0]["id"]);
    let token = text_of(&waitpoints[0]["token"]);
    let (fields, mac) = token.rsplit_once('.').expect("a token has fields");
    // Well-formed and wrong, for another waitpoint, not even a token, and for a waitpoint that does not exist.
    let wrong = format!("{fields}.{}", mac.chars().rev().collect::<String>().replace(['g', 'w', '0'], "A"));
    let nowhere = "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
    let unknown = format!("v1.{:016x}.{}.0.YQ.{}", 1, nowhere.replace('-', ""), "A".repeat(43));
    let attempts = [
        (&*id, "signal", wrong.clone()),
        (&id, "look", text_of(&waitpoints[1]["token"])),
        (&id, "look", "nonsense".to_owned()),
        (nowhere, "signal", unknown),
    ];
    let (mut refused, mut limited) = (0, 0);
    for number in 0..40 {
        let (waitpoint, call, token) = &attempts[number % attempts.len()];
        let path = format!("/v1/waitpoints/{waitpoint}/{call}");
        let reply = server.post(&path, json!({ "token": token })).await;
        match reply.status {
            401 | 404 => refused += 1,
            429 => {
                limited += 1;
                assert_eq!(reply.problem(), (429, "rate_limited".into(), "".into()));
                assert!(reply.json()["retry_after_ms"].as_u64() >= Some(1000), "{}", reply.text());
            }
            other => panic!("{other}: {}", reply.text()),
        }
    }
    assert!(refused >= 10 && limited >= 20, "{refused} and {limited}");
    // The page of the approver counts as well.
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let page = format!("/approve/{id}");
    let reply = server.send_raw("POST", &page, &form, format!("token={wrong}").into()).await;
    assert_eq!(reply.status, 429, "{}", reply.text());
    // People at the same address who have the right token notice nothing.
    let reply = server.send_raw("POST", &page, &form, format!("token={token}").into()).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let looked = server.post(&format!("/v1/waitpoints/{id}/look"), json!({ "token": token })).await;
    assert_eq!(looked.status, 200, "{}", looked.text());
    let answered = server.post(&signal_path(&waitpoints[0]), json!({ "token": token })).await;
    assert_eq!(answered.status, 200, "{}", answered.text());
}

#[tokio::test]
async fn text_that_is_no_token_is_refused_without_the_store() {
    let server = Server::start().await;
    // The store does not know the waitpoint, and is not asked.
    let path = "/v1/waitpoints/0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
    for call in ["look", "signal"] {
        let reply = server.post(&format!("{path}/{call}"), json!({ "token": "t" })).await;
        assert_eq!(reply.problem(), invalid_token(), "{call}");
    }
}
