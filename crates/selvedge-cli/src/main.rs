//! The `selvedge` command.
//!
//! One file per subcommand. Output that is data goes to standard output, logs and errors to standard error. An error is
//! one line that says what to do; the exit code is 0 only on success, 2 where the command line itself is wrong, 1
//! otherwise.

mod bench;
mod dev;
mod duration;
mod failure;
mod log;
mod secret;
mod serve;
mod signals;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// How many threads run tasks: as many as there are processors, within these bounds.
const THREADS: (usize, usize) = (2, 8);

/// A durable execution engine.
#[derive(Debug, Parser)]
#[command(name = "selvedge", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// What is logged to standard error [default: $RUST_LOG, or warn,selvedge=info]
    #[arg(long, env = "SELVEDGE_LOG", global = true, value_name = "FILTER")]
    log: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API until SIGTERM or SIGINT, then drain
    Serve(serve::Arguments),
    /// Serve the API, with a built-in worker to try things out
    Dev(dev::Arguments),
    /// Measure the engine next to a floor
    Bench(bench::Arguments),
}

const EXAMPLES: &str = "\
Examples:
  selvedge dev                                       try it out
  selvedge serve                                     serve ./selvedge.db
  selvedge serve --store postgres://ada@db/selvedge  one of many servers";

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
        .map_err(|error| Failure::Failed(format!("the threads of this process did not start: {error}")))?;
    let ended = runtime.block_on(async {
        match arguments.command {
            Command::Serve(arguments) => serve::run(arguments).await,
            Command::Dev(arguments) => dev::run(arguments).await,
            Command::Bench(arguments) => bench::run(arguments).await,
        }
    });
    // Whatever still blocks a thread has had its grace period.
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
