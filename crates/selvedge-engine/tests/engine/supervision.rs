//! The supervisor: a reconciler that fails or panics goes on, and what it looks after is a matter of its scope.

use crate::faulty::{Call, Fault, Faulty};
use crate::side::{Side, done, fence, quiet};
use crate::{on_faulty, on_memory, soon, until};
use selvedge_engine::core::Draft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::store::{Error, Store};
use selvedge_engine::{Options, ReconcilerScope};
use selvedge_memory::MemoryStore;
use std::sync::Arc;

fn soon_due() -> Draft {
    Draft { delay: Some(When::AfterMs(1)), ..Draft::new("kind") }
}

/// An engine whose reconcilers run by themselves, on a store whose calls can be made to fail.
async fn running() -> (Side, Arc<Faulty>) {
    let store = Arc::new(Faulty::new(MemoryStore::new()));
    let side = Side::new(store.clone(), Options { reconcilers: true, ..quiet() }).await;
    (side, store)
}

/// What is delayed becomes ready by itself.
async fn reconcilers_run(side: &Side) {
    let id = side.submit(soon_due()).await;
    until("it becomes ready by itself", async || side.state(id).await == StateName::Waiting).await;
}

#[tokio::test]
async fn a_tick_that_panics_is_caught_and_counted_and_the_next_one_runs() {
    let (side, store, clock) = on_faulty().await;
    let id = side.submit(soon_due()).await;
    clock.advance_ms(1);
    store.next(Call::Due, Fault::Panic);
    let error = side.engine.tick("delay_promoter").await.expect_err("it panicked");
    assert!(error.to_string().contains("delay_promoter panicked"), "{error}");
    let tally = side.tally("delay_promoter");
    assert_eq!((tally.ticks, tally.panics, tally.errors), (1, 1, 1));
    assert_eq!(side.tick("delay_promoter").await.done, 1);
    assert_eq!(side.state(id).await, StateName::Waiting);
}

#[tokio::test]
async fn a_reconciler_whose_tick_panicked_or_failed_goes_on_by_itself() {
    let (side, store) = running().await;
    store.next(Call::Due, Fault::Panic);
    store.next(Call::Due, Fault::Fail(Error::Unavailable("away".into())));
    reconcilers_run(&side).await;
    assert!(store.is_spent(), "both have occurred");
    let tally = side.tally("delay_promoter");
    assert_eq!((tally.panics, tally.errors), (1, 2));
    side.engine.shutdown().await;
}

#[tokio::test]
async fn reconcilers_go_on_after_the_look_at_what_is_due_failed_or_panicked() {
    for fault in [Fault::Fail(Error::Unavailable("away".into())), Fault::Panic] {
        let store = Arc::new(Faulty::new(MemoryStore::new()));
        store.next(Call::Overview, fault);
        let side = Side::new(store.clone(), Options { reconcilers: true, ..quiet() }).await;
        until("the fault has occurred", async || store.is_spent()).await;
        reconcilers_run(&side).await;
        side.engine.shutdown().await;
    }
}

#[tokio::test]
async fn a_command_that_fails_for_good_harms_nobody_in_its_batch() {
    let (side, store, _) = on_faulty().await;
    side.submit_many(vec![Draft::new("kind"); 6]).await;
    let leases: Vec<_> = side.claim("one", 6).await.iter().map(fence).collect();
    store.shut();
    let mut reports = Vec::new();
    for lease in leases {
        let namespace = side.namespace.clone();
        reports
            .push(tokio::spawn(async move { namespace.report(vec![Ok((lease, None, done()))], None).await }));
        // The first goes alone; the others gather while it is under way.
        tokio::task::yield_now().await;
    }
    // The first fails; then the whole batch of the others, then its first half, then the first of that.
    for _ in 0..4 {
        store.next(Call::Transact, Fault::Fail(Error::Failed("a defect".into())));
    }
    store.open();
    let mut failed = 0;
    for report in reports {
        match soon(report).await.expect("it does not panic") {
            Ok((results, _)) => assert!(results[0].is_ok()),
            Err(_) => failed += 1,
        }
    }
    assert!(store.is_spent());
    assert_eq!(failed, 2, "the first, and the first of the batch");
}

#[tokio::test]
async fn a_reconciler_that_does_not_exist_is_refused_by_name() {
    let (side, _) = on_memory().await;
    let error = side.engine.tick("gardener").await.expect_err("there is none");
    assert!(error.to_string().contains("gardener"), "{error}");
}

#[tokio::test]
async fn reconcilers_leave_alone_what_is_not_in_their_scope() {
    let clock = crate::clock();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(clock.clone()));
    let all = Side::new(store.clone(), quiet()).await;
    let mine = [("team".to_string(), "mine".to_string())];
    let scope = ReconcilerScope { namespace: Some(all.namespace.id()), tag: Some(mine[0].clone()) };
    let scoped = Side::new(store, Options { scope, ..quiet() }).await;
    let elsewhere = all.engine.namespace("elsewhere").await.expect("it is there");
    let tagged = Draft { tags: mine.into(), ..soon_due() };
    let id = all.submit(tagged.clone()).await;
    all.submit(soon_due()).await;
    elsewhere.submit(tagged).await.expect("it is accepted");
    clock.advance_ms(1);
    let tick = scoped.tick("delay_promoter").await;
    assert_eq!((tick.scanned, tick.done, tick.filtered), (3, 1, 2));
    assert_eq!(scoped.state(id).await, StateName::Waiting);
    assert_eq!(all.tick("delay_promoter").await.done, 2);
}
