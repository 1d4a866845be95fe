//! Metrics, the listener for metrics, and minute rollups.

use crate::support::{Server, op_with, within};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Returns the value of the sample that begins with this text.
fn sample(text: &str, series: &str) -> Option<f64> {
    let line =
        text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[tokio::test]
async fn operations_are_counted_by_lane_and_requests_by_route() {
    let server = Server::start().await;
    let (_, claim) = server.submit_and_claim().await;
    server.complete("i", &claim, json!(1)).await;
    server.get("/v1/executions/00000000-0000-0000-0000-000000000000").await;
    server.get("/no/such/path").await;
    let text = server.get("/metrics").await.text();
    let lane = "namespace=\"default\",lane=\"default\"";
    for (series, expected) in [
        (format!("selvedge_submissions_total{{{lane}}}"), 1.0),
        (format!("selvedge_starts_total{{{lane}}}"), 1.0),
        (format!("selvedge_outcomes_total{{{lane},outcome=\"completed\"}}"), 1.0),
        (format!("selvedge_queue_seconds_count{{{lane}}}"), 1.0),
        (format!("selvedge_run_seconds_bucket{{{lane},le=\"+Inf\"}}"), 1.0),
        (format!("selvedge_executions{{{lane},state=\"waiting\"}}"), 0.0),
        ("selvedge_http_requests_total{route=\"/v1/executions\",method=\"POST\",status=\"2xx\"}".into(), 1.0),
        (
            "selvedge_http_requests_total{route=\"/v1/executions/{id}\",method=\"GET\",status=\"4xx\"}"
                .into(),
            1.0,
        ),
        ("selvedge_http_requests_total{route=\"(none)\",method=\"GET\",status=\"4xx\"}".into(), 1.0),
        ("selvedge_http_requests_in_progress".into(), 1.0),
    ] {
        assert_eq!(sample(&text, &series), Some(expected), "{series}\n{text}");
    }
    assert!(!text.contains("00000000-0000"), "no id is a label");
}

#[tokio::test]
async fn every_series_is_written_once_and_every_family_has_a_type() {
    let server = Server::start().await;
    server.configure("quotas/q", json!({"concurrency": 3})).await;
    server.configure("lanes/l", json!({"concurrency": 2, "state": "paused"})).await;
    server.configure("budgets/b", json!({"limits": {"tokens": {"hard": 10, "soft": 5}}})).await;
    let (_, claim) = server.submit_and_claim().await;
    server.report("i", op_with("fail", &claim, json!({"message": "no"}))).await;
    let text = server.get("/metrics").await.text();
    let mut seen = BTreeSet::new();
    let mut family = "";
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            family = declared.split(' ').next().unwrap_or_default();
        } else if !line.starts_with('#') {
            let (series, _) = line.rsplit_once(' ').expect(line);
            assert!(series.starts_with(family), "{line} is in the family {family}");
            assert!(seen.insert(series.to_owned()), "{series} is written twice");
        }
    }
    for (series, expected) in [
        ("selvedge_lane_paused{namespace=\"default\",lane=\"l\"}", 1.0),
        ("selvedge_gate_limit{namespace=\"default\",kind=\"quota\",name=\"q\"}", 3.0),
        (
            "selvedge_budget_limit{namespace=\"default\",budget=\"b\",dimension=\"tokens\",limit=\"hard\"}",
            10.0,
        ),
        ("selvedge_budget_used{namespace=\"default\",budget=\"b\",dimension=\"tokens\"}", 0.0),
    ] {
        assert_eq!(sample(&text, series), Some(expected), "{series}\n{text}");
    }
}

#[tokio::test]
async fn scrapers_share_one_read_of_the_store() {
    let server = Server::start().await;
    server.submit(json!({"kind": "k"})).await;
    let reads = async || {
        let text = server.get("/metrics").await.text();
        sample(&text, "selvedge_store_calls_total{call=\"depths\"}").expect("depths were read")
    };
    let first = reads().await;
    for _ in 0..20 {
        assert_eq!(reads().await, first);
    }
}

#[tokio::test]
async fn the_listener_for_metrics_serves_nothing_else_and_counts_the_requests_of_the_api() {
    let options = selvedge_server::Options::default();
    let engine_options = Options { reconcilers: false, ..Options::default() };
    let server = Server::start_serving(engine_options, Clock::system(), options.clone()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port is bound");
    let address = listener.local_addr().expect("the listener has an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async move { drop(stopped.await) };
    let serving =
        tokio::spawn(selvedge_server::serve_metrics(options, server.engine.clone(), listener, stopped));
    server.submit(json!({"kind": "k"})).await;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let get = async |path: &str| {
        let request = Request::get(format!("http://{address}{path}")).body(Empty::<bytes::Bytes>::new());
        let response = within(client.request(request.expect("the request is valid"))).await;
        let response = response.expect("the server responds");
        let status = response.status().as_u16();
        let body = within(response.into_body().collect()).await.expect("the body is read").to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    let (status, text) = get("/metrics").await;
    let submitted = "selvedge_http_requests_total{route=\"/v1/executions\",method=\"POST\",status=\"2xx\"}";
    assert_eq!((status, sample(&text, submitted)), (200, Some(1.0)), "{text}");
    assert_eq!((get("/healthz").await.0, get("/readyz").await.0), (200, 200));
    for path in ["/", "/v1/executions", "/v1/stats"] {
        assert_eq!(get(path).await.0, 404, "{path}");
    }
    drop(stop);
    within(serving).await.expect("the listener does not panic").expect("the listener does not fail");
}

/// Reads all pages of `/v1/stats`.
async fn all_stats(server: &Server, query: &str) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.read(&format!("stats?limit=2&cursor={cursor}&{query}")).await;
        items.extend(page["items"].as_array().expect("items is an array").clone());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => return items,
        }
    }
}

#[tokio::test]
async fn minute_rollups_are_listed_by_lane_and_time() {
    let server = Server::start().await;
    let (_, claim) = server.submit_and_claim().await;
    server.complete("i", &claim, json!(1)).await;
    for lane in ["a", "b", "c"] {
        server.submit(json!({"kind": "k", "lane": lane})).await;
    }
    server.engine.flush_rollups().await.expect("rollups are saved");
    let sum =
        |items: &[Value], field: &str| items.iter().filter_map(|item| item[field].as_u64()).sum::<u64>();
    let items = all_stats(&server, "").await;
    assert_eq!(
        (sum(&items, "submitted"), sum(&items, "started"), sum(&items, "completed")),
        (4, 1, 1),
        "{items:?}"
    );
    let lanes: BTreeSet<&str> = items.iter().filter_map(|item| item["lane"].as_str()).collect();
    assert_eq!(lanes, BTreeSet::from(["a", "b", "c", "default"]));
    let run = items.iter().find(|item| item["completed"] == 1).expect("one was completed");
    assert_eq!(run["run_ms"]["count"], 1, "{run}");
    assert!(run["run_ms"]["p50"].as_f64() <= run["run_ms"]["p95"].as_f64(), "{run}");
    assert!(run["run_ms"]["p95"].as_f64() <= run["run_ms"]["max"].as_f64(), "{run}");
    let of_lane = all_stats(&server, "lane=b").await;
    assert_eq!((of_lane.len(), sum(&of_lane, "submitted")), (1, 1));
    assert_eq!(of_lane[0]["queue_ms"]["p95"], Value::Null, "nothing was started");
    let minute = of_lane[0]["minute_at"].as_str().expect("a time");
    assert_eq!(all_stats(&server, &format!("lane=b&from={minute}")).await, of_lane);
    assert_eq!(all_stats(&server, &format!("to={minute}&lane=b")).await, Vec::<Value>::new());
    assert_eq!(all_stats(&server, "from=2999-01-01T00:00:00Z").await, Vec::<Value>::new());
}

#[tokio::test]
async fn invalid_parameters_of_stats_are_refused() {
    let server = Server::start().await;
    for (query, expected) in [
        ("cursor=x", (400, "invalid_cursor", "")),
        ("limit=501", (422, "invalid_field", "/query/limit")),
        ("from=yesterday", (422, "invalid_field", "/query/from")),
        ("lane=a&lane=b", (422, "invalid_field", "/query/lane")),
        ("kind=k", (422, "unknown_field", "/query/kind")),
    ] {
        let (status, code, pointer) = server.get(&format!("/v1/stats?{query}")).await.problem();
        assert_eq!((status, code.as_str(), pointer.as_str()), expected, "{query}");
    }
}
