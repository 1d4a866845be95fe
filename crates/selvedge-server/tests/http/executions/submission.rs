//! Submission of executions: the response, payloads and duplicates.

use crate::support::{Server, op, text_of};
use selvedge_engine::core::Retry;
use selvedge_engine::{Options, ServerDefaults};
use selvedge_memory::Clock;
use serde_json::{Value, json};
use std::sync::Arc;

#[tokio::test]
async fn a_submission_returns_the_execution() {
    let server = Server::start().await;
    let id = "0e3e9a52-6a0a-4d5d-9e0b-4d1f0a3c2b1a";
    let reply = server
        .post(
            "/v1/executions",
            json!({
                "kind": "resize", "lane": "images", "id": id, "priority": 5, "input": { "a": [1, 2] },
                "capabilities": ["gpu", "eu"], "tags": { "team": "x" }, "delay_ms": 60_000, "deadline_ms": 100_000,
                "idempotency_key": "key", "retry": { "max_retries": 1, "backoff": { "type": "fixed", "delay_ms": 7 } },
            }),
        )
        .await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert_eq!(reply.header("content-type"), "application/json");
    let response = reply.json();
    assert_eq!(response["duplicate"], false);
    let execution = &response["execution"];
    for (field, value) in [
        ("id", json!(id)),
        ("namespace", json!("default")),
        ("lane", json!("images")),
        ("kind", json!("resize")),
        ("capabilities", json!(["eu", "gpu"])),
        ("state", json!("delayed")),
        ("outcome", json!(null)),
        ("held_reason", json!(null)),
        ("flow_id", json!(id)),
        ("node", json!(null)),
        ("priority", json!(5)),
        ("attempts", json!(0)),
        ("generation", json!(0)),
        ("tags", json!({ "team": "x" })),
        ("error", json!(null)),
        ("version", json!(1)),
        ("ready_at", json!(null)),
        ("started_at", json!(null)),
        ("ended_at", json!(null)),
        ("lease", json!(null)),
        ("cancel_requested", json!(false)),
        ("idempotency_key", json!("key")),
    ] {
        assert_eq!(execution[field], value, "{field}");
    }
    assert_eq!(execution["retry"]["max_retries"], 1);
    assert_eq!(execution["retry"]["backoff"], json!({ "type": "fixed", "delay_ms": 7 }));
    for field in ["submitted_at", "delayed_until_at", "deadline_at"] {
        let time = text_of(&execution[field]);
        assert!(time.len() == 24 && time.ends_with('Z') && &time[19..20] == ".", "{field}: {time}");
    }
    let mut whole = server.execution(id).await;
    let fields = whole.as_object_mut().expect("an execution is an object");
    let only_in_whole = ["input", "result", "progress"].map(|field| fields.remove(field));
    assert_eq!(only_in_whole, [Some(json!({ "a": [1, 2] })), Some(json!(null)), Some(json!(null))]);
    assert_eq!(whole, *execution);
}

#[tokio::test]
async fn payloads_are_kept_byte_for_byte() {
    let server = Server::start().await;
    let payload = r#"{"z": 1.0e+2, "a":  [ 1,2 ], "a": "\u0000\/\ud800", "n": 123456789012345678901234567890, "é":"é"}"#;
    let reply =
        server.post_text("/v1/executions", &format!(r#"{{"kind": "k", "input":  {payload}  }}"#)).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let input = format!(r#""input":{payload},"#);
    let id = reply.text()[r#"{"execution":{"id":""#.len()..][..36].to_owned();

    let body = r#"{"worker": "w", "lanes": ["default"], "max": 1}"#;
    let claimed = server.post_text("/v1/workers/i/claim", body).await.text();
    assert!(claimed.contains(&input), "{claimed}");
    // serde_json cannot parse this input, so the fence is extracted from the text.
    let after = |text: &str, mark: &str| text[text.find(mark).expect(mark) + mark.len()..][..36].to_owned();
    let lease = after(&claimed, r#""lease":{"id":""#);
    let op = format!(
        r#"{{"op": "complete", "execution": "{id}", "attempt": 0, "lease_id": "{lease}", "epoch": 1, "result": {payload}}}"#
    );
    let reported = server.post_text("/v1/workers/i/report", &format!(r#"{{"ops": [{op}]}}"#)).await;
    assert!(reported.text().contains(r#""state":"completed""#), "{}", reported.text());
    let result = server.get(&format!("/v1/executions/{id}/result")).await.text();
    assert_eq!(result, format!(r#"{{"outcome":"completed","result":{payload},"error":null}}"#));
    let listed = server.get("/v1/executions?include=input,result").await.text();
    assert!(listed.contains(&input) && listed.contains(&format!(r#""result":{payload},"#)));
}

#[tokio::test]
async fn a_nul_in_a_payload_is_kept() {
    let server = Server::start().await;
    let reply = server.post_text("/v1/executions", r#"{"kind": "k", "input": "a\u0000b"}"#).await;
    let id = text_of(&reply.json()["execution"]["id"]);
    assert_eq!(server.execution(&id).await["input"], "a\0b");
}

#[tokio::test]
async fn null_fields_count_as_absent() {
    let server = Server::start().await;
    let names = [
        "input",
        "lane",
        "id",
        "idempotency_key",
        "priority",
        "capabilities",
        "tags",
        "delay_ms",
        "delay_until_at",
        "retry",
        "deadline_ms",
        "retention_ms",
        "budgets",
        "quotas",
    ];
    let mut body = json!({ "kind": "k" });
    for name in names {
        body[name] = Value::Null;
    }
    let reply = server.post("/v1/executions", body).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let execution = server.execution(&text_of(&reply.json()["execution"]["id"])).await;
    assert_eq!((&execution["lane"], &execution["input"]), (&json!("default"), &json!(null)));
    assert_eq!(execution["retention_ms"], 7 * 24 * 3600 * 1000);
}

#[tokio::test]
async fn a_repeated_submission_is_a_duplicate_and_returns_the_current_execution() {
    let server = Server::start().await;
    let body = json!({ "kind": "k", "id": "0e3e9a52-6a0a-4d5d-9e0b-4d1f0a3c2b1a", "input": { "n": 1 } });
    let id = server.submit(body.clone()).await;
    let claim = server.claim("i", 1).await.remove(0);
    let mut complete = op("complete", &claim);
    complete["result"] = json!("done");
    server.report("i", complete).await;
    let reply = server.post("/v1/executions", body.clone()).await;
    assert_eq!(reply.status, 200);
    let response = reply.json();
    assert_eq!(response["duplicate"], true);
    assert_eq!(
        (&response["execution"]["id"], &response["execution"]["state"]),
        (&json!(id), &json!("completed"))
    );
    let left_out = ["input", "result", "progress"].map(|field| response["execution"].get(field));
    assert_eq!(left_out, [None; 3], "payloads are read with GET");

    let mut other = body.clone();
    other["input"] = json!(2);
    let reply = server.post("/v1/executions", other).await;
    assert_eq!(reply.problem(), (409, "idempotency_mismatch".into(), "/id".into()));

    let batch = json!({ "executions": [body, { "kind": "k" }] });
    let results = server.post("/v1/executions/batch", batch).await.json()["results"].clone();
    assert_eq!((&results[0]["duplicate"], &results[1]["duplicate"]), (&json!(true), &json!(false)));
    assert_eq!(results[0]["execution"]["state"], "completed");
}

#[tokio::test]
async fn a_debounced_submission_answers_with_the_execution_that_waits() {
    let server = Server::start().await;
    let submit = async |input: u32| {
        let debounce = json!({ "key": "k", "delay_ms": 3_600_000, "max_ms": 7_200_000 });
        server.post("/v1/executions", json!({ "kind": "k", "input": input, "debounce": debounce })).await
    };
    let (first, second) = (submit(1).await, submit(2).await);
    assert_eq!((first.status, second.status), (201, 200));
    let (first, second) = (first.json(), second.json());
    assert_eq!(first.get("debounced"), None);
    assert_eq!((&second["duplicate"], &second["debounced"]), (&json!(true), &json!(true)));
    assert_eq!(second["execution"]["id"], first["execution"]["id"]);
    let id = text_of(&first["execution"]["id"]);
    let execution = server.execution(&id).await;
    assert_eq!((&execution["input"], &execution["state"]), (&json!(2), &json!("delayed")));
    assert_eq!(execution["debounce"], json!({ "key": "k", "delay_ms": 3_600_000, "max_ms": 7_200_000 }));
    let explained = server.read(&format!("executions/{id}/explain")).await;
    assert_eq!(explained["reasons"][0]["code"], "debounced", "{explained}");
    let batch =
        json!({ "executions": [{ "kind": "k", "input": 3, "debounce": { "key": "k", "delay_ms": 1 } }] });
    let batch = server.post("/v1/executions/batch", batch).await.json();
    assert_eq!(batch["results"][0]["debounced"], true, "{batch}");
    let events = server.read("events?types=execution.debounced").await;
    assert_eq!(events["items"].as_array().map(Vec::len), Some(2), "{events}");
}

#[tokio::test]
async fn an_invalid_debounce_is_refused_with_its_pointer() {
    let server = Server::start().await;
    let wrong = [
        (json!({ "debounce": { "delay_ms": 1 } }), "/debounce/key"),
        (json!({ "debounce": { "key": "k" } }), "/debounce/delay_ms"),
        (json!({ "debounce": { "key": "", "delay_ms": 1 } }), "/debounce/key"),
        (json!({ "debounce": { "key": "k", "delay_ms": 0 } }), "/debounce/delay_ms"),
        (json!({ "debounce": { "key": "k", "delay_ms": 5, "max_ms": 4 } }), "/debounce/max_ms"),
        (json!({ "debounce": { "key": "k", "delay_ms": 1 }, "delay_ms": 1 }), "/debounce"),
        (json!({ "debounce": { "key": "k", "delay_ms": 1 }, "unique_while_active": "u" }), "/debounce"),
    ];
    for (mut body, pointer) in wrong {
        body["kind"] = json!("k");
        let reply = server.post("/v1/executions", body).await;
        assert_eq!((reply.status, &reply.json()["pointer"]), (422, &json!(pointer)), "{}", reply.text());
    }
}

#[tokio::test]
async fn values_that_a_caller_and_its_namespace_leave_out_are_those_of_the_server() {
    let defaults = ServerDefaults {
        retention_ms: 1000,
        retry: Some(Arc::new(Retry { max_retries: 7, ..Retry::default() })),
        idempotency_window_ms: Some(2000),
        suspension_timeout_ms: Some(3000),
        lease_ttl_ms: 4000,
    };
    let options = Options { reconcilers: false, defaults, ..Options::default() };
    let server = Server::start_with(options, Clock::system()).await;
    let values = async |body: Value| {
        let id = server.submit(body).await;
        let one = server.execution(&id).await;
        (
            one["retention_ms"].clone(),
            one["retry"]["max_retries"].clone(),
            one["idempotency_window_ms"].clone(),
        )
    };
    let plain = json!({ "kind": "k", "idempotency_key": "a" });
    assert_eq!(values(plain.clone()).await, (json!(1000), json!(7), json!(2000)));
    assert_eq!(server.post("/v1/executions", plain).await.status, 200, "a repeat is the same");
    let given = json!({
        "kind": "k", "retention_ms": 5, "retry": { "max_interruptions": 1 }, "idempotency_key": "b",
        "idempotency_window_ms": 6,
    });
    assert_eq!(values(given).await, (json!(5), json!(3), json!(6)), "a retry of its own takes nothing");
    let flow = json!({
        "nodes": [{ "name": "a", "kind": "k" }, { "name": "b", "kind": "k" }],
        "defaults": { "retry": { "max_retries": 2 } },
    });
    server.submit_flow(flow).await;
    let retries = server.read("executions?limit=4").await["items"].as_array().cloned().unwrap_or_default();
    let retries: Vec<u64> = retries
        .iter()
        .filter_map(|one| one["retry"]["max_retries"].as_u64())
        .filter(|count| *count == 2)
        .collect();
    assert_eq!(retries.len(), 2);
    assert_eq!(server.put("/v1/admin/namespaces/default", json!({ "retention_ms": 50 })).await.status, 200);
    assert_eq!(values(json!({ "kind": "k" })).await.0, 50, "the namespace comes before the server");

    let claim = server.claim("i", 1).await.remove(0);
    assert_eq!(claim["lease"]["ttl_ms"], 4000);
    server.suspend("i", &claim, json!({ "condition": { "signal": "go" } })).await;
    let suspended = server.execution(&text_of(&claim["execution"]["id"])).await;
    assert!(suspended["suspension"]["waits"][0]["timeout_at"].is_string(), "{suspended}");
}
