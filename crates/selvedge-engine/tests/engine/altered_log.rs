//! A log with unreadable entries, and one that lost entries and has others with their numbers.

use crate::soon;
use crate::test_server::{TestServer, fence, passive_options};
use async_trait::async_trait;
use bytes::Bytes;
use selvedge_engine::core::Draft;
use selvedge_engine::core::log::{Cursor, Mark};
use selvedge_engine::store::{Entries, Error as StoreError, Interceptor, Transactions};
use selvedge_engine::{Error, EventFilter, From, Notice, PublicEvent, Subscription};
use selvedge_memory::MemoryStore;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Alters what a log shows: some entries with other bodies, and no entry after a number.
#[derive(Default)]
struct AlteredLog {
    bodies: Mutex<BTreeMap<i64, Bytes>>,
    end: Mutex<Option<i64>>,
}

impl AlteredLog {
    fn alter(&self, number: i64, body: impl Into<Bytes>) {
        self.bodies.lock().expect("the mutex is not poisoned").insert(number, body.into());
    }

    fn end_after(&self, number: i64) {
        *self.end.lock().expect("the mutex is not poisoned") = Some(number);
    }
}

#[async_trait]
impl Interceptor for AlteredLog {
    async fn after(&self, _call: &'static str, returned: &mut (dyn Any + Send)) -> Result<(), StoreError> {
        let Some(page) = returned.downcast_mut::<Entries>() else { return Ok(()) };
        let bodies = self.bodies.lock().expect("the mutex is not poisoned").clone();
        let end = *self.end.lock().expect("the mutex is not poisoned");
        for entry in &mut page.entries {
            if let Some(body) = bodies.get(&entry.number) {
                entry.body = body.clone();
            }
        }
        if let Some(end) = end {
            page.entries.retain(|entry| entry.number <= end);
            page.upto = page.upto.min(end);
        }
        Ok(())
    }
}

async fn start() -> (TestServer, Arc<AlteredLog>) {
    let (store, altered) = (MemoryStore::new(), Arc::new(AlteredLog::default()));
    store.meter().intercept(altered.clone());
    (TestServer::new(Arc::new(store), passive_options()).await, altered)
}

async fn subscribe(server: &TestServer, from: From) -> Result<Subscription, Error> {
    server.namespace.subscribe(EventFilter::default(), from).await
}

async fn next_event(subscription: &mut Subscription) -> PublicEvent {
    match soon(subscription.next()).await {
        Some(Notice::Event(event)) => *event,
        other => panic!("expected an event, got {other:?}"),
    }
}

async fn page(server: &TestServer, from: From) -> Vec<PublicEvent> {
    let page = server.namespace.events(&EventFilter::default(), from, usize::MAX).await;
    page.expect("the log is read").items
}

fn types(events: &[PublicEvent]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind).collect()
}

/// An entry whose only fact has a number that no version knows, with the namespace 1 and nothing else.
const OF_A_NEWER_VERSION: &[u8] = &[1, 0, 2, 0, 0, 0, 0, 0, 0xff, 0x7f];

#[tokio::test]
async fn an_unreadable_entry_is_one_opaque_event_and_every_reader_passes_it() {
    for body in [&b""[..], b"\x01", b"\x02 a later format", b"garbage", OF_A_NEWER_VERSION] {
        let (server, altered) = start().await;
        let mut live = subscribe(&server, From::Now).await.expect("the subscription starts");
        let first = server.submit(Draft::new("kind")).await;
        assert_eq!(next_event(&mut live).await.execution, Some(first));
        altered.alter(2, body);
        server.submit(Draft::new("kind")).await;
        let last = server.submit(Draft::new("kind")).await;

        let opaque = next_event(&mut live).await;
        assert_eq!((opaque.kind, opaque.execution), ("log.unreadable", None), "{body:?}");
        assert_eq!(next_event(&mut live).await.execution, Some(last));
        let items = page(&server, From::Beginning).await;
        assert_eq!(types(&items), ["execution.submitted", "log.unreadable", "execution.submitted"]);
        assert_eq!(items[1], opaque, "it is the same event for every reader");
        // A reader behind the event continues after the entry, and one before it gets the event.
        assert_eq!(page(&server, From::Cursor(opaque.cursor.clone())).await, items[2..]);
        assert_eq!(page(&server, From::Cursor(items[0].cursor.clone())).await, items[1..]);
        assert_eq!(page(&server, From::Time(items[0].at)).await, items);
        let mut behind = subscribe(&server, From::Beginning).await.expect("the subscription starts");
        for expected in &items {
            assert_eq!(next_event(&mut behind).await, *expected);
        }
        assert_eq!(server.engine.unreadable_entries(), 1, "an entry is counted once");
    }
}

#[tokio::test]
async fn filters_by_execution_pass_the_opaque_event_and_filters_by_type_only_by_its_name() {
    let (server, altered) = start().await;
    let id = server.submit(Draft::new("kind")).await;
    server.submit(Draft::new("kind")).await;
    altered.alter(2, "garbage");
    let selected = async |filter: EventFilter| {
        let page = server.namespace.events(&filter, From::Beginning, 10).await.expect("the log is read");
        types(&page.items)
    };
    let of_one = EventFilter { execution: Some(id), ..EventFilter::default() };
    assert_eq!(selected(of_one).await, ["execution.submitted", "log.unreadable"]);
    let typed = |kind: &str| EventFilter { types: vec![kind.into()], ..EventFilter::default() };
    assert_eq!(selected(typed("execution.submitted")).await, ["execution.submitted"]);
    assert_eq!(selected(typed("log.unreadable")).await, ["log.unreadable"]);
}

#[tokio::test]
async fn the_history_of_an_execution_has_the_cursors_of_the_log_around_an_unreadable_entry() {
    let (server, altered) = start().await;
    for _ in 0..5 {
        server.submit(Draft::new("other")).await;
    }
    let id = server.submit(Draft::new("kind")).await;
    let logged = page(&server, From::Beginning).await.pop().expect("the log has events");
    for number in [1, 3, 4, 5] {
        altered.alter(number, "garbage");
    }
    let (events, _) = server.namespace.history_page(id, None, 10).await.expect("the history is read");
    assert_eq!(events, [logged]);
}

/// The cursor as an earlier version wrote it.
fn without_mark(cursor: &str) -> String {
    Cursor::decode(cursor).expect("the text is a cursor").0.encode(None)
}

#[tokio::test]
async fn a_cursor_that_does_not_match_its_entry_or_lies_beyond_the_end_is_unknown() {
    let (server, altered) = start().await;
    for _ in 0..3 {
        server.submit(Draft::new("kind")).await;
    }
    let items = page(&server, From::Beginning).await;
    let cursors: Vec<String> = items.iter().map(|event| event.cursor.clone()).collect();
    let resume = server.namespace.events(&EventFilter::default(), From::Beginning, 10).await;
    let end = resume.expect("the log is read").next.expect("the log has entries");
    for cursor in cursors.iter().chain([&end]) {
        subscribe(&server, From::Cursor(cursor.clone())).await.expect("the cursor is known");
    }

    // Another entry has the number of the second one.
    let log = server.engine.store().log_after(0, 10).await.expect("the log is read").entries;
    altered.alter(2, log[0].body.clone());
    let refused = async |cursor: &str| {
        let paged = server.namespace.events(&EventFilter::default(), From::Cursor(cursor.into()), 10).await;
        let subscribed =
            subscribe(&server, From::Cursor(cursor.into())).await.err().expect("the cursor is refused");
        assert_eq!(paged.expect_err("the cursor is refused").to_string(), subscribed.to_string());
        subscribed
    };
    assert!(matches!(refused(&cursors[1]).await, Error::CursorUnknown));
    subscribe(&server, From::Cursor(cursors[0].clone())).await.expect("its entry is the same");
    subscribe(&server, From::Cursor(without_mark(&cursors[1]))).await.expect("an earlier version wrote it");

    // The last entry is gone.
    altered.end_after(2);
    for cursor in [&cursors[2], &end, &without_mark(&cursors[2])] {
        assert!(matches!(refused(cursor).await, Error::CursorUnknown), "{cursor}");
    }
    let (history, _) = server
        .namespace
        .history_page(items[0].execution.expect("it has one"), Some(&cursors[2]), 9)
        .await
        .map_or_else(|error| (error.to_string(), None::<()>), |_| (String::new(), None));
    assert!(history.contains("does not match"), "{history}");
}

#[tokio::test]
async fn a_live_subscription_ends_when_the_log_lost_the_entry_that_it_read_last() {
    let (server, altered) = start().await;
    let mut live = subscribe(&server, From::Now).await.expect("the subscription starts");
    server.submit(Draft::new("kind")).await;
    next_event(&mut live).await;
    server.submit(Draft::new("kind")).await;
    let read = next_event(&mut live).await;
    let log = server.engine.store().log_after(0, 10).await.expect("the log is read").entries;
    altered.alter(2, log[0].body.clone());
    server.submit(Draft::new("kind")).await;
    let notice = soon(live.next()).await;
    let is_break =
        |notice: &Notice| matches!(notice, Notice::Break { detail, .. } if detail.contains("does not match"));
    assert!(notice.as_ref().is_some_and(is_break), "{notice:?}");
    assert_eq!(soon(live.next()).await, None);
    let error = subscribe(&server, From::Cursor(read.cursor)).await.err().expect("the cursor is refused");
    assert!(matches!(error, Error::CursorUnknown));
    // Later subscriptions follow the log as it is.
    let mut live = subscribe(&server, From::Now).await.expect("the subscription starts");
    let id = server.submit(Draft::new("kind")).await;
    assert_eq!(next_event(&mut live).await.execution, Some(id));
}

#[tokio::test]
async fn only_the_last_cursor_of_an_entry_continues_after_it_was_dropped() {
    let clock = crate::manual_clock();
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    let log_window = std::time::Duration::from_secs(60);
    let server = TestServer::new(store, selvedge_engine::Options { log_window, ..passive_options() }).await;
    server.submit_many(vec![Draft::new("kind"); 2]).await;
    let claimed = server.claim_one("instance").await;
    server.complete(fence(&claimed)).await.expect("the report is accepted");
    let items = page(&server, From::Beginning).await;
    let newest = |event: &&PublicEvent| {
        let last = items.last().map(|event| Cursor::decode(&event.cursor).map(|(cursor, _)| cursor.entry));
        Some(Cursor::decode(&event.cursor).map(|(cursor, _)| cursor.entry)) == last
    };
    let of_newest: Vec<&PublicEvent> = items.iter().filter(newest).collect();
    assert!(of_newest.len() > 1, "the entry has several events");
    clock.advance_ms(120_000);
    server.tick("log_window").await;
    let (last, inside) = of_newest.split_last().expect("the entry has events");
    for event in inside {
        let error = subscribe(&server, From::Cursor(event.cursor.clone())).await.err();
        assert!(matches!(error, Some(Error::CursorExpired)), "{event:?}");
    }
    subscribe(&server, From::Cursor(last.cursor.clone())).await.expect("nothing is missing after it");
    let (_, mark) = Cursor::decode(&last.cursor).expect("the text is a cursor");
    assert!(mark.is_some_and(|Mark { is_last, .. }| is_last));
}
