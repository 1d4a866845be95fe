//! The live feed, read with plain `curl`.

use crate::support::{Place, Postgres, Server, command, get, on_each_store, submit, text};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

on_each_store!(a_feed_resumes_at_its_cursor_after_its_server_was_killed);

/// An open feed.
struct Feed {
    curl: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Feed {
    /// Opens the feed from the beginning of the log, or after the last event seen.
    fn open(url: &str, last: Option<&Value>) -> Feed {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--no-buffer", "--max-time", "90", "--header", "accept: text/event-stream"]);
        if let Some(last) = last {
            curl.args(["--header", &format!("last-event-id: {}", text(&last["cursor"]))]);
        }
        curl.arg(format!("{url}/v1/events?from=beginning")).stdout(Stdio::piped());
        let mut curl = curl.spawn().expect("curl starts");
        let lines = BufReader::new(curl.stdout.take().expect("standard output is piped")).lines();
        Feed { curl, lines }
    }

    /// Waits for the next event.
    fn next(&mut self) -> Value {
        loop {
            let line = self.lines.next().expect("the feed stays open").expect("the feed is text");
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data).expect("data is JSON");
            }
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let _ = self.curl.kill();
        let _ = self.curl.wait();
    }
}

fn submit_five(url: &str) -> Vec<String> {
    (0..5).map(|_| submit(url, json!({"kind": "k"}))).collect()
}

fn log(url: &str) -> Vec<Value> {
    let (status, page) = get(&format!("{url}/v1/events?limit=500"));
    assert_eq!(status, 200, "{page}");
    page["items"].as_array().expect("items is an array").clone()
}

fn a_feed_resumes_at_its_cursor_after_its_server_was_killed(place: &impl Place) {
    let server = Server::start(place);
    let mut ids = submit_five(&server.url);
    let mut feed = Feed::open(&server.url, None);
    let mut seen: Vec<Value> = (0..3).map(|_| feed.next()).collect();
    server.kill();
    let server = Server::start(place);
    ids.extend(submit_five(&server.url));
    let mut feed = Feed::open(&server.url, seen.last());
    while seen.len() < ids.len() {
        seen.push(feed.next());
    }
    let executions: Vec<String> = seen.iter().map(|event| text(&event["execution"])).collect();
    assert_eq!(executions, ids, "every event once, in order");
    assert_eq!(seen, log(&server.url));
}

#[test]
fn an_event_has_the_same_cursor_on_every_server_and_a_feed_may_change_servers() {
    let place = Postgres::new();
    let (first, second) = (Server::start(&place), Server::start(&place));
    let mut first_feed = Feed::open(&first.url, None);
    let mut ids = submit_five(&first.url);
    let mut seen: Vec<Value> = (0..ids.len()).map(|_| first_feed.next()).collect();
    let mut second_feed = Feed::open(&second.url, seen.last());
    ids.extend(submit_five(&first.url));
    while seen.len() < ids.len() {
        let event = second_feed.next();
        assert_eq!(event, first_feed.next(), "the same event, with the same cursor");
        seen.push(event);
    }
    assert_eq!(log(&first.url), seen);
    assert_eq!(log(&second.url), seen);
}

#[test]
fn a_server_with_poll_sees_the_commits_of_other_servers() {
    let place = Postgres::new();
    let committing = Server::start(&place);
    let mut poll = command();
    poll.args(["serve", "--poll", "--store", &place.store()]);
    let polling = Server::spawn(poll);
    let mut feed = Feed::open(&polling.url, None);
    let first = submit(&committing.url, json!({"kind": "k"}));
    assert_eq!(text(&feed.next()["execution"]), first);
    let second = submit(&committing.url, json!({"kind": "k"}));
    let committed = std::time::Instant::now();
    assert_eq!(text(&feed.next()["execution"]), second);
    assert!(committed.elapsed() < std::time::Duration::from_secs(1), "{:?}", committed.elapsed());
}
