//! A rolling restart: two servers on one database are stopped and started in turn, under load. Every call of a client that
//! fails succeeds when it is repeated once, at the other server, and nothing is lost.

use crate::support::{Postgres, Server};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The number of restarts.
const RESTARTS: usize = 6;
/// The number of executions that are submitted between two restarts, at least.
const BETWEEN: u64 = 20;
/// The longest time until everything is completed.
const LONG: Duration = Duration::from_secs(120);

/// The servers, and the counts of the clients.
struct Shared {
    addresses: Mutex<[String; 2]>,
    submitted: Mutex<BTreeSet<String>>,
    submissions: AtomicU64,
    repeated: AtomicU64,
    /// Calls that failed twice.
    failures: Mutex<Vec<String>>,
    over: AtomicBool,
}

/// A client that keeps a connection to each of the servers.
struct Client {
    shared: Arc<Shared>,
    first: usize,
    connections: [Option<(String, BufReader<TcpStream>)>; 2],
}

impl Client {
    fn new(shared: &Arc<Shared>, first: usize) -> Client {
        Client { shared: shared.clone(), first, connections: [None, None] }
    }

    /// Makes a POST request; repeats it once, at the other server. Returns none if that fails too.
    fn post(&mut self, path: &str, body: &Value) -> Option<Value> {
        let key = Uuid::new_v4();
        let mut errors = Vec::new();
        for index in [self.first, 1 - self.first] {
            match self.post_to(index, path, body, key) {
                Ok((status, answer)) if status < 300 => return Some(answer),
                Ok((status, answer)) => errors.push(format!("{status} {answer}")),
                Err(error) => {
                    self.connections[index] = None;
                    errors.push(error.to_string());
                }
            }
            self.shared.repeated.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.failures.lock().expect("no test thread panicked").push(format!("{path}: {errors:?}"));
        None
    }

    fn post_to(&mut self, index: usize, path: &str, body: &Value, key: Uuid) -> io::Result<(u16, Value)> {
        let address = self.shared.addresses.lock().expect("no test thread panicked")[index].clone();
        if self.connections[index].as_ref().is_none_or(|(of, _)| *of != address) {
            let stream = TcpStream::connect(&address)?;
            stream.set_read_timeout(Some(LONG))?;
            self.connections[index] = Some((address.clone(), BufReader::new(stream)));
        }
        let (_, stream) = self.connections[index].as_mut().expect("it was connected");
        let body = body.to_string();
        // Heartbeats and reports have other means to be repeated.
        let key =
            if path.ends_with("/report") { String::new() } else { format!("idempotency-key: {key}\r\n") };
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\n{key}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.get_mut().write_all(request.as_bytes())?;
        read_response(stream)
    }
}

fn read_response(stream: &mut impl BufRead) -> io::Result<(u16, Value)> {
    let (mut status, mut length, mut line) = (None, 0, String::new());
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end().to_ascii_lowercase();
        if text.is_empty() {
            break;
        }
        status = status.or_else(|| text.split(' ').nth(1)?.parse().ok());
        if let Some(value) = text.strip_prefix("content-length: ") {
            length = value.parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((status.ok_or(io::ErrorKind::InvalidData)?, serde_json::from_slice(&body)?))
}

fn submit(shared: &Arc<Shared>, first: usize) {
    let mut client = Client::new(shared, first);
    while !shared.over.load(Ordering::SeqCst) {
        let id = Uuid::new_v4().to_string();
        if client.post("/v1/executions", &json!({"kind": "k", "id": id})).is_some() {
            shared.submitted.lock().expect("no test thread panicked").insert(id);
            shared.submissions.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Claims and completes executions until all that were submitted have ended.
fn work(shared: &Arc<Shared>, first: usize, completed: &Mutex<BTreeSet<String>>) {
    let mut client = Client::new(shared, first);
    let instance = format!("instance-{first}");
    // The answer to a claim may be lost with its server. Its lease then expires soon.
    let claim = json!({"worker": "w", "lanes": ["default"], "max": 5, "wait_ms": 200, "lease_ttl_ms": 2000});
    let deadline = Instant::now() + LONG;
    loop {
        let done = completed.lock().expect("no test thread panicked").len();
        let is_over = shared.over.load(Ordering::SeqCst);
        if is_over && done == shared.submitted.lock().expect("no test thread panicked").len() {
            return;
        }
        assert!(Instant::now() < deadline, "{done} executions were completed");
        let Some(claimed) = client.post(&format!("/v1/workers/{instance}/claim"), &claim) else { continue };
        for claimed in claimed["claims"].as_array().expect("claims is an array") {
            let op = json!({
                "op": "complete", "op_id": Uuid::new_v4().to_string(), "execution": claimed["execution"]["id"],
                "attempt": claimed["attempt"], "lease_id": claimed["lease"]["id"], "epoch": claimed["lease"]["epoch"],
            });
            let report = client.post(&format!("/v1/workers/{instance}/report"), &json!({"ops": [op]}));
            if report.is_some_and(|report| report["results"][0]["ok"] == true) {
                let id = claimed["execution"]["id"].as_str().expect("an id is text").to_owned();
                assert!(
                    completed.lock().expect("no test thread panicked").insert(id),
                    "an execution is completed once"
                );
            }
        }
    }
}

#[test]
fn a_rolling_restart_of_two_servers_causes_no_error_that_one_repeat_does_not_heal() {
    let place = Postgres::new();
    let mut servers = [Server::start(&place), Server::start(&place)];
    let address = |server: &Server| server.url.trim_start_matches("http://").to_owned();
    let shared = Arc::new(Shared {
        addresses: Mutex::new([address(&servers[0]), address(&servers[1])]),
        submitted: Mutex::default(),
        submissions: AtomicU64::new(0),
        repeated: AtomicU64::new(0),
        failures: Mutex::default(),
        over: AtomicBool::new(false),
    });
    let completed: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let mut clients = Vec::new();
    for first in [0, 1] {
        let (submitter, worker, completed) = (shared.clone(), shared.clone(), completed.clone());
        clients.push(thread::spawn(move || submit(&submitter, first)));
        clients.push(thread::spawn(move || work(&worker, first, &completed)));
    }
    let deadline = Instant::now() + LONG;
    for restart in 0..RESTARTS {
        let enough = (restart as u64 + 1) * BETWEEN;
        while shared.submissions.load(Ordering::SeqCst) < enough {
            assert!(Instant::now() < deadline, "submissions continue during the restarts");
            thread::yield_now();
        }
        let server = &mut servers[restart % 2];
        server.signal("TERM");
        assert!(server.wait_for_exit().0.success(), "a server ends by itself");
        *server = Server::start(&place);
        shared.addresses.lock().expect("no test thread panicked")[restart % 2] = address(server);
    }
    shared.over.store(true, Ordering::SeqCst);
    for client in clients {
        client.join().expect("no client panics");
    }
    let failures = shared.failures.lock().expect("no test thread panicked");
    assert!(failures.is_empty(), "{failures:#?}");
    let (submitted, completed) = (shared.submitted.lock(), completed.lock());
    assert_eq!(*submitted.expect("no test thread panicked"), *completed.expect("no test thread panicked"));
    println!(
        "{} submissions, {} calls were repeated",
        shared.submissions.load(Ordering::SeqCst),
        shared.repeated.load(Ordering::Relaxed)
    );
}
