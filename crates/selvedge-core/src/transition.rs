//! The one table of legal changes of state.
//!
//! Each line says: from this state, by this cause, to one of these. The guard, the diagram in the documentation and the
//! test that walks every cell all come from it. A cause that leaves the state as it is (progress, a tag) stands here too.

use crate::state::StateName;
use StateName::{
    Blocked, Cancelled, Delayed, Expired, Failed, Held, Leased, Ready, Skipped, Success, Suspended,
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
    Lapse,
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
    Hear,
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
        Cause::Lapse,
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
        Cause::Hear,
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
pub struct Line {
    /// Why.
    pub cause: Cause,
    /// From which states; empty where the execution comes into being.
    pub from: &'static [StateName],
    /// To which states; empty where the state stays as it is.
    pub to: &'static [StateName],
}

const WAITING: &[StateName] = &[Ready, Delayed, Held];
const UNSTARTED: &[StateName] = &[Blocked, Ready, Delayed, Held];
const LIVE: &[StateName] = &[Blocked, Ready, Delayed, Leased, Suspended, Held];
const RAN: &[StateName] = &[Success, Failed, Cancelled, Expired];
const ANY: &[StateName] = &StateName::ALL;

/// The table.
pub const TABLE: &[Line] = &[
    Line { cause: Cause::Submit, from: &[], to: &[Blocked, Ready, Delayed] },
    Line { cause: Cause::DelayOver, from: &[Delayed], to: &[Ready] },
    Line { cause: Cause::Claim, from: &[Ready], to: &[Leased] },
    Line { cause: Cause::Complete, from: &[Leased], to: &[Success] },
    Line { cause: Cause::Fail, from: &[Leased], to: &[Ready, Delayed, Failed, Cancelled] },
    Line { cause: Cause::AttemptTimeout, from: &[Leased], to: &[Ready, Delayed, Failed, Cancelled] },
    Line { cause: Cause::Lapse, from: &[Leased], to: &[Ready, Delayed, Expired, Cancelled] },
    Line { cause: Cause::Delay, from: &[Leased], to: &[Ready, Delayed, Cancelled] },
    Line { cause: Cause::Release, from: &[Leased], to: &[Ready, Cancelled] },
    Line { cause: Cause::Orphan, from: &[Leased], to: &[Ready, Cancelled] },
    Line { cause: Cause::Revoke, from: &[Leased], to: &[Ready, Cancelled] },
    Line { cause: Cause::Cancel, from: LIVE, to: &[Cancelled] },
    Line { cause: Cause::RequestCancel, from: &[Leased], to: &[] },
    Line { cause: Cause::Deadline, from: LIVE, to: &[Expired] },
    Line { cause: Cause::StartBy, from: UNSTARTED, to: &[Expired] },
    Line { cause: Cause::Reschedule, from: WAITING, to: &[Ready, Delayed] },
    Line { cause: Cause::Replay, from: RAN, to: &[Blocked, Ready] },
    Line { cause: Cause::Progress, from: &[Leased], to: &[] },
    Line { cause: Cause::Prioritise, from: LIVE, to: &[] },
    Line { cause: Cause::Tag, from: ANY, to: &[] },
    Line { cause: Cause::Hear, from: ANY, to: &[] },
    Line { cause: Cause::Join, from: &[Blocked], to: &[Ready, Delayed, Skipped] },
    Line { cause: Cause::Reopen, from: &[Skipped], to: &[Blocked] },
    Line { cause: Cause::Wire, from: ANY, to: &[] },
    Line { cause: Cause::Suspend, from: &[Leased], to: &[Suspended, Cancelled] },
    Line { cause: Cause::Signal, from: LIVE, to: &[] },
    Line { cause: Cause::Notice, from: &[Suspended], to: &[] },
    Line { cause: Cause::Resume, from: &[Suspended], to: &[Ready] },
    Line { cause: Cause::SuspensionTimeout, from: &[Suspended], to: &[Failed, Cancelled, Expired] },
    Line { cause: Cause::Waitpoint, from: ANY, to: &[] },
    Line { cause: Cause::Step, from: &[Leased], to: &[] },
    Line { cause: Cause::Hold, from: &[Ready], to: &[Held] },
    Line { cause: Cause::Admit, from: &[Held], to: &[Ready] },
    Line { cause: Cause::Breach, from: &[Leased], to: &[Suspended, Failed, Cancelled] },
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
                        Cause::Replay => from != Skipped && matches!(to, Ready | Blocked),
                        Cause::Reopen => from == Skipped && to == Blocked,
                        Cause::Tag | Cause::Hear | Cause::Wire | Cause::Waitpoint => to == from,
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
                if allowed(Some(from), cause, Leased) && from != Leased {
                    assert_eq!((from, cause), (Ready, Cause::Claim));
                }
            }
            assert!(!allowed(None, cause, Leased));
        }
    }
}
