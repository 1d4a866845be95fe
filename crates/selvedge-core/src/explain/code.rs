//! The codes of reasons. They are part of the API and never change; docs/operating.md explains each of them.

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The stable code of a reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// Returns the name in the API.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => $text,)*
                }
            }
        }
    };
}

codes! {
    /// Its edge group has not decided.
    WaitingForUpstreams = "waiting_for_upstreams",
    /// An upstream whose edge is pending.
    UpstreamOpen = "upstream_open",
    /// It was delayed by request.
    Delayed = "delayed",
    /// It waits until no further submission with its debounce key has come for a while.
    Debounced = "debounced",
    /// It backs off after a failure or an interruption.
    Backoff = "backoff",
    /// Workers died while they ran it.
    WorkersDied = "workers_died",
    /// A wait of its suspension is not fulfilled.
    Suspended = "suspended",
    /// A wait of its suspension has a timeout.
    SuspensionTimeout = "suspension_timeout",
    LanePaused = "lane_paused",
    /// Its lane has a new limit and counts the executions that are already active.
    LaneCounting = "lane_counting",
    /// Its lane, concurrency key or quota has as many active executions as it allows.
    ConcurrencyLimit = "concurrency_limit",
    /// Its lane or quota has used up the starts of its window.
    RateLimit = "rate_limit",
    /// A budget has too little left.
    BudgetLimit = "budget_limit",
    /// It reserves more of a budget than the hard limit.
    ReserveExceedsLimit = "reserve_exceeds_limit",
    /// An active execution that has a slot or a reserve of a full gate.
    Holder = "holder",
    /// Another execution of its fairness line comes first.
    FairnessTurn = "fairness_turn",
    /// The execution at the head of its fairness line.
    LineHead = "line_head",
    /// The gate that holds it has room, and releases it in turn.
    GateOpen = "gate_open",
    /// No live worker claims from its lane.
    NoWorkerInLane = "no_worker_in_lane",
    /// No live worker in its lane runs its kind.
    NoWorkerOfKind = "no_worker_of_kind",
    /// No live worker has all capabilities that it requires.
    NoCapableWorker = "no_capable_worker",
    /// All live workers that could run it are draining.
    WorkersDraining = "workers_draining",
    /// Nothing holds it but the lack of a free worker.
    WaitingForWorker = "waiting_for_worker",
    /// A worker runs it.
    Active = "active",
    /// Its worker was asked to cancel it.
    CancelRequested = "cancel_requested",
    /// Its attempt has a timeout.
    AttemptTimeout = "attempt_timeout",
    /// It expires unless it ends before its deadline.
    Deadline = "deadline",
    /// It expires unless it starts in time.
    StartBy = "start_by",
    /// It has ended.
    Ended = "ended",
    /// The error with which it failed.
    Failed = "failed",
    /// The cause of its cancellation.
    Cancelled = "cancelled",
    /// The limit that it exceeded when it expired.
    Expired = "expired",
    /// Its edge group became impossible.
    Skipped = "skipped",
    /// An upstream whose outcome made its edge group impossible.
    UpstreamEnded = "upstream_ended",
    /// The execution at which a chain of skipped upstreams began.
    SkipOrigin = "skip_origin",
    /// Members of the flow have not ended.
    MembersOpen = "members_open",
    /// A member of the flow that has not ended.
    MemberOpen = "member_open",
    /// A member of the flow failed, and nothing handled that.
    MemberFailed = "member_failed",
    /// A member of the flow failed, and that was handled.
    FailureHandled = "failure_handled",
    /// The flow was cancelled.
    FlowCancelled = "flow_cancelled",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
