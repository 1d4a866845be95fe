//! The picture of a graph inside a page: nodes are links, alike nodes are collapsed, and the critical path stands out.
//!
//! Boxes stay where they are while states change, so that a page can replace single boxes: no size depends on a state. The page
//! has the legend.

use crate::collapse::{Cluster, CollapsedGraph, collapse};
use crate::layout::{Point, Size, lay_out};
use crate::svg::{draw_counts, draw_line_label, line_path};
use crate::text::{NAME_EMS_MAX, escape, isolated, measure, shortened};
use crate::theme::sign;
use crate::{DRAWN_EDGES_LIMIT, DRAWN_NODES_LIMIT, Host, groups};
use selvedge_core::graph::{FlowGraph, GraphGroup, Link};
use selvedge_core::join::{EdgeCondition, JoinPolicy};
use selvedge_core::state::StateName;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

const MARGIN: i32 = 24;
/// The space above the boxes: room for the label of a policy.
const ABOVE: i32 = 32;
const BOX_HEIGHT: i32 = 48;
const TEXT_LEFT: i32 = 38;
const NAME_PIXELS: f64 = 13.0;
const SMALL_PIXELS: f64 = 11.0;
/// The least width of the text in a box, in pixels: enough for the longest state, and for a state with a duration.
const TEXT_MIN: f64 = 128.0;
/// The number of lines from which those of one kind are one element.
const DENSE_LINES: usize = 400;

/// A graph to be drawn in a page.
pub struct PageGraph<'a> {
    pub graph: &'a FlowGraph,
    /// The kind of each node.
    pub kinds: &'a [&'a str],
    /// A note after the state of each node, such as its duration; may be empty.
    pub notes: &'a [String],
    /// The nodes of the critical path, first to last.
    pub critical: &'a [usize],
    /// The names of the nodes whose clusters are expanded.
    pub expanded: &'a HashSet<&'a str>,
    /// Returns the address that expands the cluster of a node.
    pub expand: &'a dyn Fn(&str) -> String,
}

/// A picture, and what it left out.
pub struct PagePicture {
    /// The SVG element.
    pub svg: String,
    /// The number of boxes that stand for several nodes.
    pub collapsed: usize,
}

/// Draws a graph for a page that has [`page_style`](crate::page_style). Each box is a link: that of a node to `/executions/ID`, that
/// of alike nodes to the address that expands it.
pub fn draw(page: &PageGraph, title: &str) -> PagePicture {
    let CollapsedGraph { graph, clusters } = collapse(page.graph, page.kinds, page.expanded);
    let lines = graph.edges.len() + graph.spawned.len();
    let collapsed = clusters.iter().filter(|cluster| cluster.nodes.len() > 1).count();
    if graph.nodes.len() > DRAWN_NODES_LIMIT || lines > DRAWN_EDGES_LIMIT {
        return PagePicture { svg: draw_counts(page.graph, title, Host::Page), collapsed };
    }
    let size = Size { width: box_width(page, &clusters), height: BOX_HEIGHT };
    let (links, ends): (Vec<Link>, Vec<(usize, usize)>) = graph.links().unzip();
    let layout = lay_out(&graph.layers(), &ends, size);
    let path = Path::of(page.critical, &clusters);
    let mut body = format!("<g transform=\"translate({MARGIN} {ABOVE})\">\n");
    body.push_str(&draw_lines(&links, &ends, &layout.lines, &path));
    let groups = groups(&graph);
    for ((cluster, node), corner) in clusters.iter().zip(&graph.nodes).zip(&layout.boxes) {
        let place = Place { corner: *corner, width: size.width, is_critical: path.has_node(cluster) };
        match cluster.nodes.len() {
            1 => draw_node(&mut body, page, cluster.nodes[0], groups.get(node.name.as_str()).copied(), place),
            _ => draw_cluster(&mut body, page, cluster, place),
        }
    }
    body.push_str("</g>\n");
    if graph.nodes.is_empty() {
        let _ =
            writeln!(body, "<text class=\"name faint\" x=\"{MARGIN}\" y=\"{ABOVE}\">No nodes yet.</text>");
    }
    let (width, height) = (layout.size.width + 2 * MARGIN, layout.size.height + ABOVE + MARGIN);
    let description =
        escape(&format!("{title}: {} nodes, {} edges", page.graph.nodes.len(), page.graph.edges.len()));
    // Links inside a picture with the role `img` could not be reached.
    let svg = format!(
        "<svg class=\"selvedge-graph\" role=\"group\" aria-label=\"{description}\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n{body}</svg>\n"
    );
    PagePicture { svg, collapsed }
}

/// Draws the lines, those of the critical path over the others, and their labels. In a graph with many lines, those of one kind are one
/// element, because a browser takes longer for thousands of elements than for one that is long.
fn draw_lines(links: &[Link], ends: &[(usize, usize)], lines: &[Vec<Point>], path: &Path) -> String {
    let is_dense = links.len() > DENSE_LINES;
    let mut kinds: BTreeMap<(bool, &str), Vec<(String, String)>> = BTreeMap::new();
    let mut labels = String::new();
    for ((link, ends), points) in links.iter().zip(ends).zip(lines) {
        let class = match link {
            Link::Spawned => "spawned",
            Link::Edge(edge) => edge.resolution.as_str(),
        };
        kinds.entry((path.has_line(*ends), class)).or_default().push(line_path(points));
        if let Link::Edge(edge) = link {
            match edge.when {
                EdgeCondition::Success => {}
                EdgeCondition::Failure | EdgeCondition::FailureOrSkipped | EdgeCondition::Finished => {
                    draw_line_label(&mut labels, &edge.when.as_str().replace('_', " "), points);
                }
            }
        }
    }
    // One element has all lines, so that the elements of boxes keep their places when kinds of lines appear.
    let mut body = String::from("<g>\n");
    for ((is_critical, class), paths) in kinds {
        let critical = if is_critical { " critical" } else { "" };
        let per_element = if is_dense { paths.len().max(1) } else { 1 };
        for paths in paths.chunks(per_element) {
            let (line, head): (String, String) = paths.iter().cloned().unzip();
            let _ = writeln!(
                body,
                "<path class=\"edge {class}{critical}\" d=\"{line}\"/><path class=\"tip {class}{critical}\" d=\"{head}\"/>"
            );
        }
    }
    body + &labels + "</g>\n"
}

/// The critical path among clusters.
struct Path {
    nodes: HashSet<usize>,
    lines: HashSet<(usize, usize)>,
}

impl Path {
    fn of(critical: &[usize], clusters: &[Cluster]) -> Path {
        let nodes: HashSet<usize> = critical.iter().copied().collect();
        let cluster_of = |node: &usize| clusters.iter().position(|cluster| cluster.nodes.contains(node));
        let numbers: Vec<usize> = critical.iter().filter_map(cluster_of).collect();
        let lines = numbers.windows(2).map(|pair| (pair[0], pair[1])).collect();
        Path { nodes, lines }
    }

    fn has_node(&self, cluster: &Cluster) -> bool {
        cluster.nodes.iter().any(|node| self.nodes.contains(node))
    }

    fn has_line(&self, ends: (usize, usize)) -> bool {
        self.lines.contains(&ends)
    }
}

/// The place of a box.
#[derive(Clone, Copy)]
struct Place {
    corner: Point,
    width: i32,
    is_critical: bool,
}

impl Place {
    fn classes(self, state: StateName) -> String {
        format!("{}{}", state.as_str(), if self.is_critical { " critical" } else { "" })
    }

    fn on_path(self) -> &'static str {
        if self.is_critical { "\non the critical path" } else { "" }
    }
}

/// Returns the width of all boxes.
fn box_width(page: &PageGraph, clusters: &[Cluster]) -> i32 {
    let text = clusters.iter().map(|cluster| {
        let name = match cluster.nodes.len() {
            1 => page.graph.nodes[cluster.nodes[0]].name.to_string(),
            _ => cluster_name(page, cluster),
        };
        measure(&name).min(NAME_EMS_MAX) * NAME_PIXELS
    });
    TEXT_LEFT + 14 + text.fold(TEXT_MIN, f64::max).ceil() as i32
}

fn draw_node(body: &mut String, page: &PageGraph, index: usize, group: Option<&GraphGroup>, place: Place) {
    let node = &page.graph.nodes[index];
    let (name, execution, word) = (&node.name, node.execution, words(node.state));
    let mut tooltip = format!("{name}\n{word}");
    let note = page.notes.get(index).filter(|note| !note.is_empty());
    if let Some(note) = note {
        let _ = write!(tooltip, " · {note}");
    }
    if let Some(kind) = page.kinds.get(index) {
        let _ = write!(tooltip, "\nkind {kind}");
    }
    if let Some(group) = group {
        let GraphGroup { holds, dead, pending, .. } = group;
        let (policy, decision) = (group.policy.as_str(), group.decision.as_str());
        let _ = write!(tooltip, "\n{policy}: {holds} holds, {dead} dead, {pending} pending; {decision}");
    }
    let _ = write!(tooltip, "{}\n{execution}", place.on_path());
    let second = note.map_or_else(|| word.clone(), |note| format!("{word} · {note}"));
    let _ = write!(
        body,
        "<a href=\"/executions/{execution}\" data-name=\"{}\">{}",
        escape(name),
        opening(place, node.state, &tooltip)
    );
    box_and_disc(body, node.state, place.width);
    texts(body, &shortened(name, NAME_EMS_MAX), &second);
    if let Some(label) = group.and_then(policy_label) {
        let long = (measure(&label) * SMALL_PIXELS) as i32 + 14;
        let _ = write!(
            body,
            "<rect class=\"policy\" x=\"12\" y=\"-12\" width=\"{long}\" height=\"17\" rx=\"8.5\"/>\
             <text class=\"small ink\" x=\"19\" y=\"0.5\">{label}</text>",
        );
    }
    flag(body, place);
    body.push_str("</g></a>\n");
}

fn draw_cluster(body: &mut String, page: &PageGraph, cluster: &Cluster, place: Place) {
    let first = &page.graph.nodes[cluster.nodes[0]].name;
    let last = &page.graph.nodes[cluster.nodes[cluster.nodes.len() - 1]].name;
    let state = telling_state(cluster);
    let by_state = StateName::ALL.into_iter().filter(|state| cluster.counts.of(*state) > 0);
    let counts: Vec<String> =
        by_state.map(|state| format!("{} {}", cluster.counts.of(state), words(state))).collect();
    let count = cluster.nodes.len();
    let tooltip = format!(
        "{count} alike nodes, {first} to {last}\n{}{}\nOpen to see each",
        counts.join(", "),
        place.on_path()
    );
    let address = escape(&(page.expand)(first));
    let _ = write!(
        body,
        "<a href=\"{address}\" class=\"cluster\" data-name=\"{}\">{}",
        escape(first),
        opening(place, state, &tooltip)
    );
    for offset in [8, 4] {
        let _ = write!(
            body,
            "<rect class=\"box\" x=\"{offset}\" y=\"{offset}\" width=\"{}\" height=\"{BOX_HEIGHT}\" rx=\"8\"/>",
            place.width
        );
    }
    box_and_disc(body, state, place.width);
    let second = shortened(&counts.join(", "), f64::from(place.width - TEXT_LEFT - 10) / SMALL_PIXELS);
    texts(body, &shortened(&cluster_name(page, cluster), NAME_EMS_MAX), &second);
    flag(body, place);
    body.push_str("</g>");
    draw_shares(body, cluster, place);
    body.push_str("</a>\n");
}

/// Draws the shares of the states as a bar at the bottom of a box, with the colours of these states.
fn draw_shares(body: &mut String, cluster: &Cluster, place: Place) {
    let room = place.width - TEXT_LEFT - 12;
    let (mut x, y) = (place.corner.x + TEXT_LEFT, place.corner.y + 41);
    for state in StateName::ALL.into_iter().filter(|state| cluster.counts.of(*state) > 0) {
        let long = (room * cluster.counts.of(state) / cluster.counts.total().max(1)).max(3);
        let word = state.as_str();
        let _ = write!(
            body,
            "<g class=\"{word}\"><rect class=\"disc\" x=\"{x}\" y=\"{y}\" width=\"{long}\" height=\"3\"/></g>"
        );
        x += long;
    }
}

/// Returns the name of a box of alike nodes: their kind and their number.
fn cluster_name(page: &PageGraph, cluster: &Cluster) -> String {
    let kind = page.kinds.get(cluster.nodes[0]).copied().unwrap_or("nodes");
    format!("{} × {}", cluster.nodes.len(), shortened(kind, NAME_EMS_MAX - 5.0))
}

/// Returns the name of a state in words.
fn words(state: StateName) -> String {
    state.as_str().replace('_', " ")
}

/// Returns the state that tells most about alike nodes: a failure, else what is live, else the most frequent one.
fn telling_state(cluster: &Cluster) -> StateName {
    let first =
        [StateName::Failed, StateName::Expired, StateName::Active, StateName::Suspended, StateName::Held];
    let has = |state: &StateName| cluster.counts.of(*state) > 0;
    let most = || StateName::ALL.into_iter().max_by_key(|state| cluster.counts.of(*state));
    first.into_iter().find(has).or_else(most).unwrap_or(StateName::Waiting)
}

fn opening(place: Place, state: StateName, tooltip: &str) -> String {
    let Place { corner: Point { x, y }, .. } = place;
    format!(
        "<g class=\"{}\" transform=\"translate({x} {y})\"><title>{}</title>",
        place.classes(state),
        escape(tooltip)
    )
}

fn box_and_disc(body: &mut String, state: StateName, width: i32) {
    let middle = BOX_HEIGHT / 2;
    let _ = write!(
        body,
        "<rect class=\"box\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"8\"/>\
         <circle class=\"disc\" cx=\"20\" cy=\"{middle}\" r=\"9\"/>\
         <path class=\"sign\" transform=\"translate(20 {middle})\" d=\"{}\"/>",
        sign(state)
    );
}

fn texts(body: &mut String, name: &str, second: &str) {
    let _ = write!(
        body,
        "<text class=\"name ink\" x=\"{TEXT_LEFT}\" y=\"21\">{}</text><text class=\"small soft\" x=\"{TEXT_LEFT}\" y=\"37\">{}</text>",
        // Isolating the direction of text makes its layout slower, and ASCII has one direction.
        if name.is_ascii() { escape(name) } else { isolated(name) },
        escape(second)
    );
}

/// Marks a box on the critical path with a sign in its corner.
fn flag(body: &mut String, place: Place) {
    if place.is_critical {
        let _ = write!(body, "<path class=\"flag\" d=\"M{} 5l5 5-5 5-5-5z\"/>", place.width - 10);
    }
}

/// Returns the label of a group: its policy and how far it is. A group of one edge has none.
fn policy_label(group: &GraphGroup) -> Option<String> {
    let GraphGroup { holds, dead, pending, .. } = *group;
    let total = holds + dead + pending;
    let policy = match group.policy {
        JoinPolicy::AllOf | JoinPolicy::AnyOf { .. } if total < 2 => return None,
        JoinPolicy::AllOf => format!("all of {total}"),
        JoinPolicy::AnyOf { .. } => format!("any of {total}"),
        JoinPolicy::Quorum { k, .. } => format!("quorum {k} of {total}"),
    };
    let dead = if dead > 0 { format!(" · {dead} dead") } else { String::new() };
    Some(format!("{policy} · {holds} {}{dead}", if holds == 1 { "holds" } else { "hold" }))
}
