//! Collapses alike nodes of a graph into one box, so that a wide or large flow can be read.
//!
//! Nodes are alike if they have the same kind, the same upstreams and downstreams under the same conditions, and the same policy. From
//! [`WIDE`] alike nodes on they are one box. Beyond [`LARGE`] nodes, two alike nodes are enough; and if boxes are still too many, nodes
//! in the same layer whose neighbours are alike are alike, too: a thousand equal chains become one chain of boxes.

use selvedge_core::flow::Counts;
use selvedge_core::graph::{FlowGraph, GraphEdge, Link};
use selvedge_core::join::{JoinPolicy, Resolution};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The number of alike nodes from which they are collapsed.
pub const WIDE: usize = 20;
/// The number of nodes beyond which a graph is large.
pub const LARGE: usize = 1000;
/// The most rounds in which neighbours are compared.
const ROUNDS_MAX: usize = 64;

/// A box: one node, or several alike nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The indices of the nodes, in the order of the graph. The first one gives the box its name.
    pub nodes: Vec<usize>,
    /// The number of nodes in each state.
    pub counts: Counts,
}

/// A graph of boxes.
#[derive(Clone, Debug, PartialEq)]
pub struct CollapsedGraph {
    /// The graph of the first nodes of the clusters.
    pub graph: FlowGraph,
    /// The clusters, in the order of the nodes of that graph.
    pub clusters: Vec<Cluster>,
}

/// Collapses a graph. `kinds` has the kind of each node; clusters whose first node is named in `expanded` stay apart.
pub fn collapse(graph: &FlowGraph, kinds: &[&str], expanded: &HashSet<&str>) -> CollapsedGraph {
    let links: Vec<_> = graph.links().map(|(link, ends)| (label(&link), ends)).collect();
    let is_large = graph.nodes.len() > LARGE;
    let least = if is_large { 2 } else { WIDE };
    let policies: HashMap<&str, JoinPolicy> =
        graph.groups.iter().map(|group| (group.node.as_str(), group.policy)).collect();
    let own: Vec<_> = (0..graph.nodes.len())
        .map(|index| {
            (kinds.get(index).copied().unwrap_or_default(), policies.get(graph.nodes[index].name.as_str()))
        })
        .collect();
    let apart: Vec<usize> = (0..graph.nodes.len()).collect();
    let alike = with_neighbours(&own, &apart, &links);
    let mut clusters = clusters(graph, &alike, least, expanded);
    if is_large && clusters.len() > LARGE {
        let layers = graph.layers();
        let own: Vec<_> = own.into_iter().zip(layers).collect();
        let mut classes = numbered(own.iter().copied());
        for _ in 0..ROUNDS_MAX {
            let refined = with_neighbours(&own, &classes, &links);
            let is_stable = refined.iter().max() == classes.iter().max();
            classes = refined;
            if is_stable {
                break;
            }
        }
        clusters = self::clusters(graph, &classes, least, expanded);
    }
    CollapsedGraph { graph: graph_of(graph, &clusters), clusters }
}

/// Returns what two links must have in common to be alike.
fn label(link: &Link) -> &'static str {
    match link {
        Link::Edge(edge) => edge.when.as_str(),
        Link::Spawned => "spawned",
    }
}

/// Numbers the distinct values, in the order of their first occurrence.
fn numbered<T: std::hash::Hash + Eq>(values: impl Iterator<Item = T>) -> Vec<usize> {
    let mut numbers = HashMap::new();
    values
        .map(|value| {
            let next = numbers.len();
            *numbers.entry(value).or_insert(next)
        })
        .collect()
}

/// Returns the class of each node by its own properties and the classes of its neighbours.
fn with_neighbours<T: std::hash::Hash + Eq + Copy>(
    own: &[T],
    classes: &[usize],
    links: &[(&'static str, (usize, usize))],
) -> Vec<usize> {
    let mut neighbours: Vec<Vec<(bool, &str, usize)>> = vec![Vec::new(); own.len()];
    for (label, (from, to)) in links {
        neighbours[*from].push((true, label, classes[*to]));
        neighbours[*to].push((false, label, classes[*from]));
    }
    for around in &mut neighbours {
        around.sort_unstable();
        around.dedup();
    }
    numbered(own.iter().copied().zip(neighbours))
}

/// Groups nodes of the same class, in the order of their first nodes. Nodes without links stay apart unless the graph is large.
fn clusters(graph: &FlowGraph, classes: &[usize], least: usize, expanded: &HashSet<&str>) -> Vec<Cluster> {
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    classes.iter().enumerate().for_each(|(index, class)| members.entry(*class).or_default().push(index));
    let mut clusters = Vec::new();
    for nodes in members.into_values() {
        let is_expanded = expanded.contains(graph.nodes[nodes[0]].name.as_str());
        let parts = if nodes.len() >= least && !is_expanded {
            vec![nodes]
        } else {
            nodes.into_iter().map(|node| vec![node]).collect()
        };
        for nodes in parts {
            let mut counts = Counts::default();
            nodes.iter().for_each(|node| counts.add(graph.nodes[*node].state, 1));
            clusters.push(Cluster { nodes, counts });
        }
    }
    clusters.sort_by_key(|cluster| cluster.nodes[0]);
    clusters
}

/// Returns the graph of the first nodes. An edge between clusters is pending while one of its edges is, dead if one is dead, and
/// holds otherwise.
fn graph_of(graph: &FlowGraph, clusters: &[Cluster]) -> FlowGraph {
    let mut cluster_of = vec![0; graph.nodes.len()];
    for (number, cluster) in clusters.iter().enumerate() {
        cluster.nodes.iter().for_each(|node| cluster_of[*node] = number);
    }
    let name = |cluster: usize| graph.nodes[clusters[cluster].nodes[0]].name.clone();
    let mut collapsed = FlowGraph {
        nodes: clusters.iter().map(|cluster| graph.nodes[cluster.nodes[0]].clone()).collect(),
        ..FlowGraph::default()
    };
    let mut edges: HashMap<(usize, usize, &str), usize> = HashMap::new();
    for (link, (from, to)) in graph.links() {
        let (from, to) = (cluster_of[from], cluster_of[to]);
        match link {
            Link::Spawned => {
                if edges.insert((from, to, "spawned"), 0).is_none() {
                    collapsed.spawned.push((name(from), name(to)));
                }
            }
            Link::Edge(edge) => {
                let next = collapsed.edges.len();
                let known = *edges.entry((from, to, edge.when.as_str())).or_insert(next);
                match collapsed.edges.get_mut(known) {
                    Some(known) => known.resolution = weaker(known.resolution, edge.resolution),
                    None => {
                        collapsed.edges.push(GraphEdge { from: name(from), to: name(to), ..edge.clone() })
                    }
                }
            }
        }
    }
    let first: HashSet<&str> = collapsed.nodes.iter().map(|node| node.name.as_str()).collect();
    collapsed.groups =
        graph.groups.iter().filter(|group| first.contains(group.node.as_str())).cloned().collect();
    collapsed
}

fn weaker(one: Resolution, other: Resolution) -> Resolution {
    match (one, other) {
        (Resolution::Pending, _) | (_, Resolution::Pending) => Resolution::Pending,
        (Resolution::Dead, _) | (_, Resolution::Dead) => Resolution::Dead,
        (Resolution::Holds, Resolution::Holds) => Resolution::Holds,
    }
}
