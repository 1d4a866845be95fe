//! Pages that can be read beside the code.

use selvedge_tidy::{File, assert_none, files};

/// The most characters of a line.
const LIMIT: usize = 120;

/// The most characters before a word that stands alone on its line.
const INDENT: usize = 8;

/// Pages whose lines are not wrapped yet.
const NOT_WRAPPED: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "docs/api.md",
    "docs/benchmarks.md",
    "docs/cli.md",
    "docs/comparison.md",
    "docs/configuration.md",
    "docs/flows.md",
    "docs/glossary.md",
    "docs/guarantees.md",
    "docs/guides/README.md",
    "docs/guides/budgets.md",
    "docs/guides/first-flow.md",
    "docs/guides/flows.md",
    "docs/guides/operating.md",
    "docs/guides/sqlite-to-postgres.md",
    "docs/guides/steps.md",
    "docs/guides/testing.md",
    "docs/guides/waiting-for-people.md",
    "docs/guides/workers.md",
    "docs/internals.md",
    "docs/limits.md",
    "docs/metrics.md",
    "docs/operating.md",
    "docs/schedules.md",
    "docs/sdk-python.md",
    "docs/sdk-rust.md",
    "docs/sdk-typescript.md",
    "docs/security.md",
    "docs/sql.md",
    "docs/states.md",
    "docs/web.md",
    "docs/webhooks.md",
    "docs/workers.md",
    "sdk/python/README.md",
    "sdk/suite/README.md",
    "sdk/typescript/README.md",
];

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
    let mut findings = Vec::new();
    for file in files("md") {
        let found = too_long(&file);
        match NOT_WRAPPED.contains(&file.path.as_str()) {
            false => findings.extend(found),
            true if found.is_empty() => {
                findings.push(format!("{}: is wrapped; remove it from the list", file.path))
            }
            true => {}
        }
    }
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
