//! Joins: how the edges into one execution decide whether it runs.
//!
//! All edges into one downstream form its group, with one policy. An edge is pending until its upstream has ended; then it
//! holds or is dead, by its condition. The group's decision follows from how many hold, are dead and are pending, by
//! [`JoinPolicy::verdict`] and nothing else. Once taken, a decision that lets the downstream run is never taken again.

use crate::{Outcome, Refusal};
use serde::{Deserialize, Serialize};

/// When an edge holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum EdgeCondition {
    /// Its upstream succeeded.
    #[default]
    Success,
    /// Its upstream failed, was cancelled or expired: for alerts and compensation.
    Failure,
    /// Its upstream ended in any way: for clean-up.
    Finished,
}

impl EdgeCondition {
    /// Every condition.
    pub const ALL: [EdgeCondition; 3] = [Self::Success, Self::Failure, Self::Finished];

    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Finished => "finished",
        }
    }

    /// The condition with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|condition| condition.as_str() == word)
    }

    /// What an upstream with this outcome makes of the edge.
    pub fn resolve(self, outcome: Outcome) -> Resolution {
        let holds = match self {
            Self::Success => outcome == Outcome::Completed,
            Self::Failure => matches!(outcome, Outcome::Failed | Outcome::Cancelled | Outcome::Expired),
            Self::Finished => true,
        };
        if holds { Resolution::Holds } else { Resolution::Dead }
    }
}

/// Where an edge stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Resolution {
    /// Its upstream has not ended.
    #[default]
    Pending,
    /// Its upstream's outcome matches its condition.
    Holds,
    /// It cannot hold any more.
    Dead,
}

impl Resolution {
    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Holds => "holds",
            Self::Dead => "dead",
        }
    }
}

/// What happens to the unfinished upstreams of a satisfied group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum OnSatisfied {
    /// They are cancelled, except one that another undecided group still needs.
    #[default]
    CancelRemaining,
    /// They run on.
    LetRun,
}

impl OnSatisfied {
    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CancelRemaining => "cancel_remaining",
            Self::LetRun => "let_run",
        }
    }

    /// The one with this word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::CancelRemaining, Self::LetRun].into_iter().find(|one| one.as_str() == word)
    }
}

/// How many edges of a group must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum JoinPolicy {
    /// Every one.
    #[default]
    AllOf,
    /// One.
    AnyOf {
        /// What then happens to the rest.
        on_satisfied: OnSatisfied,
    },
    /// `k` of them.
    Quorum {
        /// How many.
        k: u32,
        /// What then happens to the rest.
        on_satisfied: OnSatisfied,
    },
}

/// What a group has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum GroupDecision {
    /// Nothing yet.
    #[default]
    Pending,
    /// The downstream runs.
    Satisfied,
    /// The downstream is skipped.
    Impossible,
}

impl GroupDecision {
    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Satisfied => "satisfied",
            Self::Impossible => "impossible",
        }
    }
}

impl JoinPolicy {
    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllOf => "all_of",
            Self::AnyOf { .. } => "any_of",
            Self::Quorum { .. } => "quorum",
        }
    }

    /// What the counts of its edges mean.
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

    /// Whether the unfinished upstreams are cancelled when it is satisfied.
    pub fn cancels(self) -> bool {
        match self {
            Self::AllOf => false,
            Self::AnyOf { on_satisfied } | Self::Quorum { on_satisfied, .. } => {
                on_satisfied == OnSatisfied::CancelRemaining
            }
        }
    }

    /// Whether, once satisfied, it makes up for upstreams that failed.
    pub fn absorbs(self) -> bool {
        !matches!(self, Self::AllOf)
    }

    /// Refuses a policy that a group of `edges` edges can never satisfy, or always would.
    pub fn check(self, pointer: &str, edges: usize) -> Result<(), Refusal> {
        if edges == 0 {
            return Err(Refusal::field(
                pointer,
                "is for a node without edges into it; add edges or leave the group out",
            ));
        }
        match self {
            Self::Quorum { k, .. } if k == 0 || k as usize > edges => Err(Refusal::field(
                &format!("{pointer}/k"),
                format!("is {k}; it must lie between 1 and {edges}, the number of edges into the node"),
            )),
            Self::AllOf | Self::AnyOf { .. } | Self::Quorum { .. } => Ok(()),
        }
    }
}

/// Where one edge stands, and by which generation of its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Edge {
    /// Where it stands.
    pub resolution: Resolution,
    /// The generation of its upstream that it speaks of.
    pub generation: u32,
}

/// The group of edges into one execution: its policy, where each edge stands, and what was decided. The edges stand in the
/// order of the upstreams in its wiring.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Join {
    /// The policy.
    pub policy: JoinPolicy,
    /// Its edges.
    pub edges: Vec<Edge>,
    /// What was decided.
    pub decision: GroupDecision,
}

impl Join {
    /// The bytes that a store keeps.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// From the bytes that a store kept.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        postcard::from_bytes(bytes)
    }

    /// How many edges stand like this.
    pub fn count(&self, resolution: Resolution) -> u32 {
        self.edges.iter().filter(|edge| edge.resolution == resolution).count() as u32
    }

    /// What its edges, as they stand, mean.
    pub fn verdict(&self) -> GroupDecision {
        let holds = self.count(Resolution::Holds);
        let dead = self.count(Resolution::Dead);
        self.policy.verdict(holds, dead, self.edges.len() as u32 - holds - dead)
    }

    /// Brings one edge up to date with its upstream, which is in `generation` and has ended as `outcome` or is live. Says
    /// whether the edge changed: the same news twice changes nothing, nor does older news. An edge that a satisfied group
    /// has counted stays as it was counted.
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
        let heard = Edge {
            generation,
            resolution: outcome.map_or(Resolution::Pending, |outcome| when.resolve(outcome)),
        };
        std::mem::replace(edge, heard) != heard
    }
}
