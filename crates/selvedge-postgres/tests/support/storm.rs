//! A storm: sixteen writers on four engines whose transactions are held open or undone after they have drawn their number,
//! and subscribers that go and come again.

use super::feed::{Broken, Planted, PlantedReader, Told, broken, log};
use super::test_server::{TestServer, claim_of, claim_wait, fence, operator, passive_options};
use super::{LONG, Sandbox, stop, until};
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

/// How many write at once.
const WRITERS: usize = 16;
/// How many executions they quarrel about.
const SHARED: usize = 6;

/// What a subscriber was told, and what it went through.
#[derive(Default)]
pub struct Seen {
    /// Everything, in the order in which it came.
    pub told: Vec<Told>,
    /// How often it subscribed.
    pub connects: usize,
    /// How often it was told that the log cannot be read for now.
    pub breaks: usize,
}

/// Where events go that a subscriber is told, as they come.
pub type Tell = Arc<dyn Fn(&Told) + Send + Sync>;

/// A subscriber of one of these engines after another, that goes away at random and goes on from its cursor, until it is
/// told of the last execution.
pub fn subscriber(sides: Vec<TestServer>, last: ExecutionId, tell: Option<Tell>) -> JoinHandle<Seen> {
    tokio::spawn(async move {
        let mut seen = Seen::default();
        let mut cursor: Option<String> = None;
        loop {
            let side = &sides[fastrand::usize(..sides.len())];
            let from = cursor.clone().map_or(From::Beginning, From::Cursor);
            let subscribed = side.namespace.subscribe(EventFilter::default(), from).await;
            let mut subscription = match subscribed {
                Ok(subscription) => subscription,
                Err(Error::Store(_away)) => {
                    seen.breaks += 1;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
                Err(error) => panic!("it goes on from its cursor: {error}"),
            };
            seen.connects += 1;
            let stay = Instant::now() + Duration::from_millis(fastrand::u64(1..400));
            for _ in 0..fastrand::usize(1..50) {
                // The call that waits is dropped as well, now and then.
                let brief = Duration::from_millis(fastrand::u64(1..60));
                match tokio::time::timeout(brief, subscription.next()).await {
                    Err(_) if Instant::now() > stay => break,
                    Err(_) => {}
                    Ok(None) => panic!("the engine runs, and the log has lost nothing"),
                    Ok(Some(Notice::Break { .. })) => seen.breaks += 1,
                    Ok(Some(Notice::Event(event))) => {
                        let told = Told::from(event.as_ref());
                        tell.iter().for_each(|tell| tell(&told));
                        seen.told.push(told);
                        cursor = Some(event.cursor);
                        if event.execution == Some(last) {
                            return seen;
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

/// Makes transactions stay open for a while after they have drawn their number, longer than a reader is patient now and
/// then, or end without effect.
const HOLD: &str = "
create sequence drawn;
create sequence held;
create sequence undone;
create function hold() returns trigger language plpgsql as $$
declare
  chance double precision := random();
begin
  if nextval('drawn') % 200 = 100 then
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

/// How a storm goes.
#[derive(Clone, Default)]
pub struct Plan {
    /// What each writer does at least.
    pub rounds: usize,
    /// What is done to the schema before it begins.
    pub schema: &'static str,
    /// A reader that is wrong on purpose and reads along.
    pub planted: Option<Planted>,
}

/// What came of a storm.
pub struct Outcome {
    /// The whole log.
    pub log: Vec<Told>,
    /// What the subscribers saw.
    pub subscribers: Vec<Seen>,
    /// What the planted reader saw.
    pub planted: Vec<Told>,
    /// How many transactions were held open, and how many undone, after they had drawn their number.
    pub disturbed: (i64, i64),
}

impl Outcome {
    /// What is wrong with what the subscribers saw.
    pub fn broken(&self) -> Vec<BTreeMap<Broken, usize>> {
        self.subscribers.iter().map(|seen| broken(&seen.told, &self.log)).collect()
    }

    /// Asserts that every subscriber was told the whole log, each event once, and everybody in one order.
    pub fn holds(&self) {
        assert_eq!(broken(&self.log, &self.log), BTreeMap::new(), "the log itself");
        for seen in &self.subscribers {
            assert_eq!(broken(&seen.told, &self.log), BTreeMap::new());
            assert!(seen.told == self.log, "what is not broken is the log");
            assert!(seen.connects > 2, "it went and came again: {}", seen.connects);
        }
    }
}

/// Four engines: the first two tell each other what is new, the others do not.
async fn engines(sandbox: &Sandbox) -> Vec<TestServer> {
    let mut sides = Vec::new();
    for (number, notifications) in [true, true, false, false].into_iter().enumerate() {
        let settings = Settings { writers: WRITERS / 4, readers: 3, ..sandbox.settings() };
        let store = sandbox.store_with(&format!("engine{number}"), settings).await;
        sides.push(TestServer::new(store, Options { notifications, ..passive_options() }).await);
    }
    sides
}

/// Sixteen writers on four engines and three subscribers, until each writer has done its rounds and what happens meanwhile
/// is over.
pub async fn storm(sandbox: &Sandbox, plan: Plan, meanwhile: impl Future<Output = ()>) -> Outcome {
    // Makes the schema; the others see it as it is changed here.
    sandbox.store("first").await;
    sandbox.plain().await.run(&format!("{HOLD}{}", plan.schema)).await;
    let sides = engines(sandbox).await;
    let last = ExecutionId(Uuid::now_v7());
    let follows = |sides: &[TestServer]| subscriber(sides.to_vec(), last, None);
    let subscribers =
        [follows(&sides[..1]), follows(&sides[2..3]), follows(&[sides[1].clone(), sides[3].clone()])];
    let planted = match plan.planted {
        Some(planted) => Some(follow(PlantedReader::new(planted, sandbox).await, last)),
        None => None,
    };
    let shared = sides[0].submit_many(vec![Draft::new("shared"); SHARED]).await;
    let over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let write = write(sides[number % 4].clone(), number, shared.clone(), plan.rounds, over.clone());
            tokio::spawn(write)
        })
        .collect();
    meanwhile.await;
    over.store(true, Ordering::SeqCst);
    let mut acknowledged = BTreeSet::from_iter(shared);
    for writer in writers {
        acknowledged.extend(writer.await.expect("a writer does not panic"));
    }
    submit_for_certain(&sides[1], Draft { id: Some(last.0), ..Draft::new("last") }).await;
    let mut seen = Vec::new();
    for subscriber in subscribers {
        let told = tokio::time::timeout(LONG, subscriber).await.expect("the feed comes to its end");
        seen.push(told.expect("a subscriber does not panic"));
    }
    let planted = match planted {
        Some(planted) => {
            let told =
                tokio::time::timeout(LONG, planted).await.expect("the planted reader comes to its end");
            told.expect("the planted reader does not panic")
        }
        None => Vec::new(),
    };
    let plain = sandbox.plain().await;
    let log = log(&plain).await;
    let logged: BTreeSet<ExecutionId> = log.iter().filter_map(|told| told.execution).collect();
    assert!(acknowledged.is_subset(&logged), "what was acknowledged is in the log");
    let held = plain.number("select last_value from held", &[]).await;
    let undone = plain.number("select last_value from undone", &[]).await;
    stop(sides.iter().map(|side| &side.engine)).await;
    Outcome { log, subscribers: seen, planted, disturbed: (held, undone) }
}

/// Reads on until it is told of the last execution.
fn follow(mut reader: PlantedReader, last: ExecutionId) -> JoinHandle<Vec<Told>> {
    tokio::spawn(async move {
        let mut seen: Vec<Told> = Vec::new();
        while !seen.iter().rev().any(|told| told.execution == Some(last)) {
            seen.extend(reader.read().await);
        }
        seen
    })
}

/// Submits until it is acknowledged.
async fn submit_for_certain(side: &TestServer, draft: Draft) {
    until("it is acknowledged", async || side.namespace.submit(draft.clone()).await.is_ok()).await;
}

/// One writer: submits, works, and quarrels with all others about the shared executions. Gives what was acknowledged.
/// What fails is not done again: the log says what happened.
async fn write(
    side: TestServer,
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
                let submitted = side.namespace.submit(Draft::new("kind")).await;
                acknowledged.extend(submitted.map(|submitted| submitted.execution.id));
            }
            4 => {
                let mut claim = claim_of(&format!("worker{number}"), 3);
                claim.kinds = Some(vec!["kind".into()]);
                let claimed =
                    side.namespace.claim(claim_wait(claim, Duration::ZERO)).await.unwrap_or_default();
                let done = claimed
                    .iter()
                    .map(|one| Ok((fence(one), None, super::test_server::complete_op())))
                    .collect();
                let _ = side.namespace.report(done, None).await;
            }
            _ => {
                let mut acts = Vec::new();
                for _ in 0..3 {
                    let id = shared[fastrand::usize(..shared.len())];
                    let action = Action::Prioritise { priority: fastrand::i64(-100..100) };
                    let namespace = side.namespace.clone();
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
