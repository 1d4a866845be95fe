//! Dependencies between crates point one way.

use selvedge_tidy::{assert_none, crates, read};
use std::collections::BTreeSet;

/// Each crate, the crates that its product code may use, and those that only its tests may use.
const EDGES: &[(&str, &[&str], &[&str])] = &[
    (
        "selvedge",
        &["api", "client", "core", "engine", "memory", "postgres", "sqlite", "store"],
        &["selvedge", "server"],
    ),
    ("selvedge-api", &["api-derive", "core"], &[]),
    ("selvedge-api-derive", &[], &[]),
    ("selvedge-bench", &["core", "engine", "postgres", "server", "sqlite", "store"], &[]),
    ("selvedge-cli", &["selvedge", "api", "client", "core", "server", "store"], &["conformance"]),
    ("selvedge-client", &["api"], &[]),
    ("selvedge-conformance", &["core", "store"], &[]),
    ("selvedge-core", &[], &[]),
    ("selvedge-drawing", &["core"], &[]),
    ("selvedge-engine", &["api", "core", "store"], &["conformance", "engine", "memory"]),
    ("selvedge-memory", &["core", "store"], &["conformance"]),
    ("selvedge-postgres", &["core", "store"], &["conformance", "engine", "system-tests"]),
    (
        "selvedge-server",
        &["api", "core", "drawing", "engine"],
        &["conformance", "memory", "postgres", "sqlite", "system-tests"],
    ),
    ("selvedge-sqlite", &["core", "store"], &["conformance"]),
    ("selvedge-store", &["core"], &[]),
    ("selvedge-system-tests", &["conformance", "engine", "postgres"], &[]),
    ("selvedge-tidy", &[], &[]),
];

/// Returns the crates of the workspace that a manifest names in a section, each with its line.
fn named(manifest: &str, section: &str) -> Vec<(usize, String)> {
    let mut is_inside = false;
    let mut found = Vec::new();
    for (at, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            is_inside = line == format!("[{section}]");
        }
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        if is_inside && (name == "selvedge" || name.starts_with("selvedge-")) {
            found.push((at + 1, name.to_owned()));
        }
    }
    found
}

#[test]
fn crates_depend_only_on_the_crates_below_them() {
    let mut findings = Vec::new();
    for name in crates() {
        let path = format!("crates/{name}/Cargo.toml");
        let Some((_, product, tests)) = EDGES.iter().find(|(of, ..)| *of == name) else {
            findings.push(format!("{path}:1: the crate is not in the table of edges; add what it may use"));
            continue;
        };
        let manifest = read(&path);
        for (section, allowed) in [("dependencies", product), ("dev-dependencies", tests)] {
            let mut unused: BTreeSet<String> = allowed.iter().map(|short| full(short)).collect();
            for (line, used) in named(&manifest, section) {
                if !unused.remove(&used) {
                    findings.push(format!(
                        "{path}:{line}: {name} may not use {used} in [{section}]; move the code instead"
                    ));
                }
            }
            let advice = "remove it from the table of edges";
            findings.extend(
                unused.iter().map(|edge| format!("{path}:1: [{section}] does not use {edge}; {advice}")),
            );
        }
    }
    let known = crates();
    let gone = EDGES.iter().filter(|(name, ..)| !known.iter().any(|one| one == name));
    findings.extend(
        gone.map(|(name, ..)| format!("crates/{name}: does not exist; remove it from the table of edges")),
    );
    assert_none(&findings);
}

/// Returns the name of a crate that a table shortens.
fn full(short: &str) -> String {
    if short == "selvedge" { short.to_owned() } else { format!("selvedge-{short}") }
}
