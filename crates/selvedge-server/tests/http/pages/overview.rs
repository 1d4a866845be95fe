//! The overview: what needs attention, the link of each matter, and counts that stop.

use super::visit;
use crate::support::{Server, op_with};
use selvedge_core::Timestamp;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::json;
use std::time::{Duration, Instant};

/// The time that passes, in milliseconds: longer than what counts as stuck.
const LONG_MS: i64 = 3_000_000;

/// Returns the text of the section about what needs attention, and its links.
async fn attention(server: &Server) -> (String, Vec<String>) {
    let page = visit(server, "/").await.text();
    let section = page.split("id=\"attention\"").nth(1).and_then(|rest| rest.split("</section>").next());
    let section = section.unwrap_or_else(|| panic!("the page has the section: {page}"));
    let text = section.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    let links = section.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    (text, links.map(|link| link.replace("&amp;", "&")).collect())
}

/// Waits until a text needs attention: viewers share what was read a moment ago. Returns the links.
async fn attention_says(server: &Server, expected: &str) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let (text, links) = attention(server).await;
        if text.contains(expected) {
            return links;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{expected} is not in: {text}");
    }
}

/// Claims an execution of a lane as a worker that takes only this kind.
async fn claim(server: &Server, lane: &str, kind: &str) -> serde_json::Value {
    let claim =
        json!({ "worker": "w", "lanes": [lane], "kinds": [kind], "max": 1, "lease_ttl_ms": 3_600_000 });
    let mut answer = server.post(&format!("/v1/workers/{lane}/claim"), claim).await.json();
    answer["claims"][0].take()
}

#[tokio::test]
async fn the_overview_names_what_needs_attention_and_where_to_look() {
    let clock = Clock::manual(Timestamp::from_millis(1_800_000_000_000));
    let server =
        Server::start_with(Options { reconcilers: false, ..Options::default() }, clock.clone()).await;
    for lane in ["busy", "slow"] {
        server.submit(json!({ "kind": "send", "lane": lane })).await;
        claim(&server, lane, "send").await;
        server.submit(json!({ "kind": "send", "lane": lane })).await;
    }
    server.submit(json!({ "kind": "other", "lane": "busy" })).await;
    server.submit(json!({ "kind": "send", "lane": "slow", "capabilities": ["gpu"] })).await;
    server.submit(json!({ "kind": "send", "lane": "nobody" })).await;
    server.configure("lanes/paused", json!({ "state": "paused" })).await;
    server.submit(json!({ "kind": "send", "lane": "paused" })).await;
    let limits = json!({ "tokens": { "hard": 100, "soft": 50 } });
    for (budget, used) in [("full", 100), ("half", 60), ("free", 1)] {
        server.configure(&format!("budgets/{budget}"), json!({ "limits": limits })).await;
        server.post(&format!("/v1/budgets/{budget}/usage"), json!({ "usage": { "tokens": used } })).await;
    }
    server.submit(json!({ "kind": "k", "lane": "failing", "retry": { "max_retries": 0 } })).await;
    let failing = claim(&server, "failing", "k").await;
    server
        .report("failing", op_with("fail", &failing, json!({ "message": "no", "class": "permanent" })))
        .await;
    clock.advance_ms(LONG_MS);
    let (text, links) = attention(&server).await;
    for matter in [
        "1 execution waits in the lane “busy”, and no live worker there takes the kind “other”",
        "1 execution waits in the lane “slow”, and no live worker there has the capabilities “gpu”",
        "1 execution waits in the lane “nobody”, and no live worker claims from it",
        "1 execution waits in the lane “paused”, and the lane is paused",
        "An execution in the lane “busy” has run for 50 min",
        "An execution in the lane “busy” has waited for 50 min",
        "1 execution has failed, 1 in the last hour",
        "The budget “full” is used up",
        "The budget “half” has reached its soft limit",
    ] {
        assert!(text.contains(matter), "{matter} is not in: {text}");
    }
    for absent in ["“free”", "held by limits"] {
        assert!(!text.contains(absent), "{absent} is in: {text}");
    }
    assert!(links.len() > 8, "{links:?}");
    for link in links {
        let list = visit(&server, &link).await;
        assert_eq!(list.status, 200, "{link}");
        assert!(!list.text().contains("No execution matches"), "{link} shows nothing");
    }
}

#[tokio::test]
async fn executions_in_a_busy_lane_are_not_stuck() {
    let clock = Clock::manual(Timestamp::from_millis(1_800_000_000_000));
    let server =
        Server::start_with(Options { reconcilers: false, ..Options::default() }, clock.clone()).await;
    for _ in 0..2 {
        server.submit(json!({ "kind": "send", "lane": "busy" })).await;
    }
    let first = claim(&server, "busy", "send").await;
    clock.advance_ms(LONG_MS);
    server.report("busy", op_with("complete", &first, json!({}))).await;
    claim(&server, "busy", "send").await;
    clock.advance_ms(LONG_MS / 2);
    let (text, _) = attention(&server).await;
    assert!(!text.contains("has run for") && !text.contains("has waited for"), "as long as usual: {text}");
}

#[tokio::test]
async fn a_filter_that_no_index_serves_is_not_counted() {
    let server = Server::start().await;
    for number in 0..60 {
        server
            .submit(json!({ "kind": "k", "lane": "l", "tags": { "number": (number % 2).to_string() } }))
            .await;
    }
    for (query, count) in [
        ("", "60 match"),
        ("lane=l", "60 match"),
        ("tag=number:1", "30 match"),
        ("lane=l&state=waiting", "≥\u{202f}50 match"),
        ("lane=l&tag=number:1", "30 match"),
    ] {
        let page = visit(&server, &format!("/executions?{query}")).await.text();
        assert!(page.contains(count), "{query}: {page}");
    }
}

/// Lets a worker claim the execution and die, until its lease has expired and the execution may be claimed again.
async fn kill_a_worker(server: &Server, clock: &Clock) {
    let claim = json!({ "worker": "w", "lanes": ["default"], "max": 1, "lease_ttl_ms": 500 });
    let claimed = server.post("/v1/workers/i/claim", claim).await.json()["claims"].clone();
    assert_eq!(claimed.as_array().map(Vec::len), Some(1), "{claimed}");
    for reconciler in ["lease_expiry", "delay_promoter"] {
        clock.advance_ms(120_000);
        server.engine.tick(reconciler).await.expect("the tick succeeds");
    }
}

#[tokio::test]
async fn work_that_kills_its_workers_is_named_and_expires_after_six_of_them() {
    let clock = Clock::manual(Timestamp::from_millis(1_800_000_000_000));
    let server =
        Server::start_with(Options { reconcilers: false, ..Options::default() }, clock.clone()).await;
    let id = server.submit(json!({ "kind": "poison" })).await;
    for _ in 0..2 {
        kill_a_worker(&server, &clock).await;
    }
    assert!(!attention(&server).await.0.contains("workers died"));
    kill_a_worker(&server, &clock).await;
    server.claim("i", 1).await;
    clock.advance_ms(10_000);
    let died = "3 workers died while running this";
    let links = attention_says(&server, died).await;
    assert!(links.contains(&format!("/executions/{id}")), "{links:?}");
    let explained = server.read(&format!("executions/{id}/explain")).await;
    let reason =
        explained["reasons"].as_array().and_then(|all| all.iter().find(|one| one["code"] == "workers_died"));
    let reason = reason.unwrap_or_else(|| panic!("it is named: {explained}"));
    assert_eq!(reason["message"], format!("{died}; it expires if that happens 6 times without progress"));
    assert!(visit(&server, &format!("/executions/{id}")).await.text().contains(died));
    clock.advance_ms(120_000);
    server.engine.tick("lease_expiry").await.expect("the tick succeeds");
    clock.advance_ms(120_000);
    server.engine.tick("delay_promoter").await.expect("the tick succeeds");
    kill_a_worker(&server, &clock).await;
    assert_eq!(server.execution(&id).await["state"], "waiting");
    kill_a_worker(&server, &clock).await;
    assert_eq!(server.execution(&id).await["state"], "expired");
    let links = attention_says(&server, "1 execution has expired").await;
    assert!(links.contains(&"/executions?state=expired".to_owned()), "{links:?}");
    let explained = server.read(&format!("executions/{id}/explain")).await.to_string();
    assert!(explained.contains("6 workers died while running this without progress"), "{explained}");
}

#[tokio::test]
async fn a_recorded_step_sets_the_count_of_dead_workers_back() {
    let clock = Clock::manual(Timestamp::from_millis(1_800_000_000_000));
    let server =
        Server::start_with(Options { reconcilers: false, ..Options::default() }, clock.clone()).await;
    let id = server.submit(json!({ "kind": "long" })).await;
    for _ in 0..5 {
        kill_a_worker(&server, &clock).await;
    }
    assert_eq!(server.execution(&id).await["interruptions"], json!(5));
    let claim = server.claim("i", 1).await.remove(0);
    let step = op_with("step", &claim, json!({ "name": "one", "result": 1 }));
    assert_eq!(server.report("i", step).await["ok"], true);
    clock.advance_ms(120_000);
    server.engine.tick("lease_expiry").await.expect("the tick succeeds");
    let execution = server.execution(&id).await;
    assert_eq!((&execution["state"], &execution["interruptions"]), (&json!("waiting"), &json!(6)));
}
