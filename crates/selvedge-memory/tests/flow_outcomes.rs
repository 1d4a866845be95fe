//! The final state of a flow against an independent reference: all graphs of three nodes with every combination of edge
//! conditions, policies and outcomes, in every order that matters, and all graphs of five nodes up to isomorphism with uniform
//! conditions and policies. The random model of flows goes beyond that.
//!
//! The engine ends the nodes; the reference looks only at the graph and at how each node ended.

use selvedge_conformance::{FlowHarness, Harness, Sketch};
use selvedge_core::flow::FlowState;
use selvedge_core::join::{EdgeCondition, GroupDecision, JoinPolicy, OnSatisfied};
use selvedge_core::plan::{EdgeDraft, GraphDraft, GroupDraft, NodeDraft};
use selvedge_core::rules::flows::submit::FlowDraft;
use selvedge_core::state::StateName;
use selvedge_core::{Draft, DueKind, Execution};
use selvedge_memory::MemoryStore;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A graph. Node `n` may have edges only from nodes before it.
#[derive(Clone, Debug)]
struct Graph {
    nodes: usize,
    edges: Vec<(usize, usize, EdgeCondition)>,
    policies: BTreeMap<usize, JoinPolicy>,
}

/// An end that the test gives to a waiting node.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Complete,
    Fail,
    Expire,
    /// An operator cancels the node.
    Cancel,
}

/// A node after its flow has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ended {
    state: StateName,
    /// Its edge group was satisfied. A node may be cancelled before the test sees it waiting.
    released: bool,
    by_operator: bool,
}

fn name(node: usize) -> String {
    format!("n{node}")
}

impl Graph {
    fn draft(&self) -> FlowDraft {
        let node = |node: usize| {
            let mut draft = Draft::new(name(node));
            draft.policy.deadline_ms = Some(0);
            NodeDraft { name: name(node), draft }
        };
        let edge = |(from, to, when): &(usize, usize, EdgeCondition)| EdgeDraft {
            from: name(*from),
            to: name(*to),
            when: *when,
        };
        let group = |(node, policy): (&usize, &JoinPolicy)| GroupDraft { node: name(*node), policy: *policy };
        let graph = GraphDraft {
            nodes: (0..self.nodes).map(node).collect(),
            edges: self.edges.iter().map(edge).collect(),
            groups: self.policies.iter().map(group).collect(),
        };
        FlowDraft { graph, ..FlowDraft::default() }
    }

    /// Returns the final state of the flow, as the specification defines it.
    fn expected(&self, ended: &[Ended]) -> FlowState {
        let failed = |node: &usize| match ended[*node].state {
            StateName::Failed | StateName::Expired => true,
            StateName::Cancelled => ended[*node].by_operator,
            _ => false,
        };
        let unhandled = (0..self.nodes).filter(failed).any(|node| {
            let outgoing: Vec<_> = self.edges.iter().filter(|(from, _, _)| *from == node).collect();
            let handler = outgoing.iter().any(|(_, to, when)| {
                ["failure", "failure_or_skipped"].contains(&when.as_str())
                    && ended[*to].state == StateName::Completed
            });
            let tolerated = outgoing.iter().all(|(_, to, _)| {
                ["any_of", "quorum"].contains(&self.policies[to].as_str()) && ended[*to].released
            });
            !handler && (outgoing.is_empty() || !tolerated)
        });
        if unhandled { FlowState::Failed } else { FlowState::Completed }
    }
}

/// Enumerates every sequence of choices: each run takes the next one.
#[derive(Default)]
struct Choices {
    made: Vec<(usize, usize)>,
    next: usize,
}

impl Choices {
    /// Returns a number below `options`: the recorded choice, or 0 if this run has come farther than any before it.
    fn choose(&mut self, options: usize) -> usize {
        if self.next == self.made.len() {
            self.made.push((0, options));
        }
        self.next += 1;
        self.made[self.next - 1].0
    }

    /// Moves on to the next sequence. Returns false after the last one.
    fn advance(&mut self) -> bool {
        self.next = 0;
        while let Some((chosen, options)) = self.made.pop() {
            if chosen + 1 < options {
                self.made.push((chosen + 1, options));
                return true;
            }
        }
        false
    }
}

async fn states(flow: &FlowHarness) -> BTreeMap<String, StateName> {
    let members = flow.members().await;
    members.iter().map(|row| (row.node().expect("it has a name").to_owned(), row.state.name())).collect()
}

/// Returns the nodes whose edge groups are satisfied.
async fn released(flow: &FlowHarness) -> BTreeSet<String> {
    let members = flow.members().await;
    let satisfied =
        |row: &&Execution| row.join.as_ref().is_some_and(|join| join.decision == GroupDecision::Satisfied);
    members.iter().filter(satisfied).map(|row| row.node().expect("it has a name").to_owned()).collect()
}

/// Ends the nodes of a graph one after the other, as `choices` says, and compares the final state of the flow. With
/// `any_order` false, the first waiting node ends next.
async fn run(graph: &Graph, ends: &[End], any_order: bool, choices: &mut Choices) {
    let harness = Harness::new(Arc::new(MemoryStore::new())).await;
    let flow = harness.flow(Sketch(graph.draft())).await;
    let mut by_operator = BTreeSet::new();
    let mut order = Vec::new();
    loop {
        let states = states(&flow).await;
        let waiting: Vec<&String> =
            states.iter().filter(|(_, state)| **state == StateName::Waiting).map(|(name, _)| name).collect();
        if waiting.is_empty() {
            let released = released(&flow).await;
            let ended: Vec<Ended> = (0..graph.nodes)
                .map(|node| Ended {
                    state: states[&name(node)],
                    released: released.contains(&name(node)),
                    by_operator: by_operator.contains(&name(node)),
                })
                .collect();
            assert_eq!(
                flow.flow().await.state,
                graph.expected(&ended),
                "{graph:?} after {order:?} as {ended:?}"
            );
            return;
        }
        let open = if any_order { waiting.len() } else { 1 };
        let chosen = choices.choose(open * ends.len());
        let (node, end) = (waiting[chosen / ends.len()], ends[chosen % ends.len()]);
        order.push((node.clone(), end));
        match end {
            End::Complete => flow.complete(node).await,
            End::Fail => flow.fail(node).await,
            End::Expire => flow.due(node, DueKind::Deadline).await,
            End::Cancel => {
                by_operator.insert(node.clone());
                flow.cancel_node(node).await;
            }
        }
        harness.drain().await;
    }
}

/// Runs a graph through every sequence of ends. Returns their number.
async fn run_all(graph: &Graph, ends: &[End], any_order: bool) -> usize {
    let mut choices = Choices::default();
    for count in 1.. {
        run(graph, ends, any_order, &mut choices).await;
        if !choices.advance() {
            return count;
        }
    }
    unreachable!("the sequences end")
}

/// Returns all policies that differ for a node with this many edges into it.
fn policies(edges: usize) -> Vec<JoinPolicy> {
    let both = [OnSatisfied::CancelRemaining, OnSatisfied::LetRun];
    let on_satisfied = if edges > 1 { &both[..] } else { &both[..1] };
    let any = on_satisfied.iter().map(|on| JoinPolicy::AnyOf { on_satisfied: *on });
    let quorums = (1..=edges as u32)
        .flat_map(|k| on_satisfied.iter().map(move |on| JoinPolicy::Quorum { k, on_satisfied: *on }));
    [JoinPolicy::AllOf].into_iter().chain(any).chain(quorums).collect()
}

/// Returns every way to put at most one edge, with any condition, from each of `upstreams` to `node`, with every policy.
fn groups(upstreams: &[usize], node: usize) -> Vec<Graph> {
    let mut drawn: Vec<Vec<(usize, usize, EdgeCondition)>> = vec![Vec::new()];
    for from in upstreams {
        let with = drawn.iter().flat_map(|edges| {
            EdgeCondition::ALL.map(|when| edges.iter().copied().chain([(*from, node, when)]).collect())
        });
        drawn = drawn.iter().cloned().chain(with.collect::<Vec<_>>()).collect();
    }
    let with_policies = |edges: Vec<(usize, usize, EdgeCondition)>| {
        let policies =
            if edges.is_empty() { vec![None] } else { policies(edges.len()).into_iter().map(Some).collect() };
        policies.into_iter().map(move |policy| Graph {
            nodes: node + 1,
            edges: edges.clone(),
            policies: policy.map(|policy| (node, policy)).into_iter().collect(),
        })
    };
    drawn.into_iter().flat_map(with_policies).collect()
}

/// Returns all graphs of three nodes whose second node has this edge from the first.
fn graphs_of_three(first_edge: Option<EdgeCondition>) -> Vec<Graph> {
    let second =
        groups(&[0], 1).into_iter().filter(|group| group.edges.first().map(|edge| edge.2) == first_edge);
    let third = groups(&[0, 1], 2);
    second
        .flat_map(|second| {
            third.iter().map(move |third| Graph {
                nodes: 3,
                edges: second.edges.iter().chain(&third.edges).copied().collect(),
                policies: second
                    .policies
                    .iter()
                    .chain(&third.policies)
                    .map(|(node, policy)| (*node, *policy))
                    .collect(),
            })
        })
        .collect()
}

#[track_caller]
fn check_three(first_edge: Option<EdgeCondition>, graphs: usize) {
    let all = graphs_of_three(first_edge);
    assert_eq!(all.len(), graphs);
    block_on(async {
        for graph in &all {
            // The order matters only where the end of one node cancels others.
            let any_order = graph.policies.values().any(|policy| policy.cancels());
            run_all(graph, &[End::Complete, End::Fail, End::Expire, End::Cancel], any_order).await;
        }
    });
}

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(test);
}

#[test]
fn slow_graphs_of_three_nodes_without_a_first_edge_end_as_specified() {
    check_three(None, 137);
}

#[test]
fn slow_graphs_of_three_nodes_with_a_success_edge_end_as_specified() {
    check_three(Some(EdgeCondition::Success), 3 * 137);
}

#[test]
fn slow_graphs_of_three_nodes_with_a_failure_edge_end_as_specified() {
    check_three(Some(EdgeCondition::Failure), 3 * 137);
}

#[test]
fn slow_graphs_of_three_nodes_with_a_failure_or_skipped_edge_end_as_specified() {
    check_three(Some(EdgeCondition::FailureOrSkipped), 3 * 137);
}

#[test]
fn slow_graphs_of_three_nodes_with_a_finished_edge_end_as_specified() {
    check_three(Some(EdgeCondition::Finished), 3 * 137);
}

/// The pairs of nodes that may have an edge, in a graph of five nodes.
fn pairs() -> Vec<(usize, usize)> {
    (0..5).flat_map(|to| (0..to).map(move |from| (from, to))).collect()
}

fn permutations(of: Vec<usize>) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let with_first = |first: usize| {
        let rest: Vec<usize> = of.iter().copied().filter(|other| *other != first).collect();
        permutations(rest).into_iter().map(move |rest| [vec![first], rest].concat())
    };
    of.iter().copied().flat_map(with_first).collect()
}

/// Returns the edges of all acyclic graphs of five nodes, one for each class of isomorphic graphs.
fn graphs_of_five() -> Vec<Vec<(usize, usize)>> {
    let (pairs, permutations) = (pairs(), permutations((0..5).collect()));
    let mut seen: BTreeSet<Vec<(usize, usize)>> = BTreeSet::new();
    let mut graphs = Vec::new();
    for chosen in 0..1_u32 << pairs.len() {
        let edges: Vec<(usize, usize)> = pairs
            .iter()
            .enumerate()
            .filter(|(bit, _)| chosen & (1 << bit) != 0)
            .map(|(_, pair)| *pair)
            .collect();
        let renamed = |names: &Vec<usize>| {
            let mut edges: Vec<_> = edges.iter().map(|(from, to)| (names[*from], names[*to])).collect();
            edges.sort_unstable();
            edges
        };
        let canonical = permutations.iter().map(renamed).min().expect("there are permutations");
        if seen.insert(canonical) {
            graphs.push(edges);
        }
    }
    graphs
}

fn check_five(when: EdgeCondition) {
    let cancel = OnSatisfied::CancelRemaining;
    let shapes = graphs_of_five();
    assert_eq!(shapes.len(), 302, "acyclic graphs of five nodes up to isomorphism");
    block_on(async {
        for shape in &shapes {
            for quorum in [None, Some(1), Some(2)] {
                let edges: Vec<_> = shape.iter().map(|(from, to)| (*from, *to, when)).collect();
                let policy = |node: usize| {
                    let count = shape.iter().filter(|(_, to)| *to == node).count() as u32;
                    let policy = match quorum {
                        None => JoinPolicy::AllOf,
                        Some(1) => JoinPolicy::AnyOf { on_satisfied: cancel },
                        Some(k) => JoinPolicy::Quorum { k: k.min(count), on_satisfied: OnSatisfied::LetRun },
                    };
                    (count > 0).then_some((node, policy))
                };
                let policies = (0..5).filter_map(policy).collect();
                let graph = Graph { nodes: 5, edges, policies };
                run_all(&graph, &[End::Complete, End::Fail], false).await;
            }
        }
    });
}

#[test]
fn slow_graphs_of_five_nodes_with_success_edges_end_as_specified() {
    check_five(EdgeCondition::Success);
}

#[test]
fn slow_graphs_of_five_nodes_with_failure_edges_end_as_specified() {
    check_five(EdgeCondition::Failure);
}

#[test]
fn slow_graphs_of_five_nodes_with_failure_or_skipped_edges_end_as_specified() {
    check_five(EdgeCondition::FailureOrSkipped);
}

#[test]
fn slow_graphs_of_five_nodes_with_finished_edges_end_as_specified() {
    check_five(EdgeCondition::Finished);
}
