//! Subscriptions: every event once and in order, from where it was asked for, whatever breaks meanwhile.

use crate::faulty::{Call, Fault, Faulty};
use crate::side::{Side, claim_of, fence, quiet};
use crate::{clock, on_faulty, on_memory, soon, until};
use selvedge_engine::core::plan::{EdgeDraft, GraphDraft, NodeDraft};
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::submit_flow::FlowDraft;
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_engine::store::Error as StoreError;
use selvedge_engine::{Error, EventFilter, From, Notice, Options, PublicEvent, Subscription};
use selvedge_memory::MemoryStore;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

fn all() -> EventFilter {
    EventFilter::default()
}

/// The next event; nothing else may come.
async fn event(subscription: &mut Subscription) -> PublicEvent {
    match soon(subscription.next()).await {
        Some(Notice::Event(event)) => *event,
        other => panic!("an event comes, and not {other:?}"),
    }
}

async fn types(subscription: &mut Subscription, count: usize) -> Vec<&'static str> {
    let mut types = Vec::new();
    while types.len() < count {
        types.push(event(subscription).await.kind);
    }
    types
}

impl Side {
    async fn subscribe(&self, filter: EventFilter, from: From) -> Subscription {
        self.namespace.subscribe(filter, from).await.expect("it subscribes")
    }

    /// The whole log, as its pages tell it.
    async fn log(&self) -> Vec<PublicEvent> {
        let page = self.namespace.events(&all(), From::Beginning, usize::MAX).await;
        page.expect("the log is read").items
    }

    /// Runs one from submission to its end.
    async fn run_one(&self, draft: Draft) -> ExecutionId {
        let id = self.submit(draft).await;
        let claimed = self.claim_one("instance").await;
        self.complete(fence(&claimed)).await.expect("it is accepted");
        id
    }
}

#[tokio::test]
async fn every_event_comes_once_and_in_order_across_disconnects() {
    for seed in 0..4 {
        let (side, _) = on_memory().await;
        let over = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let side = side.clone();
                let over = over.clone();
                tokio::spawn(async move {
                    let mut chance = fastrand::Rng::with_seed(seed * 10 + writer);
                    for _ in 0..60 {
                        side.submit_many(vec![Draft::new("kind"); chance.usize(1..4)]).await;
                        for claimed in side.claim(&format!("instance {writer}"), 2).await {
                            side.complete(fence(&claimed)).await.expect("it is accepted");
                        }
                        for _ in 0..chance.usize(..4) {
                            tokio::task::yield_now().await;
                        }
                    }
                    over.store(true, Ordering::SeqCst);
                })
            })
            .collect();
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut seen: Vec<PublicEvent> = Vec::new();
        let mut from = From::Beginning;
        while !writers.iter().all(tokio::task::JoinHandle::is_finished) || seen.len() < side.log().await.len()
        {
            let mut subscription = side.subscribe(all(), from).await;
            let mut by_event = None;
            for _ in 0..chance.usize(..40) {
                // Dropped in the middle of waiting, now and then.
                let patience = Duration::from_micros(chance.u64(..400));
                match tokio::time::timeout(patience, subscription.next()).await {
                    Ok(Some(Notice::Event(event))) => {
                        by_event = Some(event.cursor.clone());
                        seen.push(*event);
                    }
                    Ok(other) => panic!("an event comes, and not {other:?}"),
                    Err(_elapsed) => {}
                }
            }
            // By the cursor of the last event, or by the subscription's own, which may be further.
            let by_event = by_event.filter(|_| chance.bool());
            from = From::Cursor(by_event.unwrap_or_else(|| subscription.cursor()));
        }
        for writer in writers {
            writer.await.expect("no panic");
        }
        assert_eq!(seen, side.log().await, "seed {seed}");
        assert!(seen.is_sorted_by(|a, b| a.cursor < b.cursor));
    }
}

#[tokio::test]
async fn a_subscription_starts_where_it_is_told() {
    let (side, clock) = on_memory().await;
    let old = side.submit(Draft::new("old")).await;
    clock.advance_ms(600_000);
    let between = clock.now();
    let recent = side.submit(Draft::new("recent")).await;
    let first = side.log().await[0].cursor.clone();
    let mut starts = Vec::new();
    for (from, skipped) in [
        (From::Beginning, 0),
        (From::Time(between.minus_ms(1_000_000_000)), 0),
        (From::Time(between), 1),
        (From::Cursor(first), 1),
        (From::Time(between.plus_ms(1)), 2),
        (From::Now, 2),
    ] {
        starts.push((side.subscribe(all(), from).await, skipped));
    }
    clock.advance_ms(1);
    let new = side.submit(Draft::new("new")).await;
    for (mut subscription, skipped) in starts {
        for expected in &[old, recent, new][skipped..] {
            assert_eq!(event(&mut subscription).await.execution, Some(*expected));
        }
    }
}

#[tokio::test]
async fn a_time_before_the_log_starts_at_what_the_log_keeps() {
    let clock = clock();
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    let options = Options { log_window: Duration::from_secs(60), ..quiet() };
    let side = Side::new(store, options).await;
    let start = clock.now();
    side.submit(Draft::new("gone")).await;
    clock.advance_ms(120_000);
    let kept = side.submit(Draft::new("kept")).await;
    assert_eq!(side.tick("log_window").await.done, 1);
    for from in [From::Beginning, From::Time(start), From::Time(start.plus_ms(90_000))] {
        let mut subscription = side.subscribe(all(), from).await;
        assert_eq!(event(&mut subscription).await.execution, Some(kept));
    }
}

#[tokio::test]
async fn events_are_chosen_by_type_execution_flow_and_tag() {
    let (side, _) = on_memory().await;
    let tagged = Draft { tags: [("colour".into(), "red".into())].into(), ..Draft::new("kind") };
    let node = |name: &str| NodeDraft { name: name.into(), draft: Draft::new("kind") };
    let edge = EdgeDraft { from: "a".into(), to: "b".into(), when: Default::default() };
    let graph = GraphDraft { nodes: vec![node("a"), node("b")], edges: vec![edge], ..GraphDraft::default() };
    let plain = side.run_one(Draft::new("kind")).await;
    let red = side.run_one(tagged).await;
    let draft = FlowDraft { graph, ..FlowDraft::default() };
    let flow = side.namespace.submit_flow(draft, None).await.expect("it is accepted").flow.id;
    let ended = EventFilter { types: vec!["execution.succeeded".into()], ..all() };
    let mut ended = side.subscribe(ended, From::Beginning).await;
    let whole = [
        "execution.submitted",
        "lease.acquired",
        "execution.started",
        "attempt.ended",
        "execution.succeeded",
    ];
    let mut one = side.subscribe(EventFilter { execution: Some(plain), ..all() }, From::Beginning).await;
    let of_tag = EventFilter { tag: Some(("colour".into(), "red".into())), ..all() };
    let mut of_tag = side.subscribe(of_tag, From::Beginning).await;
    let mut of_flow = side.subscribe(EventFilter { flow: Some(flow), ..all() }, From::Beginning).await;
    assert_eq!(types(&mut one, 5).await, whole);
    for _ in 0..5 {
        assert_eq!(event(&mut of_tag).await.execution, Some(red));
    }
    assert_eq!(
        [event(&mut ended).await.execution, event(&mut ended).await.execution],
        [Some(plain), Some(red)]
    );
    for _ in 0..2 {
        let claimed = side.claim_one("instance").await;
        side.complete(fence(&claimed)).await.expect("it is accepted");
    }
    let last = side.log().await.pop().expect("there are events").cursor;
    loop {
        let event = event(&mut of_flow).await;
        assert_eq!(event.flow, Some(flow));
        if event.kind == "flow.completed" || event.cursor == last {
            break;
        }
    }
}

#[tokio::test]
async fn completions_are_told_however_they_come() {
    let (side, _) = on_memory().await;
    let mut ends = side.subscribe(EventFilter::completions(), From::Now).await;
    let done = side.run_one(Draft::new("kind")).await;
    let cancelled = side.submit(Draft::new("kind")).await;
    side.cancel(cancelled).await.expect("it is cancelled");
    let told = [event(&mut ends).await, event(&mut ends).await];
    assert_eq!(told.clone().map(|event| event.kind), ["execution.succeeded", "execution.cancelled"]);
    assert_eq!(told.map(|event| event.execution), [Some(done), Some(cancelled)]);
}

#[tokio::test]
async fn the_history_of_leases_names_who_had_them() {
    let (side, clock) = on_memory().await;
    let mut leases = side.subscribe(EventFilter::leases(), From::Now).await;
    side.submit(Draft::new("kind")).await;
    let brief = ClaimDraft { lease_ttl_ms: 500, ..claim_of("first", 1) };
    let claimed = side.claim_as(brief).await.remove(0);
    side.beat("first", &[fence(&claimed)]).await;
    clock.advance_ms(5_000);
    assert_eq!(side.tick("lease_expiry").await.done, 1);
    let claimed = side.claim_one("second").await;
    let revoke = Action::Revoke { reason: Some("it hangs".into()) };
    side.operate(claimed.execution.id, revoke).await.expect("it is revoked");
    let expected = ["lease.acquired", "lease.renewed", "lease.expired", "lease.reclaimed", "lease.revoked"];
    let mut told = Vec::new();
    while told.last().is_none_or(|event: &PublicEvent| event.kind != "lease.revoked") {
        told.push(event(&mut leases).await);
    }
    let kinds: Vec<&str> = told.iter().map(|event| event.kind).collect();
    for kind in expected {
        assert!(kinds.contains(&kind), "{kind} is told: {kinds:?}");
    }
    let of = |kind: &str| &told[kinds.iter().position(|other| *other == kind).expect("it is told")];
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
async fn a_slow_subscriber_loses_nothing_and_holds_nobody_up() {
    const MANY: usize = 300;
    let (side, _) = on_memory().await;
    let mut slow = side.subscribe(all(), From::Now).await;
    let first = side.submit(Draft::new("kind")).await;
    assert_eq!(event(&mut slow).await.execution, Some(first));
    // From here on the slow one does not look, and the quick one is told of each before the next is submitted.
    let mut quick = side.subscribe(all(), From::Now).await;
    let mut ids = Vec::new();
    for _ in 0..MANY {
        let id = side.submit(Draft::new("kind")).await;
        assert_eq!(event(&mut quick).await.execution, Some(id));
        ids.push(id);
    }
    for id in ids {
        assert_eq!(event(&mut slow).await.execution, Some(id));
    }
    let last = side.submit(Draft::new("kind")).await;
    assert_eq!(event(&mut slow).await.execution, Some(last));
    assert_eq!(event(&mut quick).await.execution, Some(last));
}

fn away() -> Fault {
    Fault::Fail(StoreError::Unavailable("it is away".into()))
}

#[tokio::test]
async fn a_break_is_told_with_its_cursor_and_the_subscription_goes_on() {
    let (side, store, _) = on_faulty().await;
    let mut subscription = side.subscribe(all(), From::Now).await;
    let first = side.submit(Draft::new("kind")).await;
    let event_before = event(&mut subscription).await;
    assert_eq!(event_before.execution, Some(first));
    for faults in [1, 3] {
        for _ in 0..faults {
            store.next(Call::LogAfter, away());
        }
        let missed = side.submit(Draft::new("kind")).await;
        let mut breaks = 0;
        let came = loop {
            match soon(subscription.next()).await.expect("it goes on") {
                Notice::Event(event) => break *event,
                Notice::Break { cursor, detail } => {
                    breaks += 1;
                    assert_eq!(cursor, subscription.cursor());
                    assert!(detail.contains("it is away"), "{detail}");
                    // Whoever goes on from there misses nothing either.
                    until("the store is back", async || store.is_spent()).await;
                    let mut other = side.subscribe(all(), From::Cursor(cursor)).await;
                    assert_eq!(event(&mut other).await.execution, Some(missed));
                }
            }
        };
        assert_eq!(came.execution, Some(missed));
        assert_eq!(breaks, 1, "one break is told once");
    }
}

#[tokio::test]
async fn a_subscriber_that_reads_the_log_itself_is_told_of_a_break_too() {
    let (side, store, _) = on_faulty().await;
    let id = side.submit(Draft::new("kind")).await;
    let mut subscription = side.subscribe(all(), From::Beginning).await;
    for _ in 0..2 {
        store.next(Call::LogBeginning, away());
    }
    for _ in 0..2 {
        let told = soon(subscription.next()).await.expect("it goes on");
        assert!(
            matches!(&told, Notice::Break { cursor, .. } if *cursor == subscription.cursor()),
            "{told:?}"
        );
    }
    assert_eq!(event(&mut subscription).await.execution, Some(id));
}

#[tokio::test]
async fn what_left_the_log_while_it_could_not_be_read_is_not_passed_over_in_silence() {
    let clock = clock();
    let store = Arc::new(Faulty::new(MemoryStore::with_clock(clock.clone())));
    let options = Options { log_window: Duration::from_secs(60), ..quiet() };
    let side = Side::new(store.clone(), options).await;
    let mut subscription = side.subscribe(all(), From::Now).await;
    side.submit(Draft::new("kind")).await;
    event(&mut subscription).await;
    // More often than it is tried.
    for _ in 0..1000 {
        store.next(Call::LogAfter, away());
    }
    side.submit(Draft::new("missed")).await;
    let told = soon(subscription.next()).await;
    assert!(matches!(told, Some(Notice::Break { .. })), "{told:?}");
    clock.advance_ms(120_000);
    assert_eq!(side.tick("log_window").await.done, 2);
    store.mend();
    side.submit(Draft::new("kind")).await;
    let told = soon(subscription.next()).await;
    assert!(matches!(&told, Some(Notice::Break { detail, .. }) if detail.contains("older")), "{told:?}");
    assert_eq!(soon(subscription.next()).await, None);
}

#[tokio::test]
async fn a_page_that_ends_before_what_the_tail_has_read_is_read_again() {
    let (side, store, _) = on_faulty().await;
    let mut other = side.subscribe(all(), From::Now).await;
    let id = side.submit(Draft::new("kind")).await;
    assert_eq!(event(&mut other).await.execution, Some(id));
    let mut subscription = side.subscribe(all(), From::Beginning).await;
    for _ in 0..2 {
        store.next(Call::LogBeginning, Fault::Nothing);
    }
    // Nothing is committed any more that would wake it.
    assert_eq!(event(&mut subscription).await.execution, Some(id));
    assert!(store.is_spent());
}

#[tokio::test]
async fn a_cursor_that_is_malformed_or_older_than_the_log_is_refused_at_once() {
    let clock = clock();
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    let side = Side::new(store, Options { log_window: Duration::from_secs(60), ..quiet() }).await;
    let refused = async |cursor: &str| {
        let subscribed = side.namespace.subscribe(all(), From::Cursor(cursor.into())).await;
        subscribed.err().expect("it is refused")
    };
    for cursor in ["", "x", "0000000a00", "1zz"] {
        assert!(matches!(refused(cursor).await, Error::InvalidCursor), "{cursor}");
    }
    side.submit_many(vec![Draft::new("kind"); 2]).await;
    side.submit(Draft::new("kind")).await;
    let log = side.log().await;
    let mut slow = side.subscribe(all(), From::Cursor(log[0].cursor.clone())).await;
    clock.advance_ms(120_000);
    assert_eq!(side.tick("log_window").await.done, 2);
    // The first entry had two events: what comes after the second of them is gone, after the last of all nothing is.
    for event in &log[..2] {
        assert!(matches!(refused(&event.cursor).await, Error::CursorExpired));
    }
    let mut last = side.subscribe(all(), From::Cursor(log[2].cursor.clone())).await;
    let id = side.submit(Draft::new("kind")).await;
    assert_eq!(event(&mut last).await.execution, Some(id));
    // One that was too slow for the window is told, and then it is over.
    let told = soon(slow.next()).await;
    assert!(matches!(&told, Some(Notice::Break { detail, .. }) if detail.contains("older")), "{told:?}");
    assert_eq!(soon(slow.next()).await, None);
}

/// Lets a subscription look, and asserts that it has to wait.
async fn waits(subscription: &mut Subscription) {
    let mut next = pin!(subscription.next());
    let looked = poll_fn(|context| Poll::Ready(next.as_mut().poll(context)));
    assert_eq!(looked.await, Poll::Pending, "there is nothing yet");
}

#[tokio::test]
async fn what_is_committed_before_the_tail_begins_is_not_lost() {
    let (side, store, _) = on_faulty().await;
    let mut subscription = side.subscribe(all(), From::Now).await;
    waits(&mut subscription).await;
    // The tail has not run yet. It fails at first, and so it begins behind the commit.
    store.next(Call::LogAfter, away());
    let id = side.submit(Draft::new("kind")).await;
    let told = soon(subscription.next()).await;
    assert!(matches!(told, Some(Notice::Break { .. })), "{told:?}");
    assert_eq!(event(&mut subscription).await.execution, Some(id));
}

#[tokio::test]
async fn a_shutdown_ends_every_subscription() {
    let (side, _) = on_memory().await;
    let mut waiting = Vec::new();
    let id = side.submit(Draft::new("kind")).await;
    for _ in 0..3 {
        let mut subscription = side.subscribe(all(), From::Beginning).await;
        assert_eq!(event(&mut subscription).await.execution, Some(id));
        waiting.push(subscription);
    }
    let mut unread = side.subscribe(all(), From::Beginning).await;
    let (looked, has_looked) = tokio::sync::oneshot::channel();
    let waiting = tokio::spawn(async move {
        for subscription in &mut waiting {
            waits(subscription).await;
        }
        let mut first = Box::pin(waiting[0].next());
        tokio::select! {
            biased;
            ended = &mut first => panic!("it waits, and did not end as {ended:?}"),
            () = std::future::ready(()) => looked.send(()).expect("somebody listens"),
        }
        assert_eq!(first.await, None);
        for subscription in &mut waiting[1..] {
            assert_eq!(subscription.next().await, None);
        }
    });
    soon(has_looked).await.expect("they wait");
    side.engine.shutdown().await;
    soon(waiting).await.expect("no panic");
    assert_eq!(soon(unread.next()).await, None);
}

#[tokio::test]
async fn what_another_engine_commits_is_found_without_news() {
    let clock = clock();
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    let (here, there) = (Side::new(store.clone(), quiet()).await, Side::new(store, quiet()).await);
    let mut subscription = here.subscribe(all(), From::Now).await;
    for _ in 0..2 {
        let id = there.submit(Draft::new("kind")).await;
        assert_eq!(event(&mut subscription).await.execution, Some(id));
    }
}

#[tokio::test]
async fn a_namespace_does_not_see_the_events_of_another() {
    let (side, _) = on_memory().await;
    let other = side.engine.namespace("other").await.expect("the namespace is there");
    let mut ours = side.subscribe(all(), From::Beginning).await;
    other.submit(Draft::new("kind")).await.expect("it is accepted");
    let id = side.submit(Draft::new("kind")).await;
    let event = event(&mut ours).await;
    assert_eq!((event.execution, event.namespace.as_str()), (Some(id), "default"));
}

#[tokio::test]
async fn a_thousand_subscribers_read_the_log_no_more_than_one() {
    const SUBSCRIBERS: usize = 1000;
    const EVENTS: u64 = 20;
    let (side, store, _) = on_faulty().await;
    let mut subscriptions = Vec::new();
    for _ in 0..SUBSCRIBERS {
        subscriptions.push(side.subscribe(all(), From::Now).await);
    }
    let mut told = async || {
        let id = side.submit(Draft::new("kind")).await;
        for subscription in &mut subscriptions {
            assert_eq!(event(subscription).await.execution, Some(id));
        }
    };
    // Once all have caught up, each commit is read once, and by the timer now and then.
    told().await;
    let (before, started) = (store.log_reads(), Instant::now());
    for _ in 0..EVENTS {
        told().await;
    }
    let most = 2 * EVENTS + started.elapsed().as_secs() + 1;
    let reads = store.log_reads() - before;
    assert!(reads <= most, "{reads} reads, at most {most}");

    let waiting: Vec<_> = subscriptions
        .into_iter()
        .map(|mut subscription| tokio::spawn(async move { drop(subscription.next().await) }))
        .collect();
    let (before, started) = (store.log_reads(), Instant::now());
    until("the timer has read twice", async || store.log_reads() >= before + 2).await;
    let most = started.elapsed().as_secs() + 2;
    let reads = store.log_reads() - before;
    assert!(reads <= most, "{reads} reads while nothing happens, at most {most}");
    assert!(waiting.iter().all(|one| !one.is_finished()));
    side.engine.shutdown().await;
    for one in waiting {
        soon(one).await.expect("no panic");
    }
}

#[tokio::test]
async fn without_subscribers_the_log_is_not_read() {
    let (side, store, _) = on_faulty().await;
    for _ in 0..10 {
        side.run_one(Draft::new("kind")).await;
    }
    assert_eq!(store.log_reads(), 0);
}
