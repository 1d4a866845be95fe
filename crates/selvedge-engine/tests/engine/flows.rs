//! Flows through the engine: propagation shares the commit of the completion that causes it, the dispatcher runs the
//! follow-up work of a commit, and the reconcilers find that work if the dispatcher does not.

use crate::test_server::{self, TestServer, claim_of, complete_op, fence, operator, passive_options};
use crate::{manual_clock, memory_server, soon, until};
use selvedge_engine::core::flow::{CancelMode, FlowState};
use selvedge_engine::core::join::{EdgeCondition, JoinPolicy, OnSatisfied};
use selvedge_engine::core::plan::{EdgeDraft, GraphDraft, GroupDraft, NodeDraft};
use selvedge_engine::core::rules::claim::Claimed;
use selvedge_engine::core::rules::flows::submit::FlowDraft;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Draft, ExecutionId, FailureClass, FlowId, Policy, Retry};
use selvedge_engine::{GrownFlow, Options};
use selvedge_memory::MemoryStore;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Parses a graph: the words `a b c` are nodes, `a>b` is an edge. No node is retried.
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

/// A submitted flow with its executions by node name.
struct SubmittedFlow<'a> {
    server: &'a TestServer,
    id: FlowId,
    nodes: BTreeMap<String, ExecutionId>,
}

impl TestServer {
    async fn submit_graph(&self, graph: GraphDraft) -> SubmittedFlow<'_> {
        let draft = FlowDraft { graph, ..FlowDraft::default() };
        let GrownFlow { flow, executions, duplicate } =
            self.namespace.submit_flow(draft, None).await.expect("the submission is accepted");
        assert!(!duplicate);
        let nodes = executions.into_iter().map(|(name, id)| (name.to_string(), id)).collect();
        SubmittedFlow { server: self, id: flow.id, nodes }
    }
}

impl SubmittedFlow<'_> {
    async fn state(&self, node: &str) -> StateName {
        self.server.state(self.nodes[node]).await
    }

    async fn states(&self) -> String {
        let mut states = Vec::new();
        for name in self.nodes.keys() {
            states.push(format!("{name}:{}", self.state(name).await.as_str()));
        }
        states.join(" ")
    }

    async fn final_state(&self) -> FlowState {
        let ended = soon(self.server.namespace.flow_result(self.id, Duration::from_secs(20))).await;
        ended.expect("the flow is read").expect("the flow ends").flow.state
    }

    async fn wait_for_state(&self, node: &str, state: StateName) {
        until(&format!("{node} has the state {state:?}"), async || self.state(node).await == state).await;
    }
}

fn node(claimed: &Claimed) -> String {
    claimed.execution.node().unwrap_or_default().to_owned()
}

fn permanent_failure() -> Op {
    Op::Fail { message: "it broke".into(), class: FailureClass::Permanent, retry_after_ms: None }
}

async fn commits(server: &TestServer) -> i64 {
    server.engine.store().figures().await.expect("the figures are read").expect("the store counts commits").0
}

#[tokio::test]
async fn a_completion_its_propagation_and_the_waiting_claim_share_one_commit() {
    let (server, _) = memory_server().await;
    let flow = server.submit_graph(graph("a b c a>b b>c")).await;
    let first = server.claim_one("one").await;
    assert_eq!(
        (node(&first), flow.states().await),
        ("a".into(), "a:active b:waiting_dependencies c:waiting_dependencies".into())
    );
    let waiting = server.claim_waiting(claim_of("two", 1), 1).await;
    let before = commits(&server).await;
    server.report(fence(&first), Op::Complete { result: "42".into() }).await.expect("the lease is current");
    let second = soon(waiting).await.expect("the task does not panic");
    assert_eq!((commits(&server).await - before, node(&second[0])), (1, "b".into()));
    let upstream = &second[0].upstreams[0];
    assert_eq!((upstream.name.as_str(), upstream.result.as_deref()), ("a", Some(&b"42"[..])));
    server.complete(fence(&second[0])).await.expect("the lease is current");
    let third = server.claim_one("three").await;
    server.complete(fence(&third)).await.expect("the lease is current");
    assert_eq!(flow.final_state().await, FlowState::Completed);
}

#[tokio::test]
async fn the_claim_of_a_report_gets_the_execution_that_its_completion_made_claimable() {
    let (server, _) = memory_server().await;
    server.submit_graph(graph("a b a>b")).await;
    let first = server.claim_one("one").await;
    let before = commits(&server).await;
    let ops = vec![Ok((fence(&first), None, complete_op()))];
    let (_, claimed) =
        server.namespace.report(ops, Some(claim_of("one", 1))).await.expect("the report is answered");
    assert_eq!((claimed.len(), commits(&server).await - before), (1, 1));
    assert_eq!((node(&claimed[0]), claimed[0].upstreams.len()), ("b".into(), 1));
}

#[tokio::test]
async fn a_failure_skips_all_transitive_downstreams_and_fails_the_flow() {
    let (server, _) = memory_server().await;
    let flow = server.submit_graph(graph("a b c d e a>b b>c c>d")).await;
    for claimed in server.claim("one", 9).await {
        let op = if node(&claimed) == "a" { permanent_failure() } else { complete_op() };
        server.report(fence(&claimed), op).await.expect("the lease is current");
    }
    assert_eq!(flow.final_state().await, FlowState::Failed);
    assert_eq!(flow.states().await, "a:failed b:skipped c:skipped d:skipped e:completed");
}

#[tokio::test]
async fn a_failure_caught_by_an_edge_does_not_fail_the_flow() {
    let (server, _) = memory_server().await;
    let mut caught = graph("a alert a>alert");
    caught.edges[0].when = EdgeCondition::Failure;
    let flow = server.submit_graph(caught).await;
    let first = server.claim_one("one").await;
    server.report(fence(&first), permanent_failure()).await.expect("the lease is current");
    let alert = server.claim_one("one").await;
    let upstream = &alert.upstreams[0];
    assert_eq!(upstream.error.as_ref().map(|error| error.message.as_str()), Some("it broke"));
    server.complete(fence(&alert)).await.expect("the lease is current");
    assert_eq!(flow.final_state().await, FlowState::Completed);
}

#[tokio::test]
async fn the_first_success_cancels_its_siblings_unless_another_join_needs_them() {
    let (server, _) = memory_server().await;
    let mut race = graph("a b c win other a>win b>win c>win c>other");
    race.groups.push(any_of("win"));
    let flow = server.submit_graph(race).await;
    let claimed = server.claim("one", 2).await;
    server.complete(fence(&claimed[0])).await.expect("the lease is current");
    flow.wait_for_state("b", StateName::Cancelled).await;
    assert_eq!(
        flow.states().await,
        "a:completed b:cancelled c:waiting other:waiting_dependencies win:waiting"
    );
}

#[tokio::test]
async fn many_siblings_are_cancelled_in_few_commits() {
    let (server, _) = memory_server().await;
    let nodes: Vec<String> = (0..1000).map(|number| format!("n{number}")).collect();
    let edges: Vec<String> = nodes.iter().map(|node| format!("{node}>win")).collect();
    let mut race = graph(&format!("{} win {}", nodes.join(" "), edges.join(" ")));
    race.groups.push(any_of("win"));
    let flow = server.submit_graph(race).await;
    let claimed = server.claim_one("one").await;
    let before = commits(&server).await;
    server.complete(fence(&claimed)).await.expect("the lease is current");
    until("all siblings are cancelled", async || {
        let counts = server.namespace.flow(flow.id).await.expect("the flow exists").flow.counts;
        counts.of(StateName::Cancelled) == 999
    })
    .await;
    let commits = commits(&server).await - before;
    assert!(commits <= 6, "{commits} commits");
    let win = server.claim_one("one").await;
    assert_eq!((node(&win), win.upstreams.len()), ("win".into(), 1000));
}

#[tokio::test]
async fn a_delayed_hedge_runs_only_if_the_first_node_takes_too_long() {
    let (server, clock) = memory_server().await;
    let mut hedge = graph("first second win first>win second>win");
    hedge.nodes[1].draft.delay = Some(When::AfterMs(1000));
    hedge.groups.push(any_of("win"));
    let flow = server.submit_graph(hedge).await;
    assert_eq!(node(&server.claim_one("one").await), "first");
    clock.advance_ms(1000);
    server.engine.tick("delay_promoter").await.expect("the tick runs");
    let second = server.claim_one("two").await;
    server.complete(fence(&second)).await.expect("the lease is current");
    flow.wait_for_state("first", StateName::Cancelled).await;
    let win = server.claim_one("two").await;
    server.complete(fence(&win)).await.expect("the lease is current");
    assert_eq!(flow.final_state().await, FlowState::Completed);
}

#[tokio::test]
async fn reconcilers_propagate_what_a_crash_left_undone_through_a_chain_of_any_depth() {
    let clock = manual_clock();
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    let server = TestServer::new(store, Options { dispatch: false, ..passive_options() }).await;
    let mut race = graph("a b c d e f win a>b b>c c>d d>e e>f a>win f>win");
    race.groups.push(any_of("win"));
    race.edges.last_mut().expect("there are edges").when = EdgeCondition::Finished;
    let flow = server.submit_graph(race).await;
    let first = server.claim_one("one").await;
    server.report(fence(&first), permanent_failure()).await.expect("the lease is current");
    for _ in 0..10 {
        clock.advance_ms(1001);
        server.engine.tick("dependency").await.expect("the tick runs");
    }
    assert_eq!(flow.states().await, "a:failed b:skipped c:skipped d:skipped e:skipped f:skipped win:waiting");
    let win = server.claim_one("one").await;
    server.complete(fence(&win)).await.expect("the lease is current");
    clock.advance_ms(1001);
    server.engine.tick("dependency").await.expect("the tick runs");
    // The failed node feeds a group that needs it, so nothing handled its failure.
    assert_eq!(flow.final_state().await, FlowState::Failed);
}

#[tokio::test]
async fn a_wide_fan_out_is_propagated_in_chunks_and_joins_once() {
    let (server, _) = memory_server().await;
    let nodes: Vec<String> = (0..1200).map(|number| format!("n{number}")).collect();
    let edges: Vec<String> = nodes.iter().map(|node| format!("start>{node} {node}>end")).collect();
    let flow =
        server.submit_graph(graph(&format!("start {} end {}", nodes.join(" "), edges.join(" ")))).await;
    let start = server.claim_one("one").await;
    server.complete(fence(&start)).await.expect("the lease is current");
    let mut remaining = 1200;
    while remaining > 0 {
        let claimed = server
            .namespace
            .claim(test_server::claim_wait(claim_of("one", 100), Duration::from_secs(5)))
            .await;
        let claimed = claimed.expect("the claim is answered");
        remaining -= claimed.len();
        let ops = claimed.iter().map(|one| Ok((fence(one), None, complete_op()))).collect();
        let (results, _) = server.namespace.report(ops, None).await.expect("the report is answered");
        assert!(results.iter().all(Result::is_ok));
    }
    let end = server.claim_one("one").await;
    assert_eq!((node(&end), end.upstreams.len()), ("end".into(), 1200));
    server.complete(fence(&end)).await.expect("the lease is current");
    assert_eq!(flow.final_state().await, FlowState::Completed);
}

#[tokio::test]
async fn cancelling_all_ends_live_members_and_leaves_ended_ones() {
    let (server, _) = memory_server().await;
    let flow = server.submit_graph(graph("a b c d a>c c>d")).await;
    let claimed = server.claim("one", 2).await;
    server.complete(fence(&claimed[0])).await.expect("the lease is current");
    let wait = Duration::from_secs(10);
    let cancelled = server.namespace.cancel_flow(flow.id, CancelMode::All, None, &operator(), wait).await;
    let (view, finished) = cancelled.expect("the cancel is accepted");
    assert!(finished);
    assert_eq!(flow.states().await, "a:completed b:cancelled c:cancelled d:cancelled");
    assert_eq!(flow.final_state().await, FlowState::Cancelled, "{view:?}");
    let refused = server.report(fence(&claimed[1]), complete_op()).await;
    assert_eq!(refused.expect_err("the lease was lost").code(), "stale_lease");
}

#[tokio::test]
async fn cancelling_pending_members_lets_started_ones_finish() {
    let (server, _) = memory_server().await;
    let flow = server.submit_graph(graph("a b c a>c")).await;
    let claimed = server.claim_one("one").await;
    let wait = Duration::from_secs(10);
    let cancelled = server.namespace.cancel_flow(flow.id, CancelMode::Pending, None, &operator(), wait).await;
    assert!(cancelled.expect("the cancel is accepted").1);
    assert_eq!(flow.states().await, "a:active b:cancelled c:cancelled");
    let refused = server.namespace.grow_flow(flow.id, graph("late"), None).await.map(|_| ());
    assert!(refused.expect_err("the flow is being cancelled").to_string().contains("nothing can be added"));
    server.complete(fence(&claimed)).await.expect("the lease is current");
    assert_eq!(flow.final_state().await, FlowState::Cancelled);
}

#[tokio::test]
async fn a_replay_reopens_the_downstreams_it_had_skipped_and_the_flow_runs_again() {
    let (server, _) = memory_server().await;
    let flow = server.submit_graph(graph("a b c a>b b>c")).await;
    let first = server.claim_one("one").await;
    server.report(fence(&first), permanent_failure()).await.expect("the lease is current");
    assert_eq!(flow.final_state().await, FlowState::Failed);
    let reopened = server.namespace.would_reopen(flow.nodes["a"]).await.expect("the flow is read");
    assert_eq!(reopened, [flow.nodes["b"], flow.nodes["c"]]);
    server.operate(flow.nodes["a"], Action::Replay).await.expect("the execution is replayed");
    flow.wait_for_state("c", StateName::WaitingDependencies).await;
    assert_eq!(flow.states().await, "a:waiting b:waiting_dependencies c:waiting_dependencies");
    for _ in 0..3 {
        let claimed =
            server.namespace.claim(test_server::claim_wait(claim_of("one", 1), Duration::from_secs(5))).await;
        let claimed = claimed.expect("the claim is answered").pop().expect("an execution is claimable");
        server.complete(fence(&claimed)).await.expect("the lease is current");
    }
    assert_eq!(flow.final_state().await, FlowState::Completed);
}

#[tokio::test]
async fn spawned_children_join_the_flow_and_are_cancelled_when_their_parent_fails() {
    let (server, _) = memory_server().await;
    let id = server.submit(Draft::new("kind")).await;
    let parent = server.claim_one("one").await;
    for _ in 0..2 {
        let spawn = server.namespace.spawn(graph("x y x>y"), false).await.expect("the graph is valid");
        server.report(fence(&parent), spawn).await.expect("the lease is current");
    }
    let view = server.namespace.flow(FlowId(id.0)).await.expect("the execution has become a flow");
    assert_eq!((view.flow.counts.total(), view.flow.state), (3, FlowState::Running));
    let larger = server.namespace.spawn(graph("x y z x>y"), false).await.expect("the graph is valid");
    server.report(fence(&parent), larger).await.expect("the third spawn is accepted");
    server.report(fence(&parent), permanent_failure()).await.expect("the lease is current");
    let flow = SubmittedFlow { server: &server, id: FlowId(id.0), nodes: BTreeMap::new() };
    until("the children are cancelled", async || {
        let counts = server.namespace.flow(flow.id).await.expect("the flow exists").flow.counts;
        counts.of(StateName::Cancelled) == 3
    })
    .await;
    assert_eq!(flow.final_state().await, FlowState::Failed);
}

#[tokio::test]
async fn growing_a_flow_resolves_edges_from_ended_upstreams_and_refuses_a_cycle() {
    let (server, _) = memory_server().await;
    let flow = server.submit_graph(graph("a b c b>c")).await;
    let claimed = server.claim_one("one").await;
    server.complete(fence(&claimed)).await.expect("the lease is current");
    let grown = server.namespace.grow_flow(flow.id, graph("d a>d"), None).await.expect("the flow can grow");
    assert_eq!(server.state(grown.executions[0].1).await, StateName::Waiting);
    server.namespace.grow_flow(flow.id, graph("e c>e"), None).await.expect("the flow can grow");
    let refused =
        server.namespace.grow_flow(flow.id, graph("e>c"), None).await.expect_err("the edge closes a cycle");
    assert!(
        refused.to_string().contains("e -> c -> e") || refused.to_string().contains("c -> e -> c"),
        "{refused}"
    );
}
