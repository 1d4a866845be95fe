//! Files open with their purpose, and comments say more than a name.

use selvedge_tidy::{assert_none, files};

/// Documents of at most two words, such as "The kind.", in all crates. May only be lowered.
const SHORT_DOCUMENTS: usize = 120;
/// By how much there may be fewer, so that the limit need not follow every change.
const SLACK: usize = 20;

#[test]
fn every_rust_file_opens_with_its_purpose() {
    let files = files("rs").into_iter().filter(|file| !file.text.starts_with("//!"));
    let findings: Vec<String> =
        files.map(|file| format!("{}:1: begin with `//!` and what the file is", file.path)).collect();
    assert_none(&findings);
}

#[test]
fn every_sql_file_opens_with_a_comment() {
    let files = files("sql").into_iter().filter(|file| !file.text.starts_with("-- "));
    let findings: Vec<String> = files
        .map(|file| {
            format!("{}:1: begin with `-- ` and what the statements do, which rows they lock", file.path)
        })
        .collect();
    assert_none(&findings);
}

#[test]
fn few_comments_only_repeat_a_name() {
    let mut findings = Vec::new();
    for file in files("rs") {
        let mut words = 0;
        let lines: Vec<&str> = file.text.lines().map(str::trim_start).collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(text) = line.strip_prefix("///") else { continue };
            words += text.split_whitespace().count();
            let ends = !lines.get(at + 1).is_some_and(|next| next.starts_with("///"));
            if ends && words <= 2 {
                findings.push(format!("{}:{}: {line}", file.path, at + 1));
            }
            if ends {
                words = 0;
            }
        }
    }
    let (count, limit) = (findings.len(), SHORT_DOCUMENTS);
    let advice = "say a default, a unit, a reason or an invariant, or remove the comment";
    assert!(
        count <= limit,
        "{count} comments of at most two words, at most {limit}; {advice}:\n{}",
        findings.join("\n")
    );
    assert!(count + SLACK > limit, "{count} comments of at most two words; lower the limit of {limit}");
}
