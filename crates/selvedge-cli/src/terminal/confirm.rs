//! The question before a command that cannot be undone.

use crate::failure::Failure;
use std::io::{BufRead, IsTerminal, Write};

/// Asks for consent to what the sentence `effect` says. `yes` skips the question. Without a terminal it is an error that
/// names the flag.
pub fn confirm(effect: &str, yes: bool) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    let input = std::io::stdin();
    if !input.is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::Usage(format!(
            "{effect} There is no terminal to ask at: repeat the command with --yes"
        )));
    }
    eprint!("{effect} Continue? [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    input
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::Failed(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
