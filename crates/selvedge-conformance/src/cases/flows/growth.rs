//! Growth: a running flow accepts nodes and edges, or refuses all of them and names the invalid one.

use crate::harness::FlowHarness;
use crate::harness::Harness;
use crate::harness::sketch::{Sketch, graph};
use selvedge_core::join::{EdgeCondition, JoinPolicy, OnSatisfied};
use selvedge_core::plan::{
    EDGES_LIMIT, EdgeDraft, GraphDraft, GraphTarget, GroupDraft, NODES_LIMIT, NodeDraft,
};
use selvedge_core::rules::flows::grow::Grow;
use selvedge_core::{Draft, Execution, Flow, Refusal};
use std::collections::BTreeSet;

fn node(name: &str) -> NodeDraft {
    NodeDraft { name: name.into(), draft: Draft::new(name) }
}

fn edge(from: &str, to: &str) -> EdgeDraft {
    EdgeDraft { from: from.into(), to: to.into(), when: EdgeCondition::Success }
}

fn group(node: &str, k: u32) -> GroupDraft {
    let policy = JoinPolicy::Quorum { k, on_satisfied: OnSatisfied::LetRun };
    GroupDraft { node: node.into(), policy }
}

/// Returns the flow, its members and the length of the log.
async fn snapshot(flow: &FlowHarness) -> (Flow, Vec<Execution>, usize) {
    (flow.flow().await, flow.members().await, flow.harness.log().await.len())
}

/// Asserts that a growth is refused with this code and pointer, and changes nothing.
async fn assert_refused(flow: &FlowHarness, graph: GraphDraft, code: &str, pointer: Option<&str>) -> Refusal {
    let before = snapshot(flow).await;
    let refused = flow.try_grow_with(graph.clone()).await;
    let refusal = refused.expect_err(&format!("{graph:?} is refused"));
    assert_eq!((refusal.code(), refusal.pointer()), (code, pointer), "{refusal}");
    assert_eq!(snapshot(flow).await, before);
    refusal
}

pub async fn a_running_flow_grows_by_nodes_and_edges(harness: &Harness) {
    let flow = harness.flow("a -> b").await;
    flow.grow("b c -> d: any_of let_run; c -> b").await;
    flow.assert_states("a=waiting b=waiting_dependencies c=waiting d=waiting_dependencies").await;
    let row = flow.flow().await;
    assert_eq!((row.counts.total(), row.counts.live()), (4, 4));
    flow.complete("a").await;
    flow.drain_and_assert("a=completed b=waiting_dependencies c=waiting d=waiting_dependencies").await;
    flow.complete("c").await;
    flow.drain_and_assert("a=completed b=waiting c=completed d=waiting").await;
    let names = flow.claim("b").await.upstreams.into_iter().map(|one| one.name.to_string());
    assert_eq!(names.collect::<Vec<_>>(), ["a", "c"]);
}

pub async fn concurrent_growth_is_all_kept(harness: &Harness) {
    const TASKS: usize = 8;
    let flow = harness.flow("a -> z").await;
    crate::harness::concurrently(TASKS, |task| {
        let flow = flow.clone();
        async move {
            let name = format!("n{task}");
            let graph = graph(&format!("a -> {name}; {name} -> z"), &["a", "z"].map(String::from).into());
            flow.try_grow_with(graph).await.expect("it grows");
        }
    })
    .await;
    let z = flow.row("z").await;
    assert_eq!((z.wiring().upstreams.len(), flow.flow().await.counts.total()), (TASKS + 1, TASKS as i32 + 2));
    let edges: BTreeSet<u32> = z.join.iter().flat_map(|join| 0..join.edges.len() as u32).collect();
    let mut listed = BTreeSet::new();
    for upstream in &z.wiring().upstreams {
        let row = harness.row(upstream.execution).await;
        listed
            .extend(row.wiring().downstreams.iter().filter(|one| one.execution == z.id).map(|one| one.edge));
    }
    assert_eq!(listed, edges, "each edge has an index of its own");
}

pub async fn a_growth_whose_reply_was_lost_is_found_again(harness: &Harness) {
    let flow = harness.flow("a -> b; x").await;
    for text in ["a -> c", "x -> b"] {
        let command = flow.grow_command(flow.sketched(text).await).await.expect("it is valid");
        harness.run(command.clone()).await.expect("it grows");
        let before = snapshot(&flow).await;
        let (again, transaction) = harness.transact(Grow { repeated: true, ..command }).await;
        assert_eq!(again.expect("it is known").counts, before.0.counts);
        assert_eq!(transaction.entry, None);
        assert_eq!(snapshot(&flow).await, before);
    }
}

pub async fn a_cycle_is_refused_with_its_nodes_named(harness: &Harness) {
    let refused = harness.try_submit_flow("a -> b -> c -> d; c -> a").await.expect_err("it is a cycle");
    assert_eq!((refused.code(), refused.pointer()), ("cycle", Some("/edges")));
    let text = refused.to_string();
    assert!(["a", "b", "c"].iter().all(|name| text.contains(name)), "{text}");
    let refused = harness.try_submit_flow("a -> a").await.expect_err("it waits for itself");
    assert_eq!((refused.code(), refused.pointer()), ("cycle", Some("/edges/0")));
    assert!(harness.claim(1).await.is_empty(), "nothing was submitted");
}

pub async fn a_cycle_that_growth_would_close_is_refused(harness: &Harness) {
    let flow = harness.flow("root -> a -> b -> c; other").await;
    for text in ["b -> a", "c -> a", "c -> n -> a", "c -> n; n -> m; m -> b"] {
        let refusal = assert_refused(&flow, flow.sketched(text).await, "cycle", Some("/edges")).await;
        assert!(refusal.to_string().contains('b'), "{refusal}");
    }
    flow.grow("root -> c; other -> a; a -> n -> c").await;
}

pub async fn two_concurrent_growths_cannot_close_a_cycle_together(harness: &Harness) {
    for _ in 0..4 {
        let flow = harness.flow("root -> a; root -> b").await;
        let grown = crate::harness::concurrently(2, |task| {
            let flow = flow.clone();
            async move {
                let (from, to) = if task == 0 { ("a", "b") } else { ("b", "a") };
                let graph = GraphDraft { edges: vec![edge(from, to)], ..GraphDraft::default() };
                flow.try_grow_with(graph).await.map_err(|refusal| refusal.code())
            }
        });
        let grown = grown.await;
        assert_eq!(grown.iter().filter(|one| one.is_ok()).count(), 1, "{grown:?}");
        assert!(grown.iter().any(|one| matches!(one, Err("cycle"))));
    }
}

pub async fn an_unknown_node_is_refused_by_its_name(harness: &Harness) {
    let sketch = |graph: GraphDraft| Sketch::default().flow(|flow| flow.graph = graph);
    let nodes = || vec![node("a"), node("b")];
    for (graph, pointer) in [
        (GraphDraft { nodes: nodes(), edges: vec![edge("a", "nobody")], groups: vec![] }, "/edges/0/to"),
        (
            GraphDraft { nodes: nodes(), edges: vec![edge("a", "b"), edge("nobody", "b")], groups: vec![] },
            "/edges/1/from",
        ),
        (GraphDraft { nodes: nodes(), edges: vec![], groups: vec![group("nobody", 1)] }, "/groups/0/node"),
    ] {
        let refused = harness.try_submit_flow(sketch(graph)).await.expect_err("the node does not exist");
        assert_eq!((refused.code(), refused.pointer()), ("unknown_node", Some(pointer)));
        assert!(refused.to_string().contains("nobody"));
    }
    let flow = harness.flow("a").await;
    let other = harness.flow("elsewhere").await;
    for (edges, pointer) in [
        (vec![edge("nobody", "n")], "/edges/0/from"),
        (vec![edge("a", "n"), edge("n", "nobody")], "/edges/1/to"),
        (vec![edge("elsewhere", "n")], "/edges/0/from"),
    ] {
        let graph = GraphDraft { nodes: vec![node("n")], edges, groups: vec![] };
        assert_refused(&flow, graph, "unknown_node", Some(pointer)).await;
    }
    other.assert_states("elsewhere=waiting").await;
}

pub async fn an_existing_edge_or_name_is_refused(harness: &Harness) {
    let twice = harness.try_submit_flow("a -> b; a! -> b").await.expect_err("the edge exists already");
    assert_eq!((twice.code(), twice.pointer()), ("invalid_field", Some("/edges/1")));
    let nodes = vec![node("a"), node("b"), node("a")];
    let named = Sketch::default().flow(|flow| flow.graph = GraphDraft { nodes, ..GraphDraft::default() });
    let named = harness.try_submit_flow(named).await.expect_err("the name exists twice");
    assert_eq!((named.code(), named.pointer()), ("invalid_field", Some("/nodes/2/name")));
    let flow = harness.flow("a -> b").await;
    assert_refused(&flow, flow.sketched("a? -> b").await, "invalid_field", Some("/edges/0")).await;
    let graph = GraphDraft { nodes: vec![node("n"), node("b")], ..GraphDraft::default() };
    assert_refused(&flow, graph, "invalid_field", Some("/nodes/1/name")).await;
}

pub async fn an_edge_into_a_node_that_no_longer_waits_for_dependencies_is_refused(harness: &Harness) {
    let flow = harness.flow("waiting active; done -> later; lost -> skipped; late -> dependent").await;
    flow.complete("done").await;
    flow.fail("lost").await;
    flow.claim("active").await;
    harness.drain().await;
    for to in ["waiting", "active", "done", "later", "skipped"] {
        let graph = flow.sketched(&format!("dependent -> n; n -> {to}")).await;
        let refusal = assert_refused(&flow, graph, "wrong_state", None).await;
        assert!(refusal.to_string().contains(&format!("/edges/1/to names it ({to:?})")), "{refusal}");
    }
    flow.grow("n -> dependent").await;
    flow.cancel_node("dependent").await;
    assert_refused(&flow, flow.sketched("m -> dependent").await, "wrong_state", None).await;
}

pub async fn an_edge_from_a_node_in_any_state_is_accepted(harness: &Harness) {
    let flow = harness.flow("waiting active done; lost -> skipped; late -> dependent").await;
    flow.complete("done").await;
    flow.fail("lost").await;
    flow.claim("active").await;
    harness.drain().await;
    flow.grow("waiting? active? done? lost? skipped? dependent? -> n: quorum 3 let_run").await;
    assert_eq!(flow.row("n").await.state.name().as_str(), "waiting", "three had ended");
}

pub async fn an_ended_flow_does_not_grow(harness: &Harness) {
    let flow = harness.flow("a").await;
    flow.complete("a").await;
    for settled in [false, true] {
        if settled {
            harness.drain().await;
        }
        assert_refused(&flow, flow.sketched("a -> b").await, "flow_ended", None).await;
    }
    let unknown = harness.flow_of(selvedge_core::FlowId(uuid::Uuid::now_v7()));
    let missing = unknown.try_grow_with(graph("b", &BTreeSet::new())).await.expect_err("it does not exist");
    assert_eq!(missing.code(), "not_found");
    let in_other_namespace = harness.in_namespace("elsewhere").await.flow_of(flow.id);
    let missing = in_other_namespace
        .try_grow_with(graph("b", &BTreeSet::new()))
        .await
        .expect_err("it belongs to another namespace");
    assert_eq!(missing.code(), "not_found");
}

pub async fn a_graph_beyond_the_limits_is_refused(_harness: &Harness) {
    let nodes = |count: usize| (0..count).map(|index| node(&format!("n{index}"))).collect::<Vec<_>>();
    let refused = |graph: GraphDraft| {
        let refusal = graph.check(GraphTarget::NewFlow).expect_err("it is too large");
        (refusal.code(), refusal.pointer().map(str::to_owned))
    };
    let wide = GraphDraft { nodes: nodes(NODES_LIMIT + 1), ..GraphDraft::default() };
    assert_eq!(refused(wide), ("invalid_field", Some("/nodes".into())));
    let edges = vec![edge("n0", "n1"); EDGES_LIMIT + 1];
    let dense = GraphDraft { nodes: nodes(2), edges, groups: vec![] };
    assert_eq!(refused(dense), ("invalid_field", Some("/edges".into())));
    assert_eq!(refused(GraphDraft::default()), ("invalid_field", Some("/nodes".into())));
}

pub async fn a_policy_that_can_never_or_always_be_met_is_refused(harness: &Harness) {
    for (k, pointer) in [(0, "/groups/0/policy/k"), (3, "/groups/0/policy/k")] {
        let nodes = vec![node("a"), node("b"), node("c")];
        let edges = vec![edge("a", "c"), edge("b", "c")];
        let graph = GraphDraft { nodes, edges, groups: vec![group("c", k)] };
        let refused = harness.try_submit_flow(Sketch::default().flow(|flow| flow.graph = graph)).await;
        let refused = refused.expect_err("k is out of range");
        assert_eq!((refused.code(), refused.pointer()), ("invalid_field", Some(pointer)));
    }
    let graph = GraphDraft { nodes: vec![node("a")], edges: vec![], groups: vec![group("a", 1)] };
    let refused = harness.try_submit_flow(Sketch::default().flow(|flow| flow.graph = graph)).await;
    assert_eq!(refused.expect_err("it has no edges").pointer(), Some("/groups/0/policy"));
}

pub async fn an_invalid_node_is_refused_with_its_path(harness: &Harness) {
    let keyed = Sketch::from("a b").node("b", |draft| draft.idempotency_key = Some("key".into()));
    let refused = harness.try_submit_flow(keyed).await.expect_err("keys are not allowed on nodes");
    assert_eq!((refused.code(), refused.pointer()), ("invalid_field", Some("/nodes/1/idempotency_key")));
    let bad = Sketch::from("a b").node("b", |draft| draft.priority = 1 << 20);
    let refused = harness.try_submit_flow(bad).await.expect_err("the priority is too high");
    assert_eq!((refused.code(), refused.pointer()), ("invalid_field", Some("/nodes/1/priority")));
    let flow = harness.flow("a").await;
    let mut graph = flow.sketched("b").await;
    graph.nodes[0].draft.kind = String::new();
    assert_refused(&flow, graph, "invalid_field", Some("/nodes/0/kind")).await;
}
