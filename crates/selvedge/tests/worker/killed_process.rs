//! A process that is killed after each of its steps: the next process continues after the last recorded step.
//!
//! The test starts its own program again, with the store and the point at which to stop in the environment.

use super::place::{Directory, Place, Postgres, Sqlite};
use super::{block_on, no_delay, submit, wait_for_end};
use selvedge::{Context, Engine, Failure, Outcome, Submission, Worker};
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::future::pending;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The number of steps of the handler.
const STEPS: usize = 10;
/// Environment variable: the address of the store. It is set only in the process that runs the worker.
const STORE: &str = "SELVEDGE_TEST_STORE";
/// Environment variable: the file to which each step appends its number.
const EFFECTS: &str = "SELVEDGE_TEST_EFFECTS";
/// Environment variable: the point at which the handler stops and waits to be killed.
const STOP: &str = "SELVEDGE_TEST_STOP";
/// The line that the process prints when the handler has stopped, and when the execution has ended.
const REACHED: &str = "stop reached";

/// A point of the handler at which the process is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stop {
    /// Within this step, after its effect and before its record.
    Within(usize),
    /// After this step.
    After(usize),
    Never,
}

impl Stop {
    fn name(self) -> String {
        match self {
            Stop::Within(step) => format!("within {step}"),
            Stop::After(step) => format!("after {step}"),
            Stop::Never => "never".into(),
        }
    }
}

/// Waits forever if the handler is to stop at this point.
async fn pass(point: Stop) {
    if std::env::var(STOP).is_ok_and(|stop| stop == point.name()) {
        println!("{REACHED}");
        pending::<()>().await;
    }
}

async fn ten_steps(ctx: Context) -> Result<usize, Failure> {
    let file = std::env::var(EFFECTS)?;
    for step in 0..STEPS {
        let done = ctx.step(format!("step-{step}"), || async {
            let mut file = OpenOptions::new().create(true).append(true).open(&file)?;
            writeln!(file, "{step}")?;
            pass(Stop::Within(step)).await;
            Ok(())
        });
        done.await?;
        pass(Stop::After(step)).await;
    }
    Ok(STEPS)
}

/// The body of the process: runs a worker until the process is killed or its execution has ended.
async fn work(store: String) {
    let engine = Engine::open(&store).await.expect("the engine starts");
    let namespace = engine.namespace("default").await.expect("the namespace opens");
    let submission = Submission::new("ten").backoff(no_delay()).idempotency_key("the one");
    let id = submit(&namespace, submission).await;
    let worker = Worker::new(namespace.clone(), "w").lease_ttl(Duration::from_millis(500));
    let worker = worker.handler("ten", ten_steps).start().expect("the worker starts");
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, json!(STEPS)));
    worker.drain().await;
    engine.shutdown().await;
    println!("{REACHED}");
}

/// Starts the process, waits until it has reached the stop, and kills it.
fn run_until(stop: Stop, test: &str, store: &str, effects: &Path) {
    let program = std::env::current_exe().expect("the path of the test program is known");
    let mut process = Command::new(program)
        .args([test, "--exact", "--nocapture"])
        .env(STORE, store)
        .env(EFFECTS, effects)
        .env(STOP, stop.name())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the process starts");
    let output = BufReader::new(process.stdout.take().expect("the output is piped"));
    let mut lines = output.lines().map(|line| line.expect("the output is UTF-8"));
    let reached = lines.any(|line| line.ends_with(REACHED));
    process.kill().expect("the process is killed");
    process.wait().expect("the process has ended");
    assert!(reached, "the process reaches {stop:?}");
}

/// Kills the process after each step, and once within a step, and checks the effects.
fn steps_run_once(test: &str, place: impl FnOnce() -> Box<dyn Place>) {
    if let Ok(store) = std::env::var(STORE) {
        return block_on(work(store));
    }
    let (place, directory) = (place(), Directory::new());
    let effects = directory.path().join("effects");
    for step in 0..STEPS {
        if step == 4 {
            run_until(Stop::Within(step), test, &place.store(), &effects);
        }
        run_until(Stop::After(step), test, &place.store(), &effects);
    }
    run_until(Stop::Never, test, &place.store(), &effects);
    let effects = fs::read_to_string(&effects).expect("the file of effects is read");
    let effects: Vec<usize> =
        effects.lines().map(|line| line.parse().expect("each line is a number")).collect();
    // Step 4 was killed between its effect and its record, so it runs again.
    assert_eq!(effects, [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn slow_recorded_steps_run_once_although_the_process_is_killed_after_each_on_sqlite() {
    let test =
        "killed_process::slow_recorded_steps_run_once_although_the_process_is_killed_after_each_on_sqlite";
    steps_run_once(test, || Box::new(Sqlite::new()));
}

#[test]
fn slow_recorded_steps_run_once_although_the_process_is_killed_after_each_on_postgres() {
    let test =
        "killed_process::slow_recorded_steps_run_once_although_the_process_is_killed_after_each_on_postgres";
    steps_run_once(test, || Box::new(Postgres::new()));
}
