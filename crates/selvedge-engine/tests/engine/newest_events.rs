//! The newest events of the log, without reading all of it.

use super::{TIMEOUT, memory_server, soon};
use selvedge_engine::core::Draft;
use selvedge_engine::{EventFilter, From};

#[tokio::test]
async fn the_newest_events_are_the_end_of_the_log() {
    let (server, _clock) = memory_server().await;
    let empty = soon(server.namespace.newest_events(&EventFilter::default(), 10, TIMEOUT))
        .await
        .expect("an empty log");
    assert!(empty.items.is_empty());
    for _ in 0..50 {
        server.submit(Draft::new("kind")).await;
    }
    let all = server.namespace.events(&EventFilter::default(), From::Beginning, usize::MAX).await;
    let all = all.expect("the log is read");
    for limit in [1, 3, 17, 50, 1000] {
        let newest = soon(server.namespace.newest_events(&EventFilter::default(), limit, TIMEOUT)).await;
        let newest = newest.expect("the log is read");
        assert_eq!(newest.items, all.items[all.items.len().saturating_sub(limit)..], "{limit}");
        assert_eq!(newest.next, all.next, "{limit}");
    }
}

#[tokio::test]
async fn events_that_match_are_found_behind_others() {
    let (server, _clock) = memory_server().await;
    let id = server.submit(Draft::new("kind")).await;
    for _ in 0..60 {
        server.submit(Draft::new("kind")).await;
    }
    let filter = EventFilter { execution: Some(id), ..EventFilter::default() };
    let found = soon(server.namespace.newest_events(&filter, 10, TIMEOUT)).await.expect("the log is read");
    assert!(!found.items.is_empty() && found.items.iter().all(|event| event.execution == Some(id)));
    let later = server.submit(Draft::new("kind")).await;
    let next = From::Cursor(found.next.expect("the log has entries"));
    let tail = server.namespace.events(&EventFilter::default(), next, 100).await.expect("the log is read");
    assert!(tail.items.iter().all(|event| event.execution == Some(later)), "the cursor is behind the end");
}
