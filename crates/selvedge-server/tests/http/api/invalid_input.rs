//! Invalid input is refused with the field named, and changes nothing.

use crate::support::{Server, check_problem, fence, op_with};
use serde_json::{Value, json};

/// Submits `body`. Returns the problem, whose detail must name the field.
async fn submit_invalid(server: &Server, body: Value) -> (u16, String, String) {
    let reply = server.post("/v1/executions", body).await;
    let problem = reply.problem();
    let detail = reply.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert!(detail.contains(&problem.2), "{detail} does not name {}", problem.2);
    problem
}

fn invalid_field(pointer: &str) -> (u16, String, String) {
    (422, "invalid_field".into(), pointer.into())
}

#[tokio::test]
async fn an_invalid_field_of_a_submission_is_named() {
    let server = Server::start().await;
    let long = "x".repeat(201);
    for (body, pointer) in [
        (json!({}), "/kind"),
        (json!({ "kind": null }), "/kind"),
        (json!({ "kind": "" }), "/kind"),
        (json!({ "kind": 5 }), "/kind"),
        (json!({ "kind": "a\u{0}b" }), "/kind"),
        (json!({ "kind": long }), "/kind"),
        (json!({ "kind": "k", "lane": "" }), "/lane"),
        (json!({ "kind": "k", "lane": long }), "/lane"),
        (json!({ "kind": "k", "id": "7" }), "/id"),
        (json!({ "kind": "k", "idempotency_key": "\u{0}" }), "/idempotency_key"),
        (json!({ "kind": "k", "idempotency_key": "x".repeat(513) }), "/idempotency_key"),
        (json!({ "kind": "k", "unique_while_active": "a\u{0}" }), "/unique_while_active"),
        (json!({ "kind": "k", "priority": 40000 }), "/priority"),
        (json!({ "kind": "k", "priority": 1.5 }), "/priority"),
        (json!({ "kind": "k", "delay_ms": -1 }), "/delay_ms"),
        (json!({ "kind": "k", "delay_ms": "1" }), "/delay_ms"),
        (json!({ "kind": "k", "delay_until_at": "tomorrow" }), "/delay_until_at"),
        (json!({ "kind": "k", "delay_until_at": "2030-01-01T00:00:00Z", "delay_ms": 1 }), "/delay_ms"),
        (json!({ "kind": "k", "tags": { "a/b": "\u{0}" } }), "/tags/a~1b"),
        (json!({ "kind": "k", "tags": { "a": 1 } }), "/tags/a"),
        (json!({ "kind": "k", "tags": { "a:b": "c" } }), "/tags/a:b"),
        (json!({ "kind": "k", "tags": [] }), "/tags"),
        (json!({ "kind": "k", "capabilities": ["ok", 7] }), "/capabilities/1"),
        (json!({ "kind": "k", "capabilities": ["ok", "a\u{0}"] }), "/capabilities/1"),
        (json!({ "kind": "k", "deadline_ms": -5 }), "/deadline_ms"),
        (json!({ "kind": "k", "attempt_timeout_ms": 0 }), "/attempt_timeout_ms"),
        (json!({ "kind": "k", "retry": 3 }), "/retry"),
        (json!({ "kind": "k", "retry": { "max_retries": -1 } }), "/retry/max_retries"),
        (json!({ "kind": "k", "retry": { "retry_on": ["transient", "sometimes"] } }), "/retry/retry_on/1"),
        (json!({ "kind": "k", "retry": { "backoff": { "type": "linear" } } }), "/retry/backoff/type"),
        (json!({ "kind": "k", "retry": { "backoff": { "type": "fixed" } } }), "/retry/backoff/delay_ms"),
        (
            json!({ "kind": "k", "retry": { "backoff": { "type": "exponential", "multiplier": 0.5 } } }),
            "/retry/backoff/multiplier",
        ),
    ] {
        assert_eq!(submit_invalid(&server, body.clone()).await, invalid_field(pointer), "{body}");
    }
    assert_eq!(server.get("/v1/executions").await.json()["items"], json!([]));
}

#[tokio::test]
async fn an_unknown_field_is_refused_with_the_fields_that_exist() {
    let server = Server::start().await;
    let unknown = |pointer: &str| (422, "unknown_field".to_owned(), pointer.to_owned());
    assert_eq!(submit_invalid(&server, json!({ "kind": "k", "knid": 1 })).await, unknown("/knid"));
    let nested =
        json!({ "kind": "k", "retry": { "backoff": { "type": "fixed", "delay_ms": 1, "jitter": true } } });
    assert_eq!(submit_invalid(&server, nested).await, unknown("/retry/backoff/jitter"));
    // No body can name a namespace.
    let body = json!({ "kind": "k", "namespace": "other" });
    assert_eq!(submit_invalid(&server, body).await, unknown("/namespace"));
    let reply = server.post("/v1/executions", json!({ "kind": "k", "x": 1 })).await;
    let detail = reply.json()["detail"].to_string();
    assert!(detail.contains("idempotency_key") && detail.contains("budgets"), "{detail}");
}

#[tokio::test]
async fn a_field_that_is_given_twice_is_refused() {
    let server = Server::start().await;
    let reply = server.post_text("/v1/executions", r#"{"kind": "a", "kind": "b"}"#).await;
    assert_eq!(reply.problem(), invalid_field("/kind"));
    let reply = server.post_text("/v1/executions", r#"{"kind": "a", "tags": {"t": "1", "t": "2"}}"#).await;
    assert_eq!(reply.problem(), invalid_field("/tags/t"));
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused_as_such() {
    let server = Server::start().await;
    for body in ["", "{", "kind=k", "{\"kind\": \"k\",}", "{\"kind\": \"k\"} x", "[1, 2"] {
        let reply = server.post_text("/v1/executions", body).await;
        assert_eq!(reply.problem(), (400, "invalid_json".into(), "".into()), "{body}");
    }
    let reply = server.send("POST", "/v1/executions", &[], b"{\"kind\": \"\xff\"}".to_vec()).await;
    assert_eq!(reply.problem().1, "invalid_json");
    for body in ["[]", "null", "7"] {
        let reply = server.post_text("/v1/executions", body).await;
        assert_eq!(reply.problem(), invalid_field(""), "{body}");
    }
    let reply = server.post_text("/v1/executions", r#"{"kind": "\ud800"}"#).await;
    assert_eq!(reply.problem(), invalid_field("/kind"));
}

#[tokio::test]
async fn an_input_over_its_limit_is_refused_and_one_at_its_limit_is_kept() {
    let server = Server::start().await;
    let body = |size: usize| format!(r#"{{"kind": "k", "input": "{}"}}"#, "x".repeat(size - 2));
    let reply = server.post_text("/v1/executions", &body(1024 * 1024 + 1)).await;
    assert_eq!(reply.problem(), (413, "payload_too_large".into(), "/input".into()));
    let reply = server.post_text("/v1/executions", &body(1024 * 1024)).await;
    assert_eq!(reply.status, 201);
}

#[tokio::test]
async fn a_body_over_its_limit_is_read_to_its_end_and_refused() {
    let server = Server::start().await;
    let body = format!(r#"{{"kind": "k", "input": "{}"}}"#, "x".repeat(10 * 1024 * 1024));
    let reply = server.post_text("/v1/executions", &body).await;
    assert_eq!(reply.problem(), (413, "payload_too_large".into(), "".into()));
    assert_eq!(reply.header("connection"), "");
    // The limit of a batch is higher.
    let item = format!(r#"{{"kind": "k", "input": "{}"}}"#, "x".repeat(1_000_000));
    let body = format!(r#"{{"executions": [{}]}}"#, [item.as_str(); 10].join(","));
    let reply = server.post_text("/v1/executions/batch", &body).await;
    assert_eq!(reply.status, 200);
    let body = format!(r#"{{"executions": [{}]}}"#, [item.as_str(); 40].join(","));
    let reply = server.post_text("/v1/executions/batch", &body).await;
    assert_eq!(reply.problem().0, 413);
}

#[tokio::test]
async fn an_invalid_item_of_a_batch_is_refused_alone() {
    let server = Server::start().await;
    let items = json!([
        { "kind": "a" }, { "kind": "" }, 7, { "kind": "b", "x": 1 },
        { "kind": "c", "input": "x".repeat(1024 * 1024) }, { "kind": "d", "budgets": [7] }, { "kind": "e" },
    ]);
    let reply = server.post("/v1/executions/batch", json!({ "executions": items })).await;
    assert_eq!(reply.status, 200);
    let results = reply.json()["results"].as_array().expect("results is an array").clone();
    let codes: Vec<(String, String)> = results
        .iter()
        .map(|result| match result.get("error") {
            None => (result["execution"]["kind"].to_string(), result["duplicate"].to_string()),
            Some(problem) => {
                check_problem(problem);
                (problem["code"].to_string(), problem["pointer"].to_string())
            }
        })
        .collect();
    let codes: Vec<(&str, &str)> = codes.iter().map(|(code, at)| (code.as_str(), at.as_str())).collect();
    assert_eq!(
        codes,
        [
            ("\"a\"", "false"),
            ("\"invalid_field\"", "\"/executions/1/kind\""),
            ("\"invalid_field\"", "\"/executions/2\""),
            ("\"unknown_field\"", "\"/executions/3/x\""),
            ("\"payload_too_large\"", "\"/executions/4/input\""),
            ("\"invalid_field\"", "\"/executions/5/budgets/0\""),
            ("\"e\"", "false"),
        ]
    );
    assert_eq!(server.get("/v1/executions").await.json()["items"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_batch_has_at_most_a_thousand_items() {
    let server = Server::start().await;
    let items = vec![json!({ "kind": "k" }); 1001];
    let reply = server.post("/v1/executions/batch", json!({ "executions": items })).await;
    assert_eq!(reply.problem(), invalid_field("/executions"));
    let reply = server.post("/v1/executions/batch", json!({})).await;
    assert_eq!(reply.problem(), invalid_field("/executions"));
    let reply = server.post("/v1/executions/batch", json!({ "executions": [], "x": 1 })).await;
    assert_eq!(reply.problem(), (422, "unknown_field".into(), "/x".into()));
}

#[tokio::test]
async fn an_invalid_field_of_a_claim_is_named() {
    let server = Server::start().await;
    let valid = json!({ "worker": "w", "lanes": ["default"], "max": 1 });
    for (name, value, pointer) in [
        ("worker", Value::Null, "/worker"),
        ("worker", json!("a\u{0}"), "/worker"),
        ("lanes", json!([]), "/lanes"),
        ("lanes", json!([7]), "/lanes/0"),
        ("max", Value::Null, "/max"),
        ("max", json!(0), "/max"),
        ("max", json!(-1), "/max"),
        ("wait_ms", json!(60_001), "/wait_ms"),
        ("wait_ms", json!(-1), "/wait_ms"),
        ("lease_ttl_ms", json!(499), "/lease_ttl_ms"),
        ("lease_ttl_ms", json!(3_600_001), "/lease_ttl_ms"),
    ] {
        let mut body = valid.clone();
        body[name] = value;
        let reply = server.post("/v1/workers/i/claim", body.clone()).await;
        assert_eq!(reply.problem(), invalid_field(pointer), "{body}");
        let reply = server.post("/v1/workers/i/report", json!({ "ops": [], "claim": body })).await;
        assert_eq!(reply.problem(), invalid_field(&format!("/claim{pointer}")));
    }
    let path = format!("/v1/workers/{}/claim", "i".repeat(201));
    assert_eq!(server.post(&path, valid.clone()).await.problem(), invalid_field("/instance"));
    let reply = server.post("/v1/workers/a%00b/claim", valid).await;
    assert_eq!(reply.problem(), invalid_field("/instance"));
}

#[tokio::test]
async fn an_invalid_op_of_a_report_is_refused_alone() {
    let server = Server::start().await;
    let (_, claim) = server.submit_and_claim().await;
    let with = |name: &str, fields: Value| op_with(name, &claim, fields);
    let ops = json!([
        with("used", json!({ "budget": "b" })),
        with("finish", json!({})),
        with("fail", json!({})),
        with("fail", json!({ "message": "m", "class": "odd" })),
        with("progress", json!({ "percent": 101 })),
        with("delay", json!({})),
        with("delay", json!({ "delay_ms": -1 })),
        with("complete", json!({ "epoch": "1" })),
        with("complete", json!({ "attempt": -1 })),
        with("complete", json!({ "lease_id": "x" })),
        with("complete", json!({ "results": 1 })),
        "complete",
        with("release", json!({ "op_id": "\u{0}" })),
        with("progress", json!({ "percent": 50, "message": "half" })),
    ]);
    let reply = server.post("/v1/workers/i/report", json!({ "ops": ops })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let results = reply.json()["results"].as_array().expect("results is an array").clone();
    let pointers: Vec<String> = results
        .iter()
        .filter_map(|result| result.get("error"))
        .map(|problem| {
            check_problem(problem);
            assert_eq!(problem["status"], 422);
            problem["pointer"].as_str().expect("the problem has a pointer").to_owned()
        })
        .collect();
    let expected = [
        "/ops/0/op",
        "/ops/1/op",
        "/ops/2/message",
        "/ops/3/class",
        "/ops/4/percent",
        "/ops/5/until_at",
        "/ops/6/delay_ms",
        "/ops/7/epoch",
        "/ops/8/attempt",
        "/ops/9/lease_id",
        "/ops/10/results",
        "/ops/11",
        "/ops/12/op_id",
    ];
    assert_eq!(pointers, expected);
    let detail = results[0]["error"]["detail"].to_string();
    assert!(detail.contains("complete, fail, progress, delay, release"), "{detail}");
    assert_eq!(results[13], json!({ "ok": true, "state": "active" }));
}

#[tokio::test]
async fn an_invalid_lease_of_a_heartbeat_is_named() {
    let server = Server::start().await;
    let (_, claim) = server.submit_and_claim().await;
    let mut invalid = fence(&claim);
    invalid["epoch"] = json!("one");
    let leases = json!([fence(&claim), invalid]);
    let reply = server.post("/v1/workers/i/heartbeat", json!({ "leases": leases })).await;
    assert_eq!(reply.problem(), invalid_field("/leases/1/epoch"));
    let reply = server.post("/v1/workers/i/heartbeat", json!({})).await;
    assert_eq!(reply.problem(), invalid_field("/leases"));
}

#[tokio::test]
async fn an_invalid_query_parameter_is_named() {
    let server = Server::start().await;
    for (query, pointer) in [
        ("limit=0", "/query/limit"),
        ("limit=501", "/query/limit"),
        ("limit=ten", "/query/limit"),
        ("state=waiting,odd", "/query/state"),
        ("outcome=success", "/query/outcome"),
        ("flow=7", "/query/flow"),
        ("tag=novalue", "/query/tag"),
        ("tag=a:%00", "/query/tag"),
        ("submitted_after=yesterday", "/query/submitted_after"),
        ("lane=a&lane=b", "/query/lane"),
    ] {
        let reply = server.get(&format!("/v1/executions?{query}")).await;
        assert_eq!(reply.problem(), invalid_field(pointer), "{query}");
    }
    let unknown = server.get("/v1/executions?stat=waiting").await.problem();
    assert_eq!(unknown, (422, "unknown_field".into(), "/query/stat".into()));
    let id = server.submit(json!({ "kind": "k" })).await;
    let reply = server.get(&format!("/v1/executions/{id}/result?wait_ms=60001")).await;
    assert_eq!(reply.problem(), invalid_field("/query/wait_ms"));
}

#[tokio::test]
async fn a_malformed_cursor_is_refused() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    for path in [
        "/v1/executions?cursor=abc".to_owned(),
        "/v1/executions?cursor=1+2".to_owned(),
        "/v1/events?after=abc".to_owned(),
        format!("/v1/executions/{id}/attempts?cursor=x"),
        format!("/v1/executions/{id}/events?cursor=x"),
        "/v1/workers?cursor=x".to_owned(),
    ] {
        let problem = server.get(&path).await.problem();
        assert_eq!(problem, (400, "invalid_cursor".into(), "".into()), "{path}");
    }
}

fn nested(depth: usize) -> String {
    ["[".repeat(depth), "]".repeat(depth)].concat()
}

/// Returns the code and pointer of the only result of a report whose operation has `field` as its last field.
async fn report_field(server: &Server, mut op: Value, field: &str, json: &str) -> (String, String) {
    op[field] = json!("here");
    let body = json!({ "ops": [op] }).to_string().replace("\"here\"", json);
    let reply = server.post_text("/v1/workers/i/report", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let error = &reply.json()["results"][0]["error"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&error["code"]), text(&error["pointer"]))
}

#[tokio::test]
async fn a_payload_nests_at_most_128_deep_wherever_it_is_sent() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    for depth in [129, 500_000] {
        let deep = nested(depth);
        for (path, body, pointer) in [
            ("/v1/executions".to_owned(), format!(r#"{{"kind": "k", "input": {deep}}}"#), "/input"),
            (
                "/v1/flows".to_owned(),
                format!(
                    r#"{{"nodes": [{{"name": "a", "kind": "k"}}, {{"name": "b", "kind": "k", "input": {deep}}}]}}"#
                ),
                "/nodes/1/input",
            ),
            (
                "/v1/flows".to_owned(),
                format!(r#"{{"defaults": {{"input": {deep}}}, "nodes": [{{"name": "a", "kind": "k"}}]}}"#),
                "/defaults/input",
            ),
            (
                format!("/v1/executions/{id}/signals"),
                format!(r#"{{"name": "s", "payload": {{"a": {deep}}}}}"#),
                "/payload",
            ),
        ] {
            let reply = server.post_text(&path, &body).await;
            assert_eq!(reply.problem(), invalid_field(pointer), "{path} {depth}");
            assert!(reply.json()["detail"].to_string().contains("128"), "{}", reply.text());
        }
        for (op, field) in [
            (op_with("complete", &claim, json!({})), "result"),
            (op_with("step", &claim, json!({ "name": "s" })), "result"),
            (op_with("frame", &claim, json!({ "kind": "event" })), "data"),
            (op_with("frame", &claim, json!({ "kind": "event", "mode": "summary" })), "data"),
        ] {
            let refused = report_field(&server, op, field, &deep).await;
            assert_eq!(refused, ("invalid_field".into(), format!("/ops/0/{field}")), "{depth}");
        }
        let batch = format!(r#"{{"executions": [{{"kind": "k", "input": {deep}}}, {{"kind": "k"}}]}}"#);
        let results = server.post_text("/v1/executions/batch", &batch).await.json()["results"].clone();
        assert_eq!(results[0]["error"]["pointer"], "/executions/0/input");
        assert!(results[1]["execution"].is_object(), "a bad item refuses only itself");
    }
}

#[tokio::test]
async fn a_payload_of_128_levels_is_kept_byte_for_byte() {
    let server = Server::start().await;
    let input = nested(128);
    let reply = server.post_text("/v1/executions", &format!(r#"{{"kind": "k", "input": {input}}}"#)).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let claimed = server
        .post("/v1/workers/i/claim", json!({ "worker": "w", "lanes": ["default"], "max": 1 }))
        .await
        .text();
    assert!(claimed.contains(&format!("\"input\":{input}")), "{claimed}");
    let without_input: Value =
        serde_json::from_str(&claimed.replace(&input, "null")).expect("a claim is JSON");
    let claim = &without_input["claims"][0];
    let op = op_with("frame", claim, json!({ "kind": "event", "mode": "summary" }));
    let depth_128 = format!("{}1{}", "{\"a\":".repeat(128), "}".repeat(128));
    assert_eq!(report_field(&server, op, "data", &depth_128).await, ("".into(), "".into()));
    let id = claim["execution"]["id"].as_str().expect("an id is text");
    let summary = server.get(&format!("/v1/executions/{id}/summary")).await.text();
    assert!(summary.contains(&depth_128), "{summary}");
}

#[tokio::test]
async fn a_number_that_clients_cannot_carry_is_refused() {
    let server = Server::start().await;
    let digits = "9".repeat(5000);
    for number in [digits.as_str(), "1e400", "-1e400", "1E+309", &digits[..310]] {
        let body = format!(r#"{{"kind": "k", "input": {{"a": [{number}]}}}}"#);
        let reply = server.post_text("/v1/executions", &body).await;
        assert_eq!(reply.problem(), invalid_field("/input"), "{number}");
        assert!(reply.json()["detail"].to_string().contains("string"), "{}", reply.text());
    }
    for number in ["1e308", "-0.0", "1e-400", "12345678901234567890123456789", "0.10"] {
        let body = format!(r#"{{"kind": "k", "input": {number}}}"#);
        let reply = server.post_text("/v1/executions", &body).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        let id = reply.json()["execution"]["id"].as_str().expect("an id is text").to_owned();
        let read = server.get(&format!("/v1/executions/{id}")).await.text();
        assert!(read.contains(&format!("\"input\":{number},")), "{read}");
    }
}

#[tokio::test]
async fn deep_nesting_outside_of_payloads_is_refused_too() {
    let server = Server::start().await;
    let deep = nested(1_000_000);
    for (body, expected) in [
        (format!(r#"{{"kind": {deep}}}"#), invalid_field("/kind")),
        (format!(r#"{{"kind": "k", "tags": {deep}}}"#), invalid_field("/tags")),
        (format!(r#"{{"kind": "k", "capabilities": [{deep}]}}"#), invalid_field("/capabilities/0")),
        (format!(r#"{{"kind": "k", "retry": {{"backoff": {deep}}}}}"#), invalid_field("/retry/backoff")),
        (format!(r#"{{"kind": "k", "x": {deep}}}"#), (422, "unknown_field".into(), "/x".into())),
        (deep.clone(), invalid_field("")),
        ("[".repeat(1_000_000), (400, "invalid_json".into(), "".into())),
    ] {
        assert_eq!(server.post_text("/v1/executions", &body).await.problem(), expected);
    }
}

#[tokio::test]
async fn a_priority_lies_between_minus_100_and_100() {
    let server = Server::start().await;
    for priority in [-100, 100] {
        server.submit(json!({ "kind": "k", "priority": priority })).await;
    }
    let id = server.submit(json!({ "kind": "k" })).await;
    for priority in [-101, 101, 40_000] {
        let body = json!({ "kind": "k", "priority": priority });
        assert_eq!(submit_invalid(&server, body).await, invalid_field("/priority"));
        let node = json!({ "nodes": [{ "name": "a", "kind": "k", "priority": priority }] });
        let reply = server.post("/v1/flows", node).await;
        assert_eq!(reply.problem(), invalid_field("/nodes/0/priority"));
        let body = json!({ "priority": priority });
        let reply = server.post(&format!("/v1/executions/{id}/priority"), body.clone()).await;
        assert_eq!(reply.problem(), invalid_field("/priority"));
        let action = json!({ "type": "priority", "priority": priority });
        let reply = server.post("/v1/executions/bulk", json!({ "action": action, "ids": [id] })).await;
        assert_eq!(reply.problem(), invalid_field("/action/priority"));
    }
}
