//! The rules for the files of SQL.

use selvedge_conformance::statements;
use selvedge_postgres::testing;
use std::path::Path;

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql"))
}

#[test]
fn every_file_is_a_statement() {
    // These two are filled where they run.
    let others = ["log/create_day", "log/drop_day"];
    let paths = testing::statements().into_iter().map(|(path, _)| path).chain(others);
    statements::assert_every_file_is_a_statement(folder(), paths);
}

#[test]
fn no_statement_contains_an_unfilled_placeholder() {
    statements::assert_filled(testing::statements().into_iter());
}

#[test]
fn no_statement_compares_a_state_or_a_kind_with_a_bare_number() {
    statements::assert_codes_are_named(folder());
}

#[test]
fn every_statement_says_what_it_locks_and_which_index_it_expects() {
    statements::assert_headers_have(folder(), &["Locks: ", "Index: "]);
}
