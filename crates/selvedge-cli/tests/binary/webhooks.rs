//! Webhooks of real servers: after `kill -9` nothing is lost, repeats have the same id, and another server takes over.

use crate::support::{
    Place, Postgres, Server, claim, command, complete, get, on_each_store, start_call, submit, text,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

on_each_store!(deliveries_that_a_killed_server_did_not_record_are_repeated_with_their_ids_and_in_order);

/// The longest time that a test waits; nothing here takes as long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The id and the event of a delivery.
type Received = (String, Value);

/// A receiver that answers what it is told to hold only when it is released.
struct Receiver {
    address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    received: Vec<Received>,
    /// Type of the events that are not answered.
    holds: Option<&'static str>,
}

impl Receiver {
    fn start(holds: Option<&'static str>) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port is bound");
        let address = listener.local_addr().expect("the listener has an address");
        let state = Arc::new((Mutex::new(State { holds, ..State::default() }), Condvar::new()));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Receiver { address, state }
    }

    fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    fn release(&self) {
        self.state.0.lock().expect("no thread panicked").holds = None;
        self.state.1.notify_all();
    }

    /// Waits until what was received is as expected, and returns it.
    fn wait_for(&self, expected: impl Fn(&[Received]) -> bool) -> Vec<Received> {
        let state = self.state.0.lock().expect("no thread panicked");
        let waits = |state: &mut State| !expected(&state.received);
        let (state, waited) =
            self.state.1.wait_timeout_while(state, TIMEOUT, waits).expect("no thread panicked");
        assert!(!waited.timed_out(), "{:?}", state.received);
        state.received.clone()
    }
}

/// Answers the requests of a connection.
fn serve(mut stream: TcpStream, (state, changed): &(Mutex<State>, Condvar)) {
    let mut reader = BufReader::new(stream.try_clone().expect("the stream is cloned"));
    loop {
        let (mut length, mut id) = (0, String::new());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().expect("the length is a number");
            }
            if let Some(value) = line.strip_prefix("webhook-id: ") {
                id = value.to_owned();
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let event: Value = serde_json::from_slice(&body).expect("the body is JSON");
        let kind = event["type"].clone();
        let mut known = state.lock().expect("no thread panicked");
        known.received.push((id, event));
        changed.notify_all();
        while known.holds.is_some_and(|held| kind == held) {
            known = changed.wait(known).expect("no thread panicked");
        }
        drop(known);
        if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
            return;
        }
    }
}

fn serve_webhooks(place: &impl Place) -> Server {
    let mut serve = command();
    serve.args(["serve", "--webhook-allow-private", "--webhook-timeout", "5s", "--store", &place.store()]);
    Server::spawn(serve)
}

fn put(server: &Server, url: &str, types: &[&str]) -> String {
    let body = json!({"url": url, "types": types});
    let (status, created) =
        start_call("PUT", &format!("{}/v1/webhooks/w", server.url), Some(&body)).response();
    assert_eq!(status, 201, "{created}");
    text(&created["secret"])
}

fn run_one(server: &Server) -> String {
    let id = submit(&server.url, json!({"kind": "k"}));
    let claimed = claim(&server.url, "w-1", 1, 10_000).remove(0);
    complete(&server.url, "w-1", &claimed, json!(1));
    id
}

/// Waits until the webhook has delivered this many events.
fn wait_for_delivered(server: &Server, count: u64) -> Value {
    let begun = Instant::now();
    loop {
        let (_, webhook) = get(&format!("{}/v1/webhooks/w", server.url));
        if webhook["delivered"].as_u64() >= Some(count) {
            return webhook;
        }
        assert!(begun.elapsed() < TIMEOUT, "{webhook}");
    }
}

fn deliveries_that_a_killed_server_did_not_record_are_repeated_with_their_ids_and_in_order(
    place: &impl Place,
) {
    // The receiver accepts `execution.submitted` and does not answer `execution.completed`, so that a batch is delivered in
    // part and not recorded.
    let receiver = Receiver::start(Some("execution.completed"));
    let server = serve_webhooks(place);
    put(&server, &receiver.url(), &["execution.submitted", "execution.completed"]);
    let executions: BTreeSet<String> = (0..5).map(|_| run_one(&server)).collect();
    let is_held =
        |received: &[Received]| received.iter().any(|(_, event)| event["type"] == "execution.completed");
    let before = receiver.wait_for(is_held);
    assert!(before.len() < 10);
    server.kill();
    receiver.release();

    let server = serve_webhooks(place);
    let all = |received: &[Received]| received.iter().map(|(id, _)| id).collect::<BTreeSet<_>>().len() == 10;
    receiver.wait_for(all);
    let webhook = wait_for_delivered(&server, 10);
    assert_eq!(
        (&webhook["pending"], &webhook["dead"], &webhook["missed"]),
        (&json!(0), &json!(0), &json!(0))
    );
    let received = receiver.wait_for(all);
    // The same event has the same id, and the same text, whenever it arrives.
    let mut by_id: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut repeats = 0;
    for (id, event) in &received {
        let known = by_id.entry(id).or_insert(event);
        repeats += u32::from(!std::ptr::eq(*known, event));
        assert_eq!(*known, event);
    }
    assert!(repeats > 0, "the held event is delivered again");
    let cursors: BTreeSet<String> = by_id.values().map(|event| text(&event["cursor"])).collect();
    assert_eq!((by_id.len(), cursors.len()), (10, 10));
    // No execution is completed before it was submitted.
    for execution in &executions {
        let of = received.iter().filter(|(_, event)| event["execution"] == execution.as_str());
        let first: Vec<String> = of.map(|(_, event)| text(&event["type"])).collect();
        assert_eq!(first[0], "execution.submitted", "{first:?}");
        assert_eq!(first.last().map(String::as_str), Some("execution.completed"), "{first:?}");
    }
}

#[test]
fn of_two_servers_one_delivers_and_the_other_takes_over_when_it_is_killed() {
    let place = Postgres::new();
    let receiver = Receiver::start(None);
    let first = serve_webhooks(&place);
    let second = serve_webhooks(&place);
    put(&first, &receiver.url(), &["execution.submitted"]);
    let submitted: Vec<String> = (0..20)
        .map(|number| submit(if number % 2 == 0 { &first.url } else { &second.url }, json!({"kind": "k"})))
        .collect();
    wait_for_delivered(&second, 20);
    let received = receiver.wait_for(|received| received.len() >= 20);
    assert_eq!(received.len(), 20, "each event is delivered once: one server delivers");
    first.kill();
    let later: Vec<String> = (0..20).map(|_| submit(&second.url, json!({"kind": "k"}))).collect();
    wait_for_delivered(&second, 40);
    let received = receiver.wait_for(|received| received.len() >= 40);
    let ids: BTreeSet<&String> = received.iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 40);
    let executions: BTreeSet<String> = received.iter().map(|(_, event)| text(&event["execution"])).collect();
    assert_eq!(executions, submitted.into_iter().chain(later).collect());
}

#[test]
fn a_secret_is_in_no_log_no_event_no_list_and_not_in_the_file() {
    let place = crate::support::Sqlite::new();
    let receiver = Receiver::start(None);
    let mut serve = command();
    serve.env("SELVEDGE_SECRET", "a root secret that is kept outside").env("RUST_LOG", "trace");
    serve.args(["serve", "--webhook-allow-private", "--store", &place.store()]);
    let server = Server::spawn(serve);
    let mut secrets = vec![put(&server, &format!("{}?token=planted-in-the-query", receiver.url()), &["*"])];
    for (path, body) in
        [("w/rotate-secret", json!({"grace_ms": 60_000})), ("none/rotate-secret", json!({"grace_ms": 1}))]
    {
        let (_, rotated) =
            start_call("POST", &format!("{}/v1/webhooks/{path}", server.url), Some(&body)).response();
        secrets.extend(rotated["secret"].as_str().map(str::to_owned));
    }
    assert_eq!(secrets.len(), 2);
    submit(&server.url, json!({"kind": "k"}));
    wait_for_delivered(&server, 1);
    // A receiver that does not listen: the failure must not show the URL or the secret.
    let broken = json!({"url": "http://127.0.0.1:9/?token=planted-in-the-query", "types": ["*"]});
    start_call("PATCH", &format!("{}/v1/webhooks/w", server.url), Some(&broken)).response();
    submit(&server.url, json!({"kind": "k"}));
    let begun = Instant::now();
    let mut shown = String::new();
    while !shown.contains("cannot connect") {
        shown = get(&format!("{}/v1/webhooks/w/deliveries", server.url)).1.to_string();
        assert!(begun.elapsed() < TIMEOUT, "{shown}");
    }
    for path in ["/v1/webhooks", "/v1/webhooks/w", "/v1/events?limit=500"] {
        shown += &get(&format!("{}{path}", server.url)).1.to_string();
    }
    let log = server.stop_and_read_log();
    let mut stored = Vec::new();
    for file in std::fs::read_dir(place.path(".")).expect("the directory is read") {
        let path = file.expect("the directory is read").path();
        if path.is_file() {
            stored.extend(std::fs::read(path).expect("the file is read"));
        }
    }
    let stored = String::from_utf8_lossy(&stored).into_owned();
    assert!(stored.contains("planted-in-the-query"), "the URL is stored: the search works");
    for secret in secrets {
        let key = secret.strip_prefix("whsec_").expect("a secret has its prefix");
        for (place, text) in [("log", &log), ("responses", &shown), ("file", &stored)] {
            assert!(!text.contains(key), "the secret is in the {place}");
        }
    }
    assert!(!log.contains("planted-in-the-query"), "{log}");
}
