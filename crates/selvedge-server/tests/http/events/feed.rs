//! The live feed of events.

use super::{COMPLETED_EVENTS, submit_and_complete};
use crate::support::{EventStream, Message, Server, text_of, within};
use selvedge_core::Timestamp;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::json;
use std::time::Duration;

fn types(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.event.as_str()).collect()
}

fn cursor(message: &Message) -> &str {
    message.id.as_deref().expect("an event has a cursor")
}

#[tokio::test]
async fn the_feed_starts_now_and_has_the_same_events_as_the_pages() {
    let server = Server::start().await;
    submit_and_complete(&server, json!({ "kind": "before" })).await;
    let mut feed = server.open_stream("/v1/events", &[]).await;
    let execution = submit_and_complete(&server, json!({ "kind": "after" })).await;
    let messages = feed.messages(5).await;
    assert_eq!(types(&messages), COMPLETED_EVENTS);
    let page = server.get(&format!("/v1/events?execution={execution}")).await.json();
    let items = page["items"].as_array().expect("items is an array");
    for (message, item) in messages.iter().zip(items) {
        assert_eq!(
            (cursor(message), &message.event),
            (text_of(&item["cursor"]).as_str(), &text_of(&item["type"]))
        );
        assert_eq!(&message.json(), item, "the same event, with the same cursor");
    }
}

#[tokio::test]
async fn a_reconnecting_client_continues_where_it_stopped() {
    let server = Server::start().await;
    for _ in 0..3 {
        submit_and_complete(&server, json!({ "kind": "k" })).await;
    }
    let mut seen: Vec<Message> = Vec::new();
    let mut first = server.open_stream("/v1/events?from=beginning", &[]).await;
    seen.extend(first.messages(4).await);
    drop(first);
    let last = cursor(&seen[3]).to_owned();
    // A browser repeats its query; the header takes precedence.
    let mut second = server.open_stream("/v1/events?from=beginning", &[("last-event-id", &last)]).await;
    seen.extend(second.messages(5).await);
    let last = cursor(&seen[8]).to_owned();
    let mut third = server.open_stream(&format!("/v1/events?after={last}"), &[]).await;
    seen.extend(third.messages(6).await);
    let whole = server.get("/v1/events?limit=500").await.json();
    let cursors: Vec<String> = whole["items"]
        .as_array()
        .expect("items is an array")
        .iter()
        .map(|event| text_of(&event["cursor"]))
        .collect();
    assert_eq!(seen.iter().map(cursor).collect::<Vec<_>>(), cursors);
    // An empty header, which some clients send on their first connection, is ignored.
    let mut fresh =
        server.open_stream("/v1/events?from=2000-01-01T00:00:00Z", &[("last-event-id", "")]).await;
    assert_eq!(cursor(&fresh.message().await), cursors[0]);
}

#[tokio::test]
async fn the_feed_is_filtered() {
    let server = Server::start().await;
    let mut ends = server.open_stream("/v1/events?types=execution.completed", &[]).await;
    let mut tagged = server.open_stream("/v1/events?tag=colour:red&types=execution.submitted", &[]).await;
    submit_and_complete(&server, json!({ "kind": "k" })).await;
    let red = submit_and_complete(&server, json!({ "kind": "k", "tags": { "colour": "red" } })).await;
    assert_eq!(types(&ends.messages(2).await), ["execution.completed"; 2]);
    assert_eq!(tagged.message().await.json()["execution"], json!(red));
}

#[tokio::test]
async fn a_malformed_cursor_is_refused_before_the_feed_starts() {
    let server = Server::start().await;
    let accept = ("accept", "text/event-stream");
    for header in ["x", "10", "\u{e9}"] {
        let reply = server.send("GET", "/v1/events", &[accept, ("last-event-id", header)], Vec::new()).await;
        assert_eq!(reply.problem(), (400, "invalid_cursor".into(), String::new()));
    }
    let reply = server.send("GET", "/v1/events?after=x", &[accept], Vec::new()).await;
    assert_eq!(reply.problem(), (400, "invalid_cursor".into(), String::new()));
    let reply = server.send("GET", "/v1/events?from=noon", &[accept], Vec::new()).await;
    assert_eq!(reply.problem(), (422, "invalid_field".into(), "/query/from".into()));
    let reply = server.send("GET", "/v1/events?types=x", &[accept], Vec::new()).await;
    assert_eq!(reply.problem(), (422, "invalid_field".into(), "/query/types".into()));
}

#[tokio::test]
async fn an_expired_cursor_is_refused_before_the_feed_starts() {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let options = Options { reconcilers: false, log_window: Duration::from_secs(60), ..Options::default() };
    let server = Server::start_with(options, clock.clone()).await;
    submit_and_complete(&server, json!({ "kind": "old" })).await;
    let page = server.get("/v1/events?limit=1").await.json();
    let old = text_of(&page["next_cursor"]);
    let newest = text_of(&server.get("/v1/events").await.json()["resume_cursor"]);
    clock.advance_ms(120_000);
    server.engine.tick("log_window").await.expect("the tick succeeds");
    let accept = ("accept", "text/event-stream");
    let reply = server.send("GET", "/v1/events", &[accept, ("last-event-id", &old)], Vec::new()).await;
    assert_eq!(reply.problem(), (410, "cursor_expired".into(), String::new()));
    assert_eq!(server.get(&format!("/v1/events?after={old}")).await.problem().0, 410);
    // The cursor of the last deleted event misses nothing, and a start in the past begins at the oldest event kept.
    let mut feeds = vec![server.open_stream("/v1/events", &[("last-event-id", &newest)]).await];
    for from in ["beginning", "2000-01-01T00:00:00Z"] {
        feeds.push(server.open_stream(&format!("/v1/events?from={from}"), &[]).await);
    }
    let id = server.submit(json!({ "kind": "new" })).await;
    for feed in &mut feeds {
        assert_eq!(feed.message().await.json()["execution"], json!(id));
    }
}

#[tokio::test]
async fn a_silent_feed_sends_keep_alive_comments() {
    let serving = selvedge_server::Options {
        keep_alive: Duration::from_millis(5),
        ..selvedge_server::Options::default()
    };
    let server = Server::start_serving(Options::default(), Clock::system(), serving).await;
    let mut feed = server.open_stream("/v1/events", &[]).await;
    for _ in 0..3 {
        assert_eq!(feed.next().await.expect("the feed stays open").comment, "still here");
    }
    server.submit(json!({ "kind": "k" })).await;
    assert_eq!(feed.message().await.event, "execution.submitted");
}

#[tokio::test]
async fn event_streams_end_when_the_server_shuts_down() {
    let mut server = Server::start().await;
    let mut idle = server.open_stream("/v1/events", &[]).await;
    let mut busy = server.open_stream("/v1/events?from=beginning", &[]).await;
    let id = server.submit(json!({ "kind": "k" })).await;
    server.claim("i", 1).await;
    let mut stream = server.open_stream(&format!("/v1/executions/{id}/stream/tail"), &[]).await;
    assert_eq!(idle.message().await.event, "execution.submitted");
    server.stop().await;
    // The streams end after complete messages, and the tail of the attempt without the message `closed`.
    within(async {
        while idle.next().await.is_some() {}
        while busy.next().await.is_some() {}
    })
    .await;
    assert_eq!(remaining_types(&mut stream).await, [""; 0]);
}

/// Reads a stream to its end. Returns the types of its messages.
async fn remaining_types(stream: &mut EventStream) -> Vec<String> {
    let mut types = Vec::new();
    while let Some(message) = stream.next().await {
        types.push(message.event);
    }
    types
}
