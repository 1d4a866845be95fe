//! `selvedge completions` and `selvedge man`: the command line, described for shells and for `man`.

use crate::failure::Failure;
use crate::terminal::{ColorChoice, Output};
use clap::{Args, Command};
use clap_complete::Shell;
use std::path::PathBuf;

/// The arguments of `selvedge completions`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  selvedge completions bash > /etc/bash_completion.d/selvedge
  selvedge completions zsh > ~/.zfunc/_selvedge
  selvedge completions fish > ~/.config/fish/completions/selvedge.fish";

/// The arguments of `selvedge man`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  selvedge man /usr/local/share/man/man1")]
#[group(skip)]
pub struct Man {
    /// The directory, which must exist
    directory: PathBuf,
}

/// Prints the completions of a shell.
pub fn completions(arguments: &Completions, mut command: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "selvedge", &mut script);
    let script = String::from_utf8(script).map_err(|error| Failure::Failed(error.to_string()))?;
    Output::new(false, ColorChoice::Never).line(script.trim_end())
}

/// Writes one manual page for the program and one for each of its commands.
pub fn write(arguments: &Man, command: Command) -> Result<(), Failure> {
    let directory = &arguments.directory;
    clap_mangen::generate_to(command, directory).map_err(|error| {
        Failure::Failed(format!("cannot write the manual pages to {}: {error}", directory.display()))
    })
}
