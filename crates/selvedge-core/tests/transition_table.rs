//! Checks every cell of the transition table, legal and illegal, with the real rules.
//!
//! The commands of every cause run on rows of every state, in every variation that a rule distinguishes. Together their
//! changes must be exactly the table: every line is reached, every change has a line, and a command without effect
//! saves nothing.

mod cells;

use cells::{Cell, Command, Row, commands, name, rows, run};
use selvedge_core::flow::CancelMode;
use selvedge_core::state::StateName;
use selvedge_core::transition::{Cause, TABLE, diagram};
use std::collections::BTreeSet;
use std::path::Path;

/// Returns every change that the table allows.
fn table() -> BTreeSet<Cell> {
    let mut cells = BTreeSet::new();
    for line in TABLE {
        let from: Vec<Option<StateName>> = match line.from {
            [] => vec![None],
            states => states.iter().copied().map(Some).collect(),
        };
        for from in from {
            let to: Vec<StateName> = match line.to {
                [] => from.into_iter().collect(),
                states => states.to_vec(),
            };
            cells.extend(to.into_iter().map(|to| (from, line.cause, to)));
        }
    }
    cells
}

#[test]
fn the_rules_make_exactly_the_changes_that_the_table_allows() {
    let mut made: BTreeSet<Cell> = BTreeSet::new();
    let (rows, commands) = (rows(), Cause::ALL.map(commands).concat());
    let mut run_before: BTreeSet<String> = BTreeSet::new();
    // Every command runs on every row, so illegal cells are checked as well. Causes share commands; each runs once.
    for command in commands.iter().filter(|command| run_before.insert(format!("{command:?}"))) {
        for row in &rows {
            made.extend(run(row, command));
        }
    }
    let table = table();
    let missing: Vec<&Cell> = table.difference(&made).collect();
    let unlisted: Vec<&Cell> = made.difference(&table).collect();
    assert!(missing.is_empty(), "no rule reaches {missing:?}");
    assert!(unlisted.is_empty(), "the table does not allow {unlisted:?}");
}

#[test]
fn there_are_rows_of_every_state_and_commands_of_every_cause() {
    let met: BTreeSet<Option<StateName>> = rows().iter().map(name).collect();
    let states: BTreeSet<_> = StateName::ALL.into_iter().map(Some).chain([None]).collect();
    assert_eq!(met, states);
    for cause in Cause::ALL {
        assert!(!commands(cause).is_empty(), "{cause:?}");
    }
}

#[test]
fn cancelling_a_flow_ends_a_suspended_execution_unless_only_unstarted_members_are_cancelled() {
    let suspended: Vec<Row> = rows()
        .into_iter()
        .filter(|row| {
            name(row) == Some(StateName::Suspended) && row.as_ref().is_some_and(|row| row.flow.is_some())
        })
        .collect();
    assert!(!suspended.is_empty());
    for row in &suspended {
        let cancelled = (Some(StateName::Suspended), Cause::Cancel, StateName::Cancelled);
        let made = run(row, &Command::CancelMembers(CancelMode::All));
        assert_eq!(made.first(), Some(&cancelled));
        assert!(
            made[1..].iter().all(|(from, _, to)| *from == Some(*to)),
            "only waitpoints close after it: {made:?}"
        );
        assert_eq!(run(row, &Command::CancelMembers(CancelMode::Pending)), []);
    }
}

#[test]
fn the_diagram_in_the_documentation_matches_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/states.md");
    let text = std::fs::read_to_string(&path).expect("docs/states.md exists");
    let (before, rest) = text.split_once("```mermaid\n").expect("it has a diagram");
    let (drawn, after) = rest.split_once("```").expect("the diagram ends");
    if std::env::var_os("SELVEDGE_REGENERATE").is_some() {
        let text = format!("{before}```mermaid\n{}```{after}", diagram());
        std::fs::write(&path, text).expect("docs/states.md is written");
    } else {
        let hint = "docs/states.md is out of date; run the test once with SELVEDGE_REGENERATE=1";
        assert_eq!(drawn, diagram(), "{hint}");
    }
}
