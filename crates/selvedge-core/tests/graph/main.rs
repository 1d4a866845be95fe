//! A flow's graph as data, as DOT and as SVG: it says what the rows say, and no name breaks a picture.

mod well_formed;

use selvedge_core::execution::{Detail, Spec};
use selvedge_core::graph::{
    DRAWN_EDGES_LIMIT, DRAWN_NODES_LIMIT, FlowGraph, GraphEdge, GraphGroup, GraphNode,
};
use selvedge_core::join::{Edge, EdgeCondition, GroupDecision, Join, JoinPolicy, OnSatisfied, Resolution};
use selvedge_core::state::StateName;
use selvedge_core::wiring::{Child, Node, Upstream, Wiring};
use selvedge_core::{
    ClassId, Execution, ExecutionId, FlowId, History, Name, NamespaceId, Outcome, State, Timestamp,
};
use std::sync::Arc;
use uuid::Uuid;
use well_formed::{Element, dot_strings, parse_xml};

fn id(number: usize) -> ExecutionId {
    ExecutionId(Uuid::from_u128(number as u128))
}

fn member(number: usize, name: Option<&str>, state: State) -> Execution {
    let at = Timestamp::from_millis(0);
    let node = name.map(|name| Node {
        name: Name::trusted(name),
        depth: 0,
        parent: None,
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

/// Nodes with these names, and edges between their places.
fn graph(names: &[&str], edges: &[(usize, usize)]) -> FlowGraph {
    let nodes = names.iter().enumerate().map(|(place, name)| GraphNode {
        name: Name::trusted(name),
        execution: id(place),
        state: StateName::ALL[place % StateName::ALL.len()],
    });
    let resolutions = [Resolution::Pending, Resolution::Holds, Resolution::Dead];
    let edges = edges.iter().enumerate().map(|(place, (from, to))| GraphEdge {
        from: Name::trusted(names[*from]),
        to: Name::trusted(names[*to]),
        when: EdgeCondition::ALL[place % 3],
        resolution: resolutions[place / 3 % 3],
    });
    FlowGraph { nodes: nodes.collect(), edges: edges.collect(), ..FlowGraph::default() }
}

/// A graph with edges from earlier to later nodes, the same for the same seed.
fn random(seed: u64, nodes: usize, edges: usize) -> FlowGraph {
    let mut random = fastrand::Rng::with_seed(seed);
    let names: Vec<String> = (0..nodes).map(|place| format!("node-{place}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut pick = || {
        let from = random.usize(..nodes - 1);
        (from, random.usize(from + 1..nodes))
    };
    let edges: Vec<(usize, usize)> = (0..edges).map(|_| pick()).collect();
    graph(&names, &edges)
}

/// The boxes of a picture: left, top, width, height.
fn boxes(svg: &Element) -> Vec<[f64; 4]> {
    let nodes =
        svg.all("g").into_iter().filter(|group| group.children.iter().any(|child| child.name == "title"));
    let boxes = nodes.map(|group| {
        let corner = group.attribute("transform").trim_start_matches("translate(").trim_end_matches(')');
        let (left, top) = corner.split_once(' ').expect("two numbers");
        let outline = group.all("rect")[0];
        [left, top, outline.attribute("width"), outline.attribute("height")]
            .map(|number| number.parse().expect("a number"))
    });
    boxes.collect()
}

fn hostile() -> Vec<&'static str> {
    vec![
        "</title></svg><script>alert(1)</script>",
        "\"quotes\" and 'apostrophes'",
        "&amp; &lt; &#0; ]]> <!-- <![CDATA[",
        "ends with a backslash\\",
        "\\N \\G \\l \\\"",
        "a\\nb",
        "a\nb",
        "] -> [label=\"x\"]; }",
        "not a character \u{fffe}\u{ffff}",
        "control \u{0}\u{1b}\u{7f}\u{9f}",
        "\u{202e}turned round",
        "\u{2069}\u{2069}closed too often",
        "מחיר סופי של ההזמנה הגדולה ביותר מכולן",
        "顧客データの正規化処理と検証を行うとても長い名前のステップ",
        "👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦",
        "Z̴̡̢̛̭̺̪̟̏̋̍͂̂̈́a̵̧̛̲̣̰̓̈́̀͛l̶̢̛̤̻̈́̒̓͌g̷̡̛̣̦̃̓̏͝o̴̧̗̪̽̓̈́̚",
        "   ",
        "𝄞\u{10ffff}",
    ]
}

#[test]
fn the_graph_says_what_the_rows_say() {
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
fn an_edge_from_someone_who_is_not_among_the_members_is_left_out() {
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

#[test]
fn a_diamond_has_three_layers() {
    let diamond = graph(&["a", "b", "c", "d"], &[(0, 1), (0, 2), (1, 3), (2, 3)]);
    assert_eq!(diamond.layers(), [0, 1, 1, 2]);
    let boxes = boxes(&parse_xml(&diamond.svg("diamond")));
    let [a, b, c, d] = boxes[..] else { panic!("four boxes") };
    assert!(a[0] < b[0] && b[0] == c[0] && c[0] < d[0], "three columns: {boxes:?}");
    assert_eq!((a[1], d[1]), ((b[1] + c[1]) / 2.0, a[1]), "the ends stand between the two in the middle");
}

#[test]
fn layers_respect_edges_and_boxes_do_not_overlap() {
    for seed in 0..40 {
        let graph = random(seed, 2 + seed as usize, 2 * seed as usize);
        let layers = graph.layers();
        let boxes = boxes(&parse_xml(&graph.svg("random")));
        let place = |name: &Name| graph.nodes.iter().position(|node| node.name == *name).expect("a node");
        for edge in &graph.edges {
            let (from, to) = (place(&edge.from), place(&edge.to));
            assert!(layers[from] < layers[to], "seed {seed}: {edge:?}");
            assert!(
                boxes[from][0] + boxes[from][2] < boxes[to][0],
                "seed {seed}: {edge:?} goes to the right"
            );
        }
        for (place, one) in boxes.iter().enumerate() {
            for other in &boxes[..place] {
                let apart = |axis: usize| {
                    one[axis] + one[axis + 2] <= other[axis] || other[axis] + other[axis + 2] <= one[axis]
                };
                assert!(apart(0) || apart(1), "seed {seed}: {one:?} and {other:?}");
            }
        }
    }
}

#[test]
fn everything_stands_inside_the_picture() {
    for seed in 0..40 {
        let svg = parse_xml(&random(seed, 30, seed as usize).svg("random"));
        let number = |name: &str| svg.attribute(name).parse::<f64>().expect("a number");
        for [left, top, width, height] in boxes(&svg) {
            assert!(left >= 0.0 && top >= 0.0, "seed {seed}");
            assert!(left + width < number("width") && top + height < number("height"), "seed {seed}");
        }
    }
}

#[test]
fn hostile_names_leave_the_svg_well_formed() {
    let names = hostile();
    let edges: Vec<(usize, usize)> = (1..names.len()).map(|to| (to / 2, to)).collect();
    let mut graph = graph(&names, &edges);
    graph.spawned.push((Name::trusted(names[0]), Name::trusted(names[1])));
    for title in &names {
        let svg = parse_xml(&graph.svg(title));
        assert!(svg.all("script").is_empty());
        let tooltips: Vec<&str> = svg.all("title").iter().map(|title| title.text.as_str()).collect();
        assert_eq!(tooltips.len(), names.len() + 1, "one for the picture and one for each node");
        for (name, node) in names.iter().zip(&graph.nodes).filter(|(name, _)| !name.contains("control")) {
            let name = name.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
            let expected = format!("{name}\n{}\n{}", node.state.as_str(), node.execution);
            assert!(tooltips.contains(&expected.as_str()), "{expected:?} among {tooltips:?}");
        }
    }
}

#[test]
fn hostile_names_leave_the_dot_well_formed() {
    let names = hostile();
    let edges: Vec<(usize, usize)> = (1..names.len()).map(|to| (to / 2, to)).collect();
    let graph = graph(&names, &edges);
    for title in &names {
        let strings = dot_strings(&graph.dot(title));
        for name in names.iter().filter(|name| !name.contains("control")) {
            let uses = edges
                .iter()
                .flat_map(|(from, to)| [from, to])
                .filter(|place| names[**place] == *name)
                .count();
            let found = strings.iter().filter(|string| string == name).count();
            assert!(
                found > uses,
                "{name:?} stands once as a node and {uses} times at an edge, not {found} times"
            );
        }
    }
}

#[test]
fn a_long_name_is_short_in_its_box_and_whole_in_its_tooltip() {
    let long = format!("{}-{}-end", "a".repeat(80), "b".repeat(80));
    let short = "twenty-four-characters--";
    let svg = parse_xml(&graph(&[&long, short], &[(0, 1)]).svg("names"));
    let shown: Vec<String> = svg
        .all("text")
        .iter()
        .filter(|text| text.attribute("class") == "name ink")
        .map(|text| text.text.trim_matches(['\u{2068}', '\u{2069}']).to_owned())
        .collect();
    assert!(
        shown[0].starts_with("aaaa") && shown[0].contains('…') && shown[0].ends_with("-end"),
        "{shown:?}"
    );
    assert!(shown[0].chars().count() <= 26, "{shown:?}");
    assert_eq!(shown[1], short);
    assert!(svg.all("title").iter().any(|title| title.text.starts_with(&long)));
}

#[test]
fn an_edge_looks_like_where_it_stands() {
    let mut graph = graph(&["a", "b"], &[(0, 1)]);
    for (resolution, style) in
        [(Resolution::Pending, "dashed"), (Resolution::Holds, "solid"), (Resolution::Dead, "dotted")]
    {
        graph.edges[0].resolution = resolution;
        assert!(graph.dot("edge").contains(&format!("[style={style}, ")), "{style}");
        let svg = parse_xml(&graph.svg("edge"));
        let class = format!("edge {}", resolution.as_str());
        let lines = svg.all("g").iter().filter(|group| group.attribute("class") == class).count();
        assert_eq!(lines, 2, "the edge itself, and one in the legend");
    }
}

#[test]
fn conditions_and_policies_are_named_where_they_are_not_the_usual_ones() {
    let mut graph = graph(&["a", "b", "c", "d"], &[(0, 3), (1, 3), (2, 3)]);
    let texts = |graph: &FlowGraph| -> Vec<String> {
        parse_xml(&graph.svg("join")).all("text").iter().map(|text| text.text.clone()).collect()
    };
    let named = |graph: &FlowGraph, word: &str| {
        let (drawn, dot) = (texts(graph).iter().any(|text| text == word), dot_strings(&graph.dot("join")));
        assert_eq!(drawn, dot.iter().any(|string| string == word), "both pictures or none: {word}");
        drawn
    };
    assert!(!named(&graph, "success") && named(&graph, "failure") && named(&graph, "finished"));

    let on_satisfied = OnSatisfied::CancelRemaining;
    let node = Name::trusted("d");
    let policy = JoinPolicy::AllOf;
    graph.groups =
        vec![GraphGroup { node, policy, holds: 1, dead: 1, pending: 1, decision: GroupDecision::Pending }];
    assert!(!named(&graph, "all_of"));
    graph.groups[0].policy = JoinPolicy::AnyOf { on_satisfied };
    assert!(named(&graph, "any_of"));
    graph.groups[0].policy = JoinPolicy::Quorum { k: 2, on_satisfied };
    assert!(named(&graph, "2 of 3"));
}

#[test]
fn a_picture_says_its_states_in_words_to_all() {
    let svg = parse_xml(&graph(&["a", "b", "c"], &[(0, 1)]).svg("states"));
    assert_eq!(svg.attribute("role"), "img");
    assert_eq!(svg.children[0].name, "title", "the first child, as readers of SVG expect");
    let said = "states: 3 nodes, 1 edge. 1 waiting_dependencies, 1 waiting, 1 delayed";
    assert_eq!(svg.attribute("aria-label"), said);
    let texts: Vec<&str> = svg.all("text").iter().map(|text| text.text.as_str()).collect();
    for word in ["waiting_dependencies", "waiting", "delayed"] {
        assert!(texts.contains(&word), "in its box: {word}");
        assert!(texts.contains(&format!("1 {word}").as_str()), "in the legend: {word}");
    }
    assert!(!texts.contains(&"1 failed"), "the legend names what occurs");
}

#[test]
fn an_empty_graph_is_a_picture_too() {
    let empty = FlowGraph::of(&[]);
    assert!(empty.layers().is_empty());
    let svg = parse_xml(&empty.svg("nothing"));
    assert!(svg.all("text").iter().any(|text| text.text == "No nodes yet."));
    assert!(boxes(&svg).is_empty());
    dot_strings(&empty.dot("nothing"));
}

#[test]
fn beyond_the_limit_the_picture_gives_counts() {
    let largest = parse_xml(&random(1, DRAWN_NODES_LIMIT, 10_000).svg("largest"));
    assert_eq!(boxes(&largest).len(), DRAWN_NODES_LIMIT);
    for beyond in [random(1, DRAWN_NODES_LIMIT + 1, 0), random(1, 300, DRAWN_EDGES_LIMIT + 1)] {
        let svg = parse_xml(&beyond.svg("beyond"));
        assert!(boxes(&svg).is_empty());
        let texts: Vec<&str> = svg.all("text").iter().map(|text| text.text.as_str()).collect();
        assert!(texts.iter().any(|text| text.starts_with("Too large to draw")), "{texts:?}");
        let failed = beyond.nodes.iter().filter(|node| node.state == StateName::Failed).count().to_string();
        assert!(texts.contains(&"failed") && texts.contains(&failed.as_str()), "{texts:?}");
    }
}

#[test]
fn a_cycle_made_by_hand_is_still_drawn() {
    let cycle = graph(&["a", "b", "c"], &[(0, 1), (1, 2), (2, 0), (1, 1)]);
    assert_eq!(boxes(&parse_xml(&cycle.svg("cycle"))).len(), 3);
}
