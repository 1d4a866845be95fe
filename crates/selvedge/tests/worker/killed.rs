//! A process that is killed after each of its steps: the next one goes on where it was.
//!
//! The process is this very test, started again with what it shall do in its environment.

use super::place::{Directory, Place, Postgres, Sqlite};
use super::{at_once, ended, submit};
use selvedge::{Context, Engine, Failure, Outcome, Submission, Worker};
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::future::{Future, pending};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How many steps the handler has.
const STEPS: usize = 10;
/// The address of the store, for a process that runs the worker.
const STORE: &str = "SELVEDGE_TEST_STORE";
/// The file in which each effect is noted.
const EFFECTS: &str = "SELVEDGE_TEST_EFFECTS";
/// Where the handler stops and waits for its end.
const STOP: &str = "SELVEDGE_TEST_STOP";
/// What the process says when it has come there, and when the execution has ended.
const REACHED: &str = "it has come that far";

/// A place in the handler.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stop {
    /// In this step, when it has had its effect.
    Within(usize),
    /// After this step.
    After(usize),
    Never,
}

impl Stop {
    fn word(self) -> String {
        match self {
            Stop::Within(step) => format!("within {step}"),
            Stop::After(step) => format!("after {step}"),
            Stop::Never => "never".into(),
        }
    }
}

async fn come_to(stop: Stop) {
    if std::env::var(STOP).is_ok_and(|word| word == stop.word()) {
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
            come_to(Stop::Within(step)).await;
            Ok(())
        });
        done.await?;
        come_to(Stop::After(step)).await;
    }
    Ok(STEPS)
}

/// What the process does: it works until it is killed, or the one execution there is has ended.
async fn work(store: String) {
    let engine = Engine::open(&store).await.expect("the engine starts");
    let namespace = engine.namespace("default").await.expect("the namespace is there");
    let submission = Submission::new("ten").backoff(at_once()).idempotency_key("the one");
    let id = submit(&namespace, submission).await;
    let worker = Worker::new(namespace.clone(), "w").lease_ttl(Duration::from_millis(500));
    let worker = worker.handler("ten", ten_steps).start().expect("the worker starts");
    assert_eq!(ended(&namespace, id).await, (Outcome::Completed, json!(STEPS)));
    worker.drain().await;
    engine.shutdown().await;
    println!("{REACHED}");
}

/// Starts the process that does that, waits until it has come so far, and kills it.
fn run(test: &str, store: &str, effects: &Path, stop: Stop) {
    let program = std::env::current_exe().expect("this is a program");
    let mut process = Command::new(program)
        .args([test, "--exact", "--nocapture"])
        .env(STORE, store)
        .env(EFFECTS, effects)
        .env(STOP, stop.word())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let said = BufReader::new(process.stdout.take().expect("it is read"));
    let mut lines = said.lines().map(|line| line.expect("is text"));
    let reached = lines.any(|line| line.ends_with(REACHED));
    process.kill().expect("it is killed");
    process.wait().expect("it is gone");
    assert!(reached, "it has come to {stop:?}");
}

fn block_on(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("the runtime starts").block_on(future);
}

/// Kills the process after each step in turn, and once within one, and looks at what was done.
fn is_done_once(test: &str, place: impl FnOnce() -> Box<dyn Place>) {
    if let Ok(store) = std::env::var(STORE) {
        return block_on(work(store));
    }
    let (place, directory) = (place(), Directory::new());
    let effects = directory.path().join("effects");
    for step in 0..STEPS {
        if step == 4 {
            run(test, &place.store(), &effects, Stop::Within(step));
        }
        run(test, &place.store(), &effects, Stop::After(step));
    }
    run(test, &place.store(), &effects, Stop::Never);
    let done = fs::read_to_string(&effects).expect("effects are noted");
    let done: Vec<usize> = done.lines().map(|line| line.parse().expect("is a number")).collect();
    // The fifth step was killed between its effect and its record: nobody could know that it was done.
    assert_eq!(done, [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn slow_each_of_ten_steps_is_done_once_although_its_process_is_killed_after_every_one_on_sqlite() {
    let test = "killed::slow_each_of_ten_steps_is_done_once_although_its_process_is_killed_after_every_one_on_sqlite";
    is_done_once(test, || Box::new(Sqlite::new()));
}

#[test]
fn slow_each_of_ten_steps_is_done_once_although_its_process_is_killed_after_every_one_on_postgres() {
    let test = "killed::slow_each_of_ten_steps_is_done_once_although_its_process_is_killed_after_every_one_on_postgres";
    is_done_once(test, || Box::new(Postgres::new()));
}
