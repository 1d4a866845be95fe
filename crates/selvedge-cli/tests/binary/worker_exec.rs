//! `selvedge worker exec`: a command for each execution.

use crate::support::{Directory, Server, Sqlite, command, get, post, result, state, submit, text};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A running worker, which is killed when the test ends.
struct Worker(Child);

impl Worker {
    /// Starts a worker that runs a shell script for executions of the kind `k`.
    fn start(server: &Server, flags: &[&str], script: &str) -> Worker {
        let mut worker = command();
        worker.env("SELVEDGE_SERVER", &server.url).args(["worker", "exec", "--kind", "k"]).args(flags);
        worker.args(["--", "sh", "-c", script]).stdout(Stdio::null()).stderr(Stdio::null());
        Worker(worker.spawn().expect("the worker starts"))
    }

    fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &id]).status();
        assert!(sent.expect("kill starts").success());
    }

    fn wait(&mut self) -> ExitStatus {
        self.0.wait().expect("the worker exits")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `condition` holds.
fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} did not happen within a minute");
        std::thread::yield_now();
    }
}

/// Returns the process that a script has written to a file.
fn process(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    text.ends_with('\n').then(|| text.trim().to_owned())
}

fn runs(process: &str) -> bool {
    // A process that ended but was not waited for is a zombie.
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn input_is_standard_input_and_standard_output_is_the_result() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    let _worker = Worker::start(&server, &[], "cat");
    let id = submit(&server.url, json!({"kind": "k", "input": {"b": 1, "a": [2]}}));
    assert_eq!(result(&server.url, &id).1["result"], json!({"b": 1, "a": [2]}));
}

#[test]
fn text_becomes_a_string_and_the_environment_describes_the_execution() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    let script = "echo $SELVEDGE_EXECUTION $SELVEDGE_ATTEMPT $SELVEDGE_KIND ${SELVEDGE_KEY-hidden}";
    let _worker = Worker::start(&server, &["--key", "slv_not_for_commands"], script);
    let id = submit(&server.url, json!({"kind": "k"}));
    assert_eq!(result(&server.url, &id).1["result"], json!(format!("{id} 0 k hidden")));
}

#[test]
fn standard_error_becomes_frames_and_the_end_of_a_failure_message() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    let _worker = Worker::start(&server, &[], "echo first >&2; echo the disk is full >&2; exit 65");
    let id = submit(&server.url, json!({"kind": "k"}));
    let (_, ended) = result(&server.url, &id);
    assert_eq!((&ended["outcome"], &ended["error"]["class"]), (&json!("failed"), &json!("permanent")));
    let message = text(&ended["error"]["message"]);
    assert!(message.contains("65") && message.ends_with("the disk is full"), "{message}");
    let (_, stream) = get(&format!("{}/v1/executions/{id}/stream", server.url));
    let frames = stream["items"].as_array().expect("items is an array");
    let data: String = frames.iter().map(|frame| text(&frame["data"])).collect();
    assert_eq!(data, "first\nthe disk is full\n");
}

#[test]
fn a_command_that_fails_is_retried() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    let _worker =
        Worker::start(&server, &[], "[ $SELVEDGE_ATTEMPT -ge 2 ] || exit 1; echo $SELVEDGE_ATTEMPT");
    let backoff = json!({"type": "fixed", "delay_ms": 10});
    let id = submit(&server.url, json!({"kind": "k", "retry": {"backoff": backoff}}));
    assert_eq!(result(&server.url, &id).1["result"], json!(2));
}

#[test]
fn output_of_5_megabytes_is_a_failure_that_names_the_limit() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    let _worker = Worker::start(&server, &[], "head -c 5000000 /dev/zero");
    let id = submit(&server.url, json!({"kind": "k"}));
    let (_, ended) = result(&server.url, &id);
    let message = text(&ended["error"]["message"]);
    assert!(message.contains("5000000 bytes") && message.contains("1048576"), "{message}");
}

#[test]
fn the_results_of_upstreams_are_the_input_of_a_node_without_one() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    let _worker = Worker::start(&server, &[], "cat");
    let flow = json!({
        "nodes": [{"name": "a", "kind": "k", "input": 1}, {"name": "b", "kind": "k", "input": 2}, {"name": "sum", "kind": "k"}],
        "edges": [{"from": "a", "to": "sum"}, {"from": "b", "to": "sum"}],
    });
    let (status, submitted) = post(&format!("{}/v1/flows", server.url), &flow);
    assert_eq!(status, 201, "{submitted}");
    let sum = text(&submitted["executions"]["sum"]);
    assert_eq!(result(&server.url, &sum).1["result"], json!({"a": 1, "b": 2}));
}

/// Starts a worker whose script ignores nothing and sleeps. Returns the execution and the processes of the script and of its
/// child.
fn start_sleeping(
    server: &Server,
    flags: &[&str],
    more: Value,
    directory: &Directory,
) -> (Worker, String, [String; 2]) {
    let (shell, child) = (directory.path().join("shell"), directory.path().join("child"));
    let script = format!(
        "sleep 600 & echo $! > {child}; echo $$ > {shell}; wait",
        child = child.display(),
        shell = shell.display()
    );
    let worker = Worker::start(server, flags, &script);
    let mut submission = json!({"kind": "k"});
    for (name, value) in more.as_object().into_iter().flatten() {
        submission[name] = value.clone();
    }
    let id = submit(&server.url, submission);
    wait_for("the start of the command", || process(&shell).is_some());
    let processes = [process(&shell), process(&child)].map(|process| process.expect("it was written"));
    (worker, id, processes)
}

#[test]
fn a_cancelled_execution_ends_the_command_and_its_children() {
    let (place, directory) = (Sqlite::new(), Directory::new());
    let server = Server::start(&place);
    let (_worker, id, processes) = start_sleeping(&server, &[], json!({}), &directory);
    let cancel = json!({"grace_ms": 30_000});
    let (status, answer) = post(&format!("{}/v1/executions/{id}/cancel", server.url), &cancel);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(result(&server.url, &id).1["outcome"], "cancelled");
    wait_for("the end of the processes", || !processes.iter().any(|process| runs(process)));
}

#[test]
fn a_command_that_hangs_beyond_its_attempt_timeout_is_killed() {
    let (place, directory) = (Sqlite::new(), Directory::new());
    let server = Server::start(&place);
    let limits = json!({"attempt_timeout_ms": 500, "retry": {"max_retries": 0}});
    let (_worker, id, processes) = start_sleeping(&server, &["--lease-ttl", "1s"], limits, &directory);
    assert_eq!(result(&server.url, &id).1["error"]["class"], "timeout");
    wait_for("the end of the processes", || !processes.iter().any(|process| runs(process)));
}

#[test]
fn a_worker_that_is_stopped_puts_its_execution_back_and_exits_with_success() {
    let (place, directory) = (Sqlite::new(), Directory::new());
    let server = Server::start(&place);
    let (mut worker, id, processes) = start_sleeping(&server, &["--grace", "0s"], json!({}), &directory);
    worker.signal("TERM");
    assert!(worker.wait().success());
    assert_eq!(state(&server.url, &id), "waiting");
    wait_for("the end of the processes", || !processes.iter().any(|process| runs(process)));
}

#[test]
fn another_worker_takes_over_from_one_that_was_killed() {
    let (place, directory) = (Sqlite::new(), Directory::new());
    let server = Server::start(&place);
    let (mut killed, id, processes) = start_sleeping(&server, &["--lease-ttl", "1s"], json!({}), &directory);
    killed.signal("KILL");
    killed.wait();
    // Nobody is left to end the processes of a killed worker.
    for process in &processes {
        let _ = Command::new("kill").args(["-KILL", process]).status();
    }
    let _worker = Worker::start(&server, &[], "echo $SELVEDGE_ATTEMPT");
    assert_eq!(result(&server.url, &id).1["result"], json!(1));
}

#[test]
fn a_command_that_does_not_exist_is_refused_at_the_start() {
    let mut worker = command();
    worker.args(["worker", "exec", "--kind", "k", "--", "no-such-command"]);
    let output = worker.output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("there is no command \"no-such-command\""), "{message}");
}

#[test]
fn a_worker_survives_chaos_and_runs_everything() {
    let place = Sqlite::new();
    let mut dev = command();
    dev.args(["dev", "--store", &crate::support::Place::store(&place)]);
    let calm = Server::spawn(dev);
    let ids: Vec<String> =
        (0..20).map(|number| submit(&calm.url, json!({"kind": "k", "input": number}))).collect();
    drop(calm);
    let mut dev = command();
    dev.args(["dev", "--store", &crate::support::Place::store(&place), "--chaos", "0.3"]);
    let disturbed = Server::spawn(dev);
    let mut worker =
        Worker::start(&disturbed, &["--lease-ttl", "5s", "--concurrency", "4", "--count", "20"], "cat");
    worker.wait();
    drop(disturbed);
    let calm = Server::start(&place);
    let _last = Worker::start(&calm, &[], "cat");
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(result(&calm.url, id).1["result"], json!(number));
    }
}
