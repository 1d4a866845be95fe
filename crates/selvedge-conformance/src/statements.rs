//! The rules for the statements of a SQL store: files `<noun>/<verb>.sql` in one folder, each a template with a header.

use std::collections::BTreeSet;
use std::path::Path;

/// Returns the path, `noun/verb`, and the text of every file.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for noun in std::fs::read_dir(folder).expect("it is a folder") {
        for verb in std::fs::read_dir(noun.expect("a noun").path()).expect("a noun is a folder") {
            let path = verb.expect("a verb").path();
            let text = std::fs::read_to_string(&path).expect("a statement is text");
            let name = path.with_extension("");
            files.push((name.strip_prefix(folder).expect("it is inside").display().to_string(), text));
        }
    }
    files
}

/// Returns the words of a statement without its comments.
fn words(text: &str) -> Vec<String> {
    let code: Vec<&str> = text.lines().filter_map(|line| line.split("--").next()).collect();
    code.join(" ").replace(['(', ')', ','], " ").split_whitespace().map(str::to_owned).collect()
}

/// Asserts that every file of the folder is one of the statements, and every statement a file.
pub fn assert_every_file_is_a_statement<'a>(folder: &Path, statements: impl Iterator<Item = &'a str>) {
    let found: BTreeSet<String> = files(folder).into_iter().map(|(file, _)| file).collect();
    assert_eq!(found, statements.map(str::to_owned).collect());
}

/// Asserts that no text of a statement contains a placeholder.
pub fn assert_filled<'a>(statements: impl Iterator<Item = (&'a str, &'a str)>) {
    for (file, text) in statements {
        for part in text.split('{').skip(1) {
            let inside = part.split('}').next().unwrap_or_default();
            let is_name = !inside.is_empty() && inside.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(!is_name, "{file}: {{{inside}}}");
        }
    }
}

/// Asserts that no statement compares a state or a kind with a bare number: codes are filled in by name.
pub fn assert_codes_are_named(folder: &Path) {
    for (file, text) in files(folder) {
        let words = words(&text);
        for (index, word) in words.iter().enumerate() {
            let column = word.rsplit('.').next().unwrap_or_default();
            if !["state", "kind", "due_kind"].contains(&column) {
                continue;
            }
            let operators = ["=", "<>", "<", ">", "<=", ">=", "in", "not"];
            let mut after = words[index + 1..].iter().peekable();
            let compares = after.next_if(|word| operators.contains(&word.as_str())).is_some();
            let value = after.find(|word| !operators.contains(&word.as_str()));
            let is_number = value.is_some_and(|value| value.starts_with(|c: char| c.is_ascii_digit()));
            assert!(!(compares && is_number), "{file}: {word} {value:?}");
        }
    }
}

/// Asserts that the header of every statement has each of these parts, such as `Index: `.
pub fn assert_headers_have(folder: &Path, parts: &[&str]) {
    for (file, text) in files(folder) {
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("-- ")).collect();
        let header = header.join("\n");
        for part in parts {
            assert!(header.contains(part), "{file} lacks {part:?}:\n{header}");
        }
    }
}
