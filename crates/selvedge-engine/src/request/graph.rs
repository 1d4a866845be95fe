//! A flow, read into a [`FlowDraft`], and its nodes, edges and edge groups, read into a [`GraphDraft`].

use crate::request::submission::Defaults;
use selvedge_api::fields::{Fields, unknown_word};
use selvedge_core::join::{EdgeCondition, JoinPolicy, OnSatisfied};
use selvedge_core::plan::{EDGES_LIMIT, EdgeDraft, GraphDraft, GroupDraft, NODES_LIMIT, NodeDraft};
use selvedge_core::rules::flows::submit::FlowDraft;
use selvedge_core::{Refusal, TraceParent};

/// The maximum size of the request that submits a flow, in bytes.
pub const LARGE_BODY: usize = 32 * 1024 * 1024;

/// Reads a flow. `trace` is the span that submits it.
pub fn read_flow(mut fields: Fields<'_>, trace: Option<TraceParent>) -> Result<FlowDraft, Refusal> {
    let defaults = fields.object("defaults")?.map(Defaults::read).transpose()?.unwrap_or_default();
    let defaults = defaults.with_trace(trace);
    let draft = FlowDraft {
        id: fields.id("id")?,
        idempotency_key: fields.text("idempotency_key")?,
        name: fields.text("name")?,
        tags: fields.text_map("tags")?.unwrap_or_default(),
        deadline_ms: fields.integer("deadline_ms")?,
        retention_ms: fields.integer("retention_ms")?,
        server_window_ms: None,
        graph: read_graph(&mut fields, &defaults)?,
    };
    fields.finish()?;
    Ok(draft)
}

/// Reads the fields `nodes`, `edges` and `groups`. A field that a node leaves out has its value in `defaults`.
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

/// Reads an array of objects.
fn read_list<'a, T>(
    fields: &mut Fields<'a>,
    name: &'static str,
    limit: usize,
    read: impl Fn(Fields<'a>) -> Result<T, Refusal>,
) -> Result<Vec<T>, Refusal> {
    let items = fields.bounded_array(name, limit)?.unwrap_or_default();
    items.into_iter().map(|(at, raw)| Fields::from_value(raw, at).and_then(&read)).collect()
}

fn read_node(mut fields: Fields<'_>, defaults: &Defaults) -> Result<NodeDraft, Refusal> {
    let name = fields.text("name")?;
    let name = fields.require("name", name)?;
    Ok(NodeDraft { name, draft: defaults.read_submission(fields)? })
}

fn read_edge(mut fields: Fields<'_>) -> Result<EdgeDraft, Refusal> {
    let from = fields.text("from")?;
    let to = fields.text("to")?;
    let when = fields.word("when", EdgeCondition::parse, EdgeCondition::ALL.map(EdgeCondition::as_str))?;
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
            return Err(fields.refuse("type", unknown_word(other, known)));
        }
    };
    fields.finish()?;
    Ok(policy)
}

fn read_on_satisfied(fields: &mut Fields<'_>) -> Result<OnSatisfied, Refusal> {
    let known = [OnSatisfied::CancelRemaining, OnSatisfied::LetRun].map(OnSatisfied::as_str);
    Ok(fields.word("on_satisfied", OnSatisfied::parse, known)?.unwrap_or_default())
}

/// Refuses a default input that multiplies the body: the inputs of all nodes together must not exceed the body's limit.
fn check_inputs(graph: &GraphDraft, defaults: &Defaults) -> Result<(), Refusal> {
    let total: usize = graph.nodes.iter().map(|node| node.draft.input.len()).sum();
    if total <= LARGE_BODY {
        return Ok(());
    }
    let detail = format!(
        "is {} bytes long and makes the inputs of all nodes {total} bytes together; at most {LARGE_BODY} are allowed in \
         one request",
        defaults.input().len()
    );
    Err(Refusal::field("/defaults/input", detail))
}
