//! The `selvedge` command.
//!
//! One file per subcommand. Data goes to standard output, logs and errors to standard error. An error is one line that
//! says what to do. The exit code is 0 on success, 2 if the command line is invalid, and 1 otherwise.

mod admin_key;
mod bench;
mod config;
mod defaults;
mod dev;
mod duration;
mod failure;
mod flag;
mod log;
#[cfg(feature = "otlp")]
mod otlp;
mod secret;
mod serve;
mod settings;
mod signals;
mod size;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
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
    /// Log to standard error with this filter; json, or json,FILTER, logs JSON objects [default: $RUST_LOG, or
    /// warn,selvedge=info]
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

impl Command {
    /// Reports whether the command only prints its settings.
    fn prints_config(&self) -> bool {
        match self {
            Command::Serve(arguments) => arguments.print_config,
            Command::Dev(arguments) => arguments.serve.print_config,
            Command::Bench(_) => false,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  selvedge dev                                       try it out
  selvedge serve                                     serve from ./selvedge.db
  selvedge serve --store postgres://ada@db/selvedge  serve from Postgres, as one of many servers";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("selvedge: {failure}");
            failure.exit_code()
        }
    }
}

fn run() -> Result<(), Failure> {
    let parsed = config::parse(Arguments::command(), std::env::args_os().collect())?;
    let arguments = Arguments::from_arg_matches(&parsed.matches).unwrap_or_else(|error| error.exit());
    if arguments.command.prints_config() {
        return serve::print(parsed.print().trim_end());
    }
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

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// The lines around the table of settings in `docs/configuration.md`.
    const TABLE: [&str; 2] =
        ["<!-- settings: SELVEDGE_REGENERATE=1 cargo test -p selvedge-cli -->", "<!-- end -->"];

    /// Returns the table of all settings, in the form of the page.
    fn table() -> String {
        let command = Arguments::command();
        let mut table = String::new();
        let mut heading = None;
        for (argument, _) in config::arguments(&command, "serve") {
            let name = argument.get_long().expect("a setting has a name");
            let variable = argument.get_env().expect("a setting has a variable").to_string_lossy();
            let is_prefixed = variable.replace('_', "-").to_ascii_lowercase() == format!("selvedge-{name}");
            assert!(is_prefixed, "{name} and {variable} differ");
            if heading != Some(argument.get_help_heading()) {
                heading = Some(argument.get_help_heading());
                let text = argument.get_help_heading().unwrap_or("General");
                table += &format!(
                    "\n### {text}\n\n| flag | variable | meaning | default |\n| --- | --- | --- | --- |\n"
                );
            }
            let value = match argument.get_action().takes_values() {
                true => argument.get_value_names().map(|names| format!(" {}", names[0])).unwrap_or_default(),
                false => String::new(),
            };
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let (help, stated) = match help.split_once(" [default: ") {
                Some((help, default)) => (help.to_owned(), Some(default.trim_end_matches(']').to_owned())),
                None => (help, None),
            };
            let default = match (argument.get_action().takes_values(), argument.get_default_values()) {
                (false, _) => "off".to_owned(),
                (true, []) => stated.unwrap_or_default(),
                (true, values) => format!("`{}`", values[0].to_string_lossy()),
            };
            table += &format!("| `--{name}{value}` | `{variable}` | {help} | {default} |\n");
        }
        table
    }

    #[test]
    fn the_page_of_settings_has_every_setting() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let page = std::fs::read_to_string(path).expect("the page is read");
        let [begin, end] = TABLE;
        let (before, rest) = page.split_once(begin).expect("the page has the table");
        let (_, after) = rest.split_once(end).expect("the table has an end");
        let expected = format!("{before}{begin}\n{}\n{end}{after}", table());
        if std::env::var_os("SELVEDGE_REGENERATE").is_some() {
            std::fs::write(path, &expected).expect("the page is written");
        } else {
            assert_eq!(page, expected, "run SELVEDGE_REGENERATE=1 cargo test -p selvedge-cli");
        }
    }
}
