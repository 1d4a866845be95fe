//! A flow's graph as plain data, read from the rows of its members.

use selvedge_core::execution::{Detail, Spec};
use selvedge_core::graph::{FlowGraph, GraphEdge, GraphGroup, GraphNode};
use selvedge_core::join::{Edge, EdgeCondition, GroupDecision, Join, JoinPolicy, OnSatisfied, Resolution};
use selvedge_core::state::StateName;
use selvedge_core::wiring::{Child, Node, Upstream, Wiring};
use selvedge_core::{
    ClassId, Execution, ExecutionId, FlowId, History, Name, NamespaceId, Outcome, State, Timestamp,
};
use std::sync::Arc;
use uuid::Uuid;

fn id(number: usize) -> ExecutionId {
    ExecutionId(Uuid::from_u128(number as u128))
}

fn member(number: usize, name: Option<&str>, state: State) -> Execution {
    let at = Timestamp::from_millis(0);
    let node = name.map(|name| Node {
        name: Name::trusted(name),
        depth: 0,
        parent: None,
        tells_if_awaited: false,
        delay: None,
        flow_deadline_at: None,
    });
    Execution {
        id: id(number),
        namespace: NamespaceId(1),
        class: ClassId(1),
        flow: Some(FlowId(Uuid::from_u128(99))),
        submitted_at: at,
        spec: Arc::new(Spec { node, ..Spec::default() }),
        tags: Default::default(),
        version: 1,
        state,
        priority: 0,
        ready_order: at,
        epoch: 0,
        started_at: None,
        ended_at: None,
        detail: Detail::default(),
        history: History::default(),
        wiring: None,
        join: None,
    }
}

fn waiting_for(
    mut row: Execution,
    upstreams: &[(usize, EdgeCondition, Resolution)],
    policy: JoinPolicy,
) -> Execution {
    let wiring = Wiring {
        upstreams: upstreams
            .iter()
            .map(|(from, when, _)| Upstream { execution: id(*from), when: *when })
            .collect(),
        ..Wiring::default()
    };
    let edges = upstreams.iter().map(|(_, _, resolution)| Edge { resolution: *resolution, generation: 0 });
    row.wiring = Some(Arc::new(wiring));
    row.join = Some(Join { policy, edges: edges.collect(), decision: GroupDecision::Pending });
    row
}

#[test]
fn the_graph_shows_nodes_edges_groups_and_children_of_the_rows() {
    let on_satisfied = OnSatisfied::LetRun;
    let policy = JoinPolicy::Quorum { k: 2, on_satisfied };
    let mut root = member(1, None, State::Terminal(Outcome::Completed));
    root.wiring = Some(Arc::new(Wiring {
        children: vec![Child { execution: id(2), detached: false }],
        ..Wiring::default()
    }));
    let child = member(2, Some("child"), State::Terminal(Outcome::Failed));
    let edges =
        [(1, EdgeCondition::Success, Resolution::Holds), (2, EdgeCondition::Failure, Resolution::Dead)];
    let last = waiting_for(member(3, Some("last"), State::WaitingDependencies), &edges, policy);

    let graph = FlowGraph::of(&[root, child, last]);

    let name = Name::trusted;
    let node = |text: &str, number, state| GraphNode { name: name(text), execution: id(number), state };
    let edge =
        |from: &str, when, resolution| GraphEdge { from: name(from), to: name("last"), when, resolution };
    let expected = FlowGraph {
        nodes: vec![
            node("root", 1, StateName::Completed),
            node("child", 2, StateName::Failed),
            node("last", 3, StateName::WaitingDependencies),
        ],
        edges: vec![
            edge("root", EdgeCondition::Success, Resolution::Holds),
            edge("child", EdgeCondition::Failure, Resolution::Dead),
        ],
        groups: vec![GraphGroup {
            node: name("last"),
            policy,
            holds: 1,
            dead: 1,
            pending: 0,
            decision: GroupDecision::Pending,
        }],
        spawned: vec![(name("root"), name("child"))],
    };
    assert_eq!(graph, expected);
    assert_eq!(graph.layers(), [0, 1, 2]);
}

#[test]
fn an_edge_from_an_upstream_outside_the_members_is_left_out() {
    let edges =
        [(7, EdgeCondition::Success, Resolution::Holds), (1, EdgeCondition::Finished, Resolution::Dead)];
    let first = member(1, Some("first"), State::Waiting);
    let last = waiting_for(member(2, Some("last"), State::WaitingDependencies), &edges, JoinPolicy::AllOf);
    let graph = FlowGraph::of(&[first, last]);
    let [edge] = &graph.edges[..] else { panic!("one edge: {:?}", graph.edges) };
    assert_eq!(
        (edge.from.as_str(), edge.when, edge.resolution),
        ("first", EdgeCondition::Finished, Resolution::Dead)
    );
}
