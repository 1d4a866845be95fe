//! A page of the documentation as a script.
//!
//! The fenced blocks of the languages `sh` and `bash` run. A word after the language changes that:
//!
//! | info string | meaning |
//! | --- | --- |
//! | `sh no-test: REASON` | does not run, for the reason given |
//! | `sh problem: CODE` | a request of the block is refused with this code |
//! | `sh file: NAME`, `python file: NAME` | is the content of a file in the directory of the script |
//! | `json output`, `text output` | is the output of the block before; `…` stands for any text |
//!
//! Markers are separated by semicolons.
//!
//! Every line of the script has the number of its line in the page, so the line of an error is that of the page.

/// The languages of blocks that run.
const SHELLS: [&str; 2] = ["sh", "bash"];
/// Other names of shells, which a block must not use.
const OTHER_SHELLS: [&str; 4] = ["console", "shell", "zsh", "shell-session"];

/// A page, cut into its blocks.
pub struct Page {
    /// The path, relative to the workspace.
    pub path: String,
    /// The number of lines.
    lines: usize,
    /// The fenced blocks, in order.
    pub blocks: Vec<Block>,
}

/// A fenced block.
pub struct Block {
    /// The number of the line with the opening fence, from 1.
    pub line: usize,
    /// The use of the block.
    pub role: Role,
    /// The lines between the fences.
    text: Vec<String>,
}

/// The use of a block.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// Runs; with a code, one of its requests is refused with it.
    Run { problem: Option<String> },
    /// Is written to a file.
    File(String),
    /// Is the output of the block before.
    Output,
    /// Does not run.
    Skip,
}

impl Block {
    /// Returns the text of the block.
    pub fn text(&self) -> String {
        self.text.iter().map(|line| format!("{line}\n")).collect()
    }
}

impl Page {
    /// Cuts a page into its blocks. Refuses a fence that is not closed, and a marker that is unknown or has no reason.
    pub fn parse(path: &str, text: &str) -> Result<Page, String> {
        let mut blocks = Vec::new();
        let mut open: Option<(&str, Block)> = None;
        for (line, content) in (1..).zip(text.lines()) {
            let indent = &content[..content.len() - content.trim_start().len()];
            let fence = content.trim_start().strip_prefix("```");
            open = match (open, fence) {
                (None, None) => None,
                (None, Some(info)) => {
                    let role = Role::parse(info).map_err(|error| format!("{path}:{line}: {error}"))?;
                    Some((indent, Block { line, role, text: Vec::new() }))
                }
                (Some((_, block)), Some("")) => {
                    blocks.push(block);
                    None
                }
                (Some((indent, mut block)), _) => {
                    block.text.push(content.strip_prefix(indent).unwrap_or(content).to_owned());
                    Some((indent, block))
                }
            };
        }
        match open {
            Some((_, block)) => Err(format!("{path}:{}: the fence is not closed", block.line)),
            None => Ok(Page { path: path.into(), lines: text.lines().count(), blocks }),
        }
    }

    /// Reports whether a block of the page runs.
    pub fn runs(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block.role, Role::Run { .. }))
    }

    /// Returns the script. `prelude` is its first line. At the fence of each block that runs, it calls the shell function
    /// `begin` with the number of that line, and with the code of the expected problem.
    pub fn script(&self, prelude: &str) -> String {
        let mut lines = vec![String::new(); self.lines];
        lines[0] = prelude.to_owned();
        for block in &self.blocks {
            let Role::Run { problem } = &block.role else { continue };
            lines[block.line - 1] =
                format!("begin {} {}", block.line, problem.as_deref().unwrap_or_default());
            lines[block.line..block.line + block.text.len()].clone_from_slice(&block.text);
        }
        lines.join("\n") + "\n"
    }
}

impl Role {
    /// Parses the info string of a fence: a language and markers, separated by semicolons.
    fn parse(info: &str) -> Result<Role, String> {
        let (language, markers) = info.trim().split_once(' ').unwrap_or((info.trim(), ""));
        if OTHER_SHELLS.contains(&language) {
            return Err(format!("a block of {language} does not run; write sh"));
        }
        let default = if SHELLS.contains(&language) { Role::Run { problem: None } } else { Role::Skip };
        let markers = markers.split(';').map(str::trim).filter(|marker| !marker.is_empty());
        markers.rev().try_fold(default, Role::with)
    }

    /// Applies a marker.
    fn with(self, marker: &str) -> Result<Role, String> {
        let (name, value) = marker.split_once(':').map_or((marker, ""), |(name, value)| (name, value.trim()));
        match (name, value, self) {
            ("no-test" | "problem" | "file", "", _) => {
                Err(format!("the marker {name} needs a value: write {name}: VALUE"))
            }
            ("no-test", _, _) => Ok(Role::Skip),
            ("problem", code, Role::Run { problem: None }) => Ok(Role::Run { problem: Some(code.into()) }),
            ("file", name, _) => Ok(Role::File(name.into())),
            ("output", "", Role::Skip) => Ok(Role::Output),
            _ => Err(format!(
                "the marker {marker:?} does not apply; there are no-test, problem, file and output"
            )),
        }
    }
}
