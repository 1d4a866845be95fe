//! The memory of a real server: its peak stays small whatever callers store and ask for.

use crate::support::{Place, Server, claim, get, on_each_store, post, text};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

const MIB: usize = 1024 * 1024;
/// The number of large results.
const WIDTH: usize = 300;
/// The number of operations in one report of large results.
const REPORTED: usize = 25;

/// Makes a POST request with a large body. Returns the status and the size of the response.
fn post_large(url: &str, body: &str) -> (u16, usize) {
    let mut curl = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "90", "--request", "POST", url])
        .args([
            "--data-binary",
            "@-",
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code} %{size_download}",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("curl starts");
    let mut stdin = curl.stdin.take().expect("standard input is piped");
    stdin.write_all(body.as_bytes()).expect("curl reads the body");
    drop(stdin);
    let output = curl.wait_with_output().expect("curl exits");
    assert!(output.status.success(), "curl: {}", output.status);
    let text = String::from_utf8(output.stdout).expect("the figures are text");
    let (status, size) = text.split_once(' ').expect("there are two figures");
    (status.parse().expect("a status"), size.parse().expect("a size"))
}

/// Returns the peak of the resident memory of a server while `act` runs, above what it had before, in MiB.
pub fn peak_above<T>(server: &Server, act: impl FnOnce() -> T) -> (usize, T) {
    let pid = server.pid();
    let figure = |name: &str| -> usize {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the server runs");
        let line = status.lines().find(|line| line.starts_with(name)).expect("the figure is there");
        let kib = line.split_whitespace().nth(1).expect("a number");
        kib.parse::<usize>().expect("a number") / 1024
    };
    // Makes the current memory the peak.
    fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("the peak is reset");
    let before = figure("VmRSS:");
    let result = act();
    (figure("VmHWM:").saturating_sub(before), result)
}

/// Submits many upstreams of one downstream, `join`. Returns the id of the downstream.
fn submit_fan_in(url: &str) -> String {
    let names: Vec<String> = (0..WIDTH).map(|number| format!("n{number}")).collect();
    let mut nodes: Vec<Value> = names.iter().map(|name| json!({"name": name, "kind": "k"})).collect();
    nodes.push(json!({"name": "join", "kind": "k", "lane": "joins"}));
    let edges: Vec<Value> = names.iter().map(|name| json!({"from": name, "to": "join"})).collect();
    let (status, flow) = post(&format!("{url}/v1/flows"), &json!({"nodes": nodes, "edges": edges}));
    assert_eq!(status, 201, "{flow}");
    text(&flow["executions"]["join"])
}

/// Completes everything in lane `default` with results of 1 MiB.
fn complete_all(url: &str) {
    let large = "x".repeat(MIB - 2);
    loop {
        let claims = claim(url, "w", REPORTED as u32, 0);
        if claims.is_empty() {
            return;
        }
        let op = |claim: &Value| {
            json!({
                "op": "complete", "execution": claim["execution"]["id"], "attempt": claim["attempt"],
                "lease_id": claim["lease"]["id"], "epoch": claim["lease"]["epoch"], "result": large,
            })
        };
        let ops: Vec<Value> = claims.iter().map(op).collect();
        let (status, _) = post_large(&format!("{url}/v1/workers/w/report"), &json!({"ops": ops}).to_string());
        assert_eq!(status, 200);
    }
}

fn slow_a_join_of_300_large_results_and_lists_of_them_need_little_memory(place: &impl Place) {
    let server = Server::start(place);
    let url = server.url.clone();
    let join = submit_fan_in(&url);
    complete_all(&url);
    let body = json!({"worker": "w", "lanes": ["joins"], "max": 1, "wait_ms": 20_000});
    let (peak, (status, response)) =
        peak_above(&server, || post(&format!("{url}/v1/workers/w/claim"), &body));
    assert_eq!(status, 200);
    let claim = &response["claims"][0];
    let carried = claim["upstream"].as_object().expect("upstream is an object").len();
    let left_out = claim["upstream_refs"].as_object().expect("upstream_refs is an object").len();
    assert!(carried > 0 && carried <= 4, "{carried} results are carried");
    assert_eq!(carried + left_out, WIDTH);
    eprintln!("join of {WIDTH} results of 1 MiB: {peak} MiB");
    assert!(peak < 100, "a claim of a join of {WIDTH} MiB needs {peak} MiB");

    let (peak, pages) = peak_above(&server, || {
        let (mut pages, mut cursor) = (0, String::new());
        loop {
            let page = get(&format!("{url}/v1/executions/{join}/upstreams?limit=500{cursor}")).1;
            pages += 1;
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return pages,
            }
        }
    });
    eprintln!("pages of upstreams: {peak} MiB, {pages} pages");
    assert!(peak < 100, "pages of upstreams need {peak} MiB");
    assert!((WIDTH / 9..=WIDTH / 7 + 1).contains(&pages), "{pages} pages");

    let list = format!("{url}/v1/executions?limit=500&include=input,result,progress");
    let (peak, ()) = peak_above(&server, || {
        let lists = (0..6).map(|_| {
            let list = list.clone();
            thread::spawn(move || assert_eq!(get(&list).0, 200))
        });
        lists.collect::<Vec<_>>().into_iter().for_each(|list| list.join().expect("the list is read"));
    });
    eprintln!("six lists in parallel: {peak} MiB");
    assert!(peak < 300, "six lists in parallel need {peak} MiB");

    let ops = format!("{{\"ops\":[{}{{}}]}}", "{},".repeat(16_000_000 / 3));
    let (peak, (status, size)) =
        peak_above(&server, || post_large(&format!("{url}/v1/workers/w/report"), &ops));
    assert_eq!(status, 422);
    eprintln!("report of 16 MB of wrong operations: {peak} MiB");
    assert!(size < 10_000 && peak < 100, "a report of 16 MB needs {peak} MiB for {size} bytes");
}

on_each_store!(slow_a_join_of_300_large_results_and_lists_of_them_need_little_memory);
