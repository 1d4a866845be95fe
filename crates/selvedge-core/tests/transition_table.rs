//! Walks every cell of the transition table, legal and illegal, through the real rules.
//!
//! Rows of every state, in every variation that a rule looks at, meet the commands of every cause. What they do must be
//! exactly the table: no line that no rule reaches, no change that has no line, and a command that does nothing leaves
//! nothing to save.

mod cells;

use cells::{Cell, Command, Row, commands, name, rows, run};
use selvedge_core::flow::CancelMode;
use selvedge_core::state::StateName;
use selvedge_core::transition::{Cause, TABLE, diagram};
use std::collections::BTreeSet;
use std::path::Path;

/// Every change that the table allows.
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
    // Every command meets every row, so a cell that is illegal is walked as well. Some causes share their commands: each runs
    // once.
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
fn rows_of_every_state_meet_commands_of_every_cause() {
    let met: BTreeSet<Option<StateName>> = rows().iter().map(name).collect();
    let states: BTreeSet<_> = StateName::ALL.into_iter().map(Some).chain([None]).collect();
    assert_eq!(met, states);
    for cause in Cause::ALL {
        assert!(!commands(cause).is_empty(), "{cause:?}");
    }
}

#[test]
fn a_suspended_execution_goes_with_its_flow_unless_only_those_go_that_never_started() {
    let suspended: Vec<Row> = rows()
        .into_iter()
        .filter(|row| {
            name(row) == Some(StateName::Suspended) && row.as_ref().is_some_and(|row| row.flow.is_some())
        })
        .collect();
    assert!(!suspended.is_empty());
    for row in &suspended {
        let cancelled = (Some(StateName::Suspended), Cause::Cancel, StateName::Cancelled);
        assert_eq!(run(row, &Command::CancelMembers(CancelMode::All)), [cancelled]);
        assert_eq!(run(row, &Command::CancelMembers(CancelMode::Pending)), []);
    }
}

#[test]
fn the_diagram_in_the_documentation_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/states.md");
    let text = std::fs::read_to_string(&path).expect("docs/states.md is there");
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
