//! Refusals: the reasons why an operation was refused. A refused operation changes nothing. Its message names the cause
//! and says what the caller should do.

use crate::bulk_job::BulkJobId;
use crate::{ExecutionId, FlowId, LeaseId, Outcome, Timestamp};
use serde::{Deserialize, Serialize};

/// The reason why an operation was refused. Every variant has a stable [code](Refusal::code).
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "refusal", rename_all = "snake_case")]
pub enum Refusal {
    /// A field has an invalid value.
    #[error("{pointer} {detail}")]
    InvalidField {
        /// The JSON pointer to the field.
        pointer: String,
        /// The problem and its remedy.
        detail: String,
    },
    /// The request has an unknown field.
    #[error("{pointer}: {detail}")]
    UnknownField {
        /// The JSON pointer to the field.
        pointer: String,
        /// The fields that exist.
        detail: String,
    },
    /// A payload exceeds its limit.
    #[error("{pointer} has {actual} bytes; at most {limit} are allowed")]
    PayloadTooLarge {
        /// The JSON pointer to the payload.
        pointer: String,
        /// The limit, in bytes.
        limit: u64,
        /// The size of the payload, in bytes.
        actual: u64,
    },
    /// The namespace has no such object.
    #[error("there is no {what} {id}")]
    NotFound {
        /// The kind of object, as a noun.
        what: String,
        /// The given id or name.
        id: String,
    },
    /// The fence is not that of the current lease.
    #[error("{0}")]
    StaleLease(Box<StaleLease>),
    /// The execution has ended.
    #[error("execution {execution} has already ended as {outcome}")]
    AlreadyTerminal {
        execution: ExecutionId,
        /// The execution's outcome.
        outcome: Outcome,
    },
    /// The action is not allowed in the execution's state.
    #[error("execution {execution} is {state}: {detail}")]
    WrongState {
        execution: ExecutionId,
        /// The public name of its state.
        state: String,
        /// The states in which the action is allowed, or what to do instead.
        detail: String,
    },
    /// The same key or id was used before with other content.
    #[error("{pointer} {detail}")]
    IdempotencyMismatch {
        /// The JSON pointer to the key or id.
        pointer: String,
        /// The earlier use and the remedy.
        detail: String,
    },
    /// The edges form a cycle.
    #[error("{pointer} {detail}")]
    Cycle {
        /// The JSON pointer to the edges.
        pointer: String,
        /// The nodes of the cycle.
        detail: String,
    },
    /// No node has the given name.
    #[error("{pointer} names {node:?}, but no node has that name; add the node or correct the name")]
    UnknownNode {
        /// The JSON pointer to the name.
        pointer: String,
        /// The given name.
        node: String,
    },
    /// No budget has the given name.
    #[error(
        "{pointer} names {budget:?}, but there is no budget of that name; create the budget or correct the name"
    )]
    UnknownBudget {
        /// The JSON pointer to the name.
        pointer: String,
        /// The given name.
        budget: String,
    },
    /// No quota has the given name.
    #[error(
        "{pointer} names {quota:?}, but there is no quota of that name; create the quota or correct the name"
    )]
    UnknownQuota {
        /// The JSON pointer to the name.
        pointer: String,
        /// The given name.
        quota: String,
    },
    /// The flow has ended or is being cancelled.
    #[error(
        "flow {flow} is {state}: nothing can be added to it; submit a new flow, or replay one of its nodes"
    )]
    FlowEnded {
        flow: FlowId,
        /// The flow's state.
        state: String,
    },
    /// `if_version` is not the execution's version.
    #[error(
        "execution {execution} is at version {actual}, not {expected}; read it again and retry with its version"
    )]
    VersionMismatch {
        execution: ExecutionId,
        /// The version that the caller expected.
        expected: u32,
        /// The execution's version.
        actual: u32,
    },
    /// The token does not permit this delivery.
    #[error("{detail}")]
    Token {
        /// The reason, which determines the code.
        reason: TokenReason,
        /// The reason in words.
        detail: String,
    },
    /// The execution would exceed a limit.
    #[error("an execution may have at most {limit} {what}, and execution {execution} would exceed that")]
    LimitReached {
        execution: ExecutionId,
        /// The limited objects, as a plural noun.
        what: String,
        limit: u64,
    },
    /// The lane is draining and accepts no new executions.
    #[error("lane {lane} is draining and accepts no new executions; submit to another lane, or resume it")]
    LaneDraining { lane: String },
    /// A newer incarnation of the worker's instance has made a call.
    #[error(
        "incarnation {incarnation:?} of worker instance {instance:?} was superseded by a newer one, and its leases were put back; stop this process"
    )]
    Superseded {
        /// The worker's instance.
        instance: String,
        /// The superseded incarnation.
        incarnation: String,
    },
    /// The stored row cannot be decoded. It is left unchanged.
    #[error("execution {execution} cannot be read: {detail}; nothing was changed")]
    Unreadable {
        execution: ExecutionId,
        /// The error of the decoder.
        detail: String,
    },
    /// The call would act on more objects than one call may.
    #[error("{pointer} {detail}")]
    TooMany {
        /// The JSON pointer to the field that selects them.
        pointer: String,
        /// The limit and the remedy.
        detail: String,
    },
    /// The id is in use in another namespace. Says nothing about what has it.
    #[error(
        "{pointer} is in use elsewhere; use a new id, and an idempotency key to make a submission safe to repeat"
    )]
    IdTaken {
        /// The JSON pointer to the id.
        pointer: String,
    },
    /// There is no such namespace.
    #[error(
        "there is no namespace {namespace:?}; correct the name, or let an administrator create it: selvedge namespaces set NAME"
    )]
    UnknownNamespace {
        /// The given name.
        namespace: String,
    },
    /// The bulk job deletes a namespace, which cannot be stopped.
    #[error(
        "bulk job {job} deletes the namespace {namespace:?}; a deletion cannot be stopped, wait until it has ended"
    )]
    CannotStop { job: BulkJobId, namespace: String },
}

/// The reason why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenReason {
    /// It is not the token of this waitpoint, or its key was retired.
    Invalid,
    /// The waitpoint has expired.
    Expired,
    /// An operator revoked the token.
    Revoked,
}

/// The reply to a worker with a stale fence: the current holder of the lease, or the outcome of the execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StaleLease {
    pub execution: ExecutionId,
    /// The public name of its state.
    pub state: String,
    /// The outcome, if the execution has ended.
    pub outcome: Option<Outcome>,
    /// The holder of the current lease, if there is one.
    pub holder: Option<LeaseHolder>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseHolder {
    pub worker: String,
    /// The worker's instance.
    pub instance: String,
    pub lease_id: LeaseId,
    pub epoch: u32,
    /// The time of the claim.
    pub claimed_at: Timestamp,
}

impl std::fmt::Display for StaleLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "this lease of execution {} has ended: ", self.execution)?;
        match (&self.outcome, &self.holder) {
            (Some(outcome), _) => write!(f, "the execution ended as {outcome}"),
            (None, Some(holder)) => write!(
                f,
                "worker {} (instance {}) holds it now under epoch {}",
                holder.worker, holder.instance, holder.epoch
            ),
            (None, None) => write!(f, "the execution is {} and no worker holds it", self.state),
        }
    }
}

impl Refusal {
    /// Refuses the value of a field.
    pub fn field(pointer: &str, detail: impl Into<String>) -> Refusal {
        Refusal::InvalidField { pointer: pointer.into(), detail: detail.into() }
    }

    /// Reports whether the reason may end without a change of the call: a lane stops draining, or a missing budget or
    /// quota is created. Such a refusal is not stored as the answer to a call with an idempotency key.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Refusal::LaneDraining { .. } | Refusal::UnknownBudget { .. } | Refusal::UnknownQuota { .. }
        )
    }

    /// Refuses the id of an execution that does not exist.
    pub fn no_execution(id: ExecutionId) -> Refusal {
        Refusal::NotFound { what: "execution".into(), id: id.to_string() }
    }

    /// Returns the stable machine-readable code.
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
            Refusal::UnknownBudget { .. } => "unknown_budget",
            Refusal::UnknownQuota { .. } => "unknown_quota",
            Refusal::FlowEnded { .. } => "flow_ended",
            Refusal::VersionMismatch { .. } => "version_mismatch",
            Refusal::Token { reason: TokenReason::Invalid, .. } => "invalid_token",
            Refusal::Token { reason: TokenReason::Expired, .. } => "token_expired",
            Refusal::Token { reason: TokenReason::Revoked, .. } => "token_revoked",
            Refusal::LimitReached { .. } => "limit_reached",
            Refusal::LaneDraining { .. } => "lane_draining",
            Refusal::Superseded { .. } => "superseded",
            Refusal::Unreadable { .. } => "unreadable_row",
            Refusal::TooMany { .. } => "too_many",
            Refusal::IdTaken { .. } => "id_taken",
            Refusal::UnknownNamespace { .. } => "unknown_namespace",
            Refusal::CannotStop { .. } => "wrong_state",
        }
    }

    /// Returns the JSON pointer to the refused field, if there is one.
    pub fn pointer(&self) -> Option<&str> {
        match self {
            Refusal::InvalidField { pointer, .. }
            | Refusal::UnknownField { pointer, .. }
            | Refusal::PayloadTooLarge { pointer, .. }
            | Refusal::Cycle { pointer, .. }
            | Refusal::UnknownNode { pointer, .. }
            | Refusal::UnknownBudget { pointer, .. }
            | Refusal::UnknownQuota { pointer, .. }
            | Refusal::TooMany { pointer, .. }
            | Refusal::IdTaken { pointer }
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
            | Refusal::Superseded { .. }
            | Refusal::Unreadable { .. }
            | Refusal::UnknownNamespace { .. }
            | Refusal::CannotStop { .. } => None,
        }
    }

    /// Removes a prefix from the pointer, for a caller whose request has the field at a higher level.
    pub fn without_pointer_prefix(mut self, prefix: &str) -> Refusal {
        if let Refusal::IdempotencyMismatch { pointer, .. }
        | Refusal::IdTaken { pointer }
        | Refusal::InvalidField { pointer, .. } = &mut self
            && let Some(rest) = pointer.strip_prefix(prefix)
        {
            *pointer = rest.to_owned();
        }
        self
    }

    /// Adds a prefix to the pointer, for a caller whose request has the field at a lower level.
    pub fn with_pointer_prefix(mut self, prefix: &str) -> Refusal {
        match &mut self {
            Refusal::InvalidField { pointer, .. }
            | Refusal::UnknownField { pointer, .. }
            | Refusal::PayloadTooLarge { pointer, .. }
            | Refusal::Cycle { pointer, .. }
            | Refusal::UnknownNode { pointer, .. }
            | Refusal::UnknownBudget { pointer, .. }
            | Refusal::UnknownQuota { pointer, .. }
            | Refusal::TooMany { pointer, .. }
            | Refusal::IdTaken { pointer }
            | Refusal::IdempotencyMismatch { pointer, .. } => pointer.insert_str(0, prefix),
            Refusal::NotFound { .. }
            | Refusal::StaleLease(_)
            | Refusal::AlreadyTerminal { .. }
            | Refusal::WrongState { .. }
            | Refusal::FlowEnded { .. }
            | Refusal::VersionMismatch { .. }
            | Refusal::Token { .. }
            | Refusal::LimitReached { .. }
            | Refusal::LaneDraining { .. }
            | Refusal::Superseded { .. }
            | Refusal::Unreadable { .. }
            | Refusal::UnknownNamespace { .. }
            | Refusal::CannotStop { .. } => {}
        }
        self
    }
}
