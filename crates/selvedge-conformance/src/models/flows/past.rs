//! The past of flows: after every command, the graph that the histories of the members give for the current moment is the current
//! graph, and for every earlier moment the graph that was current then.

use super::super::compare::{Comparison, expect_equal};
use super::lockstep::Lockstep;
use selvedge_core::graph::FlowGraph;
use selvedge_core::history::{History, HistoryLine};
use selvedge_core::join::{GroupDecision, Resolution};
use selvedge_core::past::{MemberHistory, Past, moments};
use selvedge_core::{Execution, Name, Timestamp};
use std::collections::BTreeMap;

impl Lockstep<'_> {
    /// Compares the graphs that the histories of these members of a flow give with the graphs that were seen.
    pub async fn compare_past(&mut self, flow: usize, members: &[Execution]) -> Comparison {
        let mut lines = Vec::new();
        for row in members {
            lines.push(self.history(row).await);
        }
        let histories: Vec<MemberHistory> =
            members.iter().zip(&lines).map(|(row, lines)| MemberHistory { row, lines }).collect();
        let changed = moments(&histories);
        let now = changed.last().map_or(Timestamp::default(), |moment| moment.at);
        self.has_delay |= !self.reference.outbox.is_empty();
        // Further changes at the same time replace the graph.
        let seen = SeenGraph {
            graph: FlowGraph::of(members),
            is_propagated: self.reference.outbox.is_empty(),
            is_prompt: !self.has_delay && !self.reference.manual,
        };
        self.graphs.insert((flow, now), seen);
        for ((_, at), seen) in self.graphs.range((flow, Timestamp::default())..=(flow, now)) {
            let past = Past::at(&histories, *at).graph;
            expect_equal(
                || format!("flow {flow} at {at:?}"),
                seen.comparable(&seen.graph),
                seen.comparable(&past),
            )?;
            let is_moment = changed.binary_search_by_key(at, |moment| moment.at).is_ok();
            expect_equal(|| format!("flow {flow} changed at {at:?}"), true, is_moment)?;
        }
        Ok(())
    }

    async fn history(&self, row: &Execution) -> Vec<HistoryLine> {
        let mut pages = Vec::new();
        if row.detail.history_pages > 0 {
            pages = self.harness.store.history_pages(row.id).await.expect("pages are read");
        }
        let pages = pages.into_iter().map(History::from_bytes).chain([row.history.clone()]);
        let mut lines: Vec<HistoryLine> =
            pages.flat_map(|page| page.lines().expect("every line is readable")).collect();
        lines.sort_by_key(|line| line.version);
        lines
    }
}

/// The graph of a flow when a command had been run.
pub struct SeenGraph {
    graph: FlowGraph,
    /// True if every end had been propagated.
    is_propagated: bool,
    /// True if every end had been propagated with the command that caused it, each at a time of its own: then the edges of
    /// satisfied groups can be told, too.
    is_prompt: bool,
}

impl SeenGraph {
    /// Returns the part of a graph that histories tell.
    fn comparable(&self, graph: &FlowGraph) -> FlowGraph {
        let mut graph = graph.clone();
        let decisions: BTreeMap<Name, GroupDecision> =
            graph.groups.iter().map(|group| (group.node.clone(), group.decision)).collect();
        let is_told = |node: &Name| {
            self.is_propagated && (self.is_prompt || decisions.get(node) != Some(&GroupDecision::Satisfied))
        };
        for edge in graph.edges.iter_mut().filter(|edge| !is_told(&edge.to)) {
            edge.resolution = Resolution::Pending;
        }
        for group in graph.groups.iter_mut().filter(|group| !is_told(&group.node)) {
            (group.holds, group.dead, group.pending) = (0, 0, 0);
        }
        graph
    }
}
