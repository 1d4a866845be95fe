//! The live feed of events.

use crate::client::{Server, op, text_of, within};
use crate::live::{Live, Message};
use selvedge_core::Timestamp;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::{Value, json};
use std::time::Duration;

const SUCCESS: [&str; 5] =
    ["execution.submitted", "lease.acquired", "execution.started", "attempt.ended", "execution.succeeded"];

async fn done(server: &Server, body: Value) -> String {
    let id = server.submit(body).await;
    let claim = server.claim("i", 1).await.remove(0);
    assert_eq!(server.report("i", op("complete", &claim)).await["ok"], true);
    id
}

fn events(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.event.as_str()).collect()
}

fn id(message: &Message) -> &str {
    message.id.as_deref().expect("an event has a cursor")
}

#[tokio::test]
async fn the_feed_starts_now_and_tells_what_the_pages_tell() {
    let server = Server::start().await;
    done(&server, json!({ "kind": "before" })).await;
    let mut feed = server.live("/v1/events", &[]).await;
    let execution = done(&server, json!({ "kind": "after" })).await;
    let told = feed.messages(5).await;
    assert_eq!(events(&told), SUCCESS);
    let page = server.get(&format!("/v1/events?execution={execution}")).await.json();
    let items = page["items"].as_array().expect("items");
    for (message, item) in told.iter().zip(items) {
        assert_eq!(
            (id(message), &message.event),
            (text_of(&item["cursor"]).as_str(), &text_of(&item["type"]))
        );
        assert_eq!(&message.json(), item, "the same event, with the same cursor");
    }
}

#[tokio::test]
async fn a_client_that_comes_back_goes_on_where_it_was() {
    let server = Server::start().await;
    for _ in 0..3 {
        done(&server, json!({ "kind": "k" })).await;
    }
    let mut seen: Vec<Message> = Vec::new();
    let mut first = server.live("/v1/events?from=beginning", &[]).await;
    seen.extend(first.messages(4).await);
    drop(first);
    let last = id(&seen[3]).to_owned();
    // A browser repeats its query, and the header wins.
    let mut second = server.live("/v1/events?from=beginning", &[("last-event-id", &last)]).await;
    seen.extend(second.messages(5).await);
    let last = id(&seen[8]).to_owned();
    let mut third = server.live(&format!("/v1/events?after={last}"), &[]).await;
    seen.extend(third.messages(6).await);
    let whole = server.get("/v1/events?limit=500").await.json();
    let cursors: Vec<String> =
        whole["items"].as_array().expect("items").iter().map(|event| text_of(&event["cursor"])).collect();
    assert_eq!(seen.iter().map(id).collect::<Vec<_>>(), cursors);
    // An empty header, as some clients send at first, says nothing.
    let mut fresh = server.live("/v1/events?from=2000-01-01T00:00:00Z", &[("last-event-id", "")]).await;
    assert_eq!(id(&fresh.message().await), cursors[0]);
}

#[tokio::test]
async fn the_feed_is_filtered() {
    let server = Server::start().await;
    let mut ends = server.live("/v1/events?types=execution.succeeded", &[]).await;
    let mut tagged = server.live("/v1/events?tag=colour:red&types=execution.submitted", &[]).await;
    done(&server, json!({ "kind": "k" })).await;
    let red = done(&server, json!({ "kind": "k", "tags": { "colour": "red" } })).await;
    assert_eq!(events(&ends.messages(2).await), ["execution.succeeded"; 2]);
    assert_eq!(tagged.message().await.json()["execution"], json!(red));
}

#[tokio::test]
async fn a_malformed_cursor_is_refused_before_the_feed_starts() {
    let server = Server::start().await;
    let live = ("accept", "text/event-stream");
    for header in ["x", "10", "\u{e9}"] {
        let reply = server.send("GET", "/v1/events", &[live, ("last-event-id", header)], Vec::new()).await;
        assert_eq!(reply.problem(), (400, "invalid_cursor".into(), String::new()));
    }
    let reply = server.send("GET", "/v1/events?after=x", &[live], Vec::new()).await;
    assert_eq!(reply.problem(), (400, "invalid_cursor".into(), String::new()));
    let reply = server.send("GET", "/v1/events?from=noon", &[live], Vec::new()).await;
    assert_eq!(reply.problem(), (422, "invalid_field".into(), "/query/from".into()));
    let reply = server.send("GET", "/v1/events?types=x", &[live], Vec::new()).await;
    assert_eq!(reply.problem(), (422, "invalid_field".into(), "/query/types".into()));
}

#[tokio::test]
async fn an_expired_cursor_is_refused_before_the_feed_starts() {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let options = Options { reconcilers: false, log_window: Duration::from_secs(60), ..Options::default() };
    let server = Server::start_with(options, clock.clone()).await;
    done(&server, json!({ "kind": "old" })).await;
    let page = server.get("/v1/events?limit=1").await.json();
    let old = text_of(&page["next_cursor"]);
    let newest = text_of(&server.get("/v1/events").await.json()["resume_cursor"]);
    clock.advance_ms(120_000);
    server.engine.tick("log_window").await.expect("the tick runs");
    let live = ("accept", "text/event-stream");
    let reply = server.send("GET", "/v1/events", &[live, ("last-event-id", &old)], Vec::new()).await;
    assert_eq!(reply.problem(), (410, "cursor_expired".into(), String::new()));
    assert_eq!(server.get(&format!("/v1/events?after={old}")).await.problem().0, 410);
    // After the last event that was dropped nothing is missing, and a start in the past starts at what is kept.
    let mut feeds = vec![server.live("/v1/events", &[("last-event-id", &newest)]).await];
    for from in ["beginning", "2000-01-01T00:00:00Z"] {
        feeds.push(server.live(&format!("/v1/events?from={from}"), &[]).await);
    }
    let id = server.submit(json!({ "kind": "new" })).await;
    for feed in &mut feeds {
        assert_eq!(feed.message().await.json()["execution"], json!(id));
    }
}

#[tokio::test]
async fn a_silent_feed_says_that_it_is_still_there() {
    let serving = selvedge_server::Options {
        keep_alive: Duration::from_millis(5),
        ..selvedge_server::Options::default()
    };
    let server = Server::start_serving(Options::default(), Clock::system(), serving).await;
    let mut feed = server.live("/v1/events", &[]).await;
    for _ in 0..3 {
        assert_eq!(feed.next().await.expect("it goes on").remark, "still here");
    }
    server.submit(json!({ "kind": "k" })).await;
    assert_eq!(feed.message().await.event, "execution.submitted");
}

#[tokio::test]
async fn feeds_end_when_the_server_closes() {
    let mut server = Server::start().await;
    let mut idle = server.live("/v1/events", &[]).await;
    let mut busy = server.live("/v1/events?from=beginning", &[]).await;
    let id = server.submit(json!({ "kind": "k" })).await;
    server.claim("i", 1).await;
    let mut stream = server.live(&format!("/v1/executions/{id}/stream/tail"), &[]).await;
    assert_eq!(idle.message().await.event, "execution.submitted");
    server.stop().await;
    // Whole messages, then the end, and no word of the attempt's.
    within(async {
        while idle.next().await.is_some() {}
        while busy.next().await.is_some() {}
    })
    .await;
    assert_eq!(rest(&mut stream).await, [""; 0]);
}

async fn rest(live: &mut Live) -> Vec<String> {
    let mut rest = Vec::new();
    while let Some(message) = live.next().await {
        rest.push(message.event);
    }
    rest
}
