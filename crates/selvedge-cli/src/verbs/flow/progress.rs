//! A flow as lines of text: its nodes in the order of their dependencies, each with its state, its time and what it waits for.

use crate::failure::Failure;
use crate::remote::Session;
use crate::terminal::{Live, Table, dim, elapsed, heading, items, number, state_text, text};
use crate::verbs::get::values;
use crate::verbs::wait;
use crate::verbs::watch::next_change;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// The most members whose times are shown.
const MEMBERS: usize = 1000;
/// The width of the bar.
const BAR: usize = 30;

/// Draws a flow until it ends. Where nobody looks, prints a line for each change of a node.
pub async fn watch(session: &Session, id: &str) -> Result<(), Failure> {
    // An id that does not exist is refused here, before the stream refuses it as a filter.
    session.client.get(&["flows", id]).send().await?;
    // The stream is opened before the first look, so that no change falls between the two.
    let mut events = session.client.get(&["events"]).query("flow", id).query("from", "now").events();
    events.connect().await?;
    let session = &session.patient();
    let mut live = Live::new(&session.out);
    let mut states: BTreeMap<String, String> = BTreeMap::new();
    loop {
        let response = session.client.get(&["flows", id]).send().await?;
        let flow: Value = response.json()?;
        let graph: Value = session.client.get(&["flows", id, "graph"]).send().await?.json()?;
        match &mut live {
            Some(live) => {
                live.draw(draw(&flow, &graph, &members(session, id).await?).trim_end())?;
            }
            None => {
                for node in items(&graph, "/nodes") {
                    let (name, state) = (text(node, "/name"), text(node, "/state"));
                    if states.get(name).map(String::as_str) != Some(state) {
                        match session.out.json {
                            true => session.out.json_line(&node.to_string())?,
                            false => session.out.line(format!("{name} {}", state_text(state)))?,
                        }
                        states.insert(name.to_owned(), state.to_owned());
                    }
                }
            }
        }
        let state = text(&flow, "/state");
        if state != "running" {
            if session.out.json {
                session.out.json_line(response.text()?)?;
            }
            return wait::ended(
                state,
                format!("the flow {id} ended as {state}; `selvedge flow explain {id}` says why"),
            );
        }
        next_change(&mut events).await?;
    }
}

/// Returns the executions of a flow, for their times.
pub async fn members(session: &Session, id: &str) -> Result<Vec<Value>, Failure> {
    Ok(values(&session.client.get(&["executions"]).query("flow", id).items(MEMBERS).await?))
}

/// Returns the flow with a bar and its nodes.
fn draw(flow: &Value, graph: &Value, members: &[Value]) -> String {
    let total = number(flow, "/counts/total").max(1);
    let count = |state: &str| number(flow, &format!("/counts/{state}"));
    let ended: i64 = ["completed", "failed", "cancelled", "expired", "skipped"].into_iter().map(count).sum();
    let filled = usize::try_from(ended).unwrap_or(0) * BAR / usize::try_from(total).unwrap_or(1);
    let bar = format!("[{}{}]", "=".repeat(filled.min(BAR)), " ".repeat(BAR - filled.min(BAR)));
    let name = match text(flow, "/name") {
        "" => text(flow, "/id"),
        name => name,
    };
    let took = elapsed(text(flow, "/submitted_at"), text(flow, "/ended_at"));
    let head = format!("{} {} {bar} {ended}/{total} {took}", heading(name), state_text(text(flow, "/state")));
    format!("{head}\n{}", graph_table(graph, members).draw(usize::MAX))
}

/// Returns the nodes, each after those it depends on, indented by its depth. `members` are the executions of the flow, as far
/// as they are known.
pub fn graph_table(graph: &Value, members: &[Value]) -> Table {
    let by_node: HashMap<&str, &Value> =
        members.iter().map(|member| (text(member, "/node"), member)).collect();
    let mut upstreams: HashMap<&str, Vec<&Value>> = HashMap::new();
    for edge in items(graph, "/edges") {
        upstreams.entry(text(edge, "/to")).or_default().push(edge);
    }
    let groups: HashMap<&str, &Value> =
        items(graph, "/groups").iter().map(|group| (text(group, "/node"), group)).collect();
    let mut nodes: Vec<(usize, usize, &Value)> = Vec::new();
    let mut depths: HashMap<&str, usize> = HashMap::new();
    for (index, node) in items(graph, "/nodes").iter().enumerate() {
        nodes.push((depth(text(node, "/name"), &upstreams, &mut depths), index, node));
    }
    nodes.sort_by_key(|(depth, index, _)| (*depth, *index));
    let mut table = Table::new(&["node", "state", "took", "after"]);
    for (depth, _, node) in nodes {
        let name = text(node, "/name");
        let took = by_node.get(name).map_or_else(String::new, |member| took(member));
        let after =
            upstreams.get(name).map_or_else(String::new, |edges| after(edges, groups.get(name).copied()));
        let indent = if depth == 0 { String::new() } else { format!("{}└ ", "  ".repeat(depth - 1)) };
        let state = format!("{} {}", icon(text(node, "/state")), state_text(text(node, "/state")));
        table.row(vec![format!("{}{name}", dim(indent)), state, took, after]);
    }
    table
}

/// Returns the longest distance of a node from a node without upstreams. A flow has no cycle.
fn depth<'a>(
    name: &'a str,
    upstreams: &HashMap<&'a str, Vec<&'a Value>>,
    known: &mut HashMap<&'a str, usize>,
) -> usize {
    // An explicit stack: a chain may be longer than the stack of a thread is deep.
    let mut stack = vec![name];
    while let Some(&top) = stack.last() {
        let edges = upstreams.get(top).map_or(&[][..], Vec::as_slice);
        let open = edges.iter().map(|edge| text(edge, "/from")).find(|from| !known.contains_key(from));
        match open {
            Some(from) if stack.len() <= upstreams.len() + 1 => stack.push(from),
            _ => {
                let deepest = edges.iter().filter_map(|edge| known.get(text(edge, "/from"))).max();
                known.insert(top, deepest.map_or(0, |deepest| deepest + 1));
                stack.pop();
            }
        }
    }
    known.get(name).copied().unwrap_or_default()
}

/// Returns how long a member has run, or ran.
fn took(member: &Value) -> String {
    match text(member, "/started_at") {
        "" => String::new(),
        started => elapsed(started, text(member, "/ended_at")),
    }
}

/// Returns the upstreams of a node with their conditions, and the policy of their group.
fn after(edges: &[&Value], group: Option<&Value>) -> String {
    const SHOWN: usize = 5;
    let mut names: Vec<String> = edges
        .iter()
        .take(SHOWN)
        .map(|edge| {
            let mark = match text(edge, "/resolution") {
                "holds" => "✓",
                "dead" => "✗",
                _ => "…",
            };
            let when = match text(edge, "/when") {
                "success" | "" => String::new(),
                when => format!(" ({when})"),
            };
            format!("{}{when} {mark}", text(edge, "/from"))
        })
        .collect();
    if edges.len() > SHOWN {
        names.push(format!("{} more", edges.len() - SHOWN));
    }
    let policy = group.map_or("", |group| text(group, "/policy/type"));
    let policy = match policy {
        "quorum" => format!("{} of: ", group.map_or(0, |group| number(group, "/policy/k"))),
        "any_of" => "any of: ".into(),
        _ => String::new(),
    };
    format!("{policy}{}", names.join(", "))
}

/// Returns the sign of a state.
fn icon(state: &str) -> &'static str {
    match state {
        "completed" => "✓",
        "failed" | "expired" => "✗",
        "cancelled" => "⊘",
        "skipped" => "»",
        "active" => "▶",
        "suspended" => "⏸",
        "held" => "■",
        "delayed" => "◷",
        _ => "·",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nodes_come_after_their_upstreams() {
        console::set_colors_enabled(false);
        let graph = json!({
            "nodes": [{"name": "c", "state": "waiting_dependencies"}, {"name": "a", "state": "completed"},
                      {"name": "b", "state": "active"}],
            "edges": [{"from": "a", "to": "c", "when": "success", "resolution": "holds"},
                      {"from": "b", "to": "c", "when": "finished", "resolution": "pending"},
                      {"from": "a", "to": "b", "when": "success", "resolution": "holds"}],
            "groups": [{"node": "c", "policy": {"type": "quorum", "k": 2}}, {"node": "b", "policy": {"type": "all_of"}}],
        });
        let lines: Vec<String> =
            graph_table(&graph, &[]).draw(usize::MAX).lines().map(|line| line.trim().to_owned()).collect();
        assert_eq!(lines[1], "a      ✓ completed");
        assert!(lines[2].starts_with("└ b") && lines[2].ends_with("a ✓"), "{}", lines[2]);
        assert!(
            lines[3].starts_with("└ c") && lines[3].ends_with("2 of: a ✓, b (finished) …"),
            "{}",
            lines[3]
        );
    }
}
