//! Streams of executions: pages of frames, live frames, and the summary document.

use crate::support::{Reply, Server, check_problem, op, op_with, text_of};
use serde_json::{Value, json};

fn frame(claim: &Value, data: Value) -> Value {
    let mut frame = op("frame", claim);
    (frame["kind"], frame["data"]) = (json!("stdout"), data);
    frame
}

async fn append(server: &Server, claim: &Value, data: Value) {
    let result = server.report("i", frame(claim, data)).await;
    assert_eq!(result, json!({ "ok": true, "state": "active" }));
}

fn data(page: &Value) -> Vec<Value> {
    let items = page["items"].as_array().expect("items is an array");
    items.iter().map(|item| item["data"].clone()).collect()
}

#[tokio::test]
async fn frames_are_read_in_pages_byte_for_byte() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let mut raw = frame(&claim, Value::Null);
    raw["op_id"] = json!("op-1");
    let raw = raw.to_string().replace("\"data\":null", "\"data\":{ \"b\" :1.50,\n\"a\":\"\\u00e9\" }");
    let path = "/v1/workers/i/report";
    for _ in 0..2 {
        let reply = server.post_text(path, &format!("{{\"ops\":[{raw}]}}")).await;
        assert_eq!(reply.json()["results"][0]["ok"], true, "{}", reply.text());
    }
    for (kind, mode) in [("stderr", "durable"), ("event", "best_effort"), ("blob", "durable")] {
        let mut one = frame(&claim, json!([kind]));
        (one["kind"], one["mode"]) = (json!(kind), json!(mode));
        assert_eq!(server.report("i", one).await["ok"], true);
    }
    let reply = server.get(&format!("/v1/executions/{id}/stream")).await;
    assert!(reply.text().contains("\"data\":{ \"b\" :1.50,\n\"a\":\"\\u00e9\" }"), "{}", reply.text());
    let page = reply.json();
    assert_eq!(
        (&page["attempt"], &page["next_cursor"], &page["closed"]),
        (&json!(0), &json!(null), &json!(false))
    );
    let items = page["items"].as_array().expect("items is an array");
    let shape = |item: &Value| (item["number"].clone(), item["kind"].clone(), item["mode"].clone());
    let shapes: Vec<_> = items.iter().map(shape).collect();
    let expected =
        [("stdout", "durable"), ("stderr", "durable"), ("event", "best_effort"), ("blob", "durable")];
    let expected: Vec<_> =
        expected.iter().zip(0..).map(|((kind, mode), at)| (json!(at), json!(kind), json!(mode))).collect();
    assert_eq!(shapes, expected, "the frame that was sent twice is stored once");
    assert!(text_of(&items[0]["at"]).ends_with('Z'));

    let mut seen = Vec::new();
    let mut path = format!("/v1/executions/{id}/stream?attempt=0&limit=3");
    loop {
        let page = server.get(&path).await.json();
        seen.extend(data(&page));
        let Some(next) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/executions/{id}/stream?attempt=0&limit=3&after={next}");
    }
    assert_eq!(seen, data(&page));
    assert_eq!(server.report("i", op("complete", &claim)).await["ok"], true);
    let closed = |page: Value| (data(&page).len(), page["closed"].clone());
    let all = format!("/v1/executions/{id}/stream");
    assert_eq!(closed(server.get(&format!("{all}?limit=3")).await.json()), (3, json!(false)));
    assert_eq!(closed(server.get(&format!("{all}?limit=4")).await.json()), (4, json!(true)));
    assert_eq!(closed(server.get(&format!("{all}?after=3")).await.json()), (0, json!(true)));
}

#[tokio::test]
async fn repeated_frames_of_a_report_are_stored_once() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let ops: Vec<Value> = (0..5)
        .map(|at| {
            let mut one = frame(&claim, json!(at));
            one["op_id"] = json!(format!("op-{at}"));
            one
        })
        .collect();
    // A client that buffers frames may repeat a report with more frames than before.
    for sent in [3, 3, 5, 5] {
        let reply = server.post("/v1/workers/i/report", json!({ "ops": ops[..sent] })).await;
        for result in reply.json()["results"].as_array().expect("results is an array") {
            assert_eq!(result["ok"], true);
        }
    }
    let page = server.get(&format!("/v1/executions/{id}/stream")).await.json();
    assert_eq!(json!(data(&page)), json!([0, 1, 2, 3, 4]));
}

#[tokio::test]
async fn a_live_reader_sees_every_frame_and_the_end_of_the_attempt() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    append(&server, &claim, json!("first")).await;
    let path = format!("/v1/executions/{id}/stream/tail");
    let mut live = server.open_stream(&path, &[]).await;
    let first = live.message().await;
    assert_eq!((first.event.as_str(), first.id.as_deref()), ("frame", Some("0")));
    let page = server.get(&format!("/v1/executions/{id}/stream")).await.json();
    assert_eq!(first.json(), page["items"][0]);
    let pretty = json!({ "op": "frame" });
    for at in 1..4 {
        append(&server, &claim, json!({ "at": at, "pretty": pretty })).await;
        assert_eq!(live.message().await.json()["data"]["at"], json!(at));
    }
    // A reconnecting reader continues after the last frame it saw; the header takes precedence over the query.
    let mut resumed = server.open_stream(&format!("{path}?after=0"), &[("last-event-id", "2")]).await;
    assert_eq!(resumed.message().await.id.as_deref(), Some("3"));
    let mut after = server.open_stream(&format!("{path}?attempt=0&after=1"), &[]).await;
    let last = json!({ "ops": [frame(&claim, json!("last")), op("complete", &claim)] });
    server.post("/v1/workers/i/report", last).await;
    for (stream, remaining) in [(&mut live, 1), (&mut resumed, 1), (&mut after, 3)] {
        let frames = stream.messages(remaining).await;
        assert_eq!(frames[remaining - 1].json()["data"], json!("last"));
        let closed = stream.message().await;
        assert_eq!((closed.event.as_str(), closed.id.clone()), ("closed", None));
        assert_eq!(closed.json(), json!({ "attempt": 0 }));
        assert_eq!(stream.next().await, None, "the stream ends");
    }
    let mut late = server.open_stream(&path, &[("last-event-id", "4")]).await;
    assert_eq!(late.message().await.event, "closed");
}

#[tokio::test]
async fn frames_of_several_lines_are_one_message() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let raw = frame(&claim, Value::Null).to_string();
    let raw = raw.replace("\"data\":null", "\"data\":{\r\n  \"a\": [\n1,\n\n2]\n}");
    let reply = server.post_text("/v1/workers/i/report", &format!("{{\"ops\":[{raw}]}}")).await;
    assert_eq!(reply.json()["results"][0]["ok"], true, "{}", reply.text());
    let mut live = server.open_stream(&format!("/v1/executions/{id}/stream/tail"), &[]).await;
    assert_eq!(live.message().await.json()["data"], json!({ "a": [1, 2] }));
}

#[tokio::test]
async fn each_attempt_has_its_own_stream() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    append(&server, &claim, json!("of the first")).await;
    assert_eq!(server.report("i", op("release", &claim)).await["ok"], true);
    let refused = server.report("i", frame(&claim, json!("too late"))).await;
    assert_eq!(refused["error"]["code"], "stale_lease");
    let again = server.claim("i", 1).await.remove(0);
    append(&server, &again, json!("of the second")).await;
    let page = async |query: &str| server.get(&format!("/v1/executions/{id}/stream{query}")).await.json();
    let (newest, first) = (page("").await, page("?attempt=0").await);
    assert_eq!((&newest["attempt"], data(&newest)), (&json!(1), vec![json!("of the second")]));
    assert_eq!((&first["attempt"], data(&first)), (&json!(0), vec![json!("of the first")]));
    assert_eq!((&newest["closed"], &first["closed"]), (&json!(false), &json!(true)));
}

#[tokio::test]
async fn summary_frames_are_merged_into_one_document() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let path = format!("/v1/executions/{id}/summary");
    let empty = json!({ "attempt": 0, "version": 0, "document": null });
    assert_eq!(server.get(&path).await.json(), empty);
    for patch in [json!({ "a": 1, "b": { "c": 2 } }), json!({ "a": null, "b": { "d": 3 } })] {
        let mut one = frame(&claim, patch);
        one["mode"] = json!("summary");
        assert_eq!(server.report("i", one).await["ok"], true);
    }
    let merged = json!({ "attempt": 0, "version": 2, "document": { "b": { "c": 2, "d": 3 } } });
    assert_eq!(server.get(&path).await.json(), merged);
    assert_eq!(server.get(&format!("{path}?attempt=0")).await.json(), merged);
    assert_eq!(data(&server.get(&format!("/v1/executions/{id}/stream")).await.json()), [json!(null); 0]);
}

#[tokio::test]
async fn invalid_frames_and_reads_are_refused_with_the_field_named() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let refusal_of = async |change: &dyn Fn(&mut Value)| {
        let mut one = frame(&claim, json!("x"));
        change(&mut one);
        let result = server.report("i", one).await;
        check_problem(&result["error"]);
        (text_of(&result["error"]["code"]), text_of(&result["error"]["pointer"]))
    };
    let field = |name: &str| ("invalid_field".to_owned(), format!("/ops/0/{name}"));
    assert_eq!(refusal_of(&|op| op["kind"] = json!("stdin")).await, field("kind"));
    assert_eq!(refusal_of(&|op| op["kind"] = json!(null)).await, field("kind"));
    assert_eq!(refusal_of(&|op| op["mode"] = json!("now")).await, field("mode"));
    assert_eq!(
        refusal_of(&|op| drop(op.as_object_mut().expect("an object").remove("data"))).await,
        field("data")
    );
    assert_eq!(refusal_of(&|op| op["size"] = json!(1)).await, ("unknown_field".into(), "/ops/0/size".into()));
    let large = "x".repeat(256 * 1024);
    let too_large = refusal_of(&|op| op["data"] = json!(large)).await;
    assert_eq!(too_large, ("payload_too_large".into(), "/ops/0/data".into()));
    let page = server.get(&format!("/v1/executions/{id}/stream")).await.json();
    assert_eq!(data(&page), [json!(null); 0], "refused frames are not stored");

    let get = async |path: &str| -> Reply { server.get(&format!("/v1/executions/{id}/{path}")).await };
    for path in ["stream", "stream/tail", "summary"] {
        let invalid_attempt = (422, "invalid_field".into(), "/query/attempt".into());
        assert_eq!(get(&format!("{path}?attempt=x")).await.problem(), invalid_attempt);
        assert_eq!(get(&format!("{path}?attempt=1")).await.problem().1, "not_found");
        let unknown = uuid::Uuid::from_u128(7);
        let reply = server.get(&format!("/v1/executions/{unknown}/{path}")).await;
        assert_eq!(reply.problem(), (404, "not_found".into(), String::new()));
        assert_eq!(get(&format!("{path}?colour=red")).await.problem().1, "unknown_field");
    }
    for path in ["stream", "stream/tail"] {
        for after in ["x", "-1", "4294967295"] {
            let reply = get(&format!("{path}?after={after}")).await;
            assert_eq!(reply.problem(), (400, "invalid_cursor".into(), String::new()));
        }
    }
    let headers = [("last-event-id", "x")];
    let reply = server.send("GET", &format!("/v1/executions/{id}/stream/tail"), &headers, Vec::new()).await;
    assert_eq!(reply.problem(), (400, "invalid_cursor".into(), String::new()));
}

#[tokio::test]
async fn a_stream_is_read_by_range_and_without_best_effort_frames() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    for at in 0..6 {
        let mode = if at % 2 == 0 { "durable" } else { "best_effort" };
        let one = op_with("frame", &claim, json!({ "kind": "event", "data": at, "mode": mode }));
        assert_eq!(server.report("i", one).await["ok"], true);
    }
    let read = async |query: &str| server.get(&format!("/v1/executions/{id}/stream?{query}")).await.json();
    for (query, expected, more) in [
        ("before=3", json!([0, 1, 2]), false),
        ("after=1&before=4", json!([2, 3]), false),
        ("after=1&before=5&limit=2", json!([2, 3]), true),
        ("after=4&before=2", json!([]), false),
        ("before=0", json!([]), false),
        ("mode=durable", json!([0, 2, 4]), false),
        ("mode=durable&limit=2", json!([0, 2]), true),
        ("mode=durable&after=0&before=4", json!([2]), false),
    ] {
        let page = read(query).await;
        assert_eq!((json!(data(&page)), page["next_cursor"].is_string()), (expected, more), "{query}");
    }
    let reply = server.get(&format!("/v1/executions/{id}/stream?mode=summary")).await;
    assert_eq!(reply.problem(), (422, "invalid_field".into(), "/query/mode".into()));
    assert_eq!(server.report("i", op("complete", &claim)).await["ok"], true);
    let closed = async |query: &str| read(query).await["closed"].clone();
    assert_eq!(
        [
            closed("before=3&limit=3").await,
            closed("mode=durable&limit=2").await,
            closed("mode=durable").await
        ],
        [true, false, true]
    );
    let mut live = server.open_stream(&format!("/v1/executions/{id}/stream/tail?mode=durable"), &[]).await;
    for at in [0, 2, 4] {
        assert_eq!(live.message().await.json()["data"], at);
    }
    assert_eq!(live.message().await.event, "closed");
}

#[tokio::test]
async fn a_frame_shows_the_correlation_id_that_it_was_sent_with() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let fields = json!({ "kind": "event", "data": 1, "correlation_id": "request-7" });
    assert_eq!(server.report("i", op_with("frame", &claim, fields)).await["ok"], true);
    append(&server, &claim, json!(2)).await;
    let page = server.get(&format!("/v1/executions/{id}/stream")).await.json();
    let shown = |index: usize| page["items"][index]["correlation_id"].clone();
    assert_eq!((shown(0), shown(1)), (json!("request-7"), json!(null)));
    let fields = json!({ "kind": "event", "data": 1, "correlation_id": "" });
    let refused = server.report("i", op_with("frame", &claim, fields)).await;
    assert_eq!(refused["error"]["pointer"], "/ops/0/correlation_id");
}

#[tokio::test]
async fn a_page_of_large_frames_is_bounded_in_bytes_and_ends_only_with_the_last_frame() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let large = "x".repeat(250_000);
    for first in [0, 30] {
        let frame = |number: usize| {
            op_with("frame", &claim, json!({ "kind": "stdout", "data": format!("{number} {large}") }))
        };
        let ops: Vec<Value> = (first..first + 30).map(frame).collect();
        assert_eq!(server.post("/v1/workers/i/report", json!({ "ops": ops })).await.status, 200);
    }
    assert_eq!(server.report("i", op("complete", &claim)).await["ok"], true);
    let (mut numbers, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/executions/{id}/stream?limit=500{after}")).await;
        assert!(page.body.len() < 9 * 1024 * 1024, "{} bytes", page.body.len());
        let page = page.json();
        let items = page["items"].as_array().expect("items is an array");
        numbers.extend(items.iter().map(|item| item["number"].as_u64().expect("a number")));
        assert_eq!(page["closed"], page["next_cursor"].is_null());
        match page["next_cursor"].as_str() {
            Some(cursor) => after = format!("&after={cursor}"),
            None => break,
        }
    }
    assert_eq!(numbers, (0..60).collect::<Vec<u64>>());
}
