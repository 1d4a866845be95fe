//! Lists of executions: filters, pages and counts.

use crate::harness::by_hand;
use crate::harness::{Harness, Worker};
use selvedge_core::execution::Detail;
use selvedge_core::fact::{self, Fact, Failure, LeaseRef};
use selvedge_core::filter::{Filter, ListPosition, Payloads};
use selvedge_core::history::HistoryLine;
use selvedge_core::state::StateName;
use selvedge_core::{
    Draft, Execution, ExecutionId, FailureClass, FlowId, History, LeaseId, Name, Outcome, State, Timestamp,
};
use selvedge_store::{ListPage, READ_MAX, SCAN_MAX};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Returns the ids of a list, read in pages of `limit`.
async fn listed(harness: &Harness, filter: &Filter, limit: u32) -> Vec<ExecutionId> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let ListPage { rows, next } =
            harness.store.list(filter, after, limit, Payloads::NONE).await.expect("rows are listed");
        assert!(rows.len() <= limit as usize);
        assert!(rows.iter().all(|stored| stored.input.is_empty() && stored.result.is_none()));
        ids.extend(rows.iter().map(|stored| stored.execution.id));
        let Some(next) = next else { return ids };
        assert!(after.is_none_or(|after| next < after), "paging never ends");
        after = Some(next);
    }
}

/// Returns the ids of the rows for which `pick` is true, newest first.
fn picked(rows: &[Execution], pick: impl Fn(&Execution) -> bool) -> Vec<ExecutionId> {
    let mut places: Vec<ListPosition> = rows.iter().filter(|row| pick(row)).map(ListPosition::of).collect();
    places.sort();
    places.into_iter().rev().map(|place| place.id).collect()
}

/// Returns a history with a claim by one of three workers, for every other row.
fn claimed_by(index: usize, at: Timestamp) -> History {
    let mut history = History::default();
    if index.is_multiple_of(2) {
        let name = |prefix: &str| Name::trusted(&format!("{prefix}{}", index % 3));
        let (worker, instance) = (name("worker"), name("instance"));
        let lease = LeaseRef { id: LeaseId(Uuid::new_v4()), epoch: 1, worker, instance };
        let fact = Fact::Claimed(fact::Claimed { lease, ttl_ms: 1, after: None });
        history.push(&HistoryLine { version: 1, at, actor: None, fact });
    }
    history
}

/// Returns an error for every third row.
fn error(index: usize) -> Option<Failure> {
    let class = FailureClass::Transient;
    index.is_multiple_of(3).then(|| Failure { message: format!("Connection to host-{index} refused"), class })
}

/// Inserts rows of two classes, in many states, with and without flows and tags, some with equal times.
async fn varied(harness: &Harness) -> Vec<Execution> {
    let now = harness.now().await;
    let classes = [harness.class("a", "kind").await, harness.class("b", "kind").await];
    let flow = FlowId(Uuid::new_v4());
    let session = by_hand::session(harness, "one", 30_000, now);
    let states = [
        State::Waiting,
        State::Delayed { until: now.plus_ms(9_000_000) },
        State::Terminal(Outcome::Completed),
        State::Terminal(Outcome::Skipped),
    ];
    let rows = (0..40_usize).map(|index| {
        let active = index % 5 == 4;
        let state = states[index % 5 % 4].clone();
        let row = Execution {
            flow: (index % 3 == 0).then_some(flow),
            ended_at: state.outcome().map(|_| now.plus_ms(4_000 - index as i64 * 100)),
            history: claimed_by(index, now),
            epoch: u32::from(index % 2 == 0),
            detail: Detail { error: error(index), ..Detail::default() },
            state,
            tags: match index % 4 {
                0 => BTreeMap::new(),
                value => [("tag".into(), format!("v:{value}")), ("all".into(), "".into())].into(),
            },
            ..by_hand::row(harness, classes[index % 2], now.minus_ms((index / 4) as i64 * 1_000))
        };
        match active {
            true => by_hand::with_lease(row, &session, now),
            false => row,
        }
    });
    let rows: Vec<Execution> = rows.collect();
    by_hand::put_sessions(harness, std::slice::from_ref(&session)).await;
    by_hand::insert(harness, &rows).await;
    let other = harness.in_namespace("elsewhere").await;
    let row = Execution {
        flow: Some(flow),
        tags: [("all".into(), "".into())].into(),
        ..by_hand::row(&other, other.class("a", "kind").await, now)
    };
    by_hand::insert(&other, &[row]).await;
    rows
}

pub async fn a_list_returns_the_rows_that_match_every_part_of_its_filter_newest_first(harness: &Harness) {
    let rows = varied(harness).await;
    let all = || Filter::all(harness.namespace);
    let (class, flow) = (rows[0].class, rows[0].flow());
    let lone = rows[1].flow();
    let (from, until) = (rows[30].submitted_at, rows[10].submitted_at);
    let ended = [rows[2].ended_at, rows[32].ended_at].map(|at| at.expect("it has ended"));
    let lease = rows[4].state.lease().expect("it is active").clone();
    let both = || Some(vec![rows[0].class, rows[1].class]);
    let ran_on = |row: &Execution, worker: usize| {
        let index = rows.iter().position(|one| one.id == row.id).expect("it is one of the rows");
        index.is_multiple_of(2) && index % 3 == worker
    };
    let tagged = |row: &Execution| row.tags.get("tag").is_some_and(|value| value == "v:3");
    let waiting = [StateName::Waiting, StateName::Delayed];
    type Pick<'a> = Box<dyn Fn(&Execution) -> bool + 'a>;
    let cases: Vec<(Filter, Pick<'_>)> = vec![
        (all(), Box::new(|_| true)),
        (Filter { classes: Some(vec![class]), ..all() }, Box::new(|row| row.class == class)),
        (Filter { classes: Some(vec![]), ..all() }, Box::new(|_| false)),
        (Filter { states: waiting.to_vec(), ..all() }, Box::new(|row| waiting.contains(&row.state.name()))),
        (
            Filter { states: vec![StateName::Skipped], ..all() },
            Box::new(|row| row.state.name() == StateName::Skipped),
        ),
        (Filter { flow: Some(flow), ..all() }, Box::new(|row| row.flow == Some(flow))),
        (Filter { flow: Some(lone), ..all() }, Box::new(|row| row.id.0 == lone.0)),
        (Filter { tags: vec!["tag:v:3".into()], ..all() }, Box::new(tagged)),
        (Filter { tags: vec!["all:".into()], ..all() }, Box::new(|row| !row.tags.is_empty())),
        (Filter { tags: vec!["tag:v".into()], ..all() }, Box::new(|_| false)),
        (Filter { tags: vec!["all:".into(), "tag:v:3".into()], ..all() }, Box::new(tagged)),
        (Filter { tags: vec!["all:".into(), "tag:none".into()], ..all() }, Box::new(|_| false)),
        (
            Filter { tags: vec!["tag:v:3".into()], flow: Some(flow), ..all() },
            Box::new(|row| tagged(row) && row.flow == Some(flow)),
        ),
        (
            Filter { ended_after: Some(ended[1]), ..all() },
            Box::new(|row| row.ended_at.is_some_and(|at| at >= ended[1])),
        ),
        (
            Filter { ended_before: Some(ended[0]), ended_after: Some(ended[1]), ..all() },
            Box::new(|row| row.ended_at.is_some_and(|at| at >= ended[1] && at < ended[0])),
        ),
        (Filter { ended_before: Some(ended[0]), states: waiting.to_vec(), ..all() }, Box::new(|_| false)),
        (
            Filter { worker: Some("worker2".into()), ..all() },
            Box::new(|row| row.state.lease().is_none() && ran_on(row, 2)),
        ),
        (
            Filter { worker: Some("instance0".into()), states: vec![StateName::Completed], ..all() },
            Box::new(|row| row.state == State::Terminal(Outcome::Completed) && ran_on(row, 0)),
        ),
        (
            Filter { worker: Some(lease.instance.to_string()), ..all() },
            Box::new(|row| row.state.lease().is_some()),
        ),
        (
            Filter { error: Some("connection to HOST-1".into()), submitted_after: Some(from), ..all() },
            Box::new(|row| {
                row.submitted_at >= from
                    && row.detail.error.as_ref().is_some_and(|error| error.message.contains("to host-1"))
            }),
        ),
        (
            Filter { paused: vec![class], classes: both(), states: vec![StateName::Held], ..all() },
            Box::new(|row| row.class == class && row.state == State::Waiting),
        ),
        (
            Filter { paused: vec![class], classes: both(), states: waiting.to_vec(), ..all() },
            Box::new(|row| {
                row.state.name() == StateName::Delayed || row.class != class && row.state == State::Waiting
            }),
        ),
        (
            Filter { paused: vec![class], states: vec![StateName::Waiting], ..all() },
            Box::new(|row| row.class != class && row.state == State::Waiting),
        ),
        (
            Filter { submitted_after: Some(from), submitted_before: Some(until), ..all() },
            Box::new(|row| row.submitted_at >= from && row.submitted_at < until),
        ),
        (
            Filter {
                classes: Some(vec![rows[3].class]),
                states: vec![StateName::Active, StateName::Completed],
                flow: Some(flow),
                tags: vec!["tag:v:3".into()],
                submitted_after: Some(from),
                submitted_before: None,
                ..all()
            },
            Box::new(|row| {
                row.class == rows[3].class
                    && [StateName::Active, StateName::Completed].contains(&row.state.name())
                    && row.flow == Some(flow)
                    && tagged(row)
                    && row.submitted_at >= from
            }),
        ),
    ];
    for (filter, pick) in cases {
        let expected = picked(&rows, pick);
        assert_eq!(listed(harness, &filter, 100).await, expected, "{filter:?}");
        assert_eq!(listed(harness, &filter, 3).await, expected, "in pages: {filter:?}");
        let count = async |bound| harness.store.count(&filter, bound).await.expect("rows are counted");
        assert_eq!(count(1_000).await, expected.len() as u64, "{filter:?}");
        assert_eq!(count(5).await, expected.len().min(5) as u64, "bounded: {filter:?}");
    }
}

pub async fn a_list_returns_the_same_rows_and_payloads_as_fetch(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    harness.complete(&claimed, b"[1]").await;
    harness.leased(Draft { input: "[2]".into(), ..Draft::new("kind") }).await;
    for (input, result) in [(false, false), (true, false), (false, true), (true, true)] {
        let payloads = Payloads { input, result };
        let list = harness.store.list(&Filter::all(harness.namespace), None, 10, payloads).await;
        let rows = list.expect("rows are listed").rows;
        assert_eq!(rows.len(), 2);
        for stored in rows {
            let fetched = harness.stored(stored.execution.id).await;
            assert_eq!(stored.execution, fetched.execution);
            let expected = if input { fetched.input } else { Default::default() };
            assert_eq!((stored.input, stored.result), (expected, fetched.result.filter(|_| result)));
            assert_eq!(stored.renewed_at, fetched.renewed_at);
        }
    }
}

pub async fn paging_has_no_gap_and_no_repeat_while_rows_are_added(harness: &Harness) {
    let filters = [
        Filter::all(harness.namespace),
        Filter { tags: vec!["a:b".into()], ..Filter::all(harness.namespace) },
    ];
    let draft = Draft { tags: [("a".into(), "b".into())].into(), ..Draft::new("kind") };
    let mut rows = harness.submit_all(vec![draft.clone(); 7]).await;
    for _ in 0..4 {
        rows.push(harness.submit(draft.clone()).await);
    }
    for filter in filters {
        let expected = picked(&rows, |_| true);
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = harness.store.list(&filter, after, 3, Payloads::NONE).await.expect("rows are listed");
            let Some(last) = page.rows.last() else { break };
            after = Some(ListPosition::of(&last.execution));
            seen.extend(page.rows.iter().map(|stored| stored.execution.id));
            rows.extend(harness.submit_all(vec![draft.clone(); 2]).await);
        }
        assert_eq!(seen, expected, "rows added later are newer than the remaining pages");
    }
}

/// Inserts more completed executions than one page scans, and an older one of another class.
pub async fn a_page_scans_a_bounded_part_of_the_list_and_says_where_to_continue(harness: &Harness) {
    let now = harness.now().await;
    let [common, rare] = [harness.class("a", "kind").await, harness.class("b", "kind").await];
    let row = |class, age_ms| Execution {
        state: State::Terminal(Outcome::Completed),
        ended_at: Some(now),
        ..by_hand::row(harness, class, now.minus_ms(age_ms))
    };
    let wanted = row(rare, 1_000_000);
    let rows: Vec<Execution> = (0..SCAN_MAX as i64 + 10).map(|index| row(common, index)).collect();
    for chunk in rows.chunks(2_000) {
        by_hand::insert(harness, chunk).await;
    }
    by_hand::insert(harness, std::slice::from_ref(&wanted)).await;
    let filter = Filter { classes: Some(vec![rare]), ..Filter::all(harness.namespace) };
    let list = async |after| {
        let page = harness.store.list(&filter, after, 5, Payloads::NONE).await.expect("rows are listed");
        (page.rows.iter().map(|stored| stored.execution.id).collect::<Vec<_>>(), page.next)
    };
    let (found, next) = list(None).await;
    assert!(found.is_empty() && next.is_some(), "the page ended before the list did");
    assert_eq!(list(next).await, (vec![wanted.id], None));
}

/// Inserts more executions than one page reads.
pub async fn a_page_reads_a_bounded_number_of_rows_and_says_where_to_continue(harness: &Harness) {
    let now = harness.now().await;
    let class = harness.class("a", "kind").await;
    let row = |age_ms| Execution {
        state: State::Terminal(Outcome::Failed),
        ended_at: Some(now),
        ..by_hand::row(harness, class, now.minus_ms(age_ms))
    };
    let rows: Vec<Execution> = (0..READ_MAX as i64 + 10).map(row).collect();
    by_hand::insert(harness, &rows).await;
    let filter = Filter { worker: Some("nobody".into()), ..Filter::all(harness.namespace) };
    let list = async |after| {
        let page = harness.store.list(&filter, after, 5, Payloads::NONE).await.expect("rows are listed");
        assert!(page.rows.is_empty(), "nothing matches");
        page.next
    };
    let next = list(None).await;
    let last_read = &rows[READ_MAX - 1];
    assert_eq!(next, Some(ListPosition::of(last_read)), "the page ended before the list did");
    assert_eq!(list(next).await, None);
}

pub async fn the_executions_ahead_of_a_waiting_one_are_counted_in_its_class_up_to_a_bound(harness: &Harness) {
    let draft = |lane: &str, priority| Draft { lane: lane.into(), priority, ..Draft::new("kind") };
    let mut rows = Vec::new();
    for priority in [0, 5, 0, -5, 0] {
        rows.push(harness.submit(draft("a", priority)).await);
        harness.submit(draft("b", 9)).await;
    }
    rows.sort_by_key(|row| (-row.priority, row.ready_order, row.id));
    for (index, row) in rows.iter().enumerate() {
        let ahead = async |bound| harness.store.ahead_of(row, bound).await.expect("rows are counted");
        assert_eq!(ahead(100).await, index as u64);
        assert_eq!(ahead(2).await, index.min(2) as u64);
    }
    harness.claim_as(&Worker::new("one").on(&["a"]), 2).await;
    let last = harness.store.ahead_of(&rows[4], 100).await.expect("rows are counted");
    assert_eq!(last, 2, "claimed executions are no longer ahead");
}
