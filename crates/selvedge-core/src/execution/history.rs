//! The history of an execution: one line per change, stored in the execution's row and kept as long as the row.
//!
//! Lines are appended as bytes without decoding the earlier ones. Attempts and the receipts of worker reports are
//! derived from the history, so no second table can disagree with it. When the part in the row exceeds
//! [`IN_ROW_LIMIT`], the older lines move to a page of their own ([`History::spill`]), so the cost of a change does not
//! grow with the execution's age. Every change writes the row, so the row keeps few bytes of history: long messages are
//! shortened ([`Fact::shortened`]), and a line that is too long moves to a page at once.

use crate::fact::{self, Fact, Failure, LeaseRef, Next};
use crate::headline::shortened_error;
use crate::state::StateName;
use crate::text::shortened;
use crate::{Name, Outcome, Timestamp};
use serde::{Deserialize, Serialize};

/// The most bytes of history in a row; beyond it, older lines move to a page.
pub const IN_ROW_LIMIT: usize = 8 * 1024;
/// The number of newest lines that stay in the row, and the most bytes that they have. The newest claim and the newest
/// end of an attempt always stay too: a repeated report finds its receipt there. So pages and row are merged by the
/// versions of their lines.
const KEPT_LINES: usize = 16;
const KEPT_BYTES: usize = IN_ROW_LIMIT / 2;
/// The longest message in a line, in bytes. The execution's row has the latest error whole, and the event log all.
pub const LINE_MESSAGE_LIMIT: usize = 1024;

/// A change of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryLine {
    /// The version after the change.
    pub version: u32,
    /// The time of the change.
    pub at: Timestamp,
    /// The operator who caused it, if one did.
    pub actor: Option<Name>,
    pub fact: Fact,
}

/// The encoded history lines of a row.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct History(Vec<u8>);

#[derive(Clone, Debug, PartialEq)]
pub struct AttemptEnd {
    /// The public name of the attempt's outcome.
    pub outcome: &'static str,
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

    fn of(line: &HistoryLine) -> Self {
        let mut history = History::default();
        history.push(line);
        history
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
        let ended = lines.iter().rposition(|line| attempt_end(&line.fact).is_some());
        let encoded: Vec<History> = lines.iter().map(History::of).collect();
        let mut bytes = 0;
        let newest = encoded.iter().rev().take(KEPT_LINES).take_while(|line| {
            bytes += line.0.len();
            bytes <= KEPT_BYTES
        });
        let cut = lines.len() - newest.count();
        let mut page = History::default();
        let mut kept = History::default();
        for (index, line) in encoded.iter().enumerate() {
            let stays = index >= cut || [claimed, ended].contains(&Some(index));
            let part = if stays { &mut kept } else { &mut page };
            part.0.extend_from_slice(&line.0);
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
        Fact::Claimed(fact::Claimed { lease, ttl_ms, .. }) => Some((lease, *ttl_ms)),
        _ => None,
    })
}

/// Returns the lease under which `attempt` ran.
pub fn lease_of(lines: &[HistoryLine], attempt: u32) -> Option<&LeaseRef> {
    lines.iter().rev().find_map(|line| match &line.fact {
        Fact::Claimed(fact::Claimed { lease, .. }) if lease.attempt() == attempt => Some(lease),
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
    fact.recorded().attempt_end()
}

/// Returns the outcome with which a fact ends its execution; none if the execution goes on.
pub fn outcome(fact: &Fact) -> Option<Outcome> {
    state_after(fact)?.outcome()
}

/// Returns the state after a fact; none if the fact does not change the state. The state of an execution at any moment is that of
/// the last line before it for which this returns one.
pub fn state_after(fact: &Fact) -> Option<StateName> {
    fact.recorded().state_after()
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
    pub error: Option<Failure>,
}

/// Returns the attempts in these lines, oldest first. `latest` is the error in the execution's row: the newest attempt that
/// failed with it has it whole, the others have shortened messages.
pub fn attempts(lines: &[HistoryLine], latest: Option<&Failure>) -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = Vec::new();
    for line in lines {
        if let Fact::Claimed(fact::Claimed { lease, .. }) = &line.fact {
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
            attempt.error = line.fact.error();
        }
    }
    let newest = attempts.iter_mut().rev().find_map(|attempt| attempt.error.as_mut());
    if let (Some(error), Some(latest)) = (newest, latest)
        && error.class == latest.class
        && is_beginning(&error.message, &latest.message)
    {
        error.message.clone_from(&latest.message);
    }
    attempts
}

/// Reports whether a line has this message in its short form. Earlier versions did not keep the headline of a trace.
fn is_beginning(line: &str, message: &str) -> bool {
    line == shortened_error(message, LINE_MESSAGE_LIMIT)
        || line == shortened(message.to_owned(), LINE_MESSAGE_LIMIT)
}

/// The public names of the outcomes of attempts.
pub const ATTEMPT_OUTCOMES: [&str; 12] = [
    "completed",
    "failed",
    "timeout",
    "interrupted",
    "delayed",
    "released",
    "suspended",
    "breached",
    "orphaned",
    "revoked",
    "cancelled",
    "expired",
];

/// Returns the public name of the outcome of the attempt that a fact ends; empty if it ends none.
pub fn attempt_outcome(fact: &Fact) -> &'static str {
    attempt_end(fact).map_or("", |(_, end)| end.outcome)
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
            fact: Fact::Tagged(fact::Tagged { set, remove: vec![] }),
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

    /// A history after many attempts that failed with a long message, with all lines in order.
    fn failed(attempts: u32, bytes: usize) -> (History, Vec<HistoryLine>, usize) {
        let (mut history, mut pages, mut largest) = (History::default(), Vec::new(), 0);
        let name = Name::trusted("w");
        for epoch in 1..=attempts {
            let lease = LeaseRef {
                id: crate::LeaseId(uuid::Uuid::nil()),
                epoch,
                worker: name.clone(),
                instance: name.clone(),
            };
            let error = Failure { message: "x".repeat(bytes), class: crate::FailureClass::Transient };
            let next = Next::Delayed(Timestamp::from_micros(1));
            let claimed = Fact::Claimed(fact::Claimed { lease: lease.clone(), ttl_ms: 1, after: None });
            let failed = Fact::Failed(fact::Failed { lease, error, next, digest: epoch.into() });
            for (index, fact) in
                [claimed, failed, Fact::DelayOver(fact::DelayOver {})].into_iter().enumerate()
            {
                let version = epoch * 3 + index as u32;
                let at = Timestamp::from_micros(1);
                history.push(&HistoryLine { version, at, actor: None, fact: fact.shortened() });
                pages.extend(history.spill());
                largest = largest.max(history.as_bytes().len());
            }
        }
        let mut lines = Vec::new();
        for page in pages.into_iter().map(History::from_bytes).chain([history.clone()]) {
            lines.extend(page.lines().expect("decodes"));
        }
        lines.sort_by_key(|line: &HistoryLine| line.version);
        (history, lines, largest)
    }

    #[test]
    fn a_row_keeps_few_bytes_of_history_however_long_its_errors_are() {
        for bytes in [10, 1000, 30_000, 64 * 1024] {
            let (history, lines, largest) = failed(200, bytes);
            assert!(largest <= IN_ROW_LIMIT, "{largest} bytes in the row with errors of {bytes} bytes");
            let versions: Vec<u32> = lines.iter().map(|line| line.version).collect();
            assert_eq!(versions, (3..603).collect::<Vec<_>>());
            let in_row = history.lines().expect("decodes");
            let end = end_of_attempt(&in_row, 199).expect("the receipt of the latest report is in the row");
            assert_eq!(end.digest, Some(200));
            assert!(lease_of(&in_row, 199).is_some(), "the latest claim is in the row");
        }
    }

    #[test]
    fn a_line_that_is_too_long_leaves_the_row_at_once_and_the_receipts_stay() {
        let (mut history, _, _) = failed(3, 10);
        let set = (0..64).map(|number| (format!("tag {number}"), "x".repeat(500))).collect();
        let fact = Fact::Tagged(fact::Tagged { set, remove: vec![] });
        history.push(&HistoryLine { version: 99, at: Timestamp::from_micros(1), actor: None, fact });
        let page = History::from_bytes(history.spill().expect("a page"));
        assert!(page.lines().expect("decodes").iter().any(|line| line.version == 99));
        assert!(history.as_bytes().len() < KEPT_BYTES);
        let in_row = history.lines().expect("decodes");
        assert!(end_of_attempt(&in_row, 2).is_some() && lease_of(&in_row, 2).is_some());
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
