//! `selvedge worker`: workers without writing code.

mod command;
mod exec;
mod output;

use crate::failure::Failure;
use clap::{Args, Subcommand};

/// The arguments of `selvedge worker`.
#[derive(Args, Clone, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  selvedge worker exec --kind resize -- ./resize.sh"
)]
#[group(skip)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Run a command for each execution: input on standard input, result from standard output
    Exec(Box<exec::Arguments>),
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Exec(arguments) => exec::run(*arguments).await,
    }
}
