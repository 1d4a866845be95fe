//! Browsers end with their test, however it ends.

use crate::address;
use crate::browser::{Browser, Colours};
use crate::support::Server;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Tells the test below how it ends. Marks its processes, because processes inherit it.
const ENDING: &str = "SELVEDGE_TEST_BROWSER_ENDING";
const BEGUN: &str = "the browser runs";

/// Runs only in a process of its own, which the other tests start.
#[tokio::test(flavor = "multi_thread")]
async fn a_test_with_a_browser_ends() {
    let Ok(ending) = std::env::var(ENDING) else { return };
    let server = Server::start().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/").await;
    println!("{BEGUN}");
    match ending.split(' ').next() {
        Some("panic") => panic!("the test fails"),
        Some("return") => {}
        _ => std::future::pending().await,
    }
}

/// A process that is killed if this test fails.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a test with a browser. Returns its process once the browser runs, and the mark of its processes.
fn start(ending: &str) -> (Process, String) {
    let ending = format!("{ending} {}", uuid::Uuid::now_v7());
    let mut command = Command::new(std::env::current_exe().expect("the test is a program"));
    command.args(["--exact", "ends::a_test_with_a_browser_ends", "--nocapture"]).env(ENDING, &ending);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut process = Process(child.expect("the test starts"));
    let stdout = BufReader::new(process.0.stdout.take().expect("its output is captured"));
    let mut lines = stdout.lines().map(|line| line.expect("its output is text"));
    assert!(lines.any(|line| line.contains(BEGUN)), "the browser starts");
    (process, format!("{ENDING}={ending}"))
}

/// Returns the names of the running processes with a mark.
fn marked(mark: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("Linux has /proc").flatten().map(|entry| entry.path());
    let is_marked =
        |environment: Vec<u8>| environment.split(|byte| *byte == 0).any(|one| one == mark.as_bytes());
    // A process may end meanwhile. One that ended and was not waited for has no environment.
    processes
        .filter(|process| std::fs::read(process.join("environ")).is_ok_and(is_marked))
        .filter_map(|process| std::fs::read_to_string(process.join("comm")).ok())
        .collect()
}

fn wait_until_none_is_left(mark: &str) {
    let begin = Instant::now();
    while !marked(mark).is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(30), "left behind: {:?}", marked(mark));
        std::thread::yield_now();
    }
}

#[test]
fn a_browser_ends_with_a_test_that_is_killed() {
    let (mut process, mark) = start("kill");
    let running = marked(&mark);
    assert!(running.iter().any(|name| name.starts_with("chromium")), "{running:?}");
    process.0.kill().expect("the test runs");
    process.0.wait().expect("the test ends");
    wait_until_none_is_left(&mark);
}

#[test]
fn a_browser_ends_with_a_test_that_fails() {
    let (mut process, mark) = start("panic");
    assert!(!process.0.wait().expect("the test ends").success());
    wait_until_none_is_left(&mark);
}

#[test]
fn a_browser_ends_with_a_test_that_returns_without_finishing() {
    let (mut process, mark) = start("return");
    process.0.wait().expect("the test ends");
    wait_until_none_is_left(&mark);
}

#[test]
fn the_script_of_the_tests_names_and_ends_what_a_run_left_behind() {
    let run = uuid::Uuid::now_v7().to_string();
    let left_behind = || {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/left-behind");
        Command::new(script).arg(&run).output().expect("the script starts")
    };
    let sleeps = |run: &str| {
        let mut command = Command::new("sleep");
        Process(command.arg("600").env("SELVEDGE_TEST_RUN", run).spawn().expect("sleep starts"))
    };
    assert!(left_behind().status.success());
    let (mut left, mut other) = (sleeps(&run), sleeps("another run"));
    let found = left_behind();
    let text = String::from_utf8_lossy(&found.stderr);
    assert_eq!(found.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("{} (parent", left.0.id())) && text.contains("sleep 600"), "{text}");
    assert!(!text.contains(&format!("{} (parent", other.0.id())), "{text}");
    assert!(!left.0.wait().expect("it has ended").success());
    assert!(other.0.try_wait().expect("its state is known").is_none(), "processes of others stay");
    assert!(left_behind().status.success());
}
