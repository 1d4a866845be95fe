//! The machine of a gate that holds executions: what happens to it, how it answers, and when it is checked again.
//!
//! A gate releases held executions in pages: bounded parts of a scan in claim order. A scan that takes several pages
//! stores its position. Everything here is a function of its arguments; [`release`](super::release) takes the page and
//! stores the result.
//!
//! [`response`] is the table: how a gate answers in each standing. A page then moves the scan ([`Scan::after`]) and leads
//! to the next standing ([`GateStanding::after`]).

use super::BUDGET_CHECK_MS;
use crate::Timestamp;
use crate::execution::ClaimOrder;
use crate::gate::{GateKind, GateState, Looked};

#[cfg(test)]
mod tests;

/// Time after which an open gate that holds executions is checked again, in milliseconds.
pub(super) const CHECK_AGAIN_MS: i64 = 1000;
/// Pause between the pages of a scan, in milliseconds.
const SCAN_PAUSE_MS: i64 = 20;

/// Something that happens to a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// A slot or an amount was given back, by a call that a worker may wait for.
    GiveBack,
    /// The gate refused an execution of a claim.
    Refuse,
    /// A reconciler or an operator checks the gate.
    Tick,
    /// An operator configured the gate, or reset its budget.
    Configure,
}

/// The answer of a gate to an occasion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// It takes a page of its held executions. A thorough page also considers executions of a gate whose recorded bounds
    /// say that nothing can be released; only for callers that are not latency-critical.
    Page { start: PageStart, is_thorough: bool },
    /// It holds the execution, and is checked no later than a gate in this standing.
    Hold(GateStanding),
}

/// The table: the answer of a gate in each standing to each occasion.
pub(super) const fn response(standing: GateStanding, occasion: Occasion) -> Response {
    use GateStanding::{Draining, Full, Open, Promising, Scanning};
    match (occasion, standing) {
        // A page from the first behind the back of a scan makes the scan repeat.
        (Occasion::GiveBack, Open | Full | Promising | Draining | Scanning) => {
            Response::Page { start: PageStart::First, is_thorough: false }
        }
        (Occasion::Configure, Open | Full | Promising | Draining | Scanning)
        | (Occasion::Tick, Open | Full | Promising | Draining) => {
            Response::Page { start: PageStart::First, is_thorough: true }
        }
        (Occasion::Tick, Scanning) => Response::Page { start: PageStart::Scan, is_thorough: true },
        // Executions that were held before have a check of their own, and the earlier of both counts.
        (Occasion::Refuse, Open | Full | Promising | Draining | Scanning) => Response::Hold(Full),
    }
}

/// A part of a scan over the executions that a gate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScanPage {
    pub began: PageStart,
    pub end: PageEnd,
    /// It released executions. They have not taken slots yet. If they never do, executions that the scan has passed may
    /// be released.
    pub released: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageStart {
    /// The first held execution.
    First,
    /// The position of the stored scan.
    Scan,
    /// Another position: the transaction has moved or ended the scan since it loaded the page.
    Elsewhere,
}

impl PageStart {
    /// Returns the start of a page that was loaded from behind `after`.
    pub fn behind(after: Option<ClaimOrder>, looked: Option<Looked>) -> PageStart {
        match after {
            None => PageStart::First,
            Some(after) if looked.is_some_and(|looked| looked.after == after) => PageStart::Scan,
            Some(_) => PageStart::Elsewhere,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageEnd {
    /// All held executions behind its start were considered.
    All,
    /// All were considered, and the gate is full.
    AllAndFull,
    /// Nothing can be released until a slot or an amount is given back, or a promise ends.
    Full,
    /// The page ended at this position. Executions behind it may ask for less than those that were refused.
    More(ClaimOrder),
    /// Enough was released, or no further execution was loaded.
    Enough,
}

/// The scan after a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scan {
    /// The progress to store; none if no page follows.
    pub looked: Option<Looked>,
    /// The scan ended and must start again: executions that it passed may be released by now.
    pub repeats: bool,
}

impl Scan {
    const NONE: Scan = Scan { looked: None, repeats: false };

    fn at(after: ClaimOrder, again: bool) -> Scan {
        Scan { looked: Some(Looked { after, again }), repeats: false }
    }

    /// Returns the scan after a page of a gate whose stored scan is `looked`.
    pub fn after(looked: Option<Looked>, page: ScanPage) -> Scan {
        let Some(Looked { after, again }) = looked else {
            return match (page.began, page.end) {
                (PageStart::First, PageEnd::More(last)) => Scan::at(last, page.released),
                (PageStart::First, PageEnd::All | PageEnd::AllAndFull | PageEnd::Full | PageEnd::Enough)
                | (PageStart::Scan | PageStart::Elsewhere, _) => Scan::NONE,
            };
        };
        match (page.began, page.end) {
            (PageStart::Scan, PageEnd::More(last)) => Scan::at(last, again || page.released),
            (PageStart::Scan, PageEnd::Enough) => Scan::at(after, again),
            (PageStart::Scan, PageEnd::All | PageEnd::AllAndFull) => {
                Scan { looked: None, repeats: again || page.released }
            }
            (PageStart::Scan, PageEnd::Full) => Scan::NONE,
            (PageStart::First, PageEnd::More(_)) => Scan::at(after, true),
            (PageStart::First, PageEnd::Enough) => Scan::at(after, again || page.released),
            (PageStart::First, PageEnd::All | PageEnd::AllAndFull | PageEnd::Full) => Scan::NONE,
            (PageStart::Elsewhere, PageEnd::AllAndFull | PageEnd::Full) => Scan::NONE,
            (PageStart::Elsewhere, PageEnd::All | PageEnd::More(_) | PageEnd::Enough) => {
                Scan::at(after, again)
            }
        }
    }
}

/// The thing that a gate waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GateStanding {
    /// Nothing: it holds nothing.
    Open,
    /// Slots, amounts or starts of others. Whoever gives a slot or an amount back releases held executions.
    Full,
    /// The next page of its scan.
    Scanning,
    /// The executions that it has released: they may never start, and then give nothing back.
    Promising,
    /// Its next scan: executions that the last one passed may be released.
    Draining,
}

impl GateStanding {
    /// Returns the standing of a gate between two transactions. A full gate that has promised nothing is not told from one
    /// whose next scan is due: both answer alike.
    pub fn of(state: &GateState) -> GateStanding {
        match state {
            GateState { looked: Some(_), .. } => GateStanding::Scanning,
            GateState { holds: false, .. } => GateStanding::Open,
            GateState { promised, .. } if promised.is_empty() => GateStanding::Full,
            _ => GateStanding::Promising,
        }
    }

    /// Returns the standing after a page. `holds`: the gate may hold executions after it.
    pub fn after(scan: Scan, page: ScanPage, holds: bool) -> GateStanding {
        let waits_for_others = match page.end {
            PageEnd::All | PageEnd::AllAndFull | PageEnd::Full => !page.released,
            PageEnd::More(_) | PageEnd::Enough => false,
        };
        match scan {
            _ if !holds => GateStanding::Open,
            Scan { looked: Some(_), .. } => GateStanding::Scanning,
            Scan { repeats: true, .. } => GateStanding::Draining,
            _ if waits_for_others => GateStanding::Full,
            _ => GateStanding::Promising,
        }
    }

    /// Returns the time at which a reconciler checks the gate for the executions that it holds. `opens_at` is the time
    /// at which its window has room again.
    pub fn check_at(self, kind: GateKind, opens_at: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let soon = now.plus_ms(CHECK_AGAIN_MS);
        match self {
            GateStanding::Open => None,
            // A configuration change may open all parts of a budget at once, without locking them.
            GateStanding::Full if kind == GateKind::Budget => Some(now.plus_ms(BUDGET_CHECK_MS)),
            GateStanding::Full => opens_at,
            GateStanding::Scanning => Some(now.plus_ms(SCAN_PAUSE_MS)),
            GateStanding::Promising => Some(opens_at.map_or(soon, |at| at.min(soon))),
            GateStanding::Draining => Some(soon),
        }
    }
}
