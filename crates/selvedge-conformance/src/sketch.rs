//! Graphs in short text, the way cases draw them.
//!
//! Statements are apart by `;`. `a b` names nodes. `a b! c? -> d` draws edges into `d`: `a` must succeed, `b!` must fail,
//! `c?` must finish. `a -> b -> c` is a chain. After a colon stands how the edges into the nodes on the right join:
//! `a b c -> d: quorum 2 let_run`. Nodes are named by using them, and each runs a kind of its own name.

use selvedge_core::Draft;
use selvedge_core::join::{EdgeCondition, JoinPolicy, OnSatisfied};
use selvedge_core::plan::{EdgeDraft, GraphDraft, GroupDraft, NodeDraft};
use selvedge_core::rules::submit_flow::FlowDraft;
use std::collections::BTreeSet;

/// A flow as a case draws it.
#[derive(Clone, Debug, Default)]
pub struct Sketch(pub FlowDraft);

impl From<&str> for Sketch {
    fn from(text: &str) -> Self {
        Sketch(FlowDraft { graph: graph(text, &BTreeSet::new()), ..FlowDraft::default() })
    }
}

impl Sketch {
    /// Every node runs this kind, so that one claim can take them all.
    pub fn of_kind(self, kind: &str) -> Self {
        self.each(|draft| draft.kind = kind.into())
    }

    /// Changes what every node runs.
    pub fn each(mut self, edit: impl Fn(&mut Draft)) -> Self {
        self.0.graph.nodes.iter_mut().for_each(|node| edit(&mut node.draft));
        self
    }

    /// Changes what one node runs.
    pub fn node(mut self, name: &str, edit: impl FnOnce(&mut Draft)) -> Self {
        let node = self.0.graph.nodes.iter_mut().find(|node| node.name == name);
        edit(&mut node.expect("the node was drawn").draft);
        self
    }

    /// Changes the flow itself.
    pub fn flow(mut self, edit: impl FnOnce(&mut FlowDraft)) -> Self {
        edit(&mut self.0);
        self
    }
}

/// Reads a graph. Nodes that are `there` already are not made anew.
pub fn graph(text: &str, there: &BTreeSet<String>) -> GraphDraft {
    let mut graph = GraphDraft::default();
    for statement in text.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        let (edges, policy) = match statement.split_once(':') {
            Some((edges, policy)) => (edges, Some(self::policy(policy))),
            None => (statement, None),
        };
        let groups: Vec<Vec<(&str, EdgeCondition)>> =
            edges.split("->").map(|names| names.split_whitespace().map(end).collect()).collect();
        for (name, _) in groups.iter().flatten() {
            let known = there.contains(*name) || graph.nodes.iter().any(|node| node.name == *name);
            if !known {
                graph.nodes.push(NodeDraft { name: (*name).into(), draft: Draft::new(*name) });
            }
        }
        for pair in groups.windows(2) {
            for (to, _) in &pair[1] {
                graph.edges.extend(pair[0].iter().map(|(from, when)| EdgeDraft {
                    from: (*from).into(),
                    to: (*to).into(),
                    when: *when,
                }));
            }
        }
        if let (Some(policy), Some(last)) = (policy, groups.last()) {
            graph.groups.extend(last.iter().map(|(name, _)| GroupDraft { node: (*name).into(), policy }));
        }
    }
    graph
}

fn end(word: &str) -> (&str, EdgeCondition) {
    match (word.strip_suffix('!'), word.strip_suffix('?')) {
        (Some(name), _) => (name, EdgeCondition::Failure),
        (_, Some(name)) => (name, EdgeCondition::Finished),
        (None, None) => (word, EdgeCondition::Success),
    }
}

fn policy(text: &str) -> JoinPolicy {
    let words: Vec<&str> = text.split_whitespace().collect();
    let on_satisfied = match words.last() {
        Some(&"let_run") => OnSatisfied::LetRun,
        _ => OnSatisfied::CancelRemaining,
    };
    match words[..] {
        ["all_of"] => JoinPolicy::AllOf,
        ["any_of", ..] => JoinPolicy::AnyOf { on_satisfied },
        ["quorum", k, ..] => JoinPolicy::Quorum { k: k.parse().expect("a quorum is a number"), on_satisfied },
        _ => panic!("{text:?} is no policy"),
    }
}
