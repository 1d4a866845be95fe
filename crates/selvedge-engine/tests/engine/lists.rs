//! Lists, actions on many, and why something does not run.

use crate::side::{self, Side, claim_of, fence};
use crate::{on_memory, with};
use selvedge_engine::core::filter::Filter;
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Draft, ExecutionId, Policy, explain::Explanation};
use selvedge_engine::{Bulk, BulkTarget};

/// All that match, page by page.
async fn listed(side: &Side, filter: &Filter, limit: u32) -> Vec<ExecutionId> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let (page, next) = side.namespace.list(filter, after, limit).await.expect("they are listed");
        assert!(page.len() <= limit as usize);
        ids.extend(page.iter().map(|view| view.stored.execution.id));
        after = next;
        if after.is_none() {
            return ids;
        }
    }
}

#[tokio::test]
async fn a_list_shows_what_matches_newest_first_page_by_page() {
    let (side, clock) = on_memory().await;
    let mut submitted = Vec::new();
    for number in 0..10 {
        let lane = if number % 2 == 0 { "even" } else { "odd" };
        submitted.push(side.submit(Draft { lane: lane.into(), ..Draft::new("kind") }).await);
        clock.advance_ms(1);
    }
    submitted.reverse();
    let all = Filter::all(side.namespace.id());
    for limit in [1, 3, 10, 50] {
        assert_eq!(listed(&side, &all, limit).await, submitted);
    }
    let odd = side.namespace.filter(Some("odd"), None).await.expect("it is a filter");
    let expected: Vec<ExecutionId> = submitted.iter().step_by(2).copied().collect();
    assert_eq!(listed(&side, &odd, 2).await, expected);
    side.cancel(submitted[0]).await.expect("it is cancelled");
    let cancelled = Filter { states: vec![StateName::Cancelled], ..all.clone() };
    assert_eq!(listed(&side, &cancelled, 2).await, submitted[..1]);
    assert_eq!(side.namespace.count(&all, 100).await.expect("they are counted"), 10);
    let unknown = side.namespace.filter(Some("nobody's"), None).await.expect("it is a filter");
    assert!(listed(&side, &unknown, 2).await.is_empty());
    let elsewhere = side.engine.namespace("elsewhere").await.expect("it is there");
    let theirs = Filter::all(elsewhere.id());
    assert!(elsewhere.list(&theirs, None, 9).await.expect("they are listed").0.is_empty());
    assert!(elsewhere.get(submitted[0]).await.is_err(), "what is of another namespace is not there");
}

#[tokio::test]
async fn an_action_on_many_is_done_to_each_that_allows_it_and_a_dry_run_does_nothing() {
    let (side, _) = on_memory().await;
    let submitted = side.submit_many(vec![Draft::new("kind"); 5]).await;
    let lease = fence(&side.claim_one("one").await);
    side.complete(lease).await.expect("it holds the lease");
    let cancel = Action::Cancel { reason: None, grace_ms: 0 };
    let bulk = |dry_run| {
        let target = BulkTarget::Filter(Box::new(Filter::all(side.namespace.id())));
        Bulk { action: cancel.clone(), target, dry_run }
    };
    let dry = side.namespace.bulk(bulk(true), &side::operator()).await.expect("it is answered");
    assert_eq!((dry.matched, dry.ids.len()), (5, 5));
    assert_eq!(side.state(submitted[4]).await, StateName::Waiting);
    let wet = side.namespace.bulk(bulk(false), &side::operator()).await.expect("it is answered");
    assert_eq!((wet.matched, wet.ids.len(), wet.refused.len(), wet.more), (5, 4, 1, false));
    assert_eq!(wet.refused[0].0, lease.execution);
    let unknown = ExecutionId(uuid::Uuid::from_u128(7));
    let ids = vec![submitted[0], unknown, submitted[1]];
    let replay = Bulk { action: Action::Replay, target: BulkTarget::Ids(ids), dry_run: false };
    let replayed = side.namespace.bulk(replay, &side::operator()).await.expect("it is answered");
    assert_eq!((replayed.matched, replayed.ids.len()), (2, 2));
    assert_eq!(side.state(submitted[0]).await, StateName::Waiting);
}

async fn explain(side: &Side, id: ExecutionId) -> Explanation {
    side.namespace.explain(id).await.expect("it is explained")
}

#[tokio::test]
async fn explain_names_what_is_missing() {
    let (side, clock) = on_memory().await;
    let demanding = Draft { capabilities: vec!["gpu".into(), "eu".into()], ..Draft::new("kind") };
    let id = side.submit(demanding).await;
    let why = explain(&side, id).await;
    assert_eq!((why.state, why.reasons[0].code), ("waiting", "no_worker_in_lane"));
    let other = ClaimDraft { kinds: Some(vec!["other".into()]), ..claim_of("other", 1) };
    side.claim_as(other).await;
    assert_eq!(explain(&side, id).await.reasons[0].code, "no_worker_of_kind");
    let european = ClaimDraft { capabilities: vec!["eu".into()], ..claim_of("european", 1) };
    side.claim_as(european).await;
    let why = explain(&side, id).await;
    assert_eq!(why.reasons[0].code, "no_capable_worker");
    assert!(why.reasons[0].message.contains("gpu") && !why.reasons[0].message.contains("eu,"));
    clock.advance_ms(91_000);
    assert_eq!(explain(&side, id).await.reasons[0].code, "no_worker_in_lane", "they have gone");
}

#[tokio::test]
async fn explain_says_who_holds_it_and_until_when() {
    let (side, clock) = on_memory().await;
    let id = side.submit(Draft::new("kind")).await;
    let behind = side.submit(Draft::new("kind")).await;
    let lease = fence(&side.claim_one("one").await);
    let claimed_at = clock.now();
    let why = explain(&side, id).await;
    assert_eq!((why.state, why.reasons[0].code), ("active", "leased"));
    assert!(why.reasons[0].message.contains("instance one"), "{}", why.reasons[0].message);
    assert_eq!(why.reasons[0].reference, Some(lease.lease_id.to_string()));
    assert_eq!(why.reasons[0].until, Some(claimed_at.plus_ms(30_000)));
    assert_eq!(why.next_change, Some(claimed_at.plus_ms(30_000)));
    clock.advance_ms(10_000);
    side.beat("one", &[lease]).await;
    assert_eq!(explain(&side, id).await.reasons[0].until, Some(claimed_at.plus_ms(40_000)));
    let view = side.namespace.get(id).await.expect("it is there");
    assert_eq!(view.lease_until(), Some(claimed_at.plus_ms(40_000)));
    let why = explain(&side, behind).await;
    assert_eq!(why.reasons[0].code, "waiting_for_worker");
    assert!(why.reasons[0].message.contains("it is next"), "{}", why.reasons[0].message);
    let cancel = Action::Cancel { reason: None, grace_ms: 5000 };
    side.operate(id, cancel).await.expect("it is asked");
    let why = explain(&side, id).await;
    assert_eq!(why.reasons[1].code, "cancel_requested");
    assert_eq!(why.next_change, Some(clock.now().plus_ms(5000)));
}

#[tokio::test]
async fn explain_says_what_time_will_do() {
    let (side, clock) = on_memory().await;
    let now = clock.now();
    let policy = Policy { deadline_ms: Some(60_000), ..Policy::default() };
    let id = side.submit(Draft { delay: Some(When::AfterMs(1000)), ..with(policy) }).await;
    let why = explain(&side, id).await;
    assert_eq!((why.state, why.reasons[0].code), ("delayed", "delayed"));
    assert_eq!((why.reasons[0].until, why.next_change), (Some(now.plus_ms(1000)), Some(now.plus_ms(1000))));
    clock.advance_ms(1000);
    side.tick("delay_promoter").await;
    let why = explain(&side, id).await;
    let deadline = why.reasons.iter().find(|reason| reason.code == "deadline").expect("it is named");
    assert_eq!(deadline.until, Some(now.plus_ms(60_000)));
    let lease = fence(&side.claim_one("one").await);
    side.report(lease, side::failed()).await.expect("it holds the lease");
    assert_eq!(explain(&side, id).await.reasons[0].code, "backoff");
    side.cancel(id).await.expect("it is cancelled");
    let why = explain(&side, id).await;
    assert_eq!((why.state, why.reasons[0].code), ("cancelled", "ended"));
}
