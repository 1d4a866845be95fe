//! Pages that can be read beside the code.

use selvedge_tidy::{File, assert_none, files};

/// The most characters of a line.
const LIMIT: usize = 120;

/// The most characters before a word that stands alone on its line.
const INDENT: usize = 8;

/// Returns the lines that are too long. Rows of tables, code, and lines that are one word (an address) cannot be wrapped.
fn too_long(file: &File) -> Vec<String> {
    let mut is_code = false;
    let mut findings = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        let length = line.chars().count();
        let longest = line.split(' ').map(|word| word.chars().count()).max().unwrap_or_default();
        let is_one_word = length - longest <= INDENT;
        let is_free = is_code || is_fence || line.trim_start().starts_with('|') || is_one_word;
        if !is_free && length > LIMIT {
            findings.push(format!("{}:{}: {length} characters; wrap the line at {LIMIT}", file.path, at + 1));
        }
    }
    findings
}

#[test]
fn lines_of_pages_have_at_most_120_characters() {
    let findings: Vec<String> = files("md").iter().flat_map(too_long).collect();
    assert_none(&findings);
}

#[test]
fn tables_code_and_addresses_may_be_longer() {
    let long = "word ".repeat(30);
    let address = format!("[1]: https://{}", "x".repeat(130));
    let text = format!("short\n| {long}\n```\n{long}\n```\n{address}\nwords {long}\n");
    let found = too_long(&File { path: "a.md".into(), text });
    assert_eq!(found, ["a.md:7: 156 characters; wrap the line at 120"]);
}
