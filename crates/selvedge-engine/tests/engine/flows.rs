//! Flows through the engine: a hop shares the commit of the completion that causes it, what a commit leaves is done right
//! after it, and the reconcilers find it if nobody does.

use crate::side::{self, Side, claim_of, done, fence, operator, quiet};
use crate::{clock, on_memory, soon, until};
use selvedge_engine::core::flow::{CancelMode, FlowState};
use selvedge_engine::core::join::{EdgeCondition, JoinPolicy, OnSatisfied};
use selvedge_engine::core::plan::{EdgeDraft, GraphDraft, GroupDraft, NodeDraft};
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::rules::submit_flow::FlowDraft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Draft, ExecutionId, FailureClass, FlowId, Policy, Retry};
use selvedge_engine::{Grown, Options};
use selvedge_memory::MemoryStore;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A graph from words: `a b c` are nodes, `a>b` an edge; every node fails for good at its first failure.
fn graph(words: &str) -> GraphDraft {
    let policy = Policy { retry: Retry { max_retries: 0, ..Retry::default() }, ..Policy::default() };
    let mut graph = GraphDraft::default();
    for word in words.split_whitespace() {
        match word.split_once('>') {
            Some((from, to)) => {
                graph.edges.push(EdgeDraft {
                    from: from.into(),
                    to: to.into(),
                    when: EdgeCondition::Success,
                });
            }
            None => graph.nodes.push(NodeDraft {
                name: word.into(),
                draft: Draft { policy: policy.clone(), ..Draft::new("kind") },
            }),
        }
    }
    graph
}

fn any_of(node: &str) -> GroupDraft {
    GroupDraft { node: node.into(), policy: JoinPolicy::AnyOf { on_satisfied: OnSatisfied::CancelRemaining } }
}

struct Flow<'a> {
    side: &'a Side,
    id: FlowId,
    nodes: BTreeMap<String, ExecutionId>,
}

impl Side {
    async fn flow(&self, graph: GraphDraft) -> Flow<'_> {
        let draft = FlowDraft { graph, ..FlowDraft::default() };
        let Grown { flow, executions, duplicate } =
            self.namespace.submit_flow(draft, None).await.expect("it is accepted");
        assert!(!duplicate);
        let nodes = executions.into_iter().map(|(name, id)| (name.to_string(), id)).collect();
        Flow { side: self, id: flow.id, nodes }
    }
}

impl Flow<'_> {
    async fn state(&self, node: &str) -> StateName {
        self.side.state(self.nodes[node]).await
    }

    async fn states(&self) -> String {
        let mut states = Vec::new();
        for name in self.nodes.keys() {
            states.push(format!("{name}:{}", self.state(name).await.public()));
        }
        states.join(" ")
    }

    async fn ends_as(&self) -> FlowState {
        let ended = soon(self.side.namespace.flow_result(self.id, Duration::from_secs(20))).await;
        ended.expect("it is read").expect("it ends").flow.state
    }

    async fn becomes(&self, node: &str, state: StateName) {
        until(&format!("{node} is {state:?}"), async || self.state(node).await == state).await;
    }
}

fn name(claimed: &Claimed) -> String {
    claimed.execution.node().unwrap_or_default().to_owned()
}

fn broken() -> Op {
    Op::Fail { message: "it broke".into(), class: FailureClass::Permanent, retry_after_ms: None }
}

async fn commits(side: &Side) -> i64 {
    side.engine.store().figures().await.expect("it is read").expect("it counts").0
}

#[tokio::test]
async fn a_completion_its_hop_and_the_claim_that_waits_for_it_share_one_commit() {
    let (side, _) = on_memory().await;
    let flow = side.flow(graph("a b c a>b b>c")).await;
    let first = side.claim_one("one").await;
    assert_eq!(
        (name(&first), flow.states().await),
        ("a".into(), "a:active b:waiting_dependencies c:waiting_dependencies".into())
    );
    let waiting = side.claim_waiting(claim_of("two", 1), 1).await;
    let before = commits(&side).await;
    side.report(fence(&first), Op::Complete { result: "42".into() }).await.expect("it holds the lease");
    let second = soon(waiting).await.expect("it is answered");
    assert_eq!((commits(&side).await - before, name(&second[0])), (1, "b".into()));
    let upstream = &second[0].upstreams[0];
    assert_eq!((upstream.name.as_str(), upstream.result.as_deref()), ("a", Some(&b"42"[..])));
    side.complete(fence(&second[0])).await.expect("it holds the lease");
    let third = side.claim_one("three").await;
    side.complete(fence(&third)).await.expect("it holds the lease");
    assert_eq!(flow.ends_as().await, FlowState::Completed);
}

#[tokio::test]
async fn a_report_that_asks_for_more_gets_what_its_own_completion_made_ready() {
    let (side, _) = on_memory().await;
    side.flow(graph("a b a>b")).await;
    let first = side.claim_one("one").await;
    let before = commits(&side).await;
    let ops = vec![Ok((fence(&first), None, done()))];
    let (_, claimed) = side.namespace.report(ops, Some(claim_of("one", 1))).await.expect("it is answered");
    assert_eq!((claimed.len(), commits(&side).await - before), (1, 1));
    assert_eq!((name(&claimed[0]), claimed[0].upstreams.len()), ("b".into(), 1));
}

#[tokio::test]
async fn a_failure_skips_what_waits_for_it_to_the_last_and_the_flow_has_failed() {
    let (side, _) = on_memory().await;
    let flow = side.flow(graph("a b c d e a>b b>c c>d")).await;
    for claimed in side.claim("one", 9).await {
        let op = if name(&claimed) == "a" { broken() } else { done() };
        side.report(fence(&claimed), op).await.expect("it holds the lease");
    }
    assert_eq!(flow.ends_as().await, FlowState::Failed);
    assert_eq!(flow.states().await, "a:failed b:skipped c:skipped d:skipped e:completed");
}

#[tokio::test]
async fn a_failure_that_an_edge_catches_does_not_fail_the_flow() {
    let (side, _) = on_memory().await;
    let mut caught = graph("a alert a>alert");
    caught.edges[0].when = EdgeCondition::Failure;
    let flow = side.flow(caught).await;
    let first = side.claim_one("one").await;
    side.report(fence(&first), broken()).await.expect("it holds the lease");
    let alert = side.claim_one("one").await;
    let upstream = &alert.upstreams[0];
    assert_eq!(upstream.error.as_ref().map(|error| error.message.as_str()), Some("it broke"));
    side.complete(fence(&alert)).await.expect("it holds the lease");
    assert_eq!(flow.ends_as().await, FlowState::Completed);
}

#[tokio::test]
async fn the_first_that_succeeds_wins_and_its_siblings_are_cancelled_unless_another_join_needs_them() {
    let (side, _) = on_memory().await;
    let mut race = graph("a b c win other a>win b>win c>win c>other");
    race.groups.push(any_of("win"));
    let flow = side.flow(race).await;
    let claimed = side.claim("one", 2).await;
    side.complete(fence(&claimed[0])).await.expect("it holds the lease");
    flow.becomes("b", StateName::Cancelled).await;
    assert_eq!(
        flow.states().await,
        "a:completed b:cancelled c:waiting other:waiting_dependencies win:waiting"
    );
}

#[tokio::test]
async fn many_siblings_are_cancelled_in_few_commits() {
    let (side, _) = on_memory().await;
    let nodes: Vec<String> = (0..1000).map(|number| format!("n{number}")).collect();
    let edges: Vec<String> = nodes.iter().map(|node| format!("{node}>win")).collect();
    let mut race = graph(&format!("{} win {}", nodes.join(" "), edges.join(" ")));
    race.groups.push(any_of("win"));
    let flow = side.flow(race).await;
    let claimed = side.claim_one("one").await;
    let before = commits(&side).await;
    side.complete(fence(&claimed)).await.expect("it holds the lease");
    until("all siblings are cancelled", async || {
        let counts = side.namespace.flow(flow.id).await.expect("it is there").flow.counts;
        counts.of(StateName::Cancelled) == 999
    })
    .await;
    let needed = commits(&side).await - before;
    assert!(needed <= 6, "{needed} commits");
    let win = side.claim_one("one").await;
    assert_eq!((name(&win), win.upstreams.len()), ("win".into(), 1000));
}

#[tokio::test]
async fn a_hedge_runs_only_if_the_first_takes_too_long() {
    let (side, clock) = on_memory().await;
    let mut hedge = graph("first second win first>win second>win");
    hedge.nodes[1].draft.delay = Some(When::AfterMs(1000));
    hedge.groups.push(any_of("win"));
    let flow = side.flow(hedge).await;
    assert_eq!(name(&side.claim_one("one").await), "first");
    clock.advance_ms(1000);
    side.engine.tick("delay_promoter").await.expect("it runs");
    let second = side.claim_one("two").await;
    side.complete(fence(&second)).await.expect("it holds the lease");
    flow.becomes("first", StateName::Cancelled).await;
    let win = side.claim_one("two").await;
    side.complete(fence(&win)).await.expect("it holds the lease");
    assert_eq!(flow.ends_as().await, FlowState::Completed);
}

#[tokio::test]
async fn what_a_crash_left_undone_is_found_by_the_reconcilers_however_deep_the_chain() {
    let clock = clock();
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    let side = Side::new(store, Options { dispatch: false, ..quiet() }).await;
    let mut race = graph("a b c d e f win a>b b>c c>d d>e e>f a>win f>win");
    race.groups.push(any_of("win"));
    race.edges.last_mut().expect("there are edges").when = EdgeCondition::Finished;
    let flow = side.flow(race).await;
    let first = side.claim_one("one").await;
    side.report(fence(&first), broken()).await.expect("it holds the lease");
    for _ in 0..10 {
        clock.advance_ms(1001);
        side.engine.tick("dependency").await.expect("it runs");
    }
    assert_eq!(flow.states().await, "a:failed b:skipped c:skipped d:skipped e:skipped f:skipped win:waiting");
    let win = side.claim_one("one").await;
    side.complete(fence(&win)).await.expect("it holds the lease");
    clock.advance_ms(1001);
    side.engine.tick("dependency").await.expect("it runs");
    assert_eq!(flow.ends_as().await, FlowState::Completed, "the satisfied group made up for it");
}

#[tokio::test]
async fn a_wide_fan_out_is_told_in_chunks_and_joins_once() {
    let (side, _) = on_memory().await;
    let nodes: Vec<String> = (0..1200).map(|number| format!("n{number}")).collect();
    let edges: Vec<String> = nodes.iter().map(|node| format!("start>{node} {node}>end")).collect();
    let flow = side.flow(graph(&format!("start {} end {}", nodes.join(" "), edges.join(" ")))).await;
    let start = side.claim_one("one").await;
    side.complete(fence(&start)).await.expect("it holds the lease");
    let mut left = 1200;
    while left > 0 {
        let claimed = side.namespace.claim(side::waiting(claim_of("one", 100), Duration::from_secs(5))).await;
        let claimed = claimed.expect("it is answered");
        left -= claimed.len();
        let ops = claimed.iter().map(|one| Ok((fence(one), None, done()))).collect();
        let (results, _) = side.namespace.report(ops, None).await.expect("it is answered");
        assert!(results.iter().all(Result::is_ok));
    }
    let end = side.claim_one("one").await;
    assert_eq!((name(&end), end.upstreams.len()), ("end".into(), 1200));
    side.complete(fence(&end)).await.expect("it holds the lease");
    assert_eq!(flow.ends_as().await, FlowState::Completed);
}

#[tokio::test]
async fn a_cancel_of_all_ends_what_is_live_and_leaves_what_has_ended() {
    let (side, _) = on_memory().await;
    let flow = side.flow(graph("a b c d a>c c>d")).await;
    let claimed = side.claim("one", 2).await;
    side.complete(fence(&claimed[0])).await.expect("it holds the lease");
    let wait = Duration::from_secs(10);
    let cancelled = side.namespace.cancel_flow(flow.id, CancelMode::All, None, &operator(), wait).await;
    let (view, finished) = cancelled.expect("it is accepted");
    assert!(finished);
    assert_eq!(flow.states().await, "a:completed b:cancelled c:cancelled d:cancelled");
    assert_eq!(flow.ends_as().await, FlowState::Cancelled, "{view:?}");
    let refused = side.report(fence(&claimed[1]), done()).await;
    assert_eq!(refused.expect_err("it lost its lease").code(), "stale_lease");
}

#[tokio::test]
async fn a_cancel_of_what_is_pending_lets_what_has_started_finish() {
    let (side, _) = on_memory().await;
    let flow = side.flow(graph("a b c a>c")).await;
    let claimed = side.claim_one("one").await;
    let wait = Duration::from_secs(10);
    let cancelled = side.namespace.cancel_flow(flow.id, CancelMode::Pending, None, &operator(), wait).await;
    assert!(cancelled.expect("it is accepted").1);
    assert_eq!(flow.states().await, "a:active b:cancelled c:cancelled");
    let refused = side.namespace.grow_flow(flow.id, graph("late"), None).await.map(|_| ());
    assert!(refused.expect_err("it is being cancelled").to_string().contains("nothing can be added"));
    side.complete(fence(&claimed)).await.expect("it holds the lease");
    assert_eq!(flow.ends_as().await, FlowState::Cancelled);
}

#[tokio::test]
async fn a_replay_opens_what_was_skipped_because_of_it_and_the_flow_runs_again() {
    let (side, _) = on_memory().await;
    let flow = side.flow(graph("a b c a>b b>c")).await;
    let first = side.claim_one("one").await;
    side.report(fence(&first), broken()).await.expect("it holds the lease");
    assert_eq!(flow.ends_as().await, FlowState::Failed);
    let would = side.namespace.would_reopen(flow.nodes["a"]).await.expect("it is read");
    assert_eq!(would, [flow.nodes["b"], flow.nodes["c"]]);
    side.operate(flow.nodes["a"], Action::Replay).await.expect("it has ended");
    flow.becomes("c", StateName::WaitingDependencies).await;
    assert_eq!(flow.states().await, "a:waiting b:waiting_dependencies c:waiting_dependencies");
    for _ in 0..3 {
        let claimed = side.namespace.claim(side::waiting(claim_of("one", 1), Duration::from_secs(5))).await;
        let claimed = claimed.expect("it is answered").pop().expect("there is work");
        side.complete(fence(&claimed)).await.expect("it holds the lease");
    }
    assert_eq!(flow.ends_as().await, FlowState::Completed);
}

#[tokio::test]
async fn what_is_spawned_joins_the_flow_and_ends_with_a_parent_that_fails() {
    let (side, _) = on_memory().await;
    let id = side.submit(Draft::new("kind")).await;
    let parent = side.claim_one("one").await;
    for _ in 0..2 {
        let spawn = side.namespace.spawn(graph("x y x>y"), false).await.expect("it is valid");
        side.report(fence(&parent), spawn).await.expect("it holds the lease");
    }
    let view = side.namespace.flow(FlowId(id.0)).await.expect("it is a flow now");
    assert_eq!((view.flow.counts.total(), view.flow.state), (3, FlowState::Running));
    let other = side.namespace.spawn(graph("x y z x>y"), false).await.expect("it is valid");
    side.report(fence(&parent), other).await.expect("one more");
    side.report(fence(&parent), broken()).await.expect("it holds the lease");
    let flow = Flow { side: &side, id: FlowId(id.0), nodes: BTreeMap::new() };
    until("the children are cancelled", async || {
        let counts = side.namespace.flow(flow.id).await.expect("it is there").flow.counts;
        counts.of(StateName::Cancelled) == 3
    })
    .await;
    assert_eq!(flow.ends_as().await, FlowState::Failed);
}

#[tokio::test]
async fn growth_counts_an_upstream_that_has_ended_and_refuses_a_cycle() {
    let (side, _) = on_memory().await;
    let flow = side.flow(graph("a b c b>c")).await;
    let claimed = side.claim_one("one").await;
    side.complete(fence(&claimed)).await.expect("it holds the lease");
    let grown = side.namespace.grow_flow(flow.id, graph("d a>d"), None).await.expect("it is open");
    assert_eq!(side.state(grown.executions[0].1).await, StateName::Waiting);
    side.namespace.grow_flow(flow.id, graph("e c>e"), None).await.expect("it is open");
    let refused = side.namespace.grow_flow(flow.id, graph("e>c"), None).await.expect_err("a cycle");
    assert!(
        refused.to_string().contains("e -> c -> e") || refused.to_string().contains("c -> e -> c"),
        "{refused}"
    );
}
