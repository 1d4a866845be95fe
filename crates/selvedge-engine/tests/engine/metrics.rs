//! Counters of commits, gauges of the store, and minute rollups.

use crate::faults::{Call, Fault};
use crate::test_server::{TestServer, complete_op, fail_op, fence, passive_options};
use crate::{faulty_server, manual_clock, memory_server};
use selvedge_engine::core::rollup::{Rollup, RollupQuery, minute_of};
use selvedge_engine::core::{Backoff, Draft, Name, Policy, Retry, Timestamp};
use selvedge_engine::store::Error;
use selvedge_engine::{Family, NAMED_MAX, OTHER, SampleValue, StatsQuery};
use selvedge_memory::{Clock, MemoryStore};
use std::sync::Arc;

/// Returns the value of a sample that has all these labels.
fn value(families: &[Family], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let family = families.iter().find(|family| family.name == name);
    let family = family.unwrap_or_else(|| panic!("there is no metric {name}"));
    let has = |own: &[(&'static str, String)], (name, value): &(&str, &str)| {
        own.iter().any(|(label, text)| label == name && text == value)
    };
    let found = family.samples.iter().find(|sample| labels.iter().all(|label| has(&sample.labels, label)))?;
    Some(match &found.value {
        SampleValue::Number(value) => *value,
        SampleValue::Distribution(distribution) => distribution.buckets.iter().sum::<u64>() as f64,
    })
}

/// Returns the rollups of all minutes, by minute and lane.
async fn stats(server: &TestServer, limit: u32) -> Vec<(Timestamp, Option<Name>, Rollup)> {
    server.engine.flush_rollups().await.expect("rollups are saved");
    let query = StatsQuery {
        lane: None,
        from: Timestamp::default(),
        to: Timestamp::from_millis(i64::MAX),
        after: None,
        limit,
    };
    let (minutes, more) = server.namespace.stats(query).await.expect("rollups are read");
    assert!(!more);
    minutes.into_iter().map(|minute| (minute.minute_at, minute.lane, minute.rollup)).collect()
}

/// A draft that is retried after a second, once.
fn retried_once() -> Draft {
    let retry = Retry { max_retries: 1, backoff: Backoff::Fixed { delay_ms: 1000 }, ..Retry::default() };
    Draft { policy: Policy { retry, ..Policy::default() }, ..Draft::new("kind") }
}

/// Runs one execution that fails and is retried, and one that completes, with times in between.
async fn work(server: &TestServer, clock: &Clock) {
    server.submit(retried_once()).await;
    clock.advance_ms(2_000);
    let claimed = server.claim_one("one").await;
    clock.advance_ms(7_000);
    server.report(fence(&claimed), fail_op()).await.expect("the failure is accepted");
    clock.advance_ms(1_500);
    server.engine.tick("delay_promoter").await.expect("the tick runs");
    let claimed = server.claim_one("one").await;
    clock.advance_ms(400);
    server.report(fence(&claimed), complete_op()).await.expect("the completion is accepted");
}

#[tokio::test]
async fn committed_changes_are_counted_by_lane() {
    let (server, clock) = memory_server().await;
    work(&server, &clock).await;
    server.submit(Draft { lane: "other".into(), ..Draft::new("kind") }).await;
    let families = server.engine.metrics().await;
    let lane = [("namespace", "default"), ("lane", "default")];
    let of = |name: &str, more: &[(&str, &str)]| value(&families, name, &[&lane, more].concat());
    assert_eq!(of("submissions_total", &[]), Some(1.0));
    assert_eq!(of("starts_total", &[]), Some(2.0));
    assert_eq!(of("retries_total", &[]), Some(1.0));
    assert_eq!(of("attempts_total", &[("outcome", "failed")]), Some(1.0));
    assert_eq!(of("attempts_total", &[("outcome", "completed")]), Some(1.0));
    assert_eq!(of("outcomes_total", &[("outcome", "completed")]), Some(1.0));
    assert_eq!(of("outcomes_total", &[("outcome", "failed")]), Some(0.0), "it was retried");
    assert_eq!((of("queue_seconds", &[]), of("run_seconds", &[])), (Some(2.0), Some(2.0)));
    assert_eq!(of("claim_seconds", &[]), Some(2.0));
    assert_eq!(value(&families, "lease_events_total", &[("event", "acquired")]), Some(2.0));
    assert_eq!(
        value(&families, "store_calls_total", &[("call", "transact")]).map(|calls| calls > 4.0),
        Some(true)
    );
    let waiting = [("lane", "other"), ("state", "waiting")];
    assert_eq!(value(&families, "executions", &waiting), Some(1.0));
    assert_eq!(value(&families, "flows", &[("state", "running")]), Some(0.0));
}

#[tokio::test]
async fn rollups_count_by_minute_and_lane_with_the_times_of_the_store() {
    let (server, clock) = memory_server().await;
    let first = minute_of(Timestamp::from_millis(1_700_000_000_000));
    work(&server, &clock).await;
    clock.advance_ms(60_000);
    work(&server, &clock).await;
    let found = stats(&server, 100).await;
    let rollup = &found[0].2;
    assert_eq!((found.len(), found[0].0, found[1].0), (2, first, first.plus_ms(60_000)));
    assert_eq!((rollup.submitted, rollup.started, rollup.completed, rollup.retries), (1, 2, 1, 1));
    assert_eq!((rollup.run.count, rollup.run.sum_us, rollup.run.max_us), (2, 7_400_000, 7_000_000));
    assert_eq!((rollup.queue.count, rollup.queue.max_us), (2, 2_000_000));
    assert_eq!(found[1].2.run, rollup.run);
}

#[tokio::test]
async fn the_rollups_of_all_servers_add_up_and_a_repeated_save_counts_nothing_twice() {
    let store = Arc::new(MemoryStore::with_clock(manual_clock()));
    let one = TestServer::new(store.clone(), passive_options()).await;
    let two = TestServer::new(store, passive_options()).await;
    one.submit(Draft::new("kind")).await;
    for _ in 0..3 {
        one.engine.flush_rollups().await.expect("rollups are saved");
    }
    two.submit_many(vec![Draft::new("kind"); 4]).await;
    one.submit(Draft::new("kind")).await;
    two.engine.flush_rollups().await.expect("rollups are saved");
    let found = stats(&one, 100).await;
    assert_eq!((found.len(), found[0].2.submitted), (1, 6));
    assert_eq!(stats(&two, 100).await, found, "the same from every server");
}

#[tokio::test]
async fn a_shutdown_saves_the_rollups() {
    let store = Arc::new(MemoryStore::with_clock(manual_clock()));
    let one = TestServer::new(store.clone(), passive_options()).await;
    one.submit(Draft::new("kind")).await;
    one.engine.shutdown().await;
    let two = TestServer::new(store, passive_options()).await;
    assert_eq!(stats(&two, 100).await[0].2.submitted, 1);
}

#[tokio::test]
async fn old_rollups_leave_the_store_after_a_day() {
    let (server, clock) = memory_server().await;
    server.submit(Draft::new("kind")).await;
    assert_eq!(stats(&server, 100).await.len(), 1);
    server.engine.tick("rollup_window").await.expect("the tick runs");
    assert_eq!(stats(&server, 100).await.len(), 1, "it is not old");
    clock.advance_ms(24 * 3_600_000 + 60_000);
    let tally = server.engine.tick("rollup_window").await.expect("the tick runs");
    assert_eq!((tally.done, stats(&server, 100).await.len()), (1, 0));
}

#[tokio::test]
async fn lanes_beyond_the_bound_share_one_series() {
    let (server, _) = memory_server().await;
    let lanes = NAMED_MAX + 5;
    let drafts = (0..lanes).map(|number| Draft { lane: format!("lane {number}"), ..Draft::new("kind") });
    server.submit_many(drafts.collect()).await;
    let families = server.engine.metrics().await;
    let submissions = families.iter().find(|family| family.name == "submissions_total").expect("it exists");
    assert_eq!(submissions.samples.len(), NAMED_MAX + 1);
    assert_eq!(value(&families, "submissions_total", &[("lane", OTHER)]), Some(5.0));
    let of_other = [("lane", OTHER), ("state", "waiting")];
    assert_eq!(value(&families, "executions", &of_other), Some(5.0));
    assert_eq!(stats(&server, 500).await.len(), lanes, "rollups have a larger bound");
}

#[tokio::test]
async fn a_store_that_refuses_writes_keeps_the_counts_for_later() {
    let (server, faults, _) = faulty_server().await;
    server.submit(Draft::new("kind")).await;
    faults.inject(Call::SaveRollups, Fault::Fail(Error::Unavailable("injected".into())));
    assert!(server.engine.flush_rollups().await.is_err());
    assert_eq!(stats(&server, 100).await[0].2.submitted, 1);
    let families = server.engine.metrics().await;
    assert_eq!(value(&families, "store_call_errors_total", &[("call", "save_rollups")]), Some(1.0));
}

#[tokio::test]
async fn a_save_of_rollups_continues_after_its_caller_has_given_up() {
    let (server, faults, _) = faulty_server().await;
    server.submit(Draft::new("kind")).await;
    faults.block_transactions();
    {
        let mut abandoned = Box::pin(server.engine.flush_rollups());
        // Yields long enough for the save to reach the store, where it is blocked.
        for _ in 0..100 {
            assert!(futures_util::poll!(&mut abandoned).is_pending());
            tokio::task::yield_now().await;
        }
    }
    faults.unblock_transactions();
    let query = RollupQuery {
        namespace: server.namespace.id(),
        lane: None,
        from: Timestamp::default(),
        to: Timestamp::from_millis(i64::MAX),
        after: None,
    };
    for _ in 0..1000 {
        if let [row] = &server.engine.store().rollups(&query, 10).await.expect("rollups are read")[..] {
            assert_eq!(row.rollup.submitted, 1);
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the rollups were not saved");
}

#[tokio::test]
async fn a_server_counts_at_most_a_thousand_lanes_of_a_minute_separately() {
    let (server, clock) = memory_server().await;
    let submit_to = async |lanes: std::ops::Range<usize>| {
        let drafts = lanes.map(|number| Draft { lane: format!("lane {number}"), ..Draft::new("kind") });
        server.submit_many(drafts.collect()).await;
    };
    submit_to(0..1002).await;
    let first = stats(&server, 5000).await;
    // A later save of the same minute, and a lane that is counted separately already.
    submit_to(1000..1003).await;
    submit_to(0..1).await;
    clock.advance_ms(60_000);
    submit_to(1000..1003).await;
    let found = stats(&server, 5000).await;
    let of_minute = |minute: Timestamp| found.iter().filter(move |(at, ..)| *at == minute);
    let (begin, next) = (found[0].0, found[0].0.plus_ms(60_000));
    assert_eq!((first.len(), of_minute(begin).count(), of_minute(next).count()), (1001, 1001, 3));
    let others = of_minute(begin).find(|(_, lane, _)| lane.is_none()).expect("there are other lanes");
    assert_eq!(others.2.submitted, 5);
    let separate = of_minute(begin).filter(|(_, lane, _)| lane.is_some());
    assert_eq!(separate.map(|(.., rollup)| rollup.submitted).sum::<u64>(), 1001);
}
