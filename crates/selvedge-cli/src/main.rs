//! The `selvedge` command.
//!
//! One file per subcommand. Data goes to standard output, logs and errors to standard error. An error is one line that
//! says what to do. The exit code is 0 on success, 2 if the command line is invalid, and 1 otherwise.

mod admin_key;
mod bench;
mod dev;
mod duration;
mod failure;
mod flag;
mod log;
mod secret;
mod serve;
mod signals;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// The smallest and largest number of threads that run tasks. Between them it is the number of processors.
const THREADS: (usize, usize) = (2, 8);

/// A durable execution engine.
#[derive(Debug, Parser)]
#[command(name = "selvedge", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Log to standard error with this filter [default: $RUST_LOG, or warn,selvedge=info]
    #[arg(long, env = "SELVEDGE_LOG", global = true, value_name = "FILTER")]
    log: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API until SIGTERM or SIGINT, then drain
    Serve(serve::Arguments),
    /// Serve the API with a built-in worker, for trying things out
    Dev(dev::Arguments),
    /// Measure the engine and compare it with plain SQL
    Bench(bench::Arguments),
}

const EXAMPLES: &str = "\
Examples:
  selvedge dev                                       try it out
  selvedge serve                                     serve from ./selvedge.db
  selvedge serve --store postgres://ada@db/selvedge  serve from Postgres, as one of many servers";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("selvedge: {failure}");
            failure.exit_code()
        }
    }
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    log::start(arguments.log.as_deref())?;
    let processors = std::thread::available_parallelism().map_or(THREADS.0, |count| count.get());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors.clamp(THREADS.0, THREADS.1))
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start the threads of this process: {error}")))?;
    let ended = runtime.block_on(async {
        match arguments.command {
            Command::Serve(arguments) => serve::run(arguments).await,
            Command::Dev(arguments) => dev::run(arguments).await,
            Command::Bench(arguments) => bench::run(arguments).await,
        }
    });
    // Threads that are still blocked have had their grace period.
    runtime.shutdown_background();
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
