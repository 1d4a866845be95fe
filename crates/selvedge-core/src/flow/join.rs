//! Joins: the edges into an execution decide whether it runs.
//!
//! All edges into one downstream form an edge group with one policy. An edge is pending until its upstream has ended;
//! then its condition decides whether it holds or is dead. [`JoinPolicy::verdict`] alone derives the group's decision,
//! from the numbers of edges that hold, are dead and are pending. A decision that lets the downstream run is final.

use crate::{Outcome, Refusal};
use serde::{Deserialize, Serialize};

/// The condition under which an edge holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum EdgeCondition {
    /// The upstream completed.
    #[default]
    Success,
    /// The upstream failed, was cancelled or expired: for alerts and compensation.
    Failure,
    /// The upstream ended with any outcome: for clean-up.
    Finished,
    /// The upstream failed, was cancelled, expired or was skipped: for alerts that also follow a skipped upstream.
    FailureOrSkipped,
}

impl EdgeCondition {
    pub const ALL: [EdgeCondition; 4] =
        [Self::Success, Self::Failure, Self::FailureOrSkipped, Self::Finished];

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::FailureOrSkipped => "failure_or_skipped",
            Self::Finished => "finished",
        }
    }

    /// Returns the condition with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|condition| condition.as_str() == word)
    }

    /// Returns the resolution of an edge whose upstream ended with this outcome.
    pub fn resolve(self, outcome: Outcome) -> Resolution {
        let holds = match self {
            Self::Success => outcome == Outcome::Completed,
            Self::Failure => matches!(outcome, Outcome::Failed | Outcome::Cancelled | Outcome::Expired),
            Self::FailureOrSkipped => outcome != Outcome::Completed,
            Self::Finished => true,
        };
        if holds { Resolution::Holds } else { Resolution::Dead }
    }

    /// Reports whether a downstream behind such an edge handles the failure of its upstream by completing.
    pub fn handles(self) -> bool {
        match self {
            Self::Failure | Self::FailureOrSkipped => true,
            Self::Success | Self::Finished => false,
        }
    }
}

/// The state of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Resolution {
    /// The upstream has not ended.
    #[default]
    Pending,
    /// The upstream's outcome meets the condition.
    Holds,
    /// The upstream's outcome does not meet the condition.
    Dead,
}

impl Resolution {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Holds => "holds",
            Self::Dead => "dead",
        }
    }
}

/// The treatment of unfinished upstreams once a group is satisfied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum OnSatisfied {
    /// They are cancelled, except those that another undecided group still needs.
    #[default]
    CancelRemaining,
    /// They continue to run.
    LetRun,
}

impl OnSatisfied {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CancelRemaining => "cancel_remaining",
            Self::LetRun => "let_run",
        }
    }

    /// Returns the value with this name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::CancelRemaining, Self::LetRun].into_iter().find(|one| one.as_str() == word)
    }
}

/// The number of edges of a group that must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum JoinPolicy {
    #[default]
    AllOf,
    /// At least one edge.
    AnyOf {
        /// The treatment of the unfinished upstreams.
        on_satisfied: OnSatisfied,
    },
    /// At least `k` edges.
    Quorum {
        /// The number of edges.
        k: u32,
        /// The treatment of the unfinished upstreams.
        on_satisfied: OnSatisfied,
    },
}

/// The decision of an edge group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum GroupDecision {
    #[default]
    Pending,
    /// The downstream runs.
    Satisfied,
    /// The downstream is skipped.
    Impossible,
}

impl GroupDecision {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Satisfied => "satisfied",
            Self::Impossible => "impossible",
        }
    }
}

impl JoinPolicy {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllOf => "all_of",
            Self::AnyOf { .. } => "any_of",
            Self::Quorum { .. } => "quorum",
        }
    }

    /// Returns the decision that follows from the numbers of edges that hold, are dead and are pending.
    pub fn verdict(self, holds: u32, dead: u32, pending: u32) -> GroupDecision {
        let wanted = match self {
            Self::AllOf => holds + dead + pending,
            Self::AnyOf { .. } => 1,
            Self::Quorum { k, .. } => k,
        };
        if holds >= wanted {
            GroupDecision::Satisfied
        } else if holds + pending < wanted {
            GroupDecision::Impossible
        } else {
            GroupDecision::Pending
        }
    }

    /// Reports whether the unfinished upstreams are cancelled once the group is satisfied.
    pub fn cancels(self) -> bool {
        match self {
            Self::AllOf => false,
            Self::AnyOf { on_satisfied } | Self::Quorum { on_satisfied, .. } => {
                on_satisfied == OnSatisfied::CancelRemaining
            }
        }
    }

    /// Reports whether the group can be satisfied although upstreams failed.
    pub fn tolerates_failures(self) -> bool {
        !matches!(self, Self::AllOf)
    }

    /// Refuses a policy that a group of this many edges can never satisfy or always satisfies.
    pub fn check(self, pointer: &str, edges: usize) -> Result<(), Refusal> {
        if edges == 0 {
            return Err(Refusal::field(
                pointer,
                "is for a node without edges into it; add edges, or leave out the group",
            ));
        }
        match self {
            Self::Quorum { k, .. } if k == 0 || k as usize > edges => Err(Refusal::field(
                &format!("{pointer}/k"),
                format!("is {k}; it must be between 1 and {edges}, the number of edges into the node"),
            )),
            Self::AllOf | Self::AnyOf { .. } | Self::Quorum { .. } => Ok(()),
        }
    }
}

/// The state of an edge, and the generation of the upstream that it reflects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Edge {
    pub resolution: Resolution,
    /// The generation of the upstream that the resolution reflects.
    pub generation: u32,
}

/// The edge group of an execution: all edges into it, their policy and the decision. The edges have the order of the
/// upstreams in the execution's [wiring](crate::Wiring).
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Join {
    /// The policy of the group.
    pub policy: JoinPolicy,
    /// The edges into the execution.
    pub edges: Vec<Edge>,
    pub decision: GroupDecision,
}

impl Join {
    /// Encodes the join for a store.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("a join always serialises")
    }

    /// Decodes the bytes of a store.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        crate::stored::decode(bytes)
    }

    /// Returns the number of edges with this resolution.
    pub fn count(&self, resolution: Resolution) -> u32 {
        self.edges.iter().filter(|edge| edge.resolution == resolution).count() as u32
    }

    /// Returns the decision that follows from the current edges.
    pub fn verdict(&self) -> GroupDecision {
        let holds = self.count(Resolution::Holds);
        let dead = self.count(Resolution::Dead);
        self.policy.verdict(holds, dead, self.edges.len() as u32 - holds - dead)
    }

    /// Updates the edge at `index` to its upstream's generation and outcome (none while the upstream is live). Returns
    /// true if the edge changed. Updates are idempotent, and an update from an older generation is ignored. Once the
    /// group is satisfied, edges that are not pending no longer change.
    pub fn update_edge(
        &mut self,
        index: usize,
        when: EdgeCondition,
        generation: u32,
        outcome: Option<Outcome>,
    ) -> bool {
        let satisfied = self.decision == GroupDecision::Satisfied;
        let Some(edge) = self.edges.get_mut(index) else { return false };
        if generation < edge.generation || (satisfied && edge.resolution != Resolution::Pending) {
            return false;
        }
        let updated = Edge {
            generation,
            resolution: outcome.map_or(Resolution::Pending, |outcome| when.resolve(outcome)),
        };
        std::mem::replace(edge, updated) != updated
    }
}
