//! The memory of the server while many subscribers read slowly.

use crate::support::{Place, Server, on_each_store};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

on_each_store!(slow_subscribers_need_little_memory_however_often_they_connect);

/// The number of subscribers. Each needs some megabytes of socket buffers, which belong to the kernel.
const SUBSCRIBERS: u64 = 100;
/// The number of times that this many subscribe and disconnect.
const ROUNDS: u64 = 3;
/// The number of batches, each of which is one commit and one entry of the log.
const BATCHES: u64 = 6;
/// The maximum number of executions of a batch.
const BATCH: u64 = 1000;
/// The most that the server's memory may grow for a slow subscriber, in KiB: 64 KiB of the log, the connection, and some
/// space that the allocator cannot use. 1000 subscribers then need less than 300 MB.
const KIB_PER_SUBSCRIBER: u64 = 260;
/// What the server's memory may grow beside that, in KiB: threads that a busy machine starts later have heaps of their own.
const MARGIN_KIB: u64 = 10 * 1024;

/// Returns a figure of the status of a process, in KiB.
fn memory_kib(server: &Server, figure: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it can be read");
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).expect("it has the figure");
    let figure = line.trim_start_matches(':').trim().trim_end_matches(" kB");
    figure.parse().expect("a figure is a number")
}

/// Waits until a figure stays the same for a while. Returns it.
fn settled_kib(server: &Server) -> u64 {
    let (mut last, mut same) = (0, 0);
    while same < 20 {
        std::thread::sleep(std::time::Duration::from_millis(25));
        let now = memory_kib(server, "VmRSS");
        same = if now.abs_diff(last) < 64 { same + 1 } else { 0 };
        last = now;
    }
    last
}

/// Makes a POST request with a body that is too large for the arguments of `curl`.
fn post_large(url: &str, path: &str, body: &Value) {
    let address = url.strip_prefix("http://").expect("an address");
    let mut stream = TcpStream::connect(address).expect("the server accepts");
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    assert!(answer.starts_with("HTTP/1.1 200"), "{}", &answer[..answer.len().min(500)]);
}

/// Subscribes to all events from the beginning, reads the first of them, and then nothing more.
fn subscribe_and_stop_reading(url: &str) -> TcpStream {
    let address = url.strip_prefix("http://").expect("an address");
    let mut stream = TcpStream::connect(address).expect("the server accepts");
    let request = format!(
        "GET /v1/events?from=beginning HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("the request is sent");
    let mut start = [0; 1024];
    stream.read_exact(&mut start).expect("the feed begins");
    let start = String::from_utf8_lossy(&start).into_owned();
    assert!(start.contains("execution.submitted"), "{start}");
    stream
}

fn slow_subscribers_need_little_memory_however_often_they_connect(place: &impl Place) {
    let server = Server::start(place);
    let tags: Value = (0..4).map(|number| (format!("tag{number}"), json!("x".repeat(100)))).collect();
    let executions = vec![json!({"kind": "k", "tags": tags}); BATCH as usize];
    for _ in 0..BATCHES {
        post_large(&server.url, "/v1/executions/batch", &json!({"executions": executions}));
    }
    let subscribe = |count: u64| -> Vec<TcpStream> {
        (0..count).map(|_| subscribe_and_stop_reading(&server.url)).collect()
    };
    // The first subscribers start reading connections and fill their caches.
    drop(subscribe(SUBSCRIBERS / 5));
    let before = settled_kib(&server).max(memory_kib(&server, "VmHWM"));
    for round in 0..ROUNDS {
        let subscribers = subscribe(SUBSCRIBERS);
        let during = settled_kib(&server);
        let peak = memory_kib(&server, "VmHWM");
        let report = format!("round {round}: {before} KiB before, {during} during, peak {peak}");
        assert!(peak <= before + SUBSCRIBERS * KIB_PER_SUBSCRIBER + MARGIN_KIB, "{report}");
        drop(subscribers);
    }
}
