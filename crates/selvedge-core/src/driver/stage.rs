//! The global lock order, as a type.

/// The stages of a transaction, in the global lock order. A store runs the statements of one load in this order, too.
///
/// Variants marked as exceptions deviate from the order, each for the reason given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// API keys, for their revocation.
    ApiKeys,
    BulkJobs,
    Webhooks,
    /// Rows of the inbox, skipping those that another transaction has locked.
    Inbox,
    Schedules,
    /// Advisory locks on flows, which serialise their growth.
    Growth,
    /// Executions by id, upstreams and downstreams together, with the executions that are locked only if free.
    Executions,
    /// Exception: executions that a rule finds through loaded rows, such as a key or a node name. Locking the keys
    /// instead would cost every transaction. If two transactions deadlock here, the database aborts one, which is
    /// retried.
    LateExecutions,
    Outbox,
    /// Lanes with limits.
    Lanes,
    /// Exception: lanes that are read late. This process knows no lane with limits, so the read takes no locks.
    UnlimitedLanes,
    /// Waiting executions, skipping those that another transaction has locked.
    Candidates,
    /// Gates other than lanes.
    Gates,
    /// Parts of budgets.
    Parts,
    /// Executions that gates hold, skipping those that another transaction has locked.
    Held,
    /// Exception: candidates behind others that are unreadable or refused, or of a lane that has room only now. The
    /// search skips locked rows, so it never waits. Their flows may be counted after sessions were locked; if two
    /// transactions deadlock there, the database aborts one, which is retried.
    CandidatesAgain,
    /// Exception: gates that this process did not expect, locked after flows and sessions. Only the first transaction
    /// of a process that loads an execution with gates can do this: from then on gates are expected.
    LateGates,
    /// Flows. A transaction that has locked gates updates the counts of flows when it saves, so flows follow gates.
    Flows,
    /// Sessions. While saving, the counts of flows are written before sessions, too.
    Sessions,
    /// Exception: executions from the lease cache, which are locked when they are saved. Locking them earlier would
    /// cost every completion a statement. Such an execution has no flow and draws on no gate.
    CachedExecutions,
    /// Exception: the outbox row of a parent, which the end of a child writes without locking the parent.
    ParentOutbox,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 21] = [
        Stage::ApiKeys,
        Stage::BulkJobs,
        Stage::Webhooks,
        Stage::Inbox,
        Stage::Schedules,
        Stage::Growth,
        Stage::Executions,
        Stage::LateExecutions,
        Stage::Outbox,
        Stage::Lanes,
        Stage::UnlimitedLanes,
        Stage::Candidates,
        Stage::Gates,
        Stage::Parts,
        Stage::Held,
        Stage::CandidatesAgain,
        Stage::LateGates,
        Stage::Flows,
        Stage::Sessions,
        Stage::CachedExecutions,
        Stage::ParentOutbox,
    ];

    /// Returns the rows that the stage locks, for the documentation; none for an exception.
    pub fn rows(self) -> Option<&'static str> {
        match self {
            Stage::ApiKeys => Some("API keys, for their revocation"),
            Stage::BulkJobs => Some("bulk jobs"),
            Stage::Webhooks => Some("webhooks"),
            Stage::Inbox => Some("rows of the inbox with `skip locked`"),
            Stage::Schedules => Some("schedules"),
            Stage::Growth => Some("growth of flows (advisory)"),
            Stage::Executions => Some("executions, upstreams and downstreams together"),
            Stage::Outbox => Some("outbox"),
            Stage::Lanes => Some("lanes with limits"),
            Stage::Candidates => Some("candidates with `skip locked`"),
            Stage::Gates => Some("gates"),
            Stage::Parts => Some("parts of budgets"),
            Stage::Held => Some("held executions with `skip locked`"),
            Stage::Flows => Some("flows"),
            Stage::Sessions => Some("sessions"),
            Stage::LateExecutions
            | Stage::UnlimitedLanes
            | Stage::CandidatesAgain
            | Stage::LateGates
            | Stage::CachedExecutions
            | Stage::ParentOutbox => None,
        }
    }
}
