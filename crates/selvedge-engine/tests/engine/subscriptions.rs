//! Subscriptions: every event once and in order, from the requested position, despite faults.

use crate::faults::{Call, Fault, Faults};
use crate::test_server::{TestServer, claim_of, fence, passive_options};
use crate::{faulty_server, manual_clock, memory_server, soon, until};
use selvedge_engine::core::plan::{EdgeDraft, GraphDraft, NodeDraft};
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::flows::submit::FlowDraft;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_engine::store::Error as StoreError;
use selvedge_engine::{Error, EventFilter, From, Notice, Options, PublicEvent, Subscription};
use selvedge_memory::MemoryStore;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

fn all() -> EventFilter {
    EventFilter::default()
}

/// Waits for the next event; fails on any other notice.
async fn next_event(subscription: &mut Subscription) -> PublicEvent {
    match soon(subscription.next()).await {
        Some(Notice::Event(event)) => *event,
        other => panic!("expected an event, got {other:?}"),
    }
}

/// Waits for events; returns their types.
async fn next_types(subscription: &mut Subscription, count: usize) -> Vec<&'static str> {
    let mut types = Vec::new();
    while types.len() < count {
        types.push(next_event(subscription).await.kind);
    }
    types
}

impl TestServer {
    async fn subscribe(&self, filter: EventFilter, from: From) -> Subscription {
        self.namespace.subscribe(filter, from).await.expect("the subscription starts")
    }

    /// Reads all events of the log by pages.
    async fn log(&self) -> Vec<PublicEvent> {
        let page = self.namespace.events(&all(), From::Beginning, usize::MAX).await;
        page.expect("the log is read").items
    }

    /// Submits, claims and completes an execution.
    async fn run_one(&self, draft: Draft) -> ExecutionId {
        let id = self.submit(draft).await;
        let claimed = self.claim_one("instance").await;
        self.complete(fence(&claimed)).await.expect("the report is accepted");
        id
    }
}

#[tokio::test]
async fn every_event_is_delivered_once_and_in_order_across_disconnects() {
    for seed in 0..4 {
        let (server, _) = memory_server().await;
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let server = server.clone();
                tokio::spawn(async move {
                    let mut rng = fastrand::Rng::with_seed(seed * 10 + writer);
                    for _ in 0..60 {
                        server.submit_many(vec![Draft::new("kind"); rng.usize(1..4)]).await;
                        for claimed in server.claim(&format!("instance {writer}"), 2).await {
                            server.complete(fence(&claimed)).await.expect("the report is accepted");
                        }
                        for _ in 0..rng.usize(..4) {
                            tokio::task::yield_now().await;
                        }
                    }
                })
            })
            .collect();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut received: Vec<PublicEvent> = Vec::new();
        let mut from = From::Beginning;
        while !writers.iter().all(tokio::task::JoinHandle::is_finished)
            || received.len() < server.log().await.len()
        {
            let mut subscription = server.subscribe(all(), from).await;
            let mut event_cursor = None;
            for _ in 0..rng.usize(..40) {
                // A short timeout drops the future while it waits, now and then.
                let patience = Duration::from_micros(rng.u64(..400));
                match tokio::time::timeout(patience, subscription.next()).await {
                    Ok(Some(Notice::Event(event))) => {
                        event_cursor = Some(event.cursor.clone());
                        received.push(*event);
                    }
                    Ok(other) => panic!("expected an event, got {other:?}"),
                    Err(_elapsed) => {}
                }
            }
            // Resumes from the cursor of the last event or from that of the subscription, which may be further.
            let event_cursor = event_cursor.filter(|_| rng.bool());
            from = From::Cursor(event_cursor.unwrap_or_else(|| subscription.cursor()));
        }
        for writer in writers {
            writer.await.expect("the task does not panic");
        }
        assert_eq!(received, server.log().await, "seed {seed}");
        assert!(received.is_sorted_by(|a, b| a.cursor < b.cursor));
    }
}

#[tokio::test]
async fn a_subscription_starts_at_the_requested_position() {
    let (server, clock) = memory_server().await;
    let old = server.submit(Draft::new("old")).await;
    clock.advance_ms(600_000);
    let between = clock.now();
    let recent = server.submit(Draft::new("recent")).await;
    let first = server.log().await[0].cursor.clone();
    let mut starts = Vec::new();
    for (from, skipped) in [
        (From::Beginning, 0),
        (From::Time(between.minus_ms(1_000_000_000)), 0),
        (From::Time(between), 1),
        (From::Cursor(first), 1),
        (From::Time(between.plus_ms(1)), 2),
        (From::Now, 2),
    ] {
        starts.push((server.subscribe(all(), from).await, skipped));
    }
    clock.advance_ms(1);
    let new = server.submit(Draft::new("new")).await;
    for (mut subscription, skipped) in starts {
        for expected in &[old, recent, new][skipped..] {
            assert_eq!(next_event(&mut subscription).await.execution, Some(*expected));
        }
    }
}

#[tokio::test]
async fn a_start_time_before_the_log_starts_at_the_oldest_entry() {
    let clock = manual_clock();
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    let options = Options { log_window: Duration::from_secs(60), ..passive_options() };
    let server = TestServer::new(store, options).await;
    let start = clock.now();
    server.submit(Draft::new("gone")).await;
    clock.advance_ms(120_000);
    let kept = server.submit(Draft::new("kept")).await;
    assert_eq!(server.tick("log_window").await.done, 1);
    for from in [From::Beginning, From::Time(start), From::Time(start.plus_ms(90_000))] {
        let mut subscription = server.subscribe(all(), from).await;
        assert_eq!(next_event(&mut subscription).await.execution, Some(kept));
    }
}

#[tokio::test]
async fn events_are_filtered_by_type_execution_flow_and_tag() {
    let (server, _) = memory_server().await;
    let tagged = Draft { tags: [("colour".into(), "red".into())].into(), ..Draft::new("kind") };
    let node = |name: &str| NodeDraft { name: name.into(), draft: Draft::new("kind") };
    let edge = EdgeDraft { from: "a".into(), to: "b".into(), when: Default::default() };
    let graph = GraphDraft { nodes: vec![node("a"), node("b")], edges: vec![edge], ..GraphDraft::default() };
    let plain = server.run_one(Draft::new("kind")).await;
    let red = server.run_one(tagged).await;
    let draft = FlowDraft { graph, ..FlowDraft::default() };
    let flow = server.namespace.submit_flow(draft, None).await.expect("the submission is accepted").flow.id;
    let ended = EventFilter { types: vec!["execution.completed".into()], ..all() };
    let mut ended = server.subscribe(ended, From::Beginning).await;
    let lifecycle = [
        "execution.submitted",
        "lease.acquired",
        "execution.started",
        "attempt.ended",
        "execution.completed",
    ];
    let mut one = server.subscribe(EventFilter { execution: Some(plain), ..all() }, From::Beginning).await;
    let of_tag = EventFilter { tag: Some(("colour".into(), "red".into())), ..all() };
    let mut of_tag = server.subscribe(of_tag, From::Beginning).await;
    let mut of_flow = server.subscribe(EventFilter { flow: Some(flow), ..all() }, From::Beginning).await;
    assert_eq!(next_types(&mut one, 5).await, lifecycle);
    for _ in 0..5 {
        assert_eq!(next_event(&mut of_tag).await.execution, Some(red));
    }
    assert_eq!(
        [next_event(&mut ended).await.execution, next_event(&mut ended).await.execution],
        [Some(plain), Some(red)]
    );
    for _ in 0..2 {
        let claimed = server.claim_one("instance").await;
        server.complete(fence(&claimed)).await.expect("the report is accepted");
    }
    let last = server.log().await.pop().expect("there are events").cursor;
    loop {
        let event = next_event(&mut of_flow).await;
        assert_eq!(event.flow, Some(flow));
        if event.kind == "flow.completed" || event.cursor == last {
            break;
        }
    }
}

#[tokio::test]
async fn the_completions_filter_selects_the_ends_of_executions() {
    let (server, _) = memory_server().await;
    let mut ends = server.subscribe(EventFilter::completions(), From::Now).await;
    let done = server.run_one(Draft::new("kind")).await;
    let cancelled = server.submit(Draft::new("kind")).await;
    server.cancel(cancelled).await.expect("the execution is cancelled");
    let received = [next_event(&mut ends).await, next_event(&mut ends).await];
    assert_eq!(received.clone().map(|event| event.kind), ["execution.completed", "execution.cancelled"]);
    assert_eq!(received.map(|event| event.execution), [Some(done), Some(cancelled)]);
}

#[tokio::test]
async fn lease_events_name_the_instances_that_held_the_lease() {
    let (server, clock) = memory_server().await;
    let mut leases = server.subscribe(EventFilter::leases(), From::Now).await;
    server.submit(Draft::new("kind")).await;
    let brief = ClaimDraft { lease_ttl_ms: 500, ..claim_of("first", 1) };
    let claimed = server.claim_as(brief).await.remove(0);
    server.heartbeat("first", &[fence(&claimed)]).await;
    clock.advance_ms(5_000);
    assert_eq!(server.tick("lease_expiry").await.done, 1);
    let claimed = server.claim_one("second").await;
    let revoke = Action::Revoke { reason: Some("it hangs".into()) };
    server.operate(claimed.execution.id, revoke).await.expect("the lease is revoked");
    let expected = ["lease.acquired", "lease.renewed", "lease.expired", "lease.reclaimed", "lease.revoked"];
    let mut received = Vec::new();
    while received.last().is_none_or(|event: &PublicEvent| event.kind != "lease.revoked") {
        received.push(next_event(&mut leases).await);
    }
    let kinds: Vec<&str> = received.iter().map(|event| event.kind).collect();
    for kind in expected {
        assert!(kinds.contains(&kind), "{kind} is missing: {kinds:?}");
    }
    let of = |kind: &str| {
        &received[kinds.iter().position(|other| *other == kind).expect("the event is in the log")]
    };
    let renewed = of("lease.renewed");
    assert_eq!((renewed.execution, renewed.version), (None, None));
    assert_eq!(of("lease.expired").data["instance"], "first");
    assert_eq!(of("lease.reclaimed").data["instance"], "second");
    assert!(of("lease.reclaimed").data.to_string().contains("first"), "{}", of("lease.reclaimed").data);
    let revoked = of("lease.revoked");
    assert!(revoked.data.to_string().contains("it hangs"), "{}", revoked.data);
    assert_eq!(revoked.actor.as_ref().map(|actor| actor.as_str()), Some("operator"));
}

#[tokio::test]
async fn a_slow_subscriber_loses_nothing_and_delays_no_other() {
    const MANY: usize = 300;
    let (server, _) = memory_server().await;
    let mut slow = server.subscribe(all(), From::Now).await;
    let first = server.submit(Draft::new("kind")).await;
    assert_eq!(next_event(&mut slow).await.execution, Some(first));
    // From here on the slow subscriber does not read, and the fast one gets each event before the next submission.
    let mut fast = server.subscribe(all(), From::Now).await;
    let mut ids = Vec::new();
    for _ in 0..MANY {
        let id = server.submit(Draft::new("kind")).await;
        assert_eq!(next_event(&mut fast).await.execution, Some(id));
        ids.push(id);
    }
    for id in ids {
        assert_eq!(next_event(&mut slow).await.execution, Some(id));
    }
    let last = server.submit(Draft::new("kind")).await;
    assert_eq!(next_event(&mut slow).await.execution, Some(last));
    assert_eq!(next_event(&mut fast).await.execution, Some(last));
}

fn unavailable() -> Fault {
    Fault::Fail(StoreError::Unavailable("the store is away".into()))
}

#[tokio::test]
async fn a_break_carries_the_cursor_and_the_subscription_continues() {
    let (server, faults, _) = faulty_server().await;
    let mut subscription = server.subscribe(all(), From::Now).await;
    let first = server.submit(Draft::new("kind")).await;
    let event_before = next_event(&mut subscription).await;
    assert_eq!(event_before.execution, Some(first));
    for failures in [1, 3] {
        for _ in 0..failures {
            faults.inject(Call::LogAfter, unavailable());
        }
        let missed = server.submit(Draft::new("kind")).await;
        let mut breaks = 0;
        let delivered = loop {
            match soon(subscription.next()).await.expect("the subscription continues") {
                Notice::Event(event) => break *event,
                Notice::Break { cursor, detail } => {
                    breaks += 1;
                    assert_eq!(cursor, subscription.cursor());
                    assert!(detail.contains("the store is away"), "{detail}");
                    // A subscription that resumes from the cursor misses nothing either.
                    until("the store is back", async || faults.all_faults_occurred()).await;
                    let mut other = server.subscribe(all(), From::Cursor(cursor)).await;
                    assert_eq!(next_event(&mut other).await.execution, Some(missed));
                }
            }
        };
        assert_eq!(delivered.execution, Some(missed));
        assert_eq!(breaks, 1, "one failure is reported once");
    }
}

#[tokio::test]
async fn a_subscriber_that_reads_the_log_itself_gets_breaks_too() {
    let (server, faults, _) = faulty_server().await;
    let id = server.submit(Draft::new("kind")).await;
    let mut subscription = server.subscribe(all(), From::Beginning).await;
    for _ in 0..2 {
        faults.inject(Call::LogBeginning, unavailable());
    }
    for _ in 0..2 {
        let notice = soon(subscription.next()).await.expect("the subscription continues");
        assert!(
            matches!(&notice, Notice::Break { cursor, .. } if *cursor == subscription.cursor()),
            "{notice:?}"
        );
    }
    assert_eq!(next_event(&mut subscription).await.execution, Some(id));
}

#[tokio::test]
async fn entries_dropped_while_the_log_was_unreadable_end_the_subscription_with_a_break() {
    let clock = manual_clock();
    let (store, faults) = Faults::of(MemoryStore::with_clock(clock.clone()));
    let options = Options { log_window: Duration::from_secs(60), ..passive_options() };
    let server = TestServer::new(store, options).await;
    let mut subscription = server.subscribe(all(), From::Now).await;
    server.submit(Draft::new("kind")).await;
    next_event(&mut subscription).await;
    // More faults than there are retries.
    for _ in 0..1000 {
        faults.inject(Call::LogAfter, unavailable());
    }
    server.submit(Draft::new("missed")).await;
    let notice = soon(subscription.next()).await;
    assert!(matches!(notice, Some(Notice::Break { .. })), "{notice:?}");
    clock.advance_ms(120_000);
    assert_eq!(server.tick("log_window").await.done, 2);
    faults.clear_faults();
    server.submit(Draft::new("kind")).await;
    let notice = soon(subscription.next()).await;
    assert!(matches!(&notice, Some(Notice::Break { detail, .. }) if detail.contains("older")), "{notice:?}");
    assert_eq!(soon(subscription.next()).await, None);
}

#[tokio::test]
async fn a_page_that_ends_before_the_position_of_the_tail_is_read_again() {
    let (server, faults, _) = faulty_server().await;
    let mut other = server.subscribe(all(), From::Now).await;
    let id = server.submit(Draft::new("kind")).await;
    assert_eq!(next_event(&mut other).await.execution, Some(id));
    let mut subscription = server.subscribe(all(), From::Beginning).await;
    for _ in 0..2 {
        faults.inject(Call::LogBeginning, Fault::FindNothing);
    }
    // No further commit wakes the subscription.
    assert_eq!(next_event(&mut subscription).await.execution, Some(id));
    assert!(faults.all_faults_occurred());
}

#[tokio::test]
async fn a_cursor_that_is_malformed_or_older_than_the_log_is_refused_at_once() {
    let clock = manual_clock();
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    let server =
        TestServer::new(store, Options { log_window: Duration::from_secs(60), ..passive_options() }).await;
    let refused = async |cursor: &str| {
        let subscribed = server.namespace.subscribe(all(), From::Cursor(cursor.into())).await;
        subscribed.err().expect("the cursor is refused")
    };
    for cursor in ["", "x", "0000000a00", "1zz"] {
        assert!(matches!(refused(cursor).await, Error::InvalidCursor), "{cursor}");
    }
    server.submit_many(vec![Draft::new("kind"); 2]).await;
    server.submit(Draft::new("kind")).await;
    let log = server.log().await;
    let mut slow = server.subscribe(all(), From::Cursor(log[0].cursor.clone())).await;
    clock.advance_ms(120_000);
    assert_eq!(server.tick("log_window").await.done, 2);
    // Entry 1 had two events and entry 2 had one; both were dropped. A cursor in entry 1 misses entry 2, one after
    // entry 2 misses nothing.
    for event in &log[..2] {
        assert!(matches!(refused(&event.cursor).await, Error::CursorExpired));
    }
    let mut last = server.subscribe(all(), From::Cursor(log[2].cursor.clone())).await;
    let id = server.submit(Draft::new("kind")).await;
    assert_eq!(next_event(&mut last).await.execution, Some(id));
    // A subscriber slower than the window gets a break, and then its subscription ends.
    let notice = soon(slow.next()).await;
    assert!(matches!(&notice, Some(Notice::Break { detail, .. }) if detail.contains("older")), "{notice:?}");
    assert_eq!(soon(slow.next()).await, None);
}

/// Polls a subscription once and asserts that it has to wait.
async fn assert_waits(subscription: &mut Subscription) {
    let mut next = pin!(subscription.next());
    let polled = poll_fn(|context| Poll::Ready(next.as_mut().poll(context)));
    assert_eq!(polled.await, Poll::Pending, "there is no event yet");
}

#[tokio::test]
async fn an_event_committed_before_the_tail_begins_is_not_lost() {
    let (server, faults, _) = faulty_server().await;
    let mut subscription = server.subscribe(all(), From::Now).await;
    assert_waits(&mut subscription).await;
    // The tail has not run yet. Its first read fails, so it begins after the commit.
    faults.inject(Call::LogAfter, unavailable());
    let id = server.submit(Draft::new("kind")).await;
    let notice = soon(subscription.next()).await;
    assert!(matches!(notice, Some(Notice::Break { .. })), "{notice:?}");
    assert_eq!(next_event(&mut subscription).await.execution, Some(id));
}

#[tokio::test]
async fn a_shutdown_ends_every_subscription() {
    let (server, _) = memory_server().await;
    let mut waiting = Vec::new();
    let id = server.submit(Draft::new("kind")).await;
    for _ in 0..3 {
        let mut subscription = server.subscribe(all(), From::Beginning).await;
        assert_eq!(next_event(&mut subscription).await.execution, Some(id));
        waiting.push(subscription);
    }
    let mut unread = server.subscribe(all(), From::Beginning).await;
    let (polled, has_polled) = tokio::sync::oneshot::channel();
    let waiting = tokio::spawn(async move {
        for subscription in &mut waiting {
            assert_waits(subscription).await;
        }
        let mut first = Box::pin(waiting[0].next());
        tokio::select! {
            biased;
            ended = &mut first => panic!("the subscription waits, but returned {ended:?}"),
            () = std::future::ready(()) => polled.send(()).expect("the receiver is alive"),
        }
        assert_eq!(first.await, None);
        for subscription in &mut waiting[1..] {
            assert_eq!(subscription.next().await, None);
        }
    });
    soon(has_polled).await.expect("the subscriptions wait");
    server.engine.shutdown().await;
    soon(waiting).await.expect("the task does not panic");
    assert_eq!(soon(unread.next()).await, None);
}

#[tokio::test]
async fn commits_of_another_server_are_found_without_notifications() {
    let clock = manual_clock();
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    let (here, there) = (
        TestServer::new(store.clone(), passive_options()).await,
        TestServer::new(store, passive_options()).await,
    );
    let mut subscription = here.subscribe(all(), From::Now).await;
    for _ in 0..2 {
        let id = there.submit(Draft::new("kind")).await;
        assert_eq!(next_event(&mut subscription).await.execution, Some(id));
    }
}

#[tokio::test]
async fn a_namespace_does_not_see_the_events_of_another() {
    let (server, _) = memory_server().await;
    let other = server.engine.namespace("other").await.expect("the namespace is created");
    let mut ours = server.subscribe(all(), From::Beginning).await;
    other.submit(Draft::new("kind")).await.expect("the submission is accepted");
    let id = server.submit(Draft::new("kind")).await;
    let event = next_event(&mut ours).await;
    assert_eq!((event.execution, event.namespace.as_str()), (Some(id), "default"));
}

#[tokio::test]
async fn a_thousand_subscribers_read_the_log_no_more_often_than_one() {
    const SUBSCRIBERS: usize = 1000;
    const EVENTS: u64 = 20;
    let (server, faults, _) = faulty_server().await;
    let mut subscriptions = Vec::new();
    for _ in 0..SUBSCRIBERS {
        subscriptions.push(server.subscribe(all(), From::Now).await);
    }
    let mut deliver_to_all = async || {
        let id = server.submit(Draft::new("kind")).await;
        for subscription in &mut subscriptions {
            assert_eq!(next_event(subscription).await.execution, Some(id));
        }
    };
    // Once all have caught up, each commit is read once, plus the reads by the timer.
    deliver_to_all().await;
    let (before, started) = (faults.log_reads(), Instant::now());
    for _ in 0..EVENTS {
        deliver_to_all().await;
    }
    let most = 2 * EVENTS + started.elapsed().as_secs() + 1;
    let reads = faults.log_reads() - before;
    assert!(reads <= most, "{reads} reads, at most {most}");

    let waiting: Vec<_> = subscriptions
        .into_iter()
        .map(|mut subscription| tokio::spawn(async move { drop(subscription.next().await) }))
        .collect();
    let (before, started) = (faults.log_reads(), Instant::now());
    until("the timer has read twice", async || faults.log_reads() >= before + 2).await;
    let most = started.elapsed().as_secs() + 2;
    let reads = faults.log_reads() - before;
    assert!(reads <= most, "{reads} reads while idle, at most {most}");
    assert!(waiting.iter().all(|one| !one.is_finished()));
    server.engine.shutdown().await;
    for one in waiting {
        soon(one).await.expect("the task does not panic");
    }
}

#[tokio::test]
async fn without_subscribers_the_log_is_not_read() {
    let (server, faults, _) = faulty_server().await;
    for _ in 0..10 {
        server.run_one(Draft::new("kind")).await;
    }
    assert_eq!(faults.log_reads(), 0);
}
