//! The one table of legal changes of state.
//!
//! Each line says: from this state, by this cause, to one of these. The guard, the diagram in the documentation and the
//! test that walks every cell all come from it. A cause that leaves the state as it is (progress, a tag) stands here too.

use crate::state::StateName;
use StateName::{
    Active, Cancelled, Completed, Delayed, Expired, Failed, Held, Skipped, Suspended, Waiting,
    WaitingDependencies,
};
use std::fmt::Write;

/// Why a state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A caller submitted it.
    Submit,
    /// Its delay is over.
    DelayOver,
    /// A worker claimed it.
    Claim,
    /// Its worker completed it.
    Complete,
    /// Its worker failed it.
    Fail,
    /// Its attempt ran too long.
    AttemptTimeout,
    /// Its lease lapsed.
    LeaseExpiry,
    /// Its worker put it back until a time.
    Delay,
    /// Its worker put it back now, or left.
    Release,
    /// The answer to its claim was lost.
    Orphan,
    /// An operator took the lease away.
    Revoke,
    /// An operator cancelled it, or its grace period ended.
    Cancel,
    /// An operator asked its worker to cancel.
    RequestCancel,
    /// Its deadline passed.
    Deadline,
    /// It did not start in time.
    StartBy,
    /// An operator moved its time.
    Reschedule,
    /// An operator ran it again.
    Replay,
    /// Its worker reported progress.
    Progress,
    /// An operator changed its priority.
    Prioritise,
    /// An operator changed its tags.
    Tag,
    /// An upstream ended or was opened again, and that decided nothing.
    UpstreamChange,
    /// Its group of edges decided: it runs, or is skipped.
    Join,
    /// What made it be skipped may be different now.
    Reopen,
    /// Edges or children were added to it.
    Wire,
    /// Its worker suspended it.
    Suspend,
    /// A signal was delivered to it.
    Signal,
    /// Something that it waits for came, and that was not all.
    Notice,
    /// What it waited for has come, or an operator or its timeout let it go on.
    Resume,
    /// It waited for too long.
    SuspensionTimeout,
    /// A waitpoint was made, expired or was revoked.
    Waitpoint,
    /// Its worker recorded a step.
    Step,
    /// A gate refused it.
    Hold,
    /// The gate that held it is open.
    Admit,
    /// A budget that it draws on is used up.
    Breach,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 34] = [
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
    ];
}

/// One line of the table: by `cause`, from any of `from` (none: it did not exist) to any of `to`.
#[derive(Debug)]
pub struct Transition {
    /// Why.
    pub cause: Cause,
    /// From which states; empty where the execution comes into being.
    pub from: &'static [StateName],
    /// To which states; empty where the state stays as it is.
    pub to: &'static [StateName],
}

const WAITING: &[StateName] = &[Waiting, Delayed, Held];
const UNSTARTED: &[StateName] = &[WaitingDependencies, Waiting, Delayed, Held];
const LIVE: &[StateName] = &[WaitingDependencies, Waiting, Delayed, Active, Suspended, Held];
const RAN: &[StateName] = &[Completed, Failed, Cancelled, Expired];
const ANY: &[StateName] = &StateName::ALL;

/// The table.
pub const TABLE: &[Transition] = &[
    Transition { cause: Cause::Submit, from: &[], to: &[WaitingDependencies, Waiting, Delayed] },
    Transition { cause: Cause::DelayOver, from: &[Delayed], to: &[Waiting] },
    Transition { cause: Cause::Claim, from: &[Waiting], to: &[Active] },
    Transition { cause: Cause::Complete, from: &[Active], to: &[Completed] },
    Transition { cause: Cause::Fail, from: &[Active], to: &[Waiting, Delayed, Failed, Cancelled] },
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
    Transition { cause: Cause::Reschedule, from: WAITING, to: &[Waiting, Delayed] },
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
];

/// Whether `cause` may take an execution from `from` (none: it does not exist yet) to `to`.
pub fn allowed(from: Option<StateName>, cause: Cause, to: StateName) -> bool {
    TABLE.iter().filter(|line| line.cause == cause).any(|line| match from {
        None => line.from.is_empty() && line.to.contains(&to),
        Some(from) => {
            line.from.contains(&from) && if line.to.is_empty() { from == to } else { line.to.contains(&to) }
        }
    })
}

/// The table as a Mermaid state diagram. Lines that leave the state as it is are left out.
pub fn diagram() -> String {
    let mut text = String::from("stateDiagram-v2\n");
    let mut draw = |from: &str, to: &str, cause: Cause| {
        writeln!(text, "    {from} --> {to}: {cause:?}").unwrap_or_default();
    };
    for line in TABLE {
        for to in line.to {
            let to = format!("{to:?}");
            if line.from.is_empty() {
                draw("[*]", &to, line.cause);
            }
            for from in line.from {
                draw(&format!("{from:?}"), &to, line.cause);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_stands_in_the_table_exactly_once() {
        for cause in Cause::ALL {
            assert_eq!(TABLE.iter().filter(|line| line.cause == cause).count(), 1, "{cause:?}");
        }
        assert_eq!(TABLE.len(), Cause::ALL.len());
    }

    #[test]
    fn a_terminal_state_changes_only_by_replay_or_the_reopening_it_causes() {
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
    fn only_a_claim_leases() {
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
