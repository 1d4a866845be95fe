//! The output of verbs: text for people on a terminal, plain text for pipes, JSON for programs.

mod confirm;
mod json;
mod live;
mod state;
mod table;
mod time;

pub use confirm::confirm;
pub use json::{at, compact, flat, items, number, strings, text, truth};
pub use live::{Live, spinner};
pub use state::{dim, heading, state_text};
pub use table::Table;
pub use time::{age, duration_ms, elapsed, relative, since, when};

use crate::failure::Failure;
use clap::ValueEnum;
use console::Term;
use std::io::{ErrorKind, IsTerminal, Write};

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The width of lines where there is no terminal.
const PIPE_WIDTH: usize = 10_000;

/// The standard output of a verb.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Prints what the server sent, one document on a line, and no notes.
    pub json: bool,
    /// A person looks at the output.
    pub is_terminal: bool,
    /// The longest line.
    pub width: usize,
}

impl Output {
    /// Returns the output with these choices. Colours are a setting of the process.
    pub fn new(json: bool, color: ColorChoice) -> Output {
        let is_terminal = std::io::stdout().is_terminal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colors = match color {
            ColorChoice::Auto => is_terminal && !no_color,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        console::set_colors_enabled(colors);
        let width = if is_terminal { usize::from(Term::stdout().size().1).max(20) } else { PIPE_WIDTH };
        Output { json, is_terminal, width }
    }

    /// Prints a line.
    pub fn line(&self, line: impl AsRef<str>) -> Result<(), Failure> {
        write_output(line.as_ref(), true)
    }

    /// Prints text as it is, without a line break.
    pub fn raw(&self, text: &str) -> Result<(), Failure> {
        write_output(text, false)
    }

    /// Prints a JSON value on one line.
    pub fn json_line(&self, text: &str) -> Result<(), Failure> {
        self.line(compact(text))
    }

    /// Prints a table.
    pub fn table(&self, table: &Table) -> Result<(), Failure> {
        self.raw(&table.draw(self.width))
    }

    /// Tells a person something that is not part of the output.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.json {
            eprintln!("{}", text.as_ref());
        }
    }
}

fn write_output(text: &str, ends_line: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let end: &[u8] = if ends_line { b"\n" } else { b"" };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(end)).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Failed(format!("cannot write to standard output: {error}")),
    })
}
