//! The table of legal state transitions.
//!
//! Each line lists the states from which a cause may take an execution, and the states to which it may lead. The guard,
//! the diagram in the documentation and the test of every cell are derived from the table. Causes that do not change
//! the state (progress, tags) are listed too.

use crate::state::StateName;
use StateName::{
    Active, Cancelled, Completed, Delayed, Expired, Failed, Held, Skipped, Suspended, Waiting,
    WaitingDependencies,
};
use std::fmt::Write;

/// The cause of a change. In the variants, "it" is the execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A caller submitted the execution.
    Submit,
    /// Its delay ended.
    DelayOver,
    /// A worker claimed it.
    Claim,
    /// Its worker completed it.
    Complete,
    /// Its worker reported a failure.
    Fail,
    /// Its attempt exceeded the attempt timeout.
    AttemptTimeout,
    /// Its lease expired.
    LeaseExpiry,
    /// Its worker put it back until a time.
    Delay,
    /// Its worker put it back, or departed.
    Release,
    /// Its lease was orphaned: the reply to the claim never reached the worker.
    Orphan,
    /// An operator revoked the lease.
    Revoke,
    /// An operator cancelled it, its grace period ended, or its worker acknowledged the request to cancel.
    Cancel,
    /// An operator asked its worker to cancel.
    RequestCancel,
    /// Its deadline passed.
    Deadline,
    /// Its first attempt did not start in time.
    StartBy,
    /// An operator rescheduled it.
    Reschedule,
    /// An operator replayed it.
    Replay,
    /// Its worker reported progress.
    Progress,
    /// An operator changed its priority.
    Prioritise,
    /// An operator changed its tags.
    Tag,
    /// An upstream ended or reopened, and the edge group remains undecided.
    UpstreamChange,
    /// Its edge group decided that it runs or is skipped.
    Join,
    /// An upstream reopened, so the skipped execution may run after all.
    Reopen,
    /// Edges or children were added to it.
    Wire,
    /// Its worker suspended it.
    Suspend,
    /// A signal was delivered to it.
    Signal,
    /// Part of its suspension was fulfilled, and it remains suspended.
    Notice,
    /// Its suspension was fulfilled, or an operator or a timeout resumed it.
    Resume,
    /// A wait of its suspension timed out and ended it.
    SuspensionTimeout,
    /// A waitpoint was created, expired or was revoked.
    Waitpoint,
    /// Its worker recorded a step.
    Step,
    /// A gate refused it and holds it.
    Hold,
    /// The gate that held it released it.
    Admit,
    /// A budget that it spends from is exhausted.
    Breach,
    /// Its lane has a new limit and counts it.
    Adopt,
    /// Its parent awaits its end.
    Await,
    /// A further submission with its debounce key came.
    Debounce,
}

impl Cause {
    pub const ALL: [Cause; 37] = [
        Cause::Submit,
        Cause::DelayOver,
        Cause::Claim,
        Cause::Complete,
        Cause::Fail,
        Cause::AttemptTimeout,
        Cause::LeaseExpiry,
        Cause::Delay,
        Cause::Release,
        Cause::Orphan,
        Cause::Revoke,
        Cause::Cancel,
        Cause::RequestCancel,
        Cause::Deadline,
        Cause::StartBy,
        Cause::Reschedule,
        Cause::Replay,
        Cause::Progress,
        Cause::Prioritise,
        Cause::Tag,
        Cause::UpstreamChange,
        Cause::Join,
        Cause::Reopen,
        Cause::Wire,
        Cause::Suspend,
        Cause::Signal,
        Cause::Notice,
        Cause::Resume,
        Cause::SuspensionTimeout,
        Cause::Waitpoint,
        Cause::Step,
        Cause::Hold,
        Cause::Admit,
        Cause::Breach,
        Cause::Adopt,
        Cause::Await,
        Cause::Debounce,
    ];
}

/// A line of the table: `cause` takes an execution from any state in `from` to any state in `to`.
#[derive(Debug)]
pub struct Transition {
    pub cause: Cause,
    /// The states before the change; empty if the cause creates the execution.
    pub from: &'static [StateName],
    /// The states after the change; empty if the state does not change.
    pub to: &'static [StateName],
}

const RESCHEDULABLE: &[StateName] = &[Waiting, Delayed, Held];
/// The states of an execution that a used-up budget has suspended, until the next claim. Its worker may still end the
/// attempt.
const BREACHED: &[StateName] = &[Suspended, Waiting, Delayed, Held];
const UNSTARTED: &[StateName] = &[WaitingDependencies, Waiting, Delayed, Held];
const LIVE: &[StateName] = &[WaitingDependencies, Waiting, Delayed, Active, Suspended, Held];
const RAN: &[StateName] = &[Completed, Failed, Cancelled, Expired];
const ANY: &[StateName] = &StateName::ALL;

/// The table: one line per cause, and a second one for the ends of attempts that a used-up budget has suspended.
pub const TABLE: &[Transition] = &[
    Transition { cause: Cause::Submit, from: &[], to: &[WaitingDependencies, Waiting, Delayed] },
    Transition { cause: Cause::DelayOver, from: &[Delayed], to: &[Waiting] },
    Transition { cause: Cause::Claim, from: &[Waiting], to: &[Active] },
    Transition { cause: Cause::Complete, from: &[Active], to: &[Completed] },
    Transition { cause: Cause::Complete, from: BREACHED, to: &[Completed] },
    Transition { cause: Cause::Fail, from: &[Active], to: &[Waiting, Delayed, Failed, Cancelled] },
    Transition { cause: Cause::Fail, from: BREACHED, to: &[Waiting, Delayed, Failed] },
    Transition { cause: Cause::AttemptTimeout, from: &[Active], to: &[Waiting, Delayed, Failed, Cancelled] },
    Transition { cause: Cause::LeaseExpiry, from: &[Active], to: &[Waiting, Delayed, Expired, Cancelled] },
    Transition { cause: Cause::Delay, from: &[Active], to: &[Waiting, Delayed, Cancelled] },
    Transition { cause: Cause::Release, from: &[Active], to: &[Waiting, Cancelled] },
    Transition { cause: Cause::Orphan, from: &[Active], to: &[Waiting, Cancelled] },
    Transition { cause: Cause::Revoke, from: &[Active], to: &[Waiting, Cancelled] },
    Transition { cause: Cause::Cancel, from: LIVE, to: &[Cancelled] },
    Transition { cause: Cause::RequestCancel, from: &[Active], to: &[] },
    Transition { cause: Cause::Deadline, from: LIVE, to: &[Expired] },
    Transition { cause: Cause::StartBy, from: UNSTARTED, to: &[Expired] },
    Transition { cause: Cause::Reschedule, from: RESCHEDULABLE, to: &[Waiting, Delayed] },
    Transition { cause: Cause::Replay, from: RAN, to: &[WaitingDependencies, Waiting] },
    Transition { cause: Cause::Progress, from: &[Active], to: &[] },
    Transition { cause: Cause::Prioritise, from: LIVE, to: &[] },
    Transition { cause: Cause::Tag, from: ANY, to: &[] },
    Transition { cause: Cause::UpstreamChange, from: ANY, to: &[] },
    Transition { cause: Cause::Join, from: &[WaitingDependencies], to: &[Waiting, Delayed, Skipped] },
    Transition { cause: Cause::Reopen, from: &[Skipped], to: &[WaitingDependencies] },
    Transition { cause: Cause::Wire, from: ANY, to: &[] },
    Transition { cause: Cause::Suspend, from: &[Active], to: &[Suspended, Cancelled] },
    Transition { cause: Cause::Signal, from: LIVE, to: &[] },
    Transition { cause: Cause::Notice, from: &[Suspended], to: &[] },
    Transition { cause: Cause::Resume, from: &[Suspended], to: &[Waiting] },
    Transition { cause: Cause::SuspensionTimeout, from: &[Suspended], to: &[Failed, Cancelled, Expired] },
    Transition { cause: Cause::Waitpoint, from: ANY, to: &[] },
    Transition { cause: Cause::Step, from: &[Active], to: &[] },
    Transition { cause: Cause::Hold, from: &[Waiting], to: &[Held] },
    Transition { cause: Cause::Admit, from: &[Held], to: &[Waiting] },
    Transition { cause: Cause::Breach, from: &[Active], to: &[Suspended, Failed, Cancelled] },
    Transition { cause: Cause::Adopt, from: &[Active], to: &[] },
    Transition { cause: Cause::Await, from: LIVE, to: &[] },
    Transition { cause: Cause::Debounce, from: &[Delayed], to: &[Delayed] },
];

/// Reports whether `cause` may take an execution from `from` to `to`. `from` is none for an execution that does not
/// exist yet.
pub fn allowed(from: Option<StateName>, cause: Cause, to: StateName) -> bool {
    TABLE.iter().filter(|line| line.cause == cause).any(|line| match from {
        None => line.from.is_empty() && line.to.contains(&to),
        Some(from) => {
            line.from.contains(&from) && if line.to.is_empty() { from == to } else { line.to.contains(&to) }
        }
    })
}

/// Draws the table as a Mermaid state diagram, without the causes that do not change the state.
pub fn diagram() -> String {
    let mut text = String::from("stateDiagram-v2\n");
    let mut draw = |from: &str, to: StateName, cause: Cause| {
        let (to, cause) = (to.as_str(), words(cause));
        writeln!(text, "    {from} --> {to}: {cause}").expect("a string accepts all text");
    };
    for line in TABLE {
        for to in line.to {
            if line.from.is_empty() {
                draw("[*]", *to, line.cause);
            }
            for from in line.from {
                draw(from.as_str(), *to, line.cause);
            }
        }
    }
    text
}

/// Returns the name of a cause as lower-case words.
fn words(cause: Cause) -> String {
    let mut text = String::new();
    for letter in format!("{cause:?}").chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_one_line_and_the_end_of_a_breached_attempt_another() {
        for cause in Cause::ALL {
            let lines = 1 + usize::from(matches!(cause, Cause::Complete | Cause::Fail));
            assert_eq!(TABLE.iter().filter(|line| line.cause == cause).count(), lines, "{cause:?}");
        }
    }

    #[test]
    fn a_terminal_state_changes_only_by_replay_or_reopening() {
        for from in StateName::ALL.into_iter().filter(|state| state.outcome().is_some()) {
            for cause in Cause::ALL {
                for to in StateName::ALL {
                    let legal = allowed(Some(from), cause, to);
                    let expected = match cause {
                        Cause::Replay => from != Skipped && matches!(to, Waiting | WaitingDependencies),
                        Cause::Reopen => from == Skipped && to == WaitingDependencies,
                        Cause::Tag | Cause::UpstreamChange | Cause::Wire | Cause::Waitpoint => to == from,
                        _ => false,
                    };
                    assert_eq!(legal, expected, "{from:?} {cause:?} {to:?}");
                }
            }
        }
    }

    #[test]
    fn only_a_claim_makes_an_execution_active() {
        for cause in Cause::ALL {
            for from in StateName::ALL {
                if allowed(Some(from), cause, Active) && from != Active {
                    assert_eq!((from, cause), (Waiting, Cause::Claim));
                }
            }
            assert!(!allowed(None, cause, Active));
        }
    }
}
