//! The picture of a graph in a page: links, counters of joins, the critical path, and collapsed nodes.

use super::strict_parsers::parse_xml;
use super::{graph, hostile, id, random};
use selvedge_core::Name;
use selvedge_core::graph::{FlowGraph, GraphGroup};
use selvedge_core::join::{GroupDecision, JoinPolicy, OnSatisfied, Resolution};
use selvedge_core::state::StateName;
use selvedge_drawing::collapse::{LARGE, WIDE, collapse};
use selvedge_drawing::page::{PageGraph, PagePicture, draw};
use std::collections::HashSet;

/// Draws a graph whose nodes all have the kind `k`.
fn picture(graph: &FlowGraph, critical: &[usize], expanded: &[&str]) -> PagePicture {
    let kinds = vec!["k"; graph.nodes.len()];
    let expand = |name: &str| format!("/flows/f?expand={name}");
    let page = PageGraph {
        graph,
        kinds: &kinds,
        notes: &[],
        critical,
        expanded: &expanded.iter().copied().collect(),
        expand: &expand,
    };
    draw(&page, "</svg>")
}

/// Builds a flow from one node to `width` nodes to one node.
fn fan(width: usize) -> FlowGraph {
    let names: Vec<String> = (0..width + 2).map(|place| format!("n{place}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut edges: Vec<(usize, usize)> = (1..=width).map(|middle| (0, middle)).collect();
    edges.extend((1..=width).map(|middle| (middle, width + 1)));
    let mut fan = graph(&names, &edges);
    for edge in &mut fan.edges {
        edge.when = Default::default();
        edge.resolution = Resolution::Holds;
    }
    fan
}

fn collapsed(graph: &FlowGraph, expanded: &[&str]) -> Vec<usize> {
    let kinds = vec!["k"; graph.nodes.len()];
    let collapsed = collapse(graph, &kinds, &expanded.iter().copied().collect::<HashSet<_>>());
    assert_eq!(collapsed.graph.nodes.len(), collapsed.clusters.len());
    let total: i32 = collapsed.clusters.iter().map(|cluster| cluster.counts.total()).sum();
    assert_eq!(total as usize, graph.nodes.len(), "no node is lost");
    collapsed.clusters.iter().map(|cluster| cluster.nodes.len()).collect()
}

#[test]
fn every_node_is_a_link_whatever_its_name_is() {
    let graph = graph(&hostile(), &[(0, 1), (1, 2)]);
    let PagePicture { svg, .. } = picture(&graph, &[0, 1], &[]);
    parse_xml(&svg);
    assert!(!svg.contains("<style") && !svg.contains("<script"), "{svg}");
    for node in &graph.nodes {
        assert!(svg.contains(&format!("<a href=\"/executions/{}\"", node.execution)), "{svg}");
    }
}

#[test]
fn boxes_do_not_move_when_states_change() {
    let mut graph = random(7, 30, 40);
    let places = |svg: &str| -> Vec<String> {
        let svg = parse_xml(svg);
        let groups = svg.all("g");
        let moved = groups.iter().filter(|group| group.children.iter().any(|child| child.name == "title"));
        moved.map(|group| group.attribute("transform").to_owned()).collect()
    };
    let before = picture(&graph, &[], &[]).svg;
    for (index, node) in graph.nodes.iter_mut().enumerate() {
        node.state = StateName::ALL[(index + 5) % StateName::ALL.len()];
    }
    let after = picture(&graph, &[], &[]).svg;
    assert_eq!(places(&before), places(&after));
    let size = |svg: &str| parse_xml(svg).attribute("viewBox").to_owned();
    assert_eq!(size(&before), size(&after));
}

#[test]
fn joins_have_their_policy_and_counters() {
    let mut graph = graph(&["a", "b", "c", "d"], &[(0, 3), (1, 3), (2, 3)]);
    let on_satisfied = OnSatisfied::CancelRemaining;
    let group = |policy| GraphGroup {
        node: Name::trusted("d"),
        policy,
        holds: 1,
        dead: 1,
        pending: 1,
        decision: GroupDecision::Pending,
    };
    for (policy, label) in [
        (JoinPolicy::AllOf, "all of 3 · 1 holds · 1 dead"),
        (JoinPolicy::AnyOf { on_satisfied }, "any of 3 · 1 holds · 1 dead"),
        (JoinPolicy::Quorum { k: 2, on_satisfied }, "quorum 2 of 3 · 1 holds · 1 dead"),
    ] {
        graph.groups = vec![group(policy)];
        let svg = picture(&graph, &[], &[]).svg;
        assert!(svg.contains(&format!(">{label}<")), "{label}: {svg}");
        assert!(svg.contains("1 holds, 1 dead, 1 pending; pending"), "the tooltip has them, too: {svg}");
    }
}

#[test]
fn the_critical_path_is_marked_on_nodes_and_on_the_lines_between_them() {
    let graph = graph(&["a", "b", "c", "d"], &[(0, 1), (0, 2), (1, 3), (2, 3)]);
    let svg = picture(&graph, &[0, 2, 3], &[]).svg;
    assert_eq!(svg.matches("class=\"flag\"").count(), 3);
    assert_eq!(svg.matches("on the critical path").count(), 3, "in words, too");
    assert_eq!(
        parse_xml(&svg)
            .all("path")
            .iter()
            .filter(|path| path.attribute("class").starts_with("edge")
                && path.attribute("class").ends_with("critical"))
            .count(),
        2
    );
}

#[test]
fn a_wide_fan_out_is_one_box_that_can_be_expanded() {
    assert_eq!(collapsed(&fan(WIDE - 1), &[]).len(), WIDE + 1, "a narrow one is drawn as it is");
    assert_eq!(collapsed(&fan(500), &[]), [1, 500, 1]);
    assert_eq!(collapsed(&fan(500), &["n1"]).len(), 502);
    let PagePicture { svg, collapsed } = picture(&fan(500), &[0, 17, 501], &[]);
    assert_eq!(collapsed, 1);
    assert!(svg.contains("500 × k") && svg.contains("href=\"/flows/f?expand=n1\""), "{svg}");
    assert_eq!(svg.matches("class=\"flag\"").count(), 3, "the path passes through the box");
}

#[test]
fn nodes_of_another_kind_or_with_other_neighbours_stay_apart() {
    let fan = fan(40);
    let kinds: Vec<&str> = (0..42).map(|place| if place % 2 == 0 { "even" } else { "odd" }).collect();
    let boxes = collapse(&fan, &kinds, &HashSet::new()).clusters;
    assert_eq!(boxes.iter().map(|cluster| cluster.nodes.len()).collect::<Vec<_>>(), [1, 20, 20, 1]);
}

#[test]
fn beyond_a_thousand_nodes_equal_chains_are_one_chain() {
    let names: Vec<String> = (0..3 * LARGE).map(|place| format!("n{place}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let edges: Vec<(usize, usize)> =
        (0..LARGE).flat_map(|chain| [(3 * chain, 3 * chain + 1), (3 * chain + 1, 3 * chain + 2)]).collect();
    let mut chains = graph(&names, &edges);
    chains.edges.iter_mut().for_each(|edge| edge.when = Default::default());
    assert_eq!(collapsed(&chains, &[]), [LARGE, LARGE, LARGE]);
    assert_eq!(chains.nodes[0].execution, id(0));
}
