//! The question before a command that cannot be undone.

use crate::failure::Failure;
use std::io::{BufRead, IsTerminal, Write};

/// Asks for consent. `yes` skips the question. Where nobody can answer, it is an error that names the flag.
pub fn confirm(question: &str, yes: bool) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    let input = std::io::stdin();
    if !input.is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::Usage(format!(
            "{question} Nobody can answer here: repeat the command with --yes"
        )));
    }
    eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    input
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::Failed(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
