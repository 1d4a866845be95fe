//! The documentation: every shell block runs against a real server, and every name of the API is documented.
//!
//! A page is `README.md` or a file of `docs/` or `docs/guides/`. Its blocks run in order, as one script; `page` has the rules.

mod links;
mod names;
mod page;
mod requests;
mod run;

use crate::support::Directory;
use page::Page;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

/// Returns the directory of the workspace.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads every page, with its path relative to the workspace.
fn read_pages() -> Vec<(String, String)> {
    let list = |directory: &str| {
        let entries = std::fs::read_dir(workspace().join(directory)).expect("the directory of pages exists");
        let name = |entry: std::io::Result<DirEntry>| entry.expect("it can be read").file_name();
        entries.map(|entry| format!("{directory}/{}", name(entry).display())).collect::<Vec<_>>()
    };
    let docs = list("docs").into_iter().chain(list("docs/guides"));
    let mut paths: Vec<String> = docs.filter(|path| path.ends_with(".md")).collect();
    paths.sort();
    paths.insert(0, "README.md".into());
    let read = |path: String| {
        let text = std::fs::read_to_string(workspace().join(&path)).expect("a page is text");
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn every_shell_block_of_the_documentation_runs() {
    let pages = read_pages();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = pages
            .iter()
            .map(|(path, text)| scope.spawn(move || Page::parse(path, text).and_then(|page| run::run(&page))))
            .collect();
        runs.into_iter().filter_map(|run| run.join().expect("a page's thread does not panic").err()).collect()
    });
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// Runs a page and returns its failure.
fn failure(text: &str) -> String {
    let failed = Page::parse("page.md", text).and_then(|page| run::run(&page));
    failed.expect_err("the page fails")
}

#[test]
fn a_failing_command_is_reported_with_its_page_line_and_output() {
    let text = "# Title\n\nText.\n\n```sh\necho before\n\nls /there/is/no/such/directory\n```\n";
    let failed = failure(text);
    assert!(failed.contains("page.md:8: ls /there/is/no/such/directory"), "{failed}");
    assert!(failed.contains("No such file"), "{failed}");
    assert!(failed.contains("before"), "{failed}");
}

#[test]
fn a_refused_request_fails_unless_the_block_expects_its_code() {
    let submit = "curl -s http://127.0.0.1:7878/v1/executions -d '{\"priority\": 1}'";
    let failed = failure(&format!("# Title\n\n```sh\n{submit}\n```\n"));
    assert!(failed.contains("page.md:4") && failed.contains("invalid_field"), "{failed}");
    let expected = format!("# Title\n\n```sh problem: invalid_field\n{submit}\n```\n");
    let page = Page::parse("page.md", &expected).expect("the page is well-formed");
    assert_eq!(run::run(&page), Ok(()));
    let failed = failure(&expected.replace("problem: invalid_field", "problem: unknown_node"));
    assert!(failed.contains("page.md:3") && failed.contains("unknown_node"), "{failed}");
}

#[test]
fn an_output_that_differs_is_reported_and_dots_match_anything() {
    let text =
        "# Title\n\n```sh\necho '{\"a\": 1, \"b\": 2}'\n```\n\n```json output\n{\"a\": …, \"b\": 2}\n```\n";
    let page = Page::parse("page.md", text).expect("the page is well-formed");
    assert_eq!(run::run(&page), Ok(()));
    let failed = failure(&text.replace("\"b\": 2}\n```\n", "\"b\": 3}\n```\n"));
    assert!(failed.contains("page.md:7"), "{failed}");
}

#[test]
fn processes_that_a_page_leaves_behind_are_ended() {
    let directory = Directory::new();
    let file = directory.path().join("pid");
    let text = format!("# Title\n\n```sh\nsleep 600 &\necho $! > {}\n```\n", file.display());
    let page = Page::parse("page.md", &text).expect("the page is well-formed");
    assert_eq!(run::run(&page), Ok(()));
    let pid = std::fs::read_to_string(file).expect("the page has written the file");
    let command_line = format!("/proc/{}/cmdline", pid.trim());
    // A process that was killed has an empty command line until it is gone.
    while std::fs::read(&command_line).is_ok_and(|words| !words.is_empty()) {}
}

#[test]
fn a_marker_without_its_reason_and_an_unknown_marker_are_refused() {
    for marker in ["no-test", "no-test:", "pending: ", "soon: maybe", "output: x"] {
        let failed = failure(&format!("# Title\n\n```sh {marker}\ntrue\n```\n"));
        assert!(failed.contains("page.md:3"), "{marker}: {failed}");
    }
    assert!(failure("# Title\n\n```console\n$ true\n```\n").contains("write sh"));
}
