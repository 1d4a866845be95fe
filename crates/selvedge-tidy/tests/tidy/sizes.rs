//! Files and functions that a reader can hold in mind.

use selvedge_tidy::{Exception, assert_none, compare, files, functions};
use std::collections::BTreeMap;

/// Files of more than 600 lines.
#[rustfmt::skip]
const LONG_FILES: &[Exception] = &[
    ("crates/selvedge-conformance/src/cases/list.rs", 670, "the cases of lists share one population"),
    ("crates/selvedge-postgres/tests/store/plan_cases.rs", 649, "a table: one entry for each statement"),
];

/// Functions of more than 80 lines. A place is a path and a name.
#[rustfmt::skip]
const LONG_FUNCTIONS: &[Exception] = &[
    ("crates/selvedge-conformance/src/cases/execution/lists.rs a_list_returns_the_rows_that_match_every_part_of_its_filter_newest_first", 110, "a table of filters"),
    ("crates/selvedge-conformance/src/invariants/replay/mod.rs end_lease", 96, "one arm for each fact"),
    ("crates/selvedge-conformance/src/invariants/replay/mod.rs next_state", 94, "one arm for each fact"),
    ("crates/selvedge-conformance/src/invariants/replay/record.rs apply", 114, "one arm for each fact"),
    ("crates/selvedge-engine/src/metrics/families.rs of_store", 91, "a table: one entry for each metric"),
    ("crates/selvedge-postgres/tests/store/plan_cases.rs claim_cases", 126, "a table: one entry for each statement"),
    ("crates/selvedge-postgres/tests/store/plan_cases.rs flow_cases", 87, "a table: one entry for each statement"),
    ("crates/selvedge-api/src/code.rs info", 90, "a table: one entry for each code"),
    ("crates/selvedge-server/tests/http/auth/namespaces.rs a_thing_of_another_namespace_is_not_found_whatever_the_call", 82, "a table: one entry for each call"),
    ("crates/selvedge/examples/suite_adapter/actions.rs run_action", 128, "one arm for each action of the suite"),
    ("crates/selvedge/examples/suite_adapter/calls.rs answer", 105, "one arm for each call of the suite"),
];

#[test]
fn rust_files_have_at_most_600_lines() {
    let sizes = files("rs").into_iter().map(|file| (file.path, (1, file.text.lines().count()))).collect();
    assert_none(&compare("lines", 600, &sizes, LONG_FILES));
}

#[test]
fn functions_have_at_most_80_lines() {
    let mut sizes: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for file in files("rs") {
        for function in functions(&file.text) {
            // Functions of one name in a file count as the longest of them.
            let longest = sizes.entry(format!("{} {}", file.path, function.name)).or_default();
            if function.lines > longest.1 {
                *longest = (function.line, function.lines);
            }
        }
    }
    assert_none(&compare("lines", 80, &sizes, LONG_FUNCTIONS));
}
