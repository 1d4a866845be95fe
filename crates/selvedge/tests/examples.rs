//! Every example prints the expected lines: embedded, against a server, and while its worker is killed again and again.

#[allow(dead_code, reason = "not every test needs all of it")]
#[path = "../../selvedge-cli/tests/binary/support/place.rs"]
mod place;

use place::{Place, Postgres};
use selvedge::Engine;
use selvedge::events::{EventFilter, From};
use std::future::pending;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;
use uuid::Uuid;

/// The number of times that a worker is killed.
const KILLS: usize = 3;
/// The longest time from the beginning of an attempt to the kill of its worker, in milliseconds.
const KILL_WITHIN_MS: u8 = 10;

/// An example and what it prints.
struct Example {
    name: &'static str,
    expected: &'static str,
    /// The first and the last words that it prints if attempts were interrupted.
    when_interrupted: (&'static str, &'static str),
}

impl Example {
    const fn new(name: &'static str, expected: &'static str) -> Example {
        Example { name, expected, when_interrupted: (expected, "") }
    }

    fn prints(&self, output: Output) {
        assert_eq!(text(self.name, output), self.expected, "{}", self.name);
    }

    fn prints_when_interrupted(&self, output: Output) {
        let ((first, last), printed) = (self.when_interrupted, text(self.name, output));
        assert!(printed.starts_with(first) && printed.ends_with(last), "{}: {printed}", self.name);
    }
}

/// The examples, but for that which needs Postgres.
const EXAMPLES: [Example; 9] = [
    Example::new("hello", "Hello, Ada!\n"),
    Example {
        name: "retry",
        expected: "shipped after 3 attempts, charged 1 time\n",
        when_interrupted: ("shipped after ", " attempts, charged 1 time\n"),
    },
    Example::new("diamond", "the sum is 15, the largest number 7\n"),
    Example::new("llm_race", "fast: forty-two\nstreamed 3 tokens\nthe other call was cancelled: true\n"),
    Example::new("approval", "deployed, approved by ann and cleo\n"),
    Example::new("agent_loop", "48 after 5 calls of the tool\n"),
    Example::new(
        "token_budget",
        "the budget is used up\nthe second call is held\nspent 1000 tokens\nspent 1000 tokens\n",
    ),
    Example::new("fan_out", "20 documents with 220 characters\n"),
    Example::new("schedule", "3 reports are planned\nthe report of Europe\n"),
];
const ORDER_AND_EMAIL: Example = Example::new("order_and_email", "order 2 is confirmed\n1 mail was sent\n");

/// Returns the program of an example, which cargo builds along with the tests.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test program is known");
    let directory = test.parent().and_then(|deps| deps.parent()).expect("the directory of the build");
    directory.join("examples").join(name)
}

fn text(name: &str, output: Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// An engine with a server, on a store of its own.
struct Served {
    engine: Engine,
    address: String,
    database: String,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Served {
    async fn on(store: String) -> Served {
        let engine = Engine::open(&store).await.expect("the engine starts");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = format!("http://{}", listener.local_addr().expect("the listener has an address"));
        let serving = tokio::spawn(selvedge_server::serve(engine.clone().into_inner(), listener, pending()));
        Served { engine, address, database: store, serving }
    }

    /// Returns the command that runs a part of an example, or the whole.
    fn command(&self, name: &str, part: Option<&str>) -> Command {
        let mut command = Command::new(program(name));
        command.arg(&self.address).args(part).env("DATABASE_URL", &self.database);
        command
    }

    async fn output(&self, name: &str, part: Option<&str>) -> Output {
        output(self.command(name, part)).await
    }

    /// Returns the number of leases that ended because their worker was killed.
    async fn interruptions(&self) -> usize {
        let namespace = self.engine.clone().into_inner().namespace("default").await;
        let filter = selvedge_engine::EventFilter {
            types: ["lease.released", "lease.orphaned", "lease.expired"].map(Into::into).to_vec(),
            ..Default::default()
        };
        let events = namespace.expect("the namespace opens");
        let events = events.events(&filter, selvedge_engine::From::Beginning, 500).await;
        events.expect("the log is read").items.len()
    }

    async fn end(self) {
        self.serving.abort();
        self.engine.shutdown().await;
    }
}

async fn output(mut command: Command) -> Output {
    let output = spawn_blocking(move || command.output()).await.expect("the thread ends");
    output.expect("the example starts")
}

/// A worker process that is killed and started again under the same instance. One thread starts, kills and stops it, so no
/// process outlives the test.
struct WorkerProcess {
    command: Command,
    process: Child,
}

impl WorkerProcess {
    fn start(mut command: Command) -> WorkerProcess {
        command.env("SELVEDGE_INSTANCE", format!("w-{}", Uuid::new_v4())).stderr(Stdio::null());
        let process = command.spawn().expect("the worker starts");
        WorkerProcess { command, process }
    }

    fn kill(&mut self) {
        self.process.kill().expect("the process is killed");
        self.process.wait().expect("the process ends");
    }

    fn kill_and_start_again(&mut self) {
        self.kill();
        self.process = self.command.spawn().expect("the worker starts");
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs the program of an example while its worker is killed, each time within moments of the begin of an attempt.
async fn output_while_killed(name: &str, served: &Served) -> Output {
    let namespace = served.engine.namespace("default").await.expect("the namespace opens");
    let begun = EventFilter { types: vec!["lease.acquired".into()], ..EventFilter::default() };
    let mut begun = namespace.subscribe(begun, From::Now).await.expect("the subscription starts");
    let mut worker = WorkerProcess::start(served.command(name, Some("worker")));
    let running = output(served.command(name, Some("program")));
    tokio::pin!(running);
    for kill in 0..KILLS {
        tokio::select! {
            biased;
            event = begun.next() => event.expect("the event is read"),
            output = &mut running => {
                assert!(kill > 0, "the worker was killed while it worked");
                return output;
            }
        };
        let moment = Uuid::new_v4().as_bytes()[0] % KILL_WITHIN_MS;
        sleep(Duration::from_millis(moment.into())).await;
        worker.kill_and_start_again();
    }
    running.await
}

#[tokio::test]
async fn every_example_prints_the_same_embedded_and_over_http() {
    for example in EXAMPLES {
        let mut embedded = Command::new(program(example.name));
        embedded.arg("memory:");
        example.prints(output(embedded).await);
        let served = Served::on("memory:".into()).await;
        example.prints(served.output(example.name, None).await);
        assert_eq!(served.interruptions().await, 0, "{}", example.name);
        served.end().await;
    }
}

#[tokio::test]
async fn every_example_ends_as_expected_while_its_worker_is_killed() {
    let mut interruptions = 0;
    for example in EXAMPLES {
        let served = Served::on("memory:".into()).await;
        example.prints_when_interrupted(output_while_killed(example.name, &served).await);
        interruptions += served.interruptions().await;
        served.end().await;
    }
    assert!(interruptions > 0, "no attempt was interrupted");
}

/// Runs a test on a Postgres database of its own, which is made outside of the runtime.
fn on_postgres(test: impl AsyncFnOnce(String)) {
    let place = Postgres::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("the runtime starts").block_on(test(place.store()));
}

#[test]
fn the_order_and_its_email_are_one_transaction_embedded() {
    on_postgres(async |store: String| {
        let mut command = Command::new(program(ORDER_AND_EMAIL.name));
        command.arg(&store).env("DATABASE_URL", &store);
        ORDER_AND_EMAIL.prints(output(command).await);
    });
}

#[test]
fn the_order_and_its_email_are_one_transaction_over_http() {
    on_postgres(async |store| {
        let served = Served::on(store).await;
        ORDER_AND_EMAIL.prints(served.output(ORDER_AND_EMAIL.name, None).await);
        served.end().await;
    });
}

#[test]
fn the_order_and_its_email_are_one_transaction_while_the_worker_is_killed() {
    on_postgres(async |store| {
        let served = Served::on(store).await;
        let output = output_while_killed(ORDER_AND_EMAIL.name, &served).await;
        ORDER_AND_EMAIL.prints_when_interrupted(output);
        served.end().await;
    });
}

#[test]
fn every_example_is_tested() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = std::fs::read_dir(directory).expect("the directory is read");
    let mut found: Vec<String> = files
        .map(|file| file.expect("the entry is read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    found.sort();
    let mut tested: Vec<&str> = EXAMPLES.iter().map(|example| example.name).collect();
    // The first flow is the program of a guide, which tests/guides runs.
    tested.extend([ORDER_AND_EMAIL.name, "noop_throughput", "first_flow"]);
    tested.sort();
    assert_eq!(found, tested);
}

#[tokio::test]
async fn noop_throughput_completes_every_execution() {
    let mut command = Command::new(program("noop_throughput"));
    command.arg("memory:");
    let printed = text("noop_throughput", output(command).await);
    assert!(printed.starts_with("1000 completed, "), "{printed}");
}
