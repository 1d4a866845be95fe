//! The feed and the window of the log: a cursor that has left it is refused by that name, and who follows loses nothing.

mod support;

use selvedge_engine::core::log::Cursor;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_engine::store::Store;
use selvedge_engine::{Error, EventFilter, From, Notice, Options};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::feed::{Told, broken, log};
use support::storm::{Seen, Tell, subscriber};
use support::test_server::{TestServer, passive_options};
use support::{LONG, Plain, Sandbox, stop, until};
use uuid::Uuid;

const DAY_MS: i64 = 24 * 3_600_000;
/// How many days are dropped beneath those who follow.
const DAYS: i64 = 6;

/// Makes everything up to a number so many days old, in a partition of its own or in the default one.
async fn age(plain: &Plain, upto: i64, days: i64, apart: bool) {
    let partition = "do $$
        declare
          day timestamp := date_trunc('day', now() at time zone 'UTC') - {days} * interval '1 day';
        begin
          execute format(
            'create table %I partition of log for values from (%L) to (%L)', 'log_' || to_char(day, 'YYYYMMDD'),
            day at time zone 'UTC', (day + interval '1 day') at time zone 'UTC'
          );
        end
        $$";
    if apart {
        plain.run(&partition.replace("{days}", &days.to_string())).await;
    }
    let text = "update log set at = now() - $1::bigint * interval '1 day' where number <= $2";
    plain.execute(text, &[&days, &upto]).await.expect("time passes");
}

fn entry(cursor: &str) -> i64 {
    Cursor::decode(cursor).expect("it is a cursor").entry
}

async fn submitted(side: &TestServer, count: usize) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(side.submit(Draft::new("kind")).await);
    }
    ids
}

#[tokio::test]
async fn a_cursor_before_the_window_is_refused_by_that_name_and_one_inside_goes_on() {
    for apart in [true, false] {
        let sandbox = Sandbox::new();
        let window = Duration::from_millis(5 * DAY_MS as u64);
        let side = sandbox.side_with("side", Options { log_window: window, ..passive_options() }).await;
        let other = sandbox.side("other").await;
        let plain = sandbox.plain().await;
        let ids = submitted(&side, 6).await;
        let log = log(&plain).await;
        age(&plain, entry(&log[2].cursor), 10, apart).await;
        assert_eq!(side.tick("log_window").await.done, 1);
        for side in [&side, &other] {
            let from = async |place: usize| {
                let from = From::Cursor(log[place].cursor.clone());
                side.namespace.subscribe(EventFilter::default(), from).await
            };
            for place in [0, 1] {
                let refused = from(place).await.err().expect("it is refused");
                assert!(matches!(refused, Error::CursorExpired), "{refused}");
            }
            // After the last that has left nothing is missing.
            for place in [2, 3, 4] {
                let mut subscription = from(place).await.expect("it is subscribed");
                for expected in &ids[place + 1..] {
                    let told = tokio::time::timeout(LONG, subscription.next()).await.expect("it comes");
                    let came =
                        matches!(&told, Some(Notice::Event(event)) if event.execution == Some(*expected));
                    assert!(came, "{told:?}");
                }
            }
        }
        stop([&side.engine, &other.engine]).await;
    }
}

/// How far each subscriber has come.
#[derive(Clone, Default)]
struct Progress(Arc<Mutex<Vec<Arc<AtomicI64>>>>);

impl Progress {
    /// What tells of one more subscriber.
    fn of_one_more(&self) -> Tell {
        let place = Arc::new(AtomicI64::new(0));
        self.0.lock().expect("nobody panics with it").push(place.clone());
        Arc::new(move |told: &Told| place.store(entry(&told.cursor), Ordering::SeqCst))
    }

    /// The entry that the slowest is at.
    fn slowest(&self) -> i64 {
        let places = self.0.lock().expect("nobody panics with it");
        places.iter().map(|place| place.load(Ordering::SeqCst)).min().unwrap_or(0)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_follows_while_days_are_dropped_is_told_everything_once() {
    let sandbox = Sandbox::new();
    let told = sandbox.side_with("told", Options { notifications: true, ..passive_options() }).await;
    let untold = sandbox.side("untold").await;
    let (keeper, plain) = (sandbox.store("keeper").await, sandbox.plain().await);
    let last = ExecutionId(Uuid::now_v7());
    let progress = Progress::default();
    let followers: Vec<_> = [vec![told.clone()], vec![untold.clone()], vec![told.clone(), untold.clone()]]
        .into_iter()
        .map(|sides| subscriber(sides, last, Some(progress.of_one_more())))
        .collect();
    let over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = [&told, &untold, &told, &untold]
        .into_iter()
        .map(|side| {
            let (side, over) = (side.clone(), over.clone());
            tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    side.submit(Draft::new("kind")).await;
                }
            })
        })
        .collect();
    let mut whole: BTreeMap<String, Told> = BTreeMap::new();
    for day in 0..DAYS {
        let before = progress.slowest();
        until("all have come further", async || progress.slowest() > before + 40).await;
        let upto = progress.slowest() - 1;
        whole.extend(log(&plain).await.into_iter().map(|told| (told.cursor.clone(), told)));
        age(&plain, upto, 30 - day, true).await;
        until("the day is dropped", async || {
            keeper.keep_log(5 * DAY_MS).await.expect("the window is kept") == 1
        })
        .await;
        assert_eq!(plain.number("select dropped from log_window", &[]).await, upto);
    }
    over.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.expect("a writer does not panic");
    }
    told.submit(Draft { id: Some(last.0), ..Draft::new("last") }).await;
    whole.extend(log(&plain).await.into_iter().map(|told| (told.cursor.clone(), told)));
    let whole: Vec<Told> = whole.into_values().collect();
    for follower in followers {
        let ended = tokio::time::timeout(LONG, follower).await.expect("the feed comes to its end");
        let Seen { told, connects, .. } = ended.expect("a subscriber does not panic");
        assert_eq!(broken(&told, &whole), BTreeMap::new());
        assert!(told == whole && connects > 2);
    }
    stop([&told.engine, &untold.engine]).await;
}
