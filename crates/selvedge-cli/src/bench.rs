//! `selvedge bench`: starts the benchmark, which is a program of its own, so that a server carries none of it.

use crate::failure::Failure;
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The program that this command becomes.
const PROGRAM: &str = "selvedge-bench";

/// The arguments of `selvedge bench`.
#[derive(Args, Clone, Debug)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// Give the benchmark these arguments: a scenario and its options, or --help to list them
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
    /// The filter of the log that was given before the command.
    #[arg(skip)]
    pub log: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  selvedge bench queue
  selvedge bench --help    list the scenarios and their options";

/// Replaces this process by the benchmark beside this program, else by the first in the `PATH`. Returns only if there is none.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name(PROGRAM));
    let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let mut command = Command::new(program);
    command.args(arguments.arguments).envs(arguments.log.map(|log| ("SELVEDGE_LOG", log)));
    let error = command.exec();
    Err(Failure::Failed(format!(
        "cannot start {PROGRAM}, which is neither beside this program nor in the PATH ({error}); in a checkout, cargo install \
         --path crates/{PROGRAM} builds and installs it"
    )))
}
