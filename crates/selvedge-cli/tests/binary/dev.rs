//! `selvedge dev`: its hints, its sample flow and its demonstration worker.

use crate::support::{Place, Server, Sqlite, command, get, post, result, state, submit, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

fn start(place: &impl Place, flags: &[&str]) -> Server {
    let mut dev = command();
    dev.args(["dev", "--store", &place.store()]).args(flags);
    Server::spawn(dev)
}

#[test]
fn the_printed_commands_work_as_printed() {
    let place = Sqlite::new();
    let mut server = start(&place, &[]);
    let printed = server.lines_until("Ctrl-C");
    let page = format!("{}/", server.url);
    assert!(printed.iter().any(|line| line.trim() == page), "{printed:?}");
    let commands: Vec<&String> = printed.iter().filter(|line| line.contains("curl ")).collect();
    let responses: Vec<Value> = commands
        .iter()
        .map(|line| {
            let output = Command::new("sh").args(["-c", line]).output().expect("sh starts");
            serde_json::from_slice(&output.stdout).expect("the response is JSON")
        })
        .collect();
    let [submitted, ended] = &responses[..] else {
        panic!("{printed:?}");
    };
    assert_eq!(submitted["execution"]["kind"], "demo.echo");
    assert_eq!(ended["outcome"], "completed");
    let id = text(&submitted["execution"]["id"]);
    let (_, execution) = get(&format!("{}/v1/executions/{id}", server.url));
    assert_eq!(ended["result"], execution["input"]);
}

#[test]
fn the_sample_flow_completes_and_its_graph_can_be_viewed() {
    let place = Sqlite::new();
    let mut server = start(&place, &[]);
    let printed = server.lines_until("Ctrl-C");
    let page = printed.iter().map(|line| line.trim()).find(|line| line.contains("/flows/"));
    let page = page.unwrap_or_else(|| panic!("{printed:?}"));
    let flow = &page.replace("/flows/", "/v1/flows/");

    let (status, ended) = get(&format!("{flow}/result?wait_ms=30000"));
    assert_eq!(status, 200, "{ended}");
    let (_, view) = get(flow);
    assert_eq!((text(&view["name"]), text(&view["state"])), ("sample".into(), "completed".into()));
    let (_, graph_json) = get(&format!("{flow}/graph?format=json"));
    let nodes = graph_json["nodes"].as_array().expect("nodes is an array");
    let states: BTreeMap<String, String> =
        nodes.iter().map(|node| (text(&node["name"]), text(&node["state"]))).collect();
    let state_of = |name: &str| states[name].as_str();
    assert_eq!(
        (state_of("near"), state_of("far"), state_of("fetched")),
        ("completed", "cancelled", "completed")
    );
    assert_eq!((state_of("check"), state_of("print")), ("completed", "failed"));
    assert_eq!((state_of("alert"), state_of("report")), ("completed", "completed"));

    let report = nodes.iter().find(|node| node["name"] == "report").expect("the flow has a node report");
    let alert = &result(&server.url, &text(&report["execution"])).1["result"]["alert"]["result"];
    assert_eq!(alert["print"]["error"]["message"], "out of paper");

    let html = Command::new("curl").args(["--silent", page]).output().expect("curl starts");
    let html = String::from_utf8(html.stdout).expect("the page is text");
    assert!(html.contains("<svg class=\"selvedge-graph\"") && html.contains("fetched"), "{html}");
}

/// Returns the flows of the store, newest first.
fn flows(url: &str) -> Vec<Value> {
    get(&format!("{url}/v1/flows")).1["items"].as_array().cloned().expect("items is an array")
}

#[test]
fn the_sample_is_tagged_and_runs_once_until_somebody_submits_it_again() {
    let place = Sqlite::new();
    let mut server = start(&place, &[]);
    let printed = server.lines_until("Ctrl-C");
    assert!(printed.iter().any(|line| line.contains("selvedge submit demo.sample")), "{printed:?}");
    let url = &server.url;
    let first = text(&flows(url)[0]["id"]);
    assert_eq!(get(&format!("{url}/v1/flows/{first}/result?wait_ms=30000")).0, 200);
    // Everything that a page needs while it is open.
    for path in ["", "executions", "flows", "approvals"] {
        let page = Command::new("curl")
            .args(["--silent", "--header", "accept: text/html", &format!("{url}/{path}")])
            .output();
        assert!(page.expect("curl starts").status.success());
    }
    let again = result(url, &submit(url, json!({"kind": "demo.sample"}))).1;
    let found: Vec<String> = flows(url).iter().map(|flow| text(&flow["id"])).collect();
    assert_eq!(found, [text(&again["result"]), first], "one flow at the start, one by the call");
    for flow in flows(url) {
        assert_eq!((text(&flow["name"]), text(&flow["tags"]["demo"])), ("sample".into(), "sample".into()));
    }
    let (_, tagged) = get(&format!("{url}/v1/executions?tag=demo:sample"));
    assert_eq!(tagged["items"].as_array().map(Vec::len), Some(14), "all nodes of both flows");
}

#[test]
fn the_demonstration_worker_leaves_kinds_of_users_alone() {
    let place = Sqlite::new();
    let server = start(&place, &["--json", "--allow-shell"]);
    let url = &server.url;
    let kinds = ["echo", "sleep", "fail", "flaky", "approve", "question", "sample", "shell"];
    let ids = kinds.map(|kind| submit(url, json!({"kind": kind, "input": {"ms": 0}})));
    // The echo is submitted last and completes, so the worker has passed over the others.
    assert_eq!(result(url, &submit(url, json!({"kind": "demo.echo"}))).0, 200);
    for id in &ids {
        let (_, execution) = get(&format!("{url}/v1/executions/{id}"));
        assert_eq!((text(&execution["state"]), execution["attempts"].as_u64()), ("waiting".into(), Some(0)));
    }
}

#[test]
fn without_the_demonstration_no_worker_and_no_flow_exist() {
    let place = Sqlite::new();
    let mut server = start(&place, &["--no-demo"]);
    let printed = server.lines_until("Ctrl-C");
    assert!(!printed.iter().any(|line| line.contains("demo.")), "{printed:?}");
    let (_, workers) = get(&format!("{}/v1/workers", server.url));
    assert_eq!((workers["items"].clone(), flows(&server.url)), (json!([]), Vec::new()));
}

#[test]
fn without_samples_the_store_stays_empty() {
    let place = Sqlite::new();
    let mut server = start(&place, &["--no-sample"]);
    let printed = server.lines_until("Ctrl-C");
    assert!(!printed.iter().any(|line| line.contains("/flows/")), "{printed:?}");
    assert!(flows(&server.url).is_empty());
}

#[test]
fn a_store_with_executions_gets_no_sample_flow() {
    let place = Sqlite::new();
    start(&place, &["--json"]).kill();
    let mut server = start(&place, &[]);
    let printed = server.lines_until("Ctrl-C");
    assert!(!printed.iter().any(|line| line.contains("/flows/")), "{printed:?}");
    let (_, flows) = get(&format!("{}/v1/flows", server.url));
    assert_eq!(flows["items"].as_array().map(Vec::len), Some(1), "{flows}");
}

#[test]
fn the_demonstration_worker_runs_the_demonstration_kinds() {
    let place = Sqlite::new();
    let server = start(&place, &["--allow-shell", "--json"]);
    let url = &server.url;
    let run = |kind: &str, input: Value| {
        let retry = json!({"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}});
        let id = submit(url, json!({"kind": kind, "input": input, "retry": retry}));
        result(url, &id).1
    };
    assert_eq!(run("demo.echo", json!([1, "a"]))["result"], json!([1, "a"]));
    assert_eq!(run("demo.sleep", json!({"ms": 1}))["result"], 1);
    assert_eq!(run("demo.flaky", json!({"failures": 1}))["result"], 1);
    assert_eq!(run("demo.flaky", json!({"failures": 2}))["outcome"], "failed");
    assert_eq!(run("demo.shell", json!({"command": "echo $((6 * 7))"}))["result"]["stdout"], "42\n");
    let failed = run("demo.shell", json!({"command": "echo no >&2; exit 3"}));
    assert_eq!(failed["error"]["message"], "exit status: 3: no");
    let failed = run("demo.fail", json!({"message": "no paper", "class": "permanent"}));
    assert_eq!(failed["error"], json!({"message": "no paper", "class": "permanent"}));
    assert_eq!(run("demo.fail", json!(null))["error"]["class"], "transient");
}

#[test]
fn an_approval_waits_for_its_signal_and_returns_its_source() {
    let place = Sqlite::new();
    let server = start(&place, &["--json"]);
    let id = submit(&server.url, json!({"kind": "demo.approve"}));
    while state(&server.url, &id) != "suspended" {}
    let signal = json!({"name": "approve", "source": "ann", "payload": "go ahead"});
    let (status, response) = post(&format!("{}/v1/executions/{id}/signals", server.url), &signal);
    assert_eq!((status, &response["effect"]), (200, &json!("resumed")), "{response}");
    assert_eq!(result(&server.url, &id).1["result"], json!({"by": "ann", "says": "go ahead"}));
}

#[test]
fn shell_commands_run_only_with_allow_shell() {
    let place = Sqlite::new();
    let server = start(&place, &[]);
    let id = submit(&server.url, json!({"kind": "demo.shell", "input": {"command": "true"}}));
    // The echo is submitted later and completes, so the worker has passed over the shell command.
    let echo = submit(&server.url, json!({"kind": "demo.echo"}));
    assert_eq!(result(&server.url, &echo).0, 200);
    assert_eq!(state(&server.url, &id), "waiting");
}

#[test]
fn a_second_signal_exits_at_once() {
    let place = Sqlite::new();
    let mut server = start(&place, &[]);
    let id = submit(&server.url, json!({"kind": "demo.sleep", "input": {"ms": 600_000}}));
    while state(&server.url, &id) != "active" {}
    server.signal("TERM");
    server.wait_for_log("draining");
    server.signal("TERM");
    let (status, _) = server.wait_for_exit();
    assert_eq!(status.code(), Some(143));
}

/// Advances the clock of a server. Returns its time.
fn advance(url: &str, by_ms: u64) -> String {
    let (status, advanced) = post(&format!("{url}/v1/clock/advance"), &json!({"by_ms": by_ms}));
    assert_eq!((status, &advanced["reached"]), (200, &json!(true)), "{advanced}");
    text(&advanced["now_at"])
}

#[test]
fn with_a_manual_clock_days_pass_when_the_test_says_so() {
    const DAY_MS: u64 = 24 * 3600 * 1000;
    let mut dev = command();
    dev.args(["dev", "--store", "memory:", "--manual-clock"]);
    let server = Server::spawn(dev);
    let url = &server.url;
    let (_, clock) = get(&format!("{url}/v1/clock"));
    assert_eq!(clock["manual"], true);
    assert_eq!(get(&format!("{url}/v1/clock")).1, clock, "it stands still");

    // A delay of three days, then two failures with a back-off of a day each.
    let backoff = json!({"max_retries": 5, "backoff": {"type": "fixed", "delay_ms": DAY_MS}});
    let id = submit(
        url,
        json!({"kind": "demo.flaky", "input": {"failures": 2}, "delay_ms": 3 * DAY_MS, "retry": backoff}),
    );
    advance(url, 3 * DAY_MS - 1);
    assert_eq!(state(url, &id), "delayed");
    advance(url, 1);
    assert_eq!(state(url, &id), "delayed", "its first attempt has failed");
    let now = advance(url, 3 * DAY_MS);
    assert_eq!(state(url, &id), "completed");
    let (_, execution) = get(&format!("{url}/v1/executions/{id}"));
    let (submitted, ended) = (text(&execution["submitted_at"]), text(&execution["ended_at"]));
    assert!(submitted < ended && ended < now, "{ended} is 5 days after {submitted}, {now} 6 days");
    let (_, attempts) = get(&format!("{url}/v1/executions/{id}/attempts"));
    let started: Vec<&str> = attempts["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|attempt| attempt["started_at"].as_str().expect("a time"))
        .collect();
    assert_eq!(started.len(), 3);
    assert!(started.is_sorted() && started[0] != started[1] && started[1] != started[2], "{started:?}");
}

#[test]
fn a_clock_that_is_not_manual_cannot_be_advanced() {
    let place = Sqlite::new();
    let server = start(&place, &[]);
    let (status, problem) = post(&format!("{}/v1/clock/advance", server.url), &json!({"by_ms": 1}));
    assert_eq!((status, problem["code"].as_str()), (422, Some("invalid_field")), "{problem}");
    assert!(text(&problem["detail"]).contains("--manual-clock"), "{problem}");
    assert_eq!(get(&format!("{}/v1/clock", server.url)).1["manual"], false);
    let mut refused = command();
    refused.args(["dev", "--store", &place.store(), "--manual-clock"]);
    let output = refused.output().expect("it starts");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("memory:"), "{output:?}");
}

/// Makes a call again and again until it is answered, as a client does in a bad network. Returns the answer.
fn insist(url: &str, body: &Value) -> Value {
    for _ in 0..100 {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--fail", "--max-time", "30", "--data-binary", &body.to_string(), url]);
        let output = curl.output().expect("curl starts");
        if let (true, Ok(answer)) = (output.status.success(), serde_json::from_slice(&output.stdout)) {
            return answer;
        }
    }
    panic!("{url} never answers");
}

#[test]
fn a_client_that_repeats_its_calls_survives_chaos_and_submits_once() {
    let place = Sqlite::new();
    let server = start(&place, &["--chaos", "0.5"]);
    let url = format!("{}/v1/executions", server.url);
    let keys: Vec<String> = (0..10).map(|number| format!("order-{number}")).collect();
    let submission = |key: &String| json!({"kind": "demo.echo", "input": key, "idempotency_key": key, "tags": {"chaos": "yes"}});
    let ids: Vec<String> =
        keys.iter().map(|key| text(&insist(&url, &submission(key))["execution"]["id"])).collect();
    // A repeated submission finds the first one, whatever the network does.
    let again: Vec<String> =
        keys.iter().map(|key| text(&insist(&url, &submission(key))["execution"]["id"])).collect();
    assert_eq!(ids, again);
    // So many that each fault is certain, for all practical purposes.
    let calls: Vec<Child> = (0..100)
        .map(|_| {
            Command::new("curl").args(["--silent", &url]).stdout(Stdio::null()).spawn().expect("curl starts")
        })
        .collect();
    calls.into_iter().for_each(|mut call| {
        let _ = call.wait().expect("curl exits");
    });
    let log = server.stop_and_read_log();
    for fault in ["the answer is lost", "the call is repeated", "the answer is delayed"] {
        assert!(log.contains(fault), "120 calls met no fault {fault:?}: {log}");
    }

    let server = start(&place, &[]);
    for (id, key) in ids.iter().zip(&keys) {
        let (status, ended) = result(&server.url, id);
        assert_eq!((status, &ended["result"]), (200, &json!(key)));
    }
    let (_, listed) = get(&format!("{}/v1/executions?tag=chaos:yes", server.url));
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(keys.len()), "each is submitted once");
}

#[test]
fn chaos_takes_leases_away_and_the_execution_is_claimed_again() {
    let place = Sqlite::new();
    let mut server = start(&place, &["--chaos", "1"]);
    let url = format!("{}/v1/executions", server.url);
    let submitted =
        insist(&url, &json!({"kind": "demo.sleep", "input": {"ms": 600_000}, "idempotency_key": "long"}));
    server.wait_for_log("chaos: the lease is lost");
    drop(server);
    let server = start(&place, &[]);
    let id = text(&submitted["execution"]["id"]);
    let (_, attempts) = get(&format!("{}/v1/executions/{id}/attempts", server.url));
    assert_eq!(attempts["items"][0]["outcome"], "revoked", "{attempts}");
    assert_eq!(attempts["items"][1]["epoch"], 2, "{attempts}");
}
