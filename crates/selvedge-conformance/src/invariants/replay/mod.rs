//! The replay of one execution's events against the transition table.

mod record;

pub(super) use record::{LoggedEnd, Recorded};

use selvedge_core::execution::Execution;
use selvedge_core::fact::{self, EdgeUpdate, LeaseRef, Next};
use selvedge_core::join::{Edge, GroupDecision, Resolution};
use selvedge_core::log::Event;
use selvedge_core::state::StateName;
use selvedge_core::transition::allowed;
use selvedge_core::{ExecutionId, Fact, LeaseId, Outcome, Policy, State, Timestamp};
use std::collections::BTreeMap;

/// An execution as its events describe it, up to the last replayed one.
#[derive(Debug, Default)]
pub(super) struct Replay {
    state: Option<StateName>,
    until: Option<Timestamp>,
    version: u32,
    epoch: u32,
    live: Option<LeaseId>,
    /// The lease that a used-up budget ended by suspending the execution, until the next claim.
    breached: Option<LeaseId>,
    retries: u32,
    interruptions: u32,
    interruptions_before_progress: u32,
    generation: u32,
    priority: Option<i16>,
    tags: BTreeMap<String, String>,
    at: Timestamp,
    /// The edges that were resolved or reset, by upstream.
    edges: BTreeMap<ExecutionId, Edge>,
    decision: GroupDecision,
    upstreams: u32,
    children: u32,
    /// The execution's signals, steps, waitpoints and suspension.
    pub recorded: Recorded,
    /// All leases that were granted, in order.
    pub leases: Vec<LeaseId>,
    /// The outcome of each generation that ended.
    pub outcomes: BTreeMap<u32, Outcome>,
}

/// The end of a lease by a fact: named by its lease, by its attempt, or none.
enum Ended<'a> {
    Lease(&'a LeaseRef),
    Attempt(u32),
    No,
}

impl Replay {
    /// Replays one event and returns the violations.
    pub fn step(&mut self, event: &Event, policy: Option<&Policy>) -> Vec<String> {
        let mut violations = Vec::new();
        if self.has_ended()
            && matches!(event.fact, Fact::Submitted { .. } | Fact::SubmittedWaitingDependencies { .. })
        {
            self.reset();
        }
        if event.version != Some(self.version + 1) {
            violations.push(format!("version {:?} follows {}", event.version, self.version));
        }
        self.version = event.version.unwrap_or(self.version);
        if event.at < self.at {
            violations.push(format!("time went back from {:?}", self.at));
        }
        self.at = event.at;
        let to = self.next_state(&event.fact);
        let needs_lease = matches!(event.fact, Fact::Completed { .. } | Fact::Failed { .. });
        let has_lease = self.live.is_some() || self.breached.is_some();
        match (event.fact.cause(), to) {
            (Some(cause), Some(to)) if allowed(self.state, cause, to) && (has_lease || !needs_lease) => {}
            (cause, to) => {
                violations.push(format!("no transition from {:?} by {cause:?} to {to:?}", self.state))
            }
        }
        violations.extend(self.end_lease(&event.fact));
        self.count(&event.fact);
        if let Fact::Claimed(fact::Claimed { lease, .. }) = &event.fact {
            violations.extend(self.begin_lease(lease));
        }
        self.join(&event.fact);
        violations.extend(self.recorded.step(event, to));
        self.state = to;
        if let Some(outcome) = to.and_then(StateName::outcome) {
            let before = self.outcomes.insert(self.generation, outcome);
            if before.is_some_and(|before| before != outcome) {
                violations
                    .push(format!("generation {} ended as {before:?} and as {outcome}", self.generation));
            }
        }
        if (self.state == Some(StateName::Active)) != self.live.is_some() {
            violations.push(format!("its state is {:?} and its live lease is {:?}", self.state, self.live));
        }
        let over = policy.is_some_and(|policy| {
            self.retries > policy.retry.max_retries
                || self.interruptions - self.interruptions_before_progress > policy.retry.max_interruptions
        });
        if over {
            violations.push(format!(
                "{} retries and {} interruptions exceed its policy",
                self.retries, self.interruptions
            ));
        }
        self.tags = event.tags.clone();
        violations
    }

    /// Starts over: the id was reused for a new execution after the old one had ended and was deleted.
    fn reset(&mut self) {
        *self = Replay { at: self.at, leases: std::mem::take(&mut self.leases), ..Replay::default() };
    }

    /// Returns true if the execution has ended.
    pub fn has_ended(&self) -> bool {
        self.state.is_some_and(|state| state.outcome().is_some())
    }

    /// Returns the state that a fact leads to.
    fn next_state(&mut self, fact: &Fact) -> Option<StateName> {
        let next = match fact {
            Fact::Submitted(fact::Submitted { delayed_until }) => {
                delayed_until.map_or(Next::Waiting, Next::Delayed)
            }
            Fact::DelayOver(fact::DelayOver {}) | Fact::Replayed { .. } => Next::Waiting,
            Fact::Completed { .. } => Next::Terminal(Outcome::Completed),
            Fact::Failed(fact::Failed { next, .. })
            | Fact::TimedOut(fact::TimedOut { next, .. })
            | Fact::LeaseExpired(fact::LeaseExpired { next, .. })
            | Fact::Delayed(fact::Delayed { next, .. })
            | Fact::Released(fact::Released { next, .. })
            | Fact::Orphaned(fact::Orphaned { next, .. })
            | Fact::Revoked(fact::Revoked { next, .. })
            | Fact::Joined(fact::Joined { next, .. })
            | Fact::Rescheduled(fact::Rescheduled { next }) => *next,
            Fact::Debounced(fact::Debounced { until }) => Next::Delayed(*until),
            Fact::Cancelled { .. } | Fact::CancelAcknowledged { .. } => Next::Terminal(Outcome::Cancelled),
            Fact::DeadlinePassed { .. } | Fact::StartByPassed(fact::StartByPassed {}) => {
                Next::Terminal(Outcome::Expired)
            }
            Fact::Claimed { .. } => {
                self.until = None;
                return Some(StateName::Active);
            }
            Fact::SubmittedWaitingDependencies { .. }
            | Fact::Reopened { .. }
            | Fact::ReplayedWaitingDependencies { .. } => {
                self.until = None;
                return Some(StateName::WaitingDependencies);
            }
            Fact::CancelRequested { .. }
            | Fact::Progressed { .. }
            | Fact::Prioritised { .. }
            | Fact::Tagged { .. }
            | Fact::UpstreamChanged { .. }
            | Fact::Wired { .. }
            | Fact::Signalled { .. }
            | Fact::Noticed { .. }
            | Fact::WaitpointCreated { .. }
            | Fact::WaitpointExpired { .. }
            | Fact::WaitpointRevoked { .. }
            | Fact::Adopted { .. }
            | Fact::EndAwaited(fact::EndAwaited {})
            | Fact::WaitpointReissued { .. }
            | Fact::Stepped { .. } => return self.state,
            Fact::Suspended(fact::Suspended { next: Next::Terminal(outcome), .. }) => {
                Next::Terminal(*outcome)
            }
            // If the resume condition holds at once, the next fact resumes it.
            Fact::Suspended { .. } => Next::Suspended,
            Fact::Resumed { .. } | Fact::Admitted { .. } => Next::Waiting,
            Fact::Held { .. } => {
                self.until = None;
                return Some(StateName::Held);
            }
            Fact::SuspensionTimedOut(fact::SuspensionTimedOut { next, .. })
            | Fact::Breached(fact::Breached { next, .. }) => *next,
            Fact::Renewed { .. }
            | Fact::DrainRequested { .. }
            | Fact::FlowSubmitted { .. }
            | Fact::FlowGrown { .. }
            | Fact::FlowEnded { .. }
            | Fact::FlowReopened { .. }
            | Fact::FlowCancelRequested { .. }
            | Fact::TokenKeysRotated { .. }
            | Fact::ApiKeyCreated { .. }
            | Fact::ApiKeyRevoked { .. }
            | Fact::BulkJobStarted { .. }
            | Fact::BulkJobEnded { .. }
            | Fact::WebhookChanged { .. }
            | Fact::ScheduleSaved { .. }
            | Fact::ScheduleDeleted { .. }
            | Fact::ScheduleFired { .. }
            | Fact::ScheduleSkipped { .. }
            | Fact::ScheduleRefused { .. }
            | Fact::InboxRefused { .. }
            | Fact::GateConfigured { .. }
            | Fact::GateRemoved { .. }
            | Fact::Spent { .. }
            | Fact::LimitReached { .. }
            | Fact::BudgetReset { .. } => return None,
        };
        self.until = match next {
            Next::Delayed(until) => Some(until),
            Next::Waiting | Next::Terminal(_) | Next::Suspended => None,
        };
        Some(match next {
            Next::Waiting => StateName::Waiting,
            Next::Delayed(_) => StateName::Delayed,
            Next::Suspended => StateName::Suspended,
            Next::Terminal(outcome) => State::Terminal(outcome).name(),
        })
    }

    fn begin_lease(&mut self, lease: &LeaseRef) -> Vec<String> {
        let mut violations = Vec::new();
        if let Some(live) = self.live {
            violations.push(format!("lease {live} was live already"));
        }
        if lease.epoch != self.epoch + 1 {
            violations.push(format!("epoch {} follows {}", lease.epoch, self.epoch));
        }
        self.epoch = lease.epoch;
        self.breached = None;
        self.live = Some(lease.id);
        self.leases.push(lease.id);
        violations
    }

    /// Ends the live lease if the fact ends one. A fact of any other lease was written under a stale fence.
    fn end_lease(&mut self, fact: &Fact) -> Vec<String> {
        let ended = match fact {
            Fact::Completed(fact::Completed { attempt, .. }) => Ended::Attempt(*attempt),
            Fact::Failed(fact::Failed { lease, .. })
            | Fact::TimedOut(fact::TimedOut { lease, .. })
            | Fact::LeaseExpired(fact::LeaseExpired { lease, .. })
            | Fact::Delayed(fact::Delayed { lease, .. })
            | Fact::Released(fact::Released { lease, .. })
            | Fact::Orphaned(fact::Orphaned { lease, .. })
            | Fact::Breached(fact::Breached { lease, .. })
            | Fact::CancelAcknowledged(fact::CancelAcknowledged { lease, .. })
            | Fact::Revoked(fact::Revoked { lease, .. }) => Ended::Lease(lease),
            Fact::Suspended(fact::Suspended { suspension, .. }) => Ended::Lease(&suspension.lease),
            Fact::Cancelled(fact::Cancelled { lease, .. })
            | Fact::DeadlinePassed(fact::DeadlinePassed { lease }) => match lease {
                Some(lease) => Ended::Lease(lease),
                None => Ended::No,
            },
            Fact::Submitted { .. }
            | Fact::DelayOver(fact::DelayOver {})
            | Fact::Claimed { .. }
            | Fact::CancelRequested { .. }
            | Fact::StartByPassed(fact::StartByPassed {})
            | Fact::Rescheduled { .. }
            | Fact::Debounced { .. }
            | Fact::Replayed { .. }
            | Fact::Progressed { .. }
            | Fact::Prioritised { .. }
            | Fact::Tagged { .. }
            | Fact::Renewed { .. }
            | Fact::DrainRequested { .. }
            | Fact::SubmittedWaitingDependencies { .. }
            | Fact::UpstreamChanged { .. }
            | Fact::Joined { .. }
            | Fact::Wired { .. }
            | Fact::FlowSubmitted { .. }
            | Fact::FlowGrown { .. }
            | Fact::FlowEnded { .. }
            | Fact::FlowReopened { .. }
            | Fact::FlowCancelRequested { .. }
            | Fact::Signalled { .. }
            | Fact::Noticed { .. }
            | Fact::Resumed { .. }
            | Fact::SuspensionTimedOut { .. }
            | Fact::WaitpointCreated { .. }
            | Fact::WaitpointExpired { .. }
            | Fact::WaitpointRevoked { .. }
            | Fact::WaitpointReissued { .. }
            | Fact::Stepped { .. }
            | Fact::TokenKeysRotated { .. }
            | Fact::ApiKeyCreated { .. }
            | Fact::ApiKeyRevoked { .. }
            | Fact::BulkJobStarted { .. }
            | Fact::BulkJobEnded { .. }
            | Fact::WebhookChanged { .. }
            | Fact::ScheduleSaved { .. }
            | Fact::ScheduleDeleted { .. }
            | Fact::ScheduleFired { .. }
            | Fact::ScheduleSkipped { .. }
            | Fact::ScheduleRefused { .. }
            | Fact::InboxRefused { .. }
            | Fact::Held { .. }
            | Fact::Admitted { .. }
            | Fact::GateConfigured { .. }
            | Fact::GateRemoved { .. }
            | Fact::Spent { .. }
            | Fact::LimitReached { .. }
            | Fact::BudgetReset { .. }
            | Fact::Adopted { .. }
            | Fact::EndAwaited(fact::EndAwaited {})
            | Fact::Reopened { .. }
            | Fact::ReplayedWaitingDependencies { .. } => Ended::No,
        };
        // The attempt of a breached lease may still be ended by its worker.
        let breached = self.breached.take();
        let open = match fact {
            Fact::Completed { .. } | Fact::Failed { .. } => self.live.or(breached),
            _ => self.live,
        };
        let current = match ended {
            Ended::No => {
                self.breached = breached;
                return vec![];
            }
            Ended::Attempt(attempt) => open.is_some() && attempt + 1 == self.epoch,
            Ended::Lease(lease) => open == Some(lease.id) && lease.epoch == self.epoch,
        };
        let live = self.live.take();
        if let Fact::Breached(fact::Breached { next: Next::Suspended, .. }) = fact {
            self.breached = live;
        }
        match current {
            true => vec![],
            false => vec![format!("it ends a lease other than {live:?} of epoch {}", self.epoch)],
        }
    }

    /// Counts retries, interruptions and generations, and follows the priority.
    fn count(&mut self, fact: &Fact) {
        match fact {
            Fact::Failed(fact::Failed { next, .. }) | Fact::TimedOut(fact::TimedOut { next, .. }) => {
                self.retries += u32::from(!matches!(next, Next::Terminal(_)));
            }
            Fact::LeaseExpired(fact::LeaseExpired { next, .. }) => {
                self.interruptions += u32::from(!matches!(next, Next::Terminal(_)));
            }
            Fact::Replayed(fact::Replayed { generation })
            | Fact::ReplayedWaitingDependencies(fact::ReplayedWaitingDependencies { generation })
            | Fact::Reopened(fact::Reopened { generation, .. }) => {
                (self.retries, self.interruptions, self.generation) = (0, 0, *generation);
                self.interruptions_before_progress = 0;
            }
            Fact::Prioritised(fact::Prioritised { to, .. }) => self.priority = Some(*to),
            Fact::Stepped { .. } => self.interruptions_before_progress = self.interruptions,
            Fact::Resumed(fact::Resumed { steps, .. }) if !steps.is_empty() => {
                self.interruptions_before_progress = self.interruptions;
            }
            Fact::Submitted { .. }
            | Fact::DelayOver(fact::DelayOver {})
            | Fact::Claimed { .. }
            | Fact::Completed { .. }
            | Fact::Delayed { .. }
            | Fact::Released { .. }
            | Fact::Orphaned { .. }
            | Fact::Revoked { .. }
            | Fact::Cancelled { .. }
            | Fact::CancelAcknowledged { .. }
            | Fact::CancelRequested { .. }
            | Fact::DeadlinePassed { .. }
            | Fact::StartByPassed(fact::StartByPassed {})
            | Fact::Rescheduled { .. }
            | Fact::Debounced { .. }
            | Fact::Progressed { .. }
            | Fact::Tagged { .. }
            | Fact::Renewed { .. }
            | Fact::DrainRequested { .. }
            | Fact::SubmittedWaitingDependencies { .. }
            | Fact::UpstreamChanged { .. }
            | Fact::Joined { .. }
            | Fact::Wired { .. }
            | Fact::FlowSubmitted { .. }
            | Fact::FlowGrown { .. }
            | Fact::FlowEnded { .. }
            | Fact::FlowReopened { .. }
            | Fact::FlowCancelRequested { .. }
            | Fact::Suspended { .. }
            | Fact::Signalled { .. }
            | Fact::Noticed { .. }
            | Fact::Resumed { .. }
            | Fact::SuspensionTimedOut { .. }
            | Fact::WaitpointCreated { .. }
            | Fact::WaitpointExpired { .. }
            | Fact::WaitpointRevoked { .. }
            | Fact::WaitpointReissued { .. }
            | Fact::TokenKeysRotated { .. }
            | Fact::ApiKeyCreated { .. }
            | Fact::ApiKeyRevoked { .. }
            | Fact::BulkJobStarted { .. }
            | Fact::BulkJobEnded { .. }
            | Fact::WebhookChanged { .. }
            | Fact::ScheduleSaved { .. }
            | Fact::ScheduleDeleted { .. }
            | Fact::ScheduleFired { .. }
            | Fact::ScheduleSkipped { .. }
            | Fact::ScheduleRefused { .. }
            | Fact::InboxRefused { .. }
            | Fact::Held { .. }
            | Fact::Admitted { .. }
            | Fact::GateConfigured { .. }
            | Fact::GateRemoved { .. }
            | Fact::Breached { .. }
            | Fact::Spent { .. }
            | Fact::LimitReached { .. }
            | Fact::Adopted { .. }
            | Fact::EndAwaited(fact::EndAwaited {})
            | Fact::BudgetReset { .. } => {}
        }
    }

    /// Follows the edges into the execution and the number of its children.
    fn join(&mut self, fact: &Fact) {
        match fact {
            Fact::SubmittedWaitingDependencies(fact::SubmittedWaitingDependencies { upstreams }) => {
                self.upstreams = *upstreams
            }
            Fact::Wired(fact::Wired { upstreams, children, .. }) => {
                self.upstreams += upstreams;
                self.children += children;
            }
            Fact::UpstreamChanged(fact::UpstreamChanged { edges }) => self.set_edges(edges),
            Fact::Joined(fact::Joined { edges, decision, .. }) => {
                self.set_edges(edges);
                self.decision = *decision;
            }
            Fact::Reopened(fact::Reopened { edges, .. }) => {
                self.set_edges(edges);
                self.decision = GroupDecision::Pending;
            }
            _ => {}
        }
    }

    fn set_edges(&mut self, edges: &[EdgeUpdate]) {
        self.edges.extend(edges.iter().map(|heard| (heard.upstream, heard.edge)));
    }

    /// Returns the differences between the edges of the row and those of the events.
    fn join_differences(&self, row: &Execution) -> Vec<String> {
        let wiring = row.wiring();
        let replayed = (self.upstreams as usize, self.children as usize);
        let stored = (wiring.upstreams.len(), wiring.children.len());
        let mut violations = Vec::new();
        if replayed != stored {
            violations.push(format!(
                "by the event log it has {replayed:?} upstreams and children, in its row {stored:?}"
            ));
        }
        let Some(join) = &row.join else { return violations };
        if join.decision != self.decision {
            let (replayed, stored) = (self.decision, join.decision);
            violations.push(format!("by the event log the decision is {replayed:?}, in its row {stored:?}"));
        }
        for (upstream, edge) in wiring.upstreams.iter().zip(&join.edges) {
            let same = match self.edges.get(&upstream.execution) {
                Some(replayed) => replayed == edge,
                None => edge.resolution == Resolution::Pending,
            };
            if !same {
                let replayed = self.edges.get(&upstream.execution);
                violations.push(format!(
                    "by the event log the edge from {} is {replayed:?}, in its row {edge:?}",
                    upstream.execution
                ));
            }
        }
        violations
    }

    /// Returns the differences between the row and the result of its events.
    pub fn differences(&self, row: &Execution) -> Vec<String> {
        let mut violations = Vec::new();
        let mut same = |what: &str, replayed: String, stored: String| {
            if replayed != stored {
                violations.push(format!("by the event log {what} is {replayed}, in its row {stored}"));
            }
        };
        let until = match row.state {
            State::Delayed { until } => Some(until),
            State::WaitingDependencies
            | State::Waiting
            | State::Active(_)
            | State::Suspended(_)
            | State::Held(_)
            | State::Terminal(_) => None,
        };
        let lease = row.state.lease().map(|lease| lease.id);
        same("the state", format!("{:?}", self.state), format!("{:?}", Some(row.state.name())));
        same("the delay", format!("{:?}", self.until), format!("{until:?}"));
        same("the lease", format!("{:?}", self.live), format!("{lease:?}"));
        same("the version", self.version.to_string(), row.version.to_string());
        same("the epoch", self.epoch.to_string(), row.epoch.to_string());
        same("the generation", self.generation.to_string(), row.detail.generation.to_string());
        same("retries", self.retries.to_string(), row.detail.retries.to_string());
        same("interruptions", self.interruptions.to_string(), row.detail.interruptions.to_string());
        same(
            "interruptions before the last progress",
            self.interruptions_before_progress.to_string(),
            row.detail.interruptions_before_progress.to_string(),
        );
        same("the tags", format!("{:?}", self.tags), format!("{:?}", row.tags));
        if let Some(priority) = self.priority {
            same("the priority", priority.to_string(), row.priority.to_string());
        }
        violations.extend(self.join_differences(row));
        violations.extend(self.recorded.differences(row));
        violations
    }
}
