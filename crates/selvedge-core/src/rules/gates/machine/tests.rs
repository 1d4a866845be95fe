//! Walks every cell of the machine, and compares it with a plain specification.

use super::*;
use crate::ExecutionId;
use crate::gate::{Amounts, Promise};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

fn position(number: u128) -> ClaimOrder {
    (number as i64, ExecutionId(Uuid::from_u128(number)))
}

/// Returns the scans that a gate may have stored: none, and one that need not and one that must start again.
fn stored() -> [Option<Looked>; 3] {
    let looked = |again| Looked { after: position(5), again };
    [None, Some(looked(false)), Some(looked(true))]
}

/// Returns every page that a gate with this scan may take.
fn pages(looked: Option<Looked>) -> Vec<ScanPage> {
    let began = [None, Some(position(5)), Some(position(7))].map(|after| PageStart::behind(after, looked));
    let ends =
        [PageEnd::All, PageEnd::AllAndFull, PageEnd::Full, PageEnd::More(position(9)), PageEnd::Enough];
    let page = |began, end| [false, true].map(|released| ScanPage { began, end, released });
    began.into_iter().flat_map(|began| ends.into_iter().flat_map(move |end| page(began, end))).collect()
}

/// The same rules in other words, one sentence each.
fn specified(looked: Option<Looked>, page: ScanPage) -> Scan {
    let own = page.began == PageStart::Scan;
    let saw_all = matches!(page.end, PageEnd::All | PageEnd::AllAndFull);
    let is_full = matches!(page.end, PageEnd::Full | PageEnd::AllAndFull);
    let more = match page.end {
        PageEnd::More(last) => Some(last),
        PageEnd::All | PageEnd::AllAndFull | PageEnd::Full | PageEnd::Enough => None,
    };
    let Some(known) = looked else {
        // A scan starts with a page from the first execution that leaves some unconsidered.
        let started = more.filter(|_| page.began == PageStart::First);
        let looked = started.map(|after| Looked { after, again: page.released });
        return Scan { looked, repeats: false };
    };
    // A scan ends when nothing is left to consider or to give. Only its own pages and those from the first execution
    // can tell the former.
    if is_full || (saw_all && page.began != PageStart::Elsewhere) {
        // It repeats if it has passed executions that may be released by now.
        return Scan { looked: None, repeats: own && saw_all && (known.again || page.released) };
    }
    // It moves only by its own pages, and must start again if a page released something behind its back, or did not
    // reach its position.
    let after = more.filter(|_| own).unwrap_or(known.after);
    let missed = match page.began {
        PageStart::First => page.released || more.is_some(),
        PageStart::Scan => page.released && more.is_some(),
        PageStart::Elsewhere => false,
    };
    Scan { looked: Some(Looked { after, again: known.again || missed }), repeats: false }
}

#[test]
fn every_page_moves_every_scan_as_specified() {
    for looked in stored() {
        for page in pages(looked) {
            assert_eq!(Scan::after(looked, page), specified(looked, page), "{looked:?} {page:?}");
        }
    }
}

#[test]
fn every_cell_of_standing_and_page_leads_to_the_standings_of_the_table() {
    use GateStanding::{Draining, Full, Open, Promising, Scanning};
    let mut reached: BTreeMap<(bool, &str), BTreeSet<GateStanding>> = BTreeMap::new();
    for looked in stored() {
        for page in pages(looked) {
            let began = match page.began {
                PageStart::First => "first",
                PageStart::Scan => "scan",
                PageStart::Elsewhere => "elsewhere",
            };
            // Executions before the start of a page are still held.
            let may_hold: &[bool] = if page.began == PageStart::First { &[false, true] } else { &[true] };
            for holds in may_hold {
                let standing = GateStanding::after(Scan::after(looked, page), page, *holds);
                reached.entry((looked.is_some(), began)).or_default().insert(standing);
            }
        }
    }
    let table: BTreeMap<(bool, &str), BTreeSet<GateStanding>> = [
        ((false, "first"), vec![Open, Full, Scanning, Promising]),
        ((false, "elsewhere"), vec![Full, Promising]),
        ((true, "first"), vec![Open, Full, Scanning, Promising]),
        ((true, "scan"), vec![Full, Scanning, Promising, Draining]),
        ((true, "elsewhere"), vec![Full, Scanning, Promising]),
    ]
    .into_iter()
    .map(|(from, to)| (from, to.into_iter().collect()))
    .collect();
    assert_eq!(reached, table);
}

#[test]
fn a_gate_that_holds_executions_is_checked_unless_others_give_back() {
    use GateStanding::{Draining, Full, Open, Promising, Scanning};
    let now = Timestamp::from_micros(0);
    let (early, soon, late) = (now.plus_ms(10), now.plus_ms(CHECK_AGAIN_MS), now.plus_ms(90_000));
    for kind in GateKind::ALL {
        for opens_at in [None, Some(early), Some(late)] {
            let at = |standing: GateStanding| standing.check_at(kind, opens_at, now);
            let by_time =
                if kind == GateKind::Budget { Some(now.plus_ms(BUDGET_CHECK_MS)) } else { opens_at };
            assert_eq!(at(Open), None);
            assert_eq!(at(Full), by_time);
            assert_eq!(at(Scanning), Some(now.plus_ms(SCAN_PAUSE_MS)));
            assert_eq!(at(Promising), Some(if opens_at == Some(early) { early } else { soon }));
            assert_eq!(at(Draining), Some(soon));
        }
    }
}

/// The rows of the table, as pictures of its cells: the start of a page (`first`, `scan`), with a `+` if it is thorough; or
/// the standing by which a gate is checked that holds the refused execution.
#[test]
fn every_cell_of_standing_and_occasion_is_as_in_the_table() {
    use GateStanding::{Draining, Full, Open, Promising, Scanning};
    let occasions = [Occasion::GiveBack, Occasion::Refuse, Occasion::Tick, Occasion::Configure];
    let row = |standing| {
        occasions.map(|occasion| match response(standing, occasion) {
            Response::Page { start: PageStart::First, is_thorough: false } => "first",
            Response::Page { start: PageStart::First, is_thorough: true } => "first+",
            Response::Page { start: PageStart::Scan, is_thorough: true } => "scan+",
            Response::Hold(Full) => "full",
            Response::Page { .. } | Response::Hold(_) => "other",
        })
    };
    let table = [
        (Open, ["first", "full", "first+", "first+"]),
        (Full, ["first", "full", "first+", "first+"]),
        (Promising, ["first", "full", "first+", "first+"]),
        (Draining, ["first", "full", "first+", "first+"]),
        (Scanning, ["first", "full", "scan+", "first+"]),
    ];
    for (standing, cells) in table {
        assert_eq!(row(standing), cells, "{standing:?}");
    }
}

#[test]
fn a_stored_gate_stands_as_its_state_says() {
    let looked = Some(Looked { after: position(5), again: false });
    let promise =
        Promise { execution: position(1).1, until: Timestamp::from_micros(1), reserve: Amounts::new() };
    let of = |looked, holds, promised| {
        GateStanding::of(&GateState { looked, holds, promised, ..GateState::default() })
    };
    assert_eq!(of(None, false, Vec::new()), GateStanding::Open);
    assert_eq!(of(None, true, Vec::new()), GateStanding::Full);
    assert_eq!(of(None, true, vec![promise.clone()]), GateStanding::Promising);
    assert_eq!(of(looked, true, vec![promise]), GateStanding::Scanning);
}
