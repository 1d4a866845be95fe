//! Snapshots: the commands of a test with their whole output, compared with a file in `snapshots/`.
//!
//! `SELVEDGE_REGENERATE=1` rewrites the files. Ids, times, durations, secrets and addresses become placeholders.

use crate::cli::{Cli, Ended};
use regex::{Captures, Regex};
use std::collections::HashMap;
use std::path::Path;

/// The texts that differ between two runs, and their placeholders. The first match wins, so longer forms come first.
const CHANGING: [(&str, &str); 11] = [
    (r"http://127\.0\.0\.1:\d+", "SERVER"),
    (r"slv_[0-9A-Za-z]+", "KEY"),
    (r"whsec_[0-9A-Za-z+/=]+", "SECRET"),
    (r"selvedge-test-[0-9a-f]{32}", "DIRECTORY"),
    (r#""((?:resume_|next_)?cursor)":"[^"]+""#, r#""$1":"CURSOR""#),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z", "TIME"),
    (r"\bin \d+(?:\.\d+)?(?:ms|s|m|h|d)(?: \d+(?:s|m|h))?\b", "in SPAN"),
    (r"\b\d+(?:\.\d+)?(?:ms|s|m|h|d)(?: \d+(?:s|m|h))? ago\b", "SPAN ago"),
    (r"\b\d+(?:ms|\.\d+s|s)\b", "SPAN"),
    (r#""duration_ms":\d+"#, r#""duration_ms":SPAN"#),
    (r"\x1b\[(\d+)m", "<$1>"),
];
const UUID: &str = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";

/// The commands of a test with their output.
pub struct Snapshot<'a> {
    cli: &'a Cli,
    name: &'static str,
    text: String,
}

impl<'a> Snapshot<'a> {
    /// Returns an empty snapshot for the file `snapshots/NAME.txt`.
    pub fn new(cli: &'a Cli, name: &'static str) -> Snapshot<'a> {
        Snapshot { cli, name, text: String::new() }
    }

    /// Runs a command and adds what it printed.
    pub fn run(&mut self, arguments: &[&str]) -> Ended {
        let ended = self.cli.run(arguments);
        self.add(&quoted(arguments), &ended);
        ended
    }

    /// Runs a command twice, the second time with `--json`. For commands that change nothing.
    pub fn show(&mut self, arguments: &[&str]) {
        self.run(arguments);
        self.run(&[arguments, &["--json"]].concat());
    }

    /// Adds the output of a command that ran elsewhere.
    pub fn add(&mut self, title: &str, ended: &Ended) {
        self.text += &format!("$ selvedge {title}\n{}", ended.stdout);
        if !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        ended.stderr.lines().for_each(|line| self.text += &format!("error: {line}\n"));
        if ended.code != 0 {
            self.text += &format!("exit: {}\n", ended.code);
        }
        self.text.push('\n');
    }

    /// Compares the snapshot with its file, or rewrites the file.
    pub fn check(self) {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verbs/snapshots");
        let path = directory.join(self.name).with_extension("txt");
        let text = stable(&self.text);
        if std::env::var_os("SELVEDGE_REGENERATE").is_some() {
            std::fs::create_dir_all(directory).expect("the directory is created");
            std::fs::write(&path, text).expect("the snapshot is written");
            return;
        }
        let expected = std::fs::read_to_string(&path).expect("the snapshot exists");
        let mut lines = text.lines().zip(expected.lines()).enumerate();
        let difference = lines.find(|(_, (line, expected))| line != expected);
        let hint = format!("{}: SELVEDGE_REGENERATE=1 rewrites it", path.display());
        if let Some((number, (line, expected))) = difference {
            panic!("{hint}\nline {}\nexpected: {expected}\nprinted:  {line}\n", number + 1);
        }
        assert_eq!(text.lines().count(), expected.lines().count(), "{hint}\n{text}");
    }
}

/// Returns arguments as one would write them for a shell.
pub fn quoted(arguments: &[&str]) -> String {
    let quote = |argument: &&str| match argument.contains([' ', '"', '{', '*', '$']) {
        true => format!("'{argument}'"),
        false => (*argument).to_owned(),
    };
    arguments.iter().map(quote).collect::<Vec<String>>().join(" ")
}

/// Replaces what differs between two runs. Ids are numbered in the order in which they appear.
fn stable(text: &str) -> String {
    let pattern = |pattern: &str| Regex::new(pattern).expect("the pattern is valid");
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let numbered = |found: &Captures| {
        let next = numbers.len() + 1;
        format!("ID-{}", numbers.entry(found[0].to_owned()).or_insert(next))
    };
    let mut text = pattern(UUID).replace_all(text, numbered).into_owned();
    for (changing, placeholder) in CHANGING {
        text = pattern(changing).replace_all(&text, placeholder).into_owned();
    }
    // Placeholders have other lengths than what they replace, so columns are not compared by their width.
    pattern(r"(\S) {2,}").replace_all(&text, "$1  ").into_owned()
}
