//! ARCHITECTURE.md and the other pages for developers describe the tree as it is.

use selvedge_tidy::{File, assert_none, crates, files, read, root};
use std::collections::BTreeSet;

const PAGE: &str = "ARCHITECTURE.md";
/// The most lines of the page.
const LINES: usize = 300;

/// Returns the section below a heading, with the number of its first line.
fn section<'a>(page: &'a str, heading: &str) -> Vec<(usize, &'a str)> {
    let lines = page.lines().enumerate().map(|(at, line)| (at + 1, line));
    let inside = lines.skip_while(|(_, line)| *line != heading).skip(1);
    let section: Vec<_> = inside.take_while(|(_, line)| !line.starts_with("## ")).collect();
    assert!(!section.is_empty(), "{PAGE}:1: has no section {heading:?}");
    section
}

/// Returns the words between backticks.
fn code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[test]
fn the_code_map_names_every_crate_and_only_files_that_exist() {
    let page = read(PAGE);
    let mut missing: BTreeSet<String> = crates().into_iter().collect();
    let mut findings = Vec::new();
    let mut name = "";
    let map = section(&page, "## Code map").into_iter().filter(|(_, line)| line.starts_with(['-', ' ']));
    for (at, line) in map {
        let mut words = code(line);
        if line.starts_with("- ") {
            name = words.next().unwrap_or_default();
            if !missing.remove(name) {
                findings.push(format!(
                    "{PAGE}:{at}: crates/{name} does not exist, or is there twice; correct the code map"
                ));
            }
        }
        let paths = words.filter(|path| path.ends_with(".rs") || path.ends_with('/'));
        for path in paths.filter(|path| !root().join(format!("crates/{name}/src/{path}")).exists()) {
            findings
                .push(format!("{PAGE}:{at}: crates/{name}/src/{path} does not exist; correct the code map"));
        }
    }
    findings.extend(missing.iter().map(|name| format!("{PAGE}:1: the code map lacks crates/{name}; add it")));
    assert_none(&findings);
}

/// Returns the names of the reconcilers. Each is the name of a file and the first word of its purpose.
fn reconcilers() -> BTreeSet<String> {
    let name = |file: File| {
        let name = file.path.strip_prefix("crates/selvedge-engine/src/reconcilers/")?.strip_suffix(".rs")?;
        file.text.starts_with(&format!("//! `{name}`: ")).then(|| name.to_owned())
    };
    files("rs").into_iter().filter_map(name).collect()
}

#[test]
fn the_reconcilers_of_the_documents_are_those_of_the_tree() {
    let reconcilers = reconcilers();
    let mut findings = Vec::new();
    for (path, begin, at_most) in [(PAGE, &["- ", "  "][..], usize::MAX), ("docs/operating.md", &["| `"], 1)]
    {
        let page = read(path);
        let lines = section(&page, "## Reconcilers");
        let mut named = BTreeSet::new();
        for (at, line) in lines.iter().filter(|(_, line)| begin.iter().any(|begin| line.starts_with(begin))) {
            for name in code(line).take(at_most) {
                named.insert(name.to_owned());
                if !reconcilers.contains(name) {
                    findings.push(format!("{path}:{at}: reconcilers/ has no {name}; correct the list"));
                }
            }
        }
        let missing = reconcilers.difference(&named);
        findings.extend(missing.map(|name| format!("{path}:{}: the list lacks {name}; add it", lines[0].0)));
    }
    assert_none(&findings);
}

#[test]
fn every_rust_file_that_the_pages_for_developers_name_exists() {
    let sources = files("rs");
    let mut findings = Vec::new();
    for path in [PAGE, "CONTRIBUTING.md", "docs/internals.md"] {
        for (at, line) in read(path).lines().enumerate() {
            let named = code(line).filter(|word| word.ends_with(".rs") && !word.contains('<'));
            let exists = |name: &str| {
                sources.iter().any(|file| format!("/{}", file.path).ends_with(&format!("/{name}")))
            };
            let missing = named.filter(|name| !exists(name));
            findings.extend(
                missing.map(|name| format!("{path}:{}: {name} does not exist; correct the page", at + 1)),
            );
        }
    }
    assert_none(&findings);
}

#[test]
fn the_page_stays_short() {
    let lines = read(PAGE).lines().count();
    assert!(lines < LINES, "{PAGE}:1: {lines} lines, fewer than {LINES}; move details to docs/internals.md");
}
