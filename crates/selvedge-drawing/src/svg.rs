//! SVG: boxes in layers, lines between them, and a legend of the states and kinds of lines that occur.
//!
//! The element carries its own style for light and dark backgrounds and has no id, so that a page can hold several.

use crate::layout::{Point, Size, lay_out};
use crate::text::{NAME_EMS_MAX, escape, isolated, measure, shortened};
use crate::theme::{sign, style};
use crate::{DRAWN_EDGES_LIMIT, DRAWN_NODES_LIMIT, Host, groups, policy_label};
use selvedge_core::graph::{FlowGraph, GraphGroup, GraphNode, Link};
use selvedge_core::join::{EdgeCondition, Resolution};
use selvedge_core::state::StateName;
use std::fmt::Write;

const MARGIN: i32 = 24;
/// The height above the boxes: a title, or in a page, room for the label of a policy.
const fn header(host: Host) -> i32 {
    match host {
        Host::Alone => 80,
        Host::Page => 32,
    }
}
const BOX_HEIGHT: i32 = 48;
/// The left side of the text in a box, right of the disc.
const TEXT_LEFT: i32 = 38;
/// The least width of a picture, enough for a title and a legend.
const WIDTH_MIN: i32 = 480;
const NAME_PIXELS: f64 = 13.0;
const SMALL_PIXELS: f64 = 11.0;

pub fn draw(graph: &FlowGraph, title: &str) -> String {
    let header = header(Host::Alone);
    let groups = groups(graph);
    let box_size = Size { width: box_width(&graph.nodes), height: BOX_HEIGHT };
    let (lines, links): (Vec<Link>, Vec<(usize, usize)>) = graph.links().unzip();
    let layout = lay_out(&graph.layers(), &links, box_size);

    let width = (layout.size.width + 2 * MARGIN).max(WIDTH_MIN);
    let mut body = format!("<g transform=\"translate({MARGIN} {header})\">\n");
    let mut labels = String::new();
    for (link, points) in lines.iter().zip(&layout.lines) {
        match link {
            Link::Spawned => draw_line(&mut body, "spawned", points),
            Link::Edge(edge) => {
                draw_line(&mut body, edge.resolution.as_str(), points);
                match edge.when {
                    EdgeCondition::Success => {}
                    EdgeCondition::Failure | EdgeCondition::FailureOrSkipped | EdgeCondition::Finished => {
                        draw_line_label(&mut labels, edge.when.as_str(), points);
                    }
                }
            }
        }
    }
    body.push_str(&labels);
    for (node, corner) in graph.nodes.iter().zip(&layout.boxes) {
        draw_node(&mut body, node, groups.get(node.name.as_str()).copied(), *corner, box_size.width);
    }
    body.push_str("</g>\n");

    let mut height = header + layout.size.height;
    if graph.nodes.is_empty() {
        let _ =
            writeln!(body, "<text class=\"name faint\" x=\"{MARGIN}\" y=\"{height}\">No nodes yet.</text>");
    }
    height = draw_legend(&mut body, graph, &lines, width, height);
    frame(graph, title, Size { width, height }, &body, Host::Alone)
}

/// Draws how many nodes are in each state, for a graph that is too large to draw.
pub fn draw_counts(graph: &FlowGraph, title: &str, host: Host) -> String {
    let header = header(host);
    let width = 560;
    let counts = graph.counts();
    let mut body = format!(
        "<text class=\"small faint\" x=\"{MARGIN}\" y=\"{header}\">Too large to draw: at most {DRAWN_NODES_LIMIT} \
         nodes and {DRAWN_EDGES_LIMIT} edges can be read.</text>\n"
    );
    let mut y = header + 32;
    let (bar_left, bar_right) = (210, width - MARGIN - 64);
    for state in occurring(graph) {
        let count = counts.of(state);
        let long = i64::from(bar_right - bar_left) * i64::from(count) / i64::from(counts.total().max(1));
        let _ = writeln!(body, "<g class=\"{}\" transform=\"translate({MARGIN} {y})\">", state.as_str());
        draw_disc(&mut body, state, 9, 0);
        let _ = writeln!(
            body,
            "<text class=\"name ink\" x=\"28\" y=\"5\">{}</text>\
             <rect class=\"disc\" x=\"{bar_left}\" y=\"-7\" width=\"{}\" height=\"14\" rx=\"3\"/>\
             <text class=\"name ink\" x=\"{}\" y=\"5\">{count}</text></g>",
            state.as_str(),
            long.max(3),
            i64::from(bar_left) + long.max(3) + 10,
        );
        y += 30;
    }
    frame(graph, title, Size { width, height: y }, &body, host)
}

/// Writes the element around `body`: its description for screen readers, its style, its background and its title.
fn frame(graph: &FlowGraph, title: &str, size: Size, body: &str, host: Host) -> String {
    let Size { width, height } = size;
    let counts = graph.counts();
    let states = occurring(graph);
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let mut sizes = format!("{}, {}", plural(graph.nodes.len(), "node"), plural(graph.edges.len(), "edge"));
    if !graph.spawned.is_empty() {
        let _ = write!(sizes, ", {} spawned", graph.spawned.len());
    }
    let by_state: Vec<String> =
        states.iter().map(|state| format!("{} {}", counts.of(*state), state.as_str())).collect();
    let description = escape(&format!("{title}: {sizes}. {}", by_state.join(", ")));
    let shown = isolated(&shortened(title, f64::from(width - 2 * MARGIN) / 16.0));
    if host == Host::Page {
        // Links inside a picture with the role `img` could not be reached.
        return format!(
            "<svg class=\"selvedge-graph\" role=\"group\" aria-label=\"{description}\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n{body}</svg>\n"
        );
    }
    let heading = escape(title);
    let style = style(&states);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"selvedge-graph\" role=\"img\" aria-label=\"{description}\" \
         width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <title>{heading}</title>\n<style>\n{style}</style>\n\
         <rect class=\"paper\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n\
         <text class=\"title ink\" x=\"{MARGIN}\" y=\"36\">{shown}</text>\n\
         <text class=\"small faint\" x=\"{MARGIN}\" y=\"54\">{sizes}</text>\n{body}</svg>\n",
        width - 1,
        height - 1,
    )
}

/// Returns the width of all boxes: that of the widest text in them.
fn box_width(nodes: &[GraphNode]) -> i32 {
    let text = nodes.iter().map(|node| {
        let name = measure(&node.name).min(NAME_EMS_MAX) * NAME_PIXELS;
        name.max(measure(node.state.as_str()) * SMALL_PIXELS)
    });
    TEXT_LEFT + 14 + text.fold(80.0, f64::max).ceil() as i32
}

fn draw_node(body: &mut String, node: &GraphNode, group: Option<&GraphGroup>, corner: Point, width: i32) {
    let GraphNode { name, execution, state } = node;
    let word = state.as_str();
    let mut tooltip = format!("{name}\n{word}\n{execution}");
    if let Some(group) = group {
        let GraphGroup { holds, dead, pending, .. } = group;
        let (policy, decision) = (group.policy.as_str(), group.decision.as_str());
        let _ = write!(tooltip, "\n{policy}: {holds} holds, {dead} dead, {pending} pending; {decision}",);
    }
    let (tooltip, name) = (escape(&tooltip), isolated(&shortened(name, NAME_EMS_MAX)));
    let (x, y) = (corner.x, corner.y);
    let _ = write!(
        body,
        "<g class=\"{word}\" transform=\"translate({x} {y})\"><title>{tooltip}</title>\
         <rect class=\"box\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"8\"/>"
    );
    draw_disc(body, *state, 20, BOX_HEIGHT / 2);
    // The inner element clips text that is wider than its estimate.
    let _ = write!(
        body,
        "<svg x=\"{TEXT_LEFT}\" width=\"{}\" height=\"{BOX_HEIGHT}\"><text class=\"name ink\" y=\"21\">{name}</text>\
         <text class=\"small soft\" y=\"37\">{word}</text></svg>",
        width - TEXT_LEFT - 4,
    );
    if let Some(label) = group.and_then(policy_label) {
        let long = (measure(&label) * SMALL_PIXELS) as i32 + 14;
        let _ = write!(
            body,
            "<rect class=\"policy\" x=\"12\" y=\"-12\" width=\"{long}\" height=\"17\" rx=\"8.5\"/>\
             <text class=\"small ink\" x=\"{}\" y=\"0.5\" text-anchor=\"middle\">{label}</text>",
            12 + long / 2,
        );
    }
    body.push_str("</g>\n");
}

fn draw_disc(body: &mut String, state: StateName, x: i32, y: i32) {
    let path = sign(state);
    let _ = write!(
        body,
        "<g transform=\"translate({x} {y})\"><circle class=\"disc\" r=\"9\"/><path class=\"sign\" d=\"{path}\"/></g>"
    );
}

/// Draws a line with its head: curved between layers, horizontal where it passes one.
fn draw_line(body: &mut String, class: &str, points: &[Point]) {
    let (line, head) = line_path(points);
    let _ = writeln!(
        body,
        "<g class=\"edge {class}\"><path d=\"{line}\"/><path class=\"head\" d=\"{head}\"/></g>"
    );
}

/// Returns the paths of a line and of its head.
pub fn line_path(points: &[Point]) -> (String, String) {
    let (Some(first), Some(end)) = (points.first(), points.last()) else { return Default::default() };
    let mut line = format!("M{} {}", first.x, first.y);
    for (index, pair) in points.chunks_exact(2).enumerate() {
        let (from, mut to) = (pair[0], pair[1]);
        if index > 0 {
            let _ = write!(line, "H{}", from.x);
        }
        if to == *end {
            to.x -= 7;
        }
        let middle = (from.x + to.x) / 2;
        if from.y == to.y && from.x < to.x {
            let _ = write!(line, "H{}", to.x);
        } else if from.x < to.x {
            let _ = write!(line, "C{middle} {} {middle} {} {} {}", from.y, to.y, to.x, to.y);
        } else {
            let _ = write!(line, "C{} {} {} {} {} {}", from.x + 80, from.y, to.x - 80, to.y, to.x, to.y);
        }
    }
    (line, format!("M{} {}l-9-4v8z", end.x - 1, end.y))
}

/// Writes the condition of an edge in the middle of its last curve.
pub fn draw_line_label(labels: &mut String, word: &str, points: &[Point]) {
    let [.., from, to] = points else { return };
    let (x, y) = ((from.x + to.x) / 2, (from.y + to.y) / 2 + 4);
    // The room between two layers is too narrow for the longest condition in one line.
    let (y, text) = match word.split_once(" or ") {
        None => (y, word.to_owned()),
        Some((first, second)) => (y - 6, format!("{first}<tspan x=\"{x}\" dy=\"12\">or {second}</tspan>")),
    };
    let _ = writeln!(labels, "<text class=\"halo\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>");
}

/// Explains the signs and lines that occur. Returns the height of the picture.
fn draw_legend(body: &mut String, graph: &FlowGraph, lines: &[Link], width: i32, height: i32) -> i32 {
    let counts = graph.counts();
    let mut x = MARGIN;
    let mut y = height + 44;
    let mut place = |text: &str| {
        let long = 26 + (measure(text) * SMALL_PIXELS) as i32 + 18;
        if x > MARGIN && x + long > width - MARGIN + 18 {
            x = MARGIN;
            y += 24;
        }
        let corner = Point { x, y };
        x += long;
        corner
    };
    let mut bottom = height;
    for state in occurring(graph) {
        let text = format!("{} {}", counts.of(state), state.as_str());
        let corner = place(&text);
        let _ = write!(
            body,
            "<g class=\"{}\" transform=\"translate({} {})\">",
            state.as_str(),
            corner.x,
            corner.y
        );
        draw_disc(body, state, 9, 0);
        let _ = writeln!(body, "<text class=\"small faint\" x=\"24\" y=\"4\">{text}</text></g>");
        bottom = corner.y;
    }
    for (class, text) in line_kinds(lines) {
        let corner = place(text);
        let _ = write!(body, "<g transform=\"translate({} {})\">", corner.x, corner.y);
        draw_line(body, class, &[Point { x: -2, y: 0 }, Point { x: 22, y: 0 }]);
        let _ = writeln!(body, "<text class=\"small faint\" x=\"28\" y=\"4\">{text}</text></g>");
        bottom = corner.y;
    }
    bottom + MARGIN
}

/// Returns the CSS class and the label of each kind of line that occurs.
fn line_kinds(lines: &[Link]) -> Vec<(&'static str, &'static str)> {
    let edge = |wanted: Resolution| {
        move |link: &Link| match link {
            Link::Edge(edge) => edge.resolution == wanted,
            Link::Spawned => false,
        }
    };
    let mut kinds = Vec::new();
    for resolution in [Resolution::Holds, Resolution::Pending, Resolution::Dead] {
        if lines.iter().any(edge(resolution)) {
            kinds.push((resolution.as_str(), resolution.as_str()));
        }
    }
    if lines.iter().any(|link| matches!(link, Link::Spawned)) {
        kinds.push(("spawned", "spawned"));
    }
    kinds
}

/// Returns the states that occur.
fn occurring(graph: &FlowGraph) -> Vec<StateName> {
    let counts = graph.counts();
    StateName::ALL.into_iter().filter(|state| counts.of(*state) > 0).collect()
}
