//! Parts of a terminal that are drawn again: a view that follows its object, and the spinner of long work.

use super::Output;
use crate::failure::Failure;
use console::{Term, truncate_str};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// The time between two drawings of a spinner.
const TICK: Duration = Duration::from_millis(100);

/// A view at the end of the terminal. Each drawing replaces the one before.
#[derive(Debug)]
pub struct Live {
    terminal: Term,
    lines: usize,
}

impl Live {
    /// Returns an empty view, or none if nobody looks.
    pub fn new(out: &Output) -> Option<Live> {
        (out.is_terminal && !out.json).then(|| Live { terminal: Term::stdout(), lines: 0 })
    }

    /// Draws the view. Lines beyond the height of the terminal are left out, and counted in the last line.
    pub fn draw(&mut self, text: &str) -> Result<(), Failure> {
        let (height, width) = self.terminal.size();
        let (height, width) = (usize::from(height).max(3) - 1, usize::from(width).max(20));
        let mut lines: Vec<String> =
            text.lines().map(|line| truncate_str(line, width, "…").into_owned()).collect();
        if lines.len() > height {
            let left_out = lines.len() - height + 1;
            lines.truncate(height - 1);
            lines.push(super::dim(format!("… {left_out} more lines")));
        }
        let drawn = self
            .terminal
            .clear_last_lines(self.lines)
            .and_then(|()| self.terminal.write_str(&format!("{}\n", lines.join("\n"))))
            .and_then(|()| self.terminal.flush());
        self.lines = lines.len();
        drawn.map_err(|error| Failure::Failed(format!("cannot write to the terminal: {error}")))
    }
}

/// Returns a spinner on standard error for work of unknown size. It is invisible where nobody looks.
pub fn spinner(out: &Output, message: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let spinner = ProgressBar::new_spinner().with_style(style);
    if out.json || !out.is_terminal {
        spinner.set_draw_target(ProgressDrawTarget::hidden());
    }
    spinner.set_message(message.to_owned());
    spinner.enable_steady_tick(TICK);
    spinner
}
