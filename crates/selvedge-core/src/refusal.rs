//! Why a command was refused. A refusal changes nothing, names the offender and says what would be right.

use crate::{ExecutionId, FlowId, LeaseId, Outcome, Timestamp};
use serde::{Deserialize, Serialize};

/// A refused command. Every variant has a stable [code](Refusal::code).
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "refusal", rename_all = "snake_case")]
pub enum Refusal {
    /// A field is well-formed but wrong.
    #[error("{pointer} {detail}")]
    InvalidField {
        /// JSON pointer to the field.
        pointer: String,
        /// What is wrong and what would be right.
        detail: String,
    },
    /// A field that does not exist.
    #[error("{pointer}: {detail}")]
    UnknownField {
        /// JSON pointer to the field.
        pointer: String,
        /// Which fields exist.
        detail: String,
    },
    /// A payload beyond its limit.
    #[error("{pointer} is {actual} bytes long; at most {limit} are allowed")]
    PayloadTooLarge {
        /// JSON pointer to the payload.
        pointer: String,
        /// The limit in bytes.
        limit: u64,
        /// Its size in bytes.
        actual: u64,
    },
    /// No such thing in this namespace.
    #[error("there is no {what} {id}")]
    NotFound {
        /// The noun.
        what: String,
        /// The id that was given.
        id: String,
    },
    /// The fence does not match the current lease.
    #[error("{0}")]
    StaleLease(Box<StaleLease>),
    /// The execution has ended.
    #[error("execution {execution} has already ended as {outcome}")]
    AlreadyTerminal {
        /// Which one.
        execution: ExecutionId,
        /// How it ended.
        outcome: Outcome,
    },
    /// The action does not apply in the execution's state.
    #[error("execution {execution} is {state}: {detail}")]
    WrongState {
        /// Which one.
        execution: ExecutionId,
        /// Its public state.
        state: String,
        /// When the action applies.
        detail: String,
    },
    /// The same key or id was used with other content.
    #[error("{pointer} {detail}")]
    IdempotencyMismatch {
        /// JSON pointer to the key or id.
        pointer: String,
        /// What it was used for before.
        detail: String,
    },
    /// Edges that wait for each other.
    #[error("{pointer} {detail}")]
    Cycle {
        /// JSON pointer to the edges.
        pointer: String,
        /// The nodes on the way round.
        detail: String,
    },
    /// No node has that name.
    #[error("{pointer} names {node:?}, and no node is called that")]
    UnknownNode {
        /// JSON pointer to the name.
        pointer: String,
        /// The name.
        node: String,
    },
    /// The flow has ended, or its cancel was asked for.
    #[error("flow {flow} is {state}: nothing can be added to it; submit a new flow, or replay a node of it")]
    FlowEnded {
        /// Which one.
        flow: FlowId,
        /// Its state.
        state: String,
    },
    /// `if_version` does not match.
    #[error("execution {execution} is at version {actual}, not {expected}; read it again and decide anew")]
    VersionMismatch {
        /// Which one.
        execution: ExecutionId,
        /// What the caller expected.
        expected: u32,
        /// What it is.
        actual: u32,
    },
    /// The token does not allow this delivery.
    #[error("{detail}")]
    Token {
        /// What is wrong with it.
        reason: TokenReason,
        /// In words.
        detail: String,
    },
    /// The execution has as many of these as it may have.
    #[error("execution {execution} has {limit} {what}, which is the most it may have")]
    LimitReached {
        /// Which one.
        execution: ExecutionId,
        /// The noun.
        what: String,
        /// How many.
        limit: u64,
    },
    /// The lane takes nothing new.
    #[error("lane {lane} is draining and takes nothing new; submit to another lane, or make it active")]
    LaneDraining {
        /// Which.
        lane: String,
    },
    /// The stored row cannot be understood; it is left as it is.
    #[error("execution {execution} cannot be read: {detail}; nothing was changed")]
    Unreadable {
        /// Which one.
        execution: ExecutionId,
        /// What was found.
        detail: String,
    },
}

/// What is wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenReason {
    /// It is not the token of this waitpoint, or its key is no longer accepted.
    Invalid,
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
}

/// What a worker with a stale fence is told: who holds the lease now, or how the execution ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StaleLease {
    /// The execution.
    pub execution: ExecutionId,
    /// Its public state now.
    pub state: String,
    /// How it ended, if it has.
    pub outcome: Option<Outcome>,
    /// Who holds it now, if anybody.
    pub holder: Option<LeaseHolder>,
}

/// The holder of a lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseHolder {
    /// The worker.
    pub worker: String,
    /// Its instance.
    pub instance: String,
    /// The lease.
    pub lease_id: LeaseId,
    /// Its epoch.
    pub epoch: u32,
    /// When it was claimed.
    pub claimed_at: Timestamp,
}

impl std::fmt::Display for StaleLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "this lease of execution {} is over: ", self.execution)?;
        match (&self.outcome, &self.holder) {
            (Some(outcome), _) => write!(f, "the execution ended as {outcome}"),
            (None, Some(holder)) => write!(
                f,
                "worker {} (instance {}) holds it now under epoch {}",
                holder.worker, holder.instance, holder.epoch
            ),
            (None, None) => write!(f, "the execution is {} and nobody holds it", self.state),
        }
    }
}

impl Refusal {
    /// A wrong field.
    pub fn field(pointer: &str, detail: impl Into<String>) -> Refusal {
        Refusal::InvalidField { pointer: pointer.into(), detail: detail.into() }
    }

    /// An execution that is not there.
    pub fn no_execution(id: ExecutionId) -> Refusal {
        Refusal::NotFound { what: "execution".into(), id: id.to_string() }
    }

    /// The stable machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::InvalidField { .. } => "invalid_field",
            Refusal::UnknownField { .. } => "unknown_field",
            Refusal::PayloadTooLarge { .. } => "payload_too_large",
            Refusal::NotFound { .. } => "not_found",
            Refusal::StaleLease(_) => "stale_lease",
            Refusal::AlreadyTerminal { .. } => "already_terminal",
            Refusal::WrongState { .. } => "wrong_state",
            Refusal::IdempotencyMismatch { .. } => "idempotency_mismatch",
            Refusal::Cycle { .. } => "cycle",
            Refusal::UnknownNode { .. } => "unknown_node",
            Refusal::FlowEnded { .. } => "flow_ended",
            Refusal::VersionMismatch { .. } => "version_mismatch",
            Refusal::Token { reason: TokenReason::Invalid, .. } => "invalid_token",
            Refusal::Token { reason: TokenReason::Expired, .. } => "token_expired",
            Refusal::Token { reason: TokenReason::Revoked, .. } => "token_revoked",
            Refusal::LimitReached { .. } => "limit_reached",
            Refusal::LaneDraining { .. } => "lane_draining",
            Refusal::Unreadable { .. } => "unreadable_row",
        }
    }

    /// The JSON pointer of the offender, where there is one.
    pub fn pointer(&self) -> Option<&str> {
        match self {
            Refusal::InvalidField { pointer, .. }
            | Refusal::UnknownField { pointer, .. }
            | Refusal::PayloadTooLarge { pointer, .. }
            | Refusal::Cycle { pointer, .. }
            | Refusal::UnknownNode { pointer, .. }
            | Refusal::IdempotencyMismatch { pointer, .. } => Some(pointer),
            Refusal::NotFound { .. }
            | Refusal::StaleLease(_)
            | Refusal::AlreadyTerminal { .. }
            | Refusal::WrongState { .. }
            | Refusal::FlowEnded { .. }
            | Refusal::VersionMismatch { .. }
            | Refusal::Token { .. }
            | Refusal::LimitReached { .. }
            | Refusal::LaneDraining { .. }
            | Refusal::Unreadable { .. } => None,
        }
    }

    /// The same refusal of something that stands further up: its pointer no longer begins with `at`.
    pub fn without_pointer_prefix(mut self, at: &str) -> Refusal {
        if let Refusal::IdempotencyMismatch { pointer, .. } | Refusal::InvalidField { pointer, .. } =
            &mut self
            && let Some(rest) = pointer.strip_prefix(at)
        {
            *pointer = rest.to_owned();
        }
        self
    }

    /// The same refusal of something that stands further down: its pointer begins with `at`.
    pub fn with_pointer_prefix(mut self, at: &str) -> Refusal {
        match &mut self {
            Refusal::InvalidField { pointer, .. }
            | Refusal::UnknownField { pointer, .. }
            | Refusal::PayloadTooLarge { pointer, .. }
            | Refusal::Cycle { pointer, .. }
            | Refusal::UnknownNode { pointer, .. }
            | Refusal::IdempotencyMismatch { pointer, .. } => pointer.insert_str(0, at),
            Refusal::NotFound { .. }
            | Refusal::StaleLease(_)
            | Refusal::AlreadyTerminal { .. }
            | Refusal::WrongState { .. }
            | Refusal::FlowEnded { .. }
            | Refusal::VersionMismatch { .. }
            | Refusal::Token { .. }
            | Refusal::LimitReached { .. }
            | Refusal::LaneDraining { .. }
            | Refusal::Unreadable { .. } => {}
        }
        self
    }
}
