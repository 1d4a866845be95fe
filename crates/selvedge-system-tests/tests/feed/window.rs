//! The feed and the window of the log: an expired cursor is refused as such, and subscribers inside the window lose
//! nothing.

use selvedge_engine::core::log::Cursor;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_engine::store::LogStore;
use selvedge_engine::{Error, EventFilter, From, Notice, Options};
use selvedge_system_tests::feed::{SeenEvent, faults_of, log};
use selvedge_system_tests::feed_load::{OnEvent, Received, subscriber};
use selvedge_system_tests::server::{Server, passive_options};
use selvedge_system_tests::{LONG, PlainConnection, Sandbox, stop, wait_until};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uuid::Uuid;

const DAY_MS: i64 = 24 * 3_600_000;
/// The number of days that are dropped during the subscription.
const DAYS: i64 = 6;

/// Moves all entries up to a number to a day in the past, which has its own partition or is in the default one.
async fn age(plain: &PlainConnection, upto: i64, days: i64, own_partition: bool) {
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
    if own_partition {
        plain.run(&partition.replace("{days}", &days.to_string())).await;
    }
    let text = "update log set at = now() - $1::bigint * interval '1 day' where number <= $2";
    plain.execute(text, &[&days, &upto]).await.expect("the entries are aged");
}

fn entry(cursor: &str) -> i64 {
    Cursor::decode(cursor).expect("the text is a cursor").0.entry
}

async fn submitted(server: &Server, count: usize) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(server.submit(Draft::new("kind")).await);
    }
    ids
}

#[tokio::test]
async fn a_cursor_before_the_window_is_refused_as_expired_and_one_inside_resumes() {
    for own_partition in [true, false] {
        let sandbox = Sandbox::new();
        let window = Duration::from_millis(5 * DAY_MS as u64);
        let server = sandbox.server_with("server", Options { log_window: window, ..passive_options() }).await;
        let other = sandbox.server("other").await;
        let plain = sandbox.plain().await;
        let ids = submitted(&server, 6).await;
        let log = log(&plain).await;
        age(&plain, entry(&log[2].cursor), 10, own_partition).await;
        assert_eq!(server.tick("log_window").await.done, 1);
        for server in [&server, &other] {
            let from = async |index: usize| {
                let from = From::Cursor(log[index].cursor.clone());
                server.namespace.subscribe(EventFilter::default(), from).await
            };
            for index in [0, 1] {
                let refused = from(index).await.err().expect("the call is refused");
                assert!(matches!(refused, Error::CursorExpired), "{refused}");
            }
            // After the last dropped entry nothing is missing.
            for index in [2, 3, 4] {
                let mut subscription = from(index).await.expect("the subscription starts");
                for expected in &ids[index + 1..] {
                    let notice = tokio::time::timeout(LONG, subscription.next())
                        .await
                        .expect("the event arrives in time");
                    let came =
                        matches!(&notice, Some(Notice::Event(event)) if event.execution == Some(*expected));
                    assert!(came, "{notice:?}");
                }
            }
        }
        stop([&server.engine, &other.engine]).await;
    }
}

/// The newest entry that each subscriber has received.
#[derive(Clone, Default)]
struct Progress(Arc<Mutex<Vec<Arc<AtomicI64>>>>);

impl Progress {
    /// Adds a subscriber. Returns the callback that records its progress.
    fn of_one_more(&self) -> OnEvent {
        let place = Arc::new(AtomicI64::new(0));
        self.0.lock().expect("the mutex is not poisoned").push(place.clone());
        Arc::new(move |event: &SeenEvent| place.store(entry(&event.cursor), Ordering::SeqCst))
    }

    /// Returns the newest entry of the slowest subscriber.
    fn slowest(&self) -> i64 {
        let places = self.0.lock().expect("the mutex is not poisoned");
        places.iter().map(|place| place.load(Ordering::SeqCst)).min().unwrap_or(0)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn subscribers_receive_every_event_once_while_days_are_dropped() {
    let sandbox = Sandbox::new();
    let notified =
        sandbox.server_with("notified", Options { notifications: true, ..passive_options() }).await;
    let polling = sandbox.server("polling").await;
    let (keeper, plain) = (sandbox.store("keeper").await, sandbox.plain().await);
    let last = ExecutionId(Uuid::now_v7());
    let progress = Progress::default();
    let followers: Vec<_> =
        [vec![notified.clone()], vec![polling.clone()], vec![notified.clone(), polling.clone()]]
            .into_iter()
            .map(|servers| subscriber(servers, last, Some(progress.of_one_more())))
            .collect();
    let over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = [&notified, &polling, &notified, &polling]
        .into_iter()
        .map(|server| {
            let (server, over) = (server.clone(), over.clone());
            tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    server.submit(Draft::new("kind")).await;
                }
            })
        })
        .collect();
    let mut whole: BTreeMap<String, SeenEvent> = BTreeMap::new();
    for day in 0..DAYS {
        let before = progress.slowest();
        wait_until("all subscribers have advanced", async || progress.slowest() > before + 40).await;
        let upto = progress.slowest() - 1;
        whole.extend(log(&plain).await.into_iter().map(|event| (event.cursor.clone(), event)));
        age(&plain, upto, 30 - day, true).await;
        wait_until("the day is dropped", async || {
            keeper.drop_old_log(5 * DAY_MS).await.expect("old entries are dropped") == 1
        })
        .await;
        assert_eq!(plain.number("select dropped from log_window", &[]).await, upto);
    }
    over.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.expect("a writer does not panic");
    }
    notified.submit(Draft { id: Some(last.0), ..Draft::new("last") }).await;
    whole.extend(log(&plain).await.into_iter().map(|event| (event.cursor.clone(), event)));
    let whole: Vec<SeenEvent> = whole.into_values().collect();
    for follower in followers {
        let ended =
            tokio::time::timeout(LONG, follower).await.expect("the subscription reaches the last event");
        let Received { events, connects, .. } = ended.expect("a subscriber does not panic");
        assert_eq!(faults_of(&events, &whole), BTreeMap::new());
        assert!(events == whole && connects > 2);
    }
    stop([&notified.engine, &polling.engine]).await;
}
