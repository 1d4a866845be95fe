//! The nodes, edges and groups of a flow on the wire, and what they mean: a [`GraphDraft`].

use crate::body::LARGE;
use crate::fields::Fields;
use crate::filter::no_such;
use crate::submission::Defaults;
use selvedge_core::Refusal;
use selvedge_core::join::{EdgeCondition, JoinPolicy, OnSatisfied};
use selvedge_core::plan::{EDGES_LIMIT, EdgeDraft, GraphDraft, GroupDraft, NODES_LIMIT, NodeDraft};

/// Reads the fields `nodes`, `edges` and `groups`; the nodes have `defaults`.
pub fn read_graph(fields: &mut Fields<'_>, defaults: &Defaults) -> Result<GraphDraft, Refusal> {
    let node = |fields| read_node(fields, defaults);
    let graph = GraphDraft {
        nodes: read_list(fields, "nodes", NODES_LIMIT, node)?,
        edges: read_list(fields, "edges", EDGES_LIMIT, read_edge)?,
        groups: read_list(fields, "groups", NODES_LIMIT, read_group)?,
    };
    check_inputs(&graph, defaults)?;
    Ok(graph)
}

/// Reads a list of objects.
fn read_list<'a, T>(
    fields: &mut Fields<'a>,
    name: &'static str,
    limit: usize,
    read: impl Fn(Fields<'a>) -> Result<T, Refusal>,
) -> Result<Vec<T>, Refusal> {
    let items = fields.list(name, limit)?.unwrap_or_default();
    items.into_iter().map(|(at, raw)| Fields::of(raw, at).and_then(&read)).collect()
}

fn read_node(mut fields: Fields<'_>, defaults: &Defaults) -> Result<NodeDraft, Refusal> {
    let name = fields.text("name")?;
    let name = fields.require("name", name)?;
    Ok(NodeDraft { name, draft: defaults.draft(fields)? })
}

fn read_edge(mut fields: Fields<'_>) -> Result<EdgeDraft, Refusal> {
    let from = fields.text("from")?;
    let to = fields.text("to")?;
    let when =
        word(&mut fields, "when", EdgeCondition::parse, EdgeCondition::ALL.map(EdgeCondition::as_str))?;
    let edge = EdgeDraft {
        from: fields.require("from", from)?,
        to: fields.require("to", to)?,
        when: when.unwrap_or_default(),
    };
    fields.finish()?;
    Ok(edge)
}

fn read_group(mut fields: Fields<'_>) -> Result<GroupDraft, Refusal> {
    let node = fields.text("node")?;
    let policy = fields.object("policy")?;
    let group = GroupDraft {
        node: fields.require("node", node)?,
        policy: read_policy(fields.require("policy", policy)?)?,
    };
    fields.finish()?;
    Ok(group)
}

fn read_policy(mut fields: Fields<'_>) -> Result<JoinPolicy, Refusal> {
    let kind = fields.text("type")?;
    let policy = match fields.require("type", kind)?.as_str() {
        "all_of" => JoinPolicy::AllOf,
        "any_of" => JoinPolicy::AnyOf { on_satisfied: read_on_satisfied(&mut fields)? },
        "quorum" => {
            let k = fields.count("k")?;
            let k = fields.require("k", k)?;
            JoinPolicy::Quorum { k, on_satisfied: read_on_satisfied(&mut fields)? }
        }
        other => {
            let known = ["all_of", "any_of", "quorum"].into_iter();
            return Err(fields.refuse("type", no_such(other, known)));
        }
    };
    fields.finish()?;
    Ok(policy)
}

fn read_on_satisfied(fields: &mut Fields<'_>) -> Result<OnSatisfied, Refusal> {
    let known = [OnSatisfied::CancelRemaining, OnSatisfied::LetRun].map(OnSatisfied::as_str);
    Ok(word(fields, "on_satisfied", OnSatisfied::parse, known)?.unwrap_or_default())
}

/// Takes one of the `known` words.
pub fn word<T, const COUNT: usize>(
    fields: &mut Fields<'_>,
    name: &'static str,
    parse: impl Fn(&str) -> Option<T>,
    known: [&'static str; COUNT],
) -> Result<Option<T>, Refusal> {
    let text = fields.text(name)?;
    let parse =
        |text: String| parse(&text).ok_or_else(|| fields.refuse(name, no_such(&text, known.into_iter())));
    text.map(parse).transpose()
}

/// Refuses a default input that makes many times the body of it.
fn check_inputs(graph: &GraphDraft, defaults: &Defaults) -> Result<(), Refusal> {
    let together: usize = graph.nodes.iter().map(|node| node.draft.input.len()).sum();
    if together <= LARGE {
        return Ok(());
    }
    let detail = format!(
        "is {} bytes long, and with it the inputs of the nodes are {together} bytes together; at most {LARGE} are \
         allowed in one call",
        defaults.input().len()
    );
    Err(Refusal::field("/defaults/input", detail))
}
