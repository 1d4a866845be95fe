//! The memory of the server, whatever its clients do.

use crate::support::{Place, Server, on_each_store, post};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

on_each_store!(slow_subscribers_need_little_memory_and_leave_none_behind);

/// The number of subscribers. Each needs some megabytes of socket buffers, which belong to the kernel.
const SUBSCRIBERS: u64 = 100;
/// The number of batches, each of which is one commit and one entry of the log.
const BATCHES: u64 = 12;
/// The maximum number of executions of a batch.
const BATCH: u64 = 1000;
/// The most that the server's memory may grow for a slow subscriber, in KiB: 64 KiB of the log, the connection, and some
/// space that the allocator cannot use. 1000 subscribers then need less than 300 MB.
const KIB_PER_SUBSCRIBER: u64 = 250;
/// The most that may remain when the subscribers are gone, for each of them, in KiB.
const KIB_LEFT_PER_SUBSCRIBER: u64 = 150;

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

fn slow_subscribers_need_little_memory_and_leave_none_behind(place: &impl Place) {
    let server = Server::start(place);
    let tags: Value = (0..4).map(|number| (format!("tag{number}"), json!("x".repeat(100)))).collect();
    let executions = vec![json!({"kind": "k", "tags": tags}); BATCH as usize];
    for _ in 0..BATCHES {
        let (status, answer) =
            post(&format!("{}/v1/executions/batch", server.url), &json!({"executions": executions}));
        assert_eq!(status, 200, "{answer}");
    }
    let before = settled_kib(&server);
    let peak_before = memory_kib(&server, "VmHWM");
    let subscribers: Vec<TcpStream> =
        (0..SUBSCRIBERS).map(|_| subscribe_and_stop_reading(&server.url)).collect();
    let during = settled_kib(&server);
    let peak = memory_kib(&server, "VmHWM");
    let report = format!("{before} KiB before (peak {peak_before}), {during} during (peak {peak})");
    let allowed = before.max(peak_before) + SUBSCRIBERS * KIB_PER_SUBSCRIBER;
    assert!(peak <= allowed, "{report}");
    drop(subscribers);
    let after = settled_kib(&server);
    assert!(after <= before + SUBSCRIBERS * KIB_LEFT_PER_SUBSCRIBER, "{report}, {after} after");
}
