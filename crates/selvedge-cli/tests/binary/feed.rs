//! The live feed of the real binary, read with plain `curl`.

use crate::support::{Place, Postgres, Server, command, get, on_each_store, submit, text};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

on_each_store!(a_feed_goes_on_where_it_was_after_its_server_was_killed);

/// A feed that is read.
struct Feed {
    curl: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Feed {
    /// Opens it from its beginning, or after the last event that was seen.
    fn open(url: &str, last: Option<&Value>) -> Feed {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--no-buffer", "--max-time", "90", "--header", "accept: text/event-stream"]);
        if let Some(last) = last {
            curl.args(["--header", &format!("last-event-id: {}", text(&last["cursor"]))]);
        }
        curl.arg(format!("{url}/v1/events?from=beginning")).stdout(Stdio::piped());
        let mut curl = curl.spawn().expect("curl starts");
        let lines = BufReader::new(curl.stdout.take().expect("its output is read")).lines();
        Feed { curl, lines }
    }

    /// The next event.
    fn next(&mut self) -> Value {
        loop {
            let line = self.lines.next().expect("the feed goes on").expect("it is text");
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

fn submit_some(url: &str) -> Vec<String> {
    (0..5).map(|_| submit(url, json!({"kind": "k"}))).collect()
}

fn log(url: &str) -> Vec<Value> {
    let (status, page) = get(&format!("{url}/v1/events?limit=500"));
    assert_eq!(status, 200, "{page}");
    page["items"].as_array().expect("a list").clone()
}

fn a_feed_goes_on_where_it_was_after_its_server_was_killed(place: &impl Place) {
    let server = Server::start(place);
    let mut ids = submit_some(&server.url);
    let mut feed = Feed::open(&server.url, None);
    let mut seen: Vec<Value> = (0..3).map(|_| feed.next()).collect();
    server.kill();
    let server = Server::start(place);
    ids.extend(submit_some(&server.url));
    let mut feed = Feed::open(&server.url, seen.last());
    while seen.len() < ids.len() {
        seen.push(feed.next());
    }
    let executions: Vec<String> = seen.iter().map(|event| text(&event["execution"])).collect();
    assert_eq!(executions, ids, "every one once, in order");
    assert_eq!(seen, log(&server.url));
}

#[test]
fn an_event_has_the_same_cursor_on_every_server_and_a_feed_may_change_servers() {
    let place = Postgres::new();
    let (one, two) = (Server::start(&place), Server::start(&place));
    let mut here = Feed::open(&one.url, None);
    let mut ids = submit_some(&one.url);
    let mut seen: Vec<Value> = (0..ids.len()).map(|_| here.next()).collect();
    let mut there = Feed::open(&two.url, seen.last());
    ids.extend(submit_some(&one.url));
    while seen.len() < ids.len() {
        let event = there.next();
        assert_eq!(event, here.next(), "the same event, with the same cursor");
        seen.push(event);
    }
    assert_eq!(log(&one.url), seen);
    assert_eq!(log(&two.url), seen);
}

#[test]
fn a_server_that_may_not_listen_sees_what_others_commit_by_looking() {
    let place = Postgres::new();
    let one = Server::start(&place);
    let mut polls = command();
    polls.args(["serve", "--poll", "--store", &place.store()]);
    let two = Server::spawn(polls);
    let mut there = Feed::open(&two.url, None);
    let first = submit(&one.url, json!({"kind": "k"}));
    assert_eq!(text(&there.next()["execution"]), first);
    let second = submit(&one.url, json!({"kind": "k"}));
    let asked = std::time::Instant::now();
    assert_eq!(text(&there.next()["execution"]), second);
    assert!(asked.elapsed() < std::time::Duration::from_secs(1), "{:?}", asked.elapsed());
}
