//! Every example runs, embedded and against a server, and prints what it promises.

use selvedge::Engine;
use std::future::pending;
use std::path::PathBuf;
use std::process::Command;
use tokio::net::TcpListener;

/// Returns the program of an example, which cargo builds along with the tests.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test program is known");
    let directory = test.parent().and_then(|deps| deps.parent()).expect("the directory of the build");
    directory.join("examples").join(name)
}

/// Runs an example on an address, and returns its output.
async fn output(name: &'static str, address: String) -> String {
    let run = move || Command::new(program(name)).arg(address).output();
    let output =
        tokio::task::spawn_blocking(run).await.expect("the thread ends").expect("the example starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs an example embedded in memory and against a server in memory.
async fn prints(name: &'static str, expected: &str) {
    assert_eq!(output(name, "memory:".into()).await, expected);
    let engine = Engine::open("memory:").await.expect("the engine starts");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("the listener has an address");
    let serving = tokio::spawn(selvedge_server::serve(engine.clone().into_inner(), listener, pending()));
    assert_eq!(output(name, format!("http://{address}")).await, expected, "over HTTP");
    serving.abort();
    engine.shutdown().await;
}

#[tokio::test]
async fn hello_greets() {
    prints("hello", "Hello, Ada!\n").await;
}

#[tokio::test]
async fn retry_charges_once() {
    prints("retry", "shipped after 3 attempts, charged 1 time\n").await;
}

#[tokio::test]
async fn diamond_joins_two_branches() {
    prints("diamond", "the sum is 15, the largest number 7\n").await;
}

#[tokio::test]
async fn llm_race_takes_the_first_answer() {
    prints("llm_race", "fast: forty-two\nstreamed 3 tokens\nthe other call was cancelled: true\n").await;
}

#[tokio::test]
async fn approval_needs_two_of_three() {
    prints("approval", "deployed, approved by ann and cleo\n").await;
}

#[tokio::test]
async fn agent_loop_repeats_no_step() {
    prints("agent_loop", "48 after 5 calls of the tool\n").await;
}

#[tokio::test]
async fn token_budget_holds_a_call_until_the_reset() {
    let expected = "spent [\"tokens\"]\nthe second call is held: true\nthe second call ran after the reset\n";
    prints("token_budget", expected).await;
}

#[tokio::test]
async fn noop_throughput_completes_every_execution() {
    let printed = output("noop_throughput", "memory:".into()).await;
    assert!(printed.starts_with("1000 completed, "), "{printed}");
}
