//! The lock order in ARCHITECTURE.md is that of the code.

use selvedge_core::driver::Stage;
use std::path::Path;

const BEGIN: &str = "<!-- generated: the lock order -->\n";
const END: &str = "<!-- end of the lock order -->";

/// Returns the order as a numbered list.
fn documented() -> String {
    let rows = Stage::ALL.iter().copied().filter_map(Stage::rows);
    rows.zip(1..).map(|(rows, number)| format!("{number}. {rows}\n")).collect()
}

#[test]
fn the_lock_order_in_the_documentation_is_that_of_the_stages() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let text = std::fs::read_to_string(&path).expect("ARCHITECTURE.md exists");
    let (before, rest) = text.split_once(BEGIN).expect("the order begins");
    let (written, after) = rest.split_once(END).expect("the order ends");
    if std::env::var_os("SELVEDGE_REGENERATE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}\n{}\n{END}{after}", documented()))
            .expect("ARCHITECTURE.md is written");
    } else {
        let hint = "ARCHITECTURE.md is out of date; run the test once with SELVEDGE_REGENERATE=1";
        assert_eq!(written.trim(), documented().trim(), "{hint}");
    }
}

#[test]
fn the_stages_are_listed_in_their_order() {
    assert!(Stage::ALL.is_sorted());
}
