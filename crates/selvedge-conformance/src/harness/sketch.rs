//! Graphs in a short text form.
//!
//! Statements are separated by `;`. `a b` names nodes. `a b! c? -> d` draws edges into `d` with the conditions success (`a`),
//! failure (`b!`), finished (`c?`) and failure or skipped (`e~`). `a -> b -> c` is a chain. A colon introduces the join policy of the nodes on the right:
//! `a b c -> d: quorum 2 let_run`. The first mention of a name creates the node. Its kind is its name.

use selvedge_core::Draft;
use selvedge_core::join::{EdgeCondition, JoinPolicy, OnSatisfied};
use selvedge_core::plan::{EdgeDraft, GraphDraft, GroupDraft, NodeDraft};
use selvedge_core::rules::flows::submit::FlowDraft;
use std::collections::BTreeSet;

/// A flow to be submitted.
#[derive(Clone, Debug, Default)]
pub struct Sketch(pub FlowDraft);

impl From<&str> for Sketch {
    fn from(text: &str) -> Self {
        Sketch(FlowDraft { graph: graph(text, &BTreeSet::new()), ..FlowDraft::default() })
    }
}

impl Sketch {
    /// Sets the kind of every node, so that one claim can take them all.
    pub fn of_kind(self, kind: &str) -> Self {
        self.each(|draft| draft.kind = kind.into())
    }

    /// Edits the draft of every node.
    pub fn each(mut self, edit: impl Fn(&mut Draft)) -> Self {
        self.0.graph.nodes.iter_mut().for_each(|node| edit(&mut node.draft));
        self
    }

    pub fn node(mut self, name: &str, edit: impl FnOnce(&mut Draft)) -> Self {
        let node = self.0.graph.nodes.iter_mut().find(|node| node.name == name);
        edit(&mut node.expect("the sketch has the node").draft);
        self
    }

    /// Edits the draft of the flow itself.
    pub fn flow(mut self, edit: impl FnOnce(&mut FlowDraft)) -> Self {
        edit(&mut self.0);
        self
    }
}

/// Parses a graph. Names in `existing` refer to nodes that exist already.
pub fn graph(text: &str, existing: &BTreeSet<String>) -> GraphDraft {
    let mut graph = GraphDraft::default();
    for statement in text.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        let (edges, policy) = match statement.split_once(':') {
            Some((edges, policy)) => (edges, Some(self::policy(policy))),
            None => (statement, None),
        };
        let groups: Vec<Vec<(&str, EdgeCondition)>> =
            edges.split("->").map(|names| names.split_whitespace().map(edge_source).collect()).collect();
        for (name, _) in groups.iter().flatten() {
            let known = existing.contains(*name) || graph.nodes.iter().any(|node| node.name == *name);
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

fn edge_source(word: &str) -> (&str, EdgeCondition) {
    let marks = [
        ('!', EdgeCondition::Failure),
        ('?', EdgeCondition::Finished),
        ('~', EdgeCondition::FailureOrSkipped),
    ];
    let marked = marks.into_iter().find_map(|(mark, when)| Some((word.strip_suffix(mark)?, when)));
    marked.unwrap_or((word, EdgeCondition::Success))
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
        _ => panic!("{text:?} is not a join policy"),
    }
}
