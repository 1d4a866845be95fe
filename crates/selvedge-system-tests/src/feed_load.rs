//! Load for the feed: sixteen writers on four servers whose transactions stay open or roll back after they have drawn
//! their number, and subscribers that disconnect and reconnect.

use super::feed::{Fault, FaultyReader, FaultyReading, SeenEvent, faults_of, log};
use super::server::{Server, claim_of, claim_wait, fence, operator, passive_options};
use super::{LONG, Sandbox, stop, wait_until};
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_engine::{Error, EventFilter, From, Notice, Options};
use selvedge_postgres::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use uuid::Uuid;

/// The number of concurrent writers.
const WRITERS: usize = 16;
/// The number of executions that all writers change.
const SHARED: usize = 6;

/// The events that a subscriber received, and the interruptions of its subscription.
#[derive(Default)]
pub struct Received {
    /// All events, in the order in which they arrived.
    pub events: Vec<SeenEvent>,
    /// The number of subscriptions.
    pub connects: usize,
    /// The number of notices that the log cannot be read for now.
    pub breaks: usize,
}

/// A callback for every event that a subscriber receives.
pub type OnEvent = Arc<dyn Fn(&SeenEvent) + Send + Sync>;

/// Starts a subscriber that connects to a random one of these servers, disconnects at random and resumes at its cursor,
/// until it receives an event of the last execution.
pub fn subscriber(
    servers: Vec<Server>,
    last: ExecutionId,
    on_event: Option<OnEvent>,
) -> JoinHandle<Received> {
    tokio::spawn(async move {
        let mut received = Received::default();
        let mut cursor: Option<String> = None;
        loop {
            let server = &servers[fastrand::usize(..servers.len())];
            let from = cursor.clone().map_or(From::Beginning, From::Cursor);
            let subscribed = server.namespace.subscribe(EventFilter::default(), from).await;
            let mut subscription = match subscribed {
                Ok(subscription) => subscription,
                Err(Error::Store(_away)) => {
                    received.breaks += 1;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
                Err(error) => panic!("the subscription resumes at its cursor: {error}"),
            };
            received.connects += 1;
            let stay = Instant::now() + Duration::from_millis(fastrand::u64(1..400));
            for _ in 0..fastrand::usize(1..50) {
                // The waiting call is dropped now and then.
                let brief = Duration::from_millis(fastrand::u64(1..60));
                match tokio::time::timeout(brief, subscription.next()).await {
                    Err(_) if Instant::now() > stay => break,
                    Err(_) => {}
                    Ok(None) => panic!("the subscription ended"),
                    Ok(Some(Notice::Break { .. })) => received.breaks += 1,
                    Ok(Some(Notice::Event(event))) => {
                        let seen = SeenEvent::from(event.as_ref());
                        on_event.iter().for_each(|on_event| on_event(&seen));
                        received.events.push(seen);
                        cursor = Some(event.cursor);
                        if event.execution == Some(last) {
                            return received;
                        }
                    }
                }
            }
            if fastrand::bool() {
                cursor = Some(subscription.cursor());
            }
        }
    })
}

/// Makes transactions stay open for a while after they have drawn their number, now and then longer than a reader waits
/// for a gap, or roll back.
const HOLD: &str = "
create sequence flow_draft;
create sequence held;
create sequence undone;
create function hold() returns trigger language plpgsql as $$
declare
  chance double precision := random();
begin
  if nextval('flow_draft') % 200 = 100 then
    perform pg_sleep(0.6);
  elsif chance < 0.05 then
    perform nextval('undone');
    raise exception 'undone' using errcode = 'serialization_failure';
  elsif chance < 0.3 then
    perform nextval('held');
    perform pg_sleep(random() * 0.03);
  end if;
  return null;
end
$$;
create trigger hold after insert on log for each row execute function hold();
";

/// Makes every transaction draw its number at its beginning, before it waits for any row.
pub const EARLY: &str = "
create function pg_advisory_xact_lock_shared(key bigint) returns void language plpgsql as $$
begin
  perform pg_catalog.pg_advisory_xact_lock_shared(key);
  perform set_config('feed.early', nextval('log_number_seq')::text, true);
end
$$;
alter table log alter column number set default current_setting('feed.early')::bigint;
";

/// The parameters of a run.
#[derive(Clone, Default)]
pub struct LoadPlan {
    /// The fewest actions of each writer.
    pub rounds: usize,
    /// Statements that change the schema before the run.
    pub schema: &'static str,
    /// A reader that is wrong on purpose and reads during the run.
    pub faulty_reader: Option<FaultyReading>,
}

/// The outcome of a run.
pub struct LoadOutcome {
    /// The whole log.
    pub log: Vec<SeenEvent>,
    /// The events that each subscriber received.
    pub subscribers: Vec<Received>,
    /// The events that the faulty reader received.
    pub faulty_reader: Vec<SeenEvent>,
    /// The numbers of transactions that stayed open, and that rolled back, after they had drawn their number.
    pub disturbed: (i64, i64),
}

impl LoadOutcome {
    /// Counts the faults of each subscriber.
    pub fn faults(&self) -> Vec<BTreeMap<Fault, usize>> {
        self.subscribers.iter().map(|received| faults_of(&received.events, &self.log)).collect()
    }

    /// Asserts that every subscriber received the whole log: each event once, in the same order.
    pub fn holds(&self) {
        assert_eq!(faults_of(&self.log, &self.log), BTreeMap::new(), "the log itself");
        for received in &self.subscribers {
            assert_eq!(faults_of(&received.events, &self.log), BTreeMap::new());
            assert!(received.events == self.log, "without faults the events are the log");
            assert!(received.connects > 2, "it reconnected {} times", received.connects);
        }
    }
}

/// Starts four servers: the first two notify each other, the others do not.
async fn engines(sandbox: &Sandbox) -> Vec<Server> {
    let mut servers = Vec::new();
    for (number, notifications) in [true, true, false, false].into_iter().enumerate() {
        let settings = Settings { writers: WRITERS / 4, readers: 3, ..sandbox.settings() };
        let store = sandbox.store_with(&format!("engine{number}"), settings).await;
        servers.push(Server::new(store, Options { notifications, ..passive_options() }).await);
    }
    servers
}

/// Runs sixteen writers on four servers with three subscribers, until each writer has done its rounds and `meanwhile`
/// has ended.
pub async fn run_load(sandbox: &Sandbox, plan: LoadPlan, meanwhile: impl Future<Output = ()>) -> LoadOutcome {
    // Creates the schema before the statements that change it.
    sandbox.store("first").await;
    sandbox.plain().await.run(&format!("{HOLD}{}", plan.schema)).await;
    let servers = engines(sandbox).await;
    let last = ExecutionId(Uuid::now_v7());
    let follows = |servers: &[Server]| subscriber(servers.to_vec(), last, None);
    let subscribers =
        [follows(&servers[..1]), follows(&servers[2..3]), follows(&[servers[1].clone(), servers[3].clone()])];
    let faulty_reader = match plan.faulty_reader {
        Some(reading) => Some(follow(FaultyReader::new(reading, sandbox).await, last)),
        None => None,
    };
    let shared = servers[0].submit_many(vec![Draft::new("shared"); SHARED]).await;
    let over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let write = write(servers[number % 4].clone(), number, shared.clone(), plan.rounds, over.clone());
            tokio::spawn(write)
        })
        .collect();
    meanwhile.await;
    over.store(true, Ordering::SeqCst);
    let mut acknowledged = BTreeSet::from_iter(shared);
    for writer in writers {
        acknowledged.extend(writer.await.expect("a writer does not panic"));
    }
    submit_for_certain(&servers[1], Draft { id: Some(last.0), ..Draft::new("last") }).await;
    let mut received = Vec::new();
    for subscriber in subscribers {
        let joined =
            tokio::time::timeout(LONG, subscriber).await.expect("the subscription reaches the last event");
        received.push(joined.expect("a subscriber does not panic"));
    }
    let faulty_reader = match faulty_reader {
        Some(faulty_reader) => {
            let joined = tokio::time::timeout(LONG, faulty_reader)
                .await
                .expect("the faulty reader reaches the last event");
            joined.expect("the faulty reader does not panic")
        }
        None => Vec::new(),
    };
    let plain = sandbox.plain().await;
    let log = log(&plain).await;
    let logged: BTreeSet<ExecutionId> = log.iter().filter_map(|event| event.execution).collect();
    assert!(acknowledged.is_subset(&logged), "every acknowledged execution is in the log");
    let held = plain.number("select last_value from held", &[]).await;
    let undone = plain.number("select last_value from undone", &[]).await;
    stop(servers.iter().map(|server| &server.engine)).await;
    LoadOutcome { log, subscribers: received, faulty_reader, disturbed: (held, undone) }
}

/// Reads with a faulty reader until it receives an event of the last execution.
fn follow(mut reader: FaultyReader, last: ExecutionId) -> JoinHandle<Vec<SeenEvent>> {
    tokio::spawn(async move {
        let mut seen: Vec<SeenEvent> = Vec::new();
        while !seen.iter().rev().any(|event| event.execution == Some(last)) {
            seen.extend(reader.read().await);
        }
        seen
    })
}

/// Submits an execution, and retries until it is acknowledged.
async fn submit_for_certain(server: &Server, draft: Draft) {
    wait_until("the submission is acknowledged", async || {
        server.namespace.submit(draft.clone()).await.is_ok()
    })
    .await;
}

/// Runs one writer, which submits, completes, and changes the shared executions. Returns the acknowledged executions.
/// Failed calls are not retried: the log has the truth.
async fn write(
    server: Server,
    number: usize,
    shared: Vec<ExecutionId>,
    rounds: usize,
    over: Arc<AtomicBool>,
) -> Vec<ExecutionId> {
    let mut acknowledged = Vec::new();
    let mut round = 0;
    while round < rounds || !over.load(Ordering::SeqCst) {
        round += 1;
        match fastrand::usize(..8) {
            0..4 => {
                let submitted = server.namespace.submit(Draft::new("kind")).await;
                acknowledged.extend(submitted.map(|submitted| submitted.execution.id));
            }
            4 => {
                let mut claim = claim_of(&format!("worker{number}"), 3);
                claim.kinds = Some(vec!["kind".into()]);
                let claimed =
                    server.namespace.claim(claim_wait(claim, Duration::ZERO)).await.unwrap_or_default();
                let done =
                    claimed.iter().map(|one| Ok((fence(one), None, super::server::complete_op()))).collect();
                let _ = server.namespace.report(done, None).await;
            }
            _ => {
                let mut acts = Vec::new();
                for _ in 0..3 {
                    let id = shared[fastrand::usize(..shared.len())];
                    let action = Action::Prioritise { priority: fastrand::i64(-100..100) };
                    let namespace = server.namespace.clone();
                    acts.push(tokio::spawn(async move {
                        let _ = namespace.operate(id, action, None, &operator()).await;
                    }));
                }
                for act in acts {
                    act.await.expect("an action does not panic");
                }
            }
        }
    }
    acknowledged
}
