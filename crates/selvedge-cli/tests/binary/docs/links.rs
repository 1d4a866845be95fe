//! Every link between the pages leads to a file and a heading that exist, and every test that the guarantees name exists.

use super::{read_pages, workspace};

/// The pages outside of `docs/` that link into it.
const OTHER_PAGES: [&str; 4] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"];

/// Returns the anchor that a heading gets on the usual hosts.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = kept.chars().filter(|one| one.is_alphanumeric() || " -_".contains(*one));
    kept.map(|one| if one == ' ' { '-' } else { one }).collect()
}

/// Returns the lines of a page that are not in a fence.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

/// Returns what is wrong with the links of a page.
fn broken_links(path: &str, text: &str) -> Vec<String> {
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let links =
        prose(text).flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    let broken = |link: &&str| {
        if link.starts_with("http") {
            return false;
        }
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = match file {
            "" => Ok(text.to_owned()),
            // A picture is no text.
            file => std::fs::read(workspace().join(directory).join(file))
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        };
        let Ok(target) = target else { return true };
        !heading.is_empty() && !prose(&target).any(|line| line.starts_with('#') && anchor(line) == heading)
    };
    links.filter(broken).map(|link| format!("{path}: {link}")).collect()
}

#[test]
fn every_link_of_the_documentation_leads_somewhere() {
    let read = |path: &str| std::fs::read_to_string(workspace().join(path)).expect("the page exists");
    let others = OTHER_PAGES.map(|path| (path.to_owned(), read(path)));
    let pages = read_pages().into_iter().chain(others);
    let broken: Vec<String> = pages.flat_map(|(path, text)| broken_links(&path, &text)).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn a_link_to_a_missing_file_or_heading_is_found() {
    let text = "# Title\n\n[a](docs/none.md) [b](#no-such-heading) [c](#title) [d](docs/states.md)\n";
    assert_eq!(broken_links("README.md", text), ["README.md: docs/none.md", "README.md: #no-such-heading"]);
}

#[test]
fn every_test_that_the_guarantees_name_exists() {
    let page = std::fs::read_to_string(workspace().join("docs/guarantees.md")).expect("the page exists");
    let code = page.split('`').skip(1).step_by(2);
    let paths: Vec<&str> =
        code.filter(|code| code.starts_with("selvedge") && code.contains("/tests")).collect();
    assert!(paths.len() > 30, "{paths:?}");
    let missing: Vec<_> =
        paths.iter().filter(|path| !workspace().join("crates").join(path).exists()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Returns the source files below a directory, relative to the workspace.
fn sources(directory: &std::path::Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).expect("the directory can be read") {
        let path = entry.expect("the directory can be read").path();
        if path.is_dir() {
            found.push(format!("{}/", path.display()));
            sources(&path, found);
        } else {
            found.push(path.display().to_string());
        }
    }
}

#[test]
fn every_file_and_directory_that_the_architecture_names_exists() {
    let pages = ["ARCHITECTURE.md", "docs/internals.md"];
    let text = pages.map(|page| std::fs::read_to_string(workspace().join(page)).expect("the page exists"));
    let text = text.concat();
    let mut found = Vec::new();
    sources(&workspace().join("crates"), &mut found);
    let is_path = |name: &&str| {
        let stem = name.strip_suffix(".rs").or_else(|| name.strip_suffix('/'));
        stem.is_some_and(|stem| stem.chars().all(|one| one.is_ascii_lowercase() || "_/".contains(one)))
    };
    let outside = |name: &str| workspace().join(name).is_dir();
    let names = prose(&text).flat_map(|line| line.split('`').skip(1).step_by(2)).filter(is_path);
    let names: std::collections::BTreeSet<&str> = names.filter(|name| !outside(name)).collect();
    assert!(names.len() > 50, "{names:?}");
    let missing: Vec<&str> = names
        .into_iter()
        .filter(|name| !found.iter().any(|path| path.ends_with(&format!("/{name}"))))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
