//! An execution's own history: one line per change, kept in its row and living as long as the row.
//!
//! Lines are appended as bytes; nothing is decoded to append. Attempts and the receipts of worker reports are read from
//! it, so there is no second table that could disagree. When the row's part grows beyond [`IN_ROW_LIMIT`] the older lines
//! move to a page of their own ([`History::spill`]), so that a long life costs each change the same.

use crate::fact::{Fact, LeaseRef, Next};
use crate::{Name, Timestamp};
use serde::{Deserialize, Serialize};

/// How many bytes of history a row carries before older lines move to a page.
pub const IN_ROW_LIMIT: usize = 8 * 1024;
/// How many of the newest lines stay in the row. The newest claim stays in any case, so lines are put in order by their
/// versions when pages and row are read together.
const KEPT_LINES: usize = 16;

/// One line: a change, the version it made, when, and who asked for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryLine {
    /// The version the change made.
    pub version: u32,
    /// When.
    pub at: Timestamp,
    /// Who asked for it, where a person did.
    pub actor: Option<Name>,
    /// What happened.
    pub fact: Fact,
}

/// The lines in the row, encoded.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct History(Vec<u8>);

/// The end of an attempt as its history tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptEnd {
    /// Digest of the report that ended it; none when no report did.
    pub digest: Option<u64>,
    /// What followed.
    pub next: Next,
}

impl History {
    /// History from a row's bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        History(bytes)
    }

    /// The bytes for the row.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Appends a line.
    pub fn push(&mut self, line: &HistoryLine) {
        self.0 = postcard::to_extend(line, std::mem::take(&mut self.0)).unwrap_or_default();
    }

    /// The lines, oldest first.
    pub fn lines(&self) -> Result<Vec<HistoryLine>, postcard::Error> {
        let mut rest = self.0.as_slice();
        let mut lines = Vec::new();
        while !rest.is_empty() {
            let (line, after) = postcard::take_from_bytes(rest)?;
            lines.push(line);
            rest = after;
        }
        Ok(lines)
    }

    /// If the row's part has grown too long, cuts the older lines off and gives them back as a page.
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

/// The newest claim: its lease and time to live.
pub fn newest_claim(lines: &[HistoryLine]) -> Option<(&LeaseRef, i64)> {
    lines.iter().rev().find_map(|line| match &line.fact {
        Fact::Claimed { lease, ttl_ms, .. } => Some((lease, *ttl_ms)),
        _ => None,
    })
}

/// The lease under which `attempt` ran.
pub fn lease_of(lines: &[HistoryLine], attempt: u32) -> Option<&LeaseRef> {
    lines.iter().rev().find_map(|line| match &line.fact {
        Fact::Claimed { lease, .. } if lease.attempt() == attempt => Some(lease),
        _ => None,
    })
}

/// How `attempt` ended.
pub fn end_of_attempt(lines: &[HistoryLine], attempt: u32) -> Option<AttemptEnd> {
    lines
        .iter()
        .rev()
        .find_map(|line| attempt_end(&line.fact).filter(|(of, _)| *of == attempt).map(|(_, end)| end))
}

/// The attempt that a fact ended, and how.
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
        | Fact::Stepped { .. }
        | Fact::TokenKeysRotated { .. }
        | Fact::Held { .. }
        | Fact::Admitted { .. }
        | Fact::GateConfigured { .. }
        | Fact::GateRemoved { .. }
        | Fact::Spent { .. }
        | Fact::LimitReached { .. }
        | Fact::BudgetReset { .. } => return None,
    };
    Some((attempt, AttemptEnd { digest, next }))
}

/// One attempt, as the history tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Its lease.
    pub lease: LeaseRef,
    /// When it was claimed.
    pub started_at: Timestamp,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// The word for how it ended.
    pub outcome: Option<&'static str>,
    /// Its error, if it had one.
    pub error: Option<crate::fact::Failure>,
}

/// The attempts that these lines tell of, oldest first.
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
        Fact::Cancelled { .. } => "cancelled",
        Fact::DeadlinePassed { .. } => "expired",
        // The others end no attempt.
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
    fn a_long_history_moves_its_older_lines_to_pages_and_loses_none() {
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
