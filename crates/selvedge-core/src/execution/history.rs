//! The history of an execution: one line per change, stored in the execution's row and kept as long as the row.
//!
//! Lines are appended as bytes without decoding the earlier ones. Attempts and the receipts of worker reports are
//! derived from the history, so no second table can disagree with it. When the part in the row exceeds
//! [`IN_ROW_LIMIT`], the older lines move to a page of their own ([`History::spill`]), so the cost of a change does not
//! grow with the execution's age.

use crate::fact::{Fact, LeaseRef, Next};
use crate::{Name, Timestamp};
use serde::{Deserialize, Serialize};

/// The most bytes of history in a row; beyond it, older lines move to a page.
pub const IN_ROW_LIMIT: usize = 8 * 1024;
/// The number of newest lines that stay in the row. The newest claim always stays too, so pages and row are merged by
/// the versions of their lines.
const KEPT_LINES: usize = 16;

/// A change of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryLine {
    /// The version after the change.
    pub version: u32,
    /// The time of the change.
    pub at: Timestamp,
    /// The operator who caused it, if one did.
    pub actor: Option<Name>,
    /// The change.
    pub fact: Fact,
}

/// The encoded history lines of a row.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct History(Vec<u8>);

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptEnd {
    /// The digest of the report that ended it; none if no report did.
    pub digest: Option<u64>,
    /// The state that follows.
    pub next: Next,
}

impl History {
    /// Wraps the bytes of a row.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        History(bytes)
    }

    /// Returns the bytes for the row.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Appends a line.
    pub fn push(&mut self, line: &HistoryLine) {
        self.0 =
            postcard::to_extend(line, std::mem::take(&mut self.0)).expect("a history line always serialises");
    }

    /// Decodes the lines, oldest first.
    pub fn lines(&self) -> Result<Vec<HistoryLine>, postcard::Error> {
        let (lines, error) = self.readable_lines();
        error.map_or(Ok(lines), Err)
    }

    /// Decodes the lines up to the first one that is damaged or that a newer version wrote, and returns the reason why that
    /// one is unreadable. The lines behind it cannot be found.
    pub fn readable_lines(&self) -> (Vec<HistoryLine>, Option<postcard::Error>) {
        let mut rest = self.0.as_slice();
        let mut lines = Vec::new();
        while !rest.is_empty() {
            match postcard::take_from_bytes(rest) {
                Ok((line, after)) => {
                    lines.push(line);
                    rest = after;
                }
                Err(error) => return (lines, Some(error)),
            }
        }
        (lines, None)
    }

    /// Removes the older lines if the history exceeds [`IN_ROW_LIMIT`], and returns them as a page.
    pub fn spill(&mut self) -> Option<Vec<u8>> {
        if self.0.len() <= IN_ROW_LIMIT {
            return None;
        }
        let lines = self.lines().ok()?;
        let claimed = lines.iter().rposition(|line| matches!(line.fact, Fact::Claimed { .. }));
        let cut = lines.len().saturating_sub(KEPT_LINES);
        let mut page = History::default();
        let mut kept = History::default();
        for (index, line) in lines.iter().enumerate() {
            let stays = index >= cut || Some(index) == claimed;
            if stays { kept.push(line) } else { page.push(line) }
        }
        if page.0.is_empty() {
            return None;
        }
        *self = kept;
        Some(page.0)
    }
}

/// Returns the lease of the newest claim and its time to live, in milliseconds.
pub fn newest_claim(lines: &[HistoryLine]) -> Option<(&LeaseRef, i64)> {
    lines.iter().rev().find_map(|line| match &line.fact {
        Fact::Claimed { lease, ttl_ms, .. } => Some((lease, *ttl_ms)),
        _ => None,
    })
}

/// Returns the lease under which `attempt` ran.
pub fn lease_of(lines: &[HistoryLine], attempt: u32) -> Option<&LeaseRef> {
    lines.iter().rev().find_map(|line| match &line.fact {
        Fact::Claimed { lease, .. } if lease.attempt() == attempt => Some(lease),
        _ => None,
    })
}

/// Returns the end of `attempt`.
pub fn end_of_attempt(lines: &[HistoryLine], attempt: u32) -> Option<AttemptEnd> {
    lines
        .iter()
        .rev()
        .find_map(|line| attempt_end(&line.fact).filter(|(of, _)| *of == attempt).map(|(_, end)| end))
}

/// Returns the attempt that a fact ended, and its end.
pub fn attempt_end(fact: &Fact) -> Option<(u32, AttemptEnd)> {
    use crate::Outcome::{Cancelled, Completed, Expired};
    let (attempt, digest, next) = match fact {
        Fact::Completed { attempt, digest } => (*attempt, Some(*digest), Next::Terminal(Completed)),
        Fact::Failed { lease, next, digest, .. } | Fact::Delayed { lease, next, digest } => {
            (lease.attempt(), Some(*digest), *next)
        }
        Fact::Released { lease, next, digest } => (lease.attempt(), *digest, *next),
        Fact::Suspended { suspension, next, digest } => (suspension.lease.attempt(), Some(*digest), *next),
        Fact::TimedOut { lease, next }
        | Fact::Breached { lease, next, .. }
        | Fact::LeaseExpired { lease, next }
        | Fact::Orphaned { lease, next }
        | Fact::Revoked { lease, next, .. } => (lease.attempt(), None, *next),
        Fact::Cancelled { lease: Some(lease), .. } => (lease.attempt(), None, Next::Terminal(Cancelled)),
        Fact::CancelAcknowledged { lease, digest, .. } => {
            (lease.attempt(), Some(*digest), Next::Terminal(Cancelled))
        }
        Fact::DeadlinePassed { lease: Some(lease) } => (lease.attempt(), None, Next::Terminal(Expired)),
        Fact::Submitted { .. }
        | Fact::DelayOver
        | Fact::Claimed { .. }
        | Fact::Cancelled { lease: None, .. }
        | Fact::CancelRequested { .. }
        | Fact::DeadlinePassed { lease: None }
        | Fact::StartByPassed
        | Fact::Rescheduled { .. }
        | Fact::Replayed { .. }
        | Fact::Progressed { .. }
        | Fact::Prioritised { .. }
        | Fact::Tagged { .. }
        | Fact::Renewed { .. }
        | Fact::DrainRequested { .. }
        | Fact::SubmittedWaitingDependencies { .. }
        | Fact::UpstreamChanged { .. }
        | Fact::Joined { .. }
        | Fact::Reopened { .. }
        | Fact::ReplayedWaitingDependencies { .. }
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
        | Fact::Held { .. }
        | Fact::Admitted { .. }
        | Fact::GateConfigured { .. }
        | Fact::GateRemoved { .. }
        | Fact::Spent { .. }
        | Fact::LimitReached { .. }
        | Fact::BudgetReset { .. }
        | Fact::Adopted { .. }
        | Fact::EndAwaited => return None,
    };
    Some((attempt, AttemptEnd { digest, next }))
}

/// An attempt, derived from the history.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The lease under which it ran.
    pub lease: LeaseRef,
    /// The time of the claim.
    pub started_at: Timestamp,
    /// The time of its end; none while it runs.
    pub ended_at: Option<Timestamp>,
    /// The public name of its outcome.
    pub outcome: Option<&'static str>,
    /// The reported error, if it failed.
    pub error: Option<crate::fact::Failure>,
}

/// Returns the attempts in these lines, oldest first.
pub fn attempts(lines: &[HistoryLine]) -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = Vec::new();
    for line in lines {
        if let Fact::Claimed { lease, .. } = &line.fact {
            attempts.push(Attempt {
                lease: lease.clone(),
                started_at: line.at,
                ended_at: None,
                outcome: None,
                error: None,
            });
        } else if let Some((index, _)) = attempt_end(&line.fact)
            && let Some(attempt) = attempts.iter_mut().find(|attempt| attempt.lease.attempt() == index)
        {
            attempt.ended_at = Some(line.at);
            attempt.outcome = Some(attempt_outcome(&line.fact));
            if let Fact::Failed { error, .. } = &line.fact {
                attempt.error = Some(error.clone());
            }
        }
    }
    attempts
}

fn attempt_outcome(fact: &Fact) -> &'static str {
    match fact {
        Fact::Completed { .. } => "completed",
        Fact::Failed { .. } => "failed",
        Fact::TimedOut { .. } => "timeout",
        Fact::LeaseExpired { .. } => "interrupted",
        Fact::Delayed { .. } => "delayed",
        Fact::Released { .. } => "released",
        Fact::Suspended { .. } => "suspended",
        Fact::Breached { .. } => "breached",
        Fact::Orphaned { .. } => "orphaned",
        Fact::Revoked { .. } => "revoked",
        Fact::Cancelled { .. } | Fact::CancelAcknowledged { .. } => "cancelled",
        Fact::DeadlinePassed { .. } => "expired",
        // No other fact ends an attempt.
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(version: u32) -> HistoryLine {
        let set = [("note".to_string(), "x".repeat(200))].into();
        HistoryLine {
            version,
            at: Timestamp::from_micros(1),
            actor: None,
            fact: Fact::Tagged { set, remove: vec![] },
        }
    }

    #[test]
    fn a_long_history_moves_older_lines_to_pages_and_loses_none() {
        let mut history = History::default();
        let mut pages = Vec::new();
        for version in 1..=500 {
            history.push(&line(version));
            pages.extend(history.spill());
            assert!(history.as_bytes().len() <= IN_ROW_LIMIT);
        }
        assert!(pages.len() > 1);
        let mut versions = Vec::new();
        for page in pages.into_iter().map(History::from_bytes).chain([history]) {
            versions.extend(page.lines().expect("decodes").iter().map(|line| line.version));
        }
        assert_eq!(versions, (1..=500).collect::<Vec<_>>());
    }

    #[test]
    fn a_damaged_history_is_an_error_and_not_a_default() {
        let mut history = History::default();
        history.push(&line(1));
        let mut bytes = history.as_bytes().to_vec();
        bytes.truncate(bytes.len() - 3);
        assert!(History::from_bytes(bytes).lines().is_err());
    }
}
