//! History that outgrows its row, and the deletion of executions by retention.

use crate::harness::runner::{RuleList, RulePair};
use crate::harness::{Harness, fence};
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::history::HistoryLine;
use selvedge_core::rows::{KeyName, KeyScope};
use selvedge_core::rule::{Phase, Profile, Rule};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::timer::{FireTimer, Timer, TimerReply};
use selvedge_core::table::Request;
use selvedge_core::{Draft, DueKind, ExecutionId, History, Name, Needs, Policy, Work};

/// Returns the command that sets a tag to a long value, which adds a long line to the history.
fn long_line(harness: &Harness, id: ExecutionId, number: usize) -> selvedge_core::rules::operator::Operate {
    let value = format!("{number:0>400}");
    harness.operate_command(id, Action::Tag { set: [("long".to_owned(), value)].into(), remove: vec![] })
}

/// Gives an execution a history of several pages, some of them written in one transaction.
async fn outgrow(harness: &Harness, id: ExecutionId) {
    let in_one_transaction: Vec<_> = (0..60).map(|number| long_line(harness, id, number)).collect();
    for reply in harness.run(RuleList(in_one_transaction)).await {
        reply.expect("it is tagged");
    }
    for number in 60..90 {
        harness.run(long_line(harness, id, number)).await.expect("it is tagged");
    }
}

/// Returns all history lines of an execution, from its pages and its row.
async fn lines(harness: &Harness, id: ExecutionId) -> Vec<HistoryLine> {
    let pages = harness.store.history_pages(id).await.expect("pages are read");
    let pages = pages.into_iter().map(History::from_bytes);
    let all = pages.chain([harness.row(id).await.history]);
    let mut lines: Vec<HistoryLine> = all.flat_map(|page| page.lines().expect("lines can be read")).collect();
    lines.sort_by_key(|line| line.version);
    lines
}

pub async fn a_history_that_outgrows_its_row_is_kept_in_ordered_pages(harness: &Harness) {
    let id = harness.submit(Draft::new("kind")).await.id;
    outgrow(harness, id).await;
    let claimed = harness.claim(1).await.remove(0);
    outgrow(harness, id).await;
    for _ in 0..2 {
        let released = harness.report(fence(&claimed), Op::Release).await;
        assert!(released.is_ok(), "a repeated report is still recognised");
    }
    let row = harness.row(id).await;
    let pages = harness.store.history_pages(id).await.expect("pages are read");
    assert_eq!(pages.len(), row.detail.history_pages as usize);
    assert!(pages.len() > 2, "there are several pages");
    let versions: Vec<u32> = lines(harness, id).await.iter().map(|line| line.version).collect();
    assert_eq!(versions, (1..=row.version).collect::<Vec<u32>>());
    let other = harness.submit(Draft::new("kind")).await.id;
    assert!(harness.store.history_pages(other).await.expect("pages are read").is_empty());
}

pub async fn retention_deletes_the_row_with_its_tags_keys_and_pages_and_nothing_else(harness: &Harness) {
    let draft = |key: &str| Draft {
        idempotency_key: Some(format!("idempotency {key}")),
        idempotency_window_ms: Some(0),
        unique_while_active: Some(format!("unique {key}")),
        tags: [("kept".into(), "with it".into())].into(),
        policy: Policy { retention_ms: 0, ..Policy::default() },
        ..Draft::new("kind")
    };
    let [deleted, kept] = [draft("deleted"), draft("kept")];
    let [deleted, kept] = [harness.submit(deleted).await.id, harness.submit(kept).await.id];
    for id in [deleted, kept] {
        outgrow(harness, id).await;
        let cancel = Action::Cancel { reason: None, grace_ms: 0 };
        harness.operate(id, cancel).await.expect("it is cancelled");
    }
    let before = lines(harness, kept).await;
    assert_eq!(harness.tick(deleted, Timer::Due(DueKind::Retention)).await, TimerReply::Fired);
    assert!(harness.find(deleted).await.is_none());
    assert!(harness.store.history_pages(deleted).await.expect("pages are read").is_empty());
    assert_eq!(lines(harness, kept).await, before);
    let tagged = Filter { tags: vec!["kept:with it".into()], ..Filter::all(harness.namespace) };
    let listed = harness.store.list(&tagged, None, 10, Payloads::NONE).await.expect("rows are listed").rows;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].execution.id, kept);
    let key = |scope, key: &str| KeyName { namespace: harness.namespace, scope, key: Name::trusted(key) };
    let keys = vec![
        key(KeyScope::Idempotency, "idempotency deleted"),
        key(KeyScope::Unique, "unique deleted"),
        key(KeyScope::Idempotency, "idempotency kept"),
        key(KeyScope::Unique, "unique kept"),
    ];
    let rows = harness.load(Needs { keys: Request::reading(keys), ..Needs::default() }).await;
    assert_eq!(rows.keys.len(), 2);
    assert!(rows.keys.iter().all(|key| key.execution() == Some(kept)));
    let again = harness.try_submit(draft("deleted")).await.expect("it is accepted");
    assert!(!again.duplicate, "the key is free again");
}

pub async fn a_deletion_leaves_the_key_of_a_newer_execution(harness: &Harness) {
    let draft = Draft {
        unique_while_active: Some("key".into()),
        policy: Policy { retention_ms: 0, ..Policy::default() },
        ..Draft::new("kind")
    };
    let first = harness.submit(draft.clone()).await.id;
    let cancel = Action::Cancel { reason: None, grace_ms: 0 };
    harness.operate(first, cancel).await.expect("it is cancelled");
    let second = harness.submit(draft.clone()).await.id;
    assert_ne!(first, second);
    assert_eq!(harness.tick(first, Timer::Due(DueKind::Retention)).await, TimerReply::Fired);
    let third = harness.try_submit(draft).await.expect("it is accepted");
    assert_eq!((third.duplicate, third.execution.id), (true, second));
}

/// A rule that is decided in the last phase of its transaction.
struct InCleanupPhase<R>(R);

impl<R: Rule> Rule for InCleanupPhase<R> {
    type Reply = R::Reply;
    const PHASE: Phase = Phase::Cleanup;
    fn profile(&self) -> Profile {
        self.0.profile()
    }
    fn needs(&self, work: &Work, needs: &mut Needs) {
        self.0.needs(work, needs);
    }
    fn decide(&self, work: &mut Work) -> R::Reply {
        self.0.decide(work)
    }
}

pub async fn an_execution_changed_and_deleted_in_one_transaction_leaves_nothing(harness: &Harness) {
    let draft = Draft {
        policy: Policy { deadline_ms: Some(0), retention_ms: 0, ..Policy::default() },
        ..Draft::new("kind")
    };
    let id = harness.submit(draft).await.id;
    assert_eq!(harness.tick(id, Timer::Due(DueKind::Deadline)).await, TimerReply::Fired);
    let tags: Vec<_> = (0..60).map(|number| long_line(harness, id, number)).collect();
    let delete = FireTimer { execution: id, timer: Timer::Due(DueKind::Retention) };
    let (tagged, deleted) = harness.run(RulePair(RuleList(tags), InCleanupPhase(delete))).await;
    assert!(tagged.iter().all(Result::is_ok));
    assert_eq!(deleted.expect("the row can be read"), TimerReply::Fired);
    assert!(harness.find(id).await.is_none());
    assert!(harness.store.history_pages(id).await.expect("pages are read").is_empty());
    let tagged = Filter { tags: vec![format!("long:{:0>400}", 59)], ..Filter::all(harness.namespace) };
    assert_eq!(harness.store.count(&tagged, 1).await.expect("rows are counted"), 0);
}
