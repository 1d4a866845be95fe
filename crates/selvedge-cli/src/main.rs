//! The `selvedge` command.
//!
//! One file per subcommand; those that talk to a server are in `verbs/`. Data goes to standard output, logs and errors to
//! standard error. An error is one line that says what to do. `failure.rs` has the exit codes.

mod admin_key;
mod bench;
mod config;
mod defaults;
mod dev;
mod doctor;
mod duration;
mod failure;
mod flag;
mod log;
mod manual;
mod migrate;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(test)]
mod reference;
mod remote;
mod secret;
mod serve;
mod settings;
mod signals;
mod size;
mod terminal;
mod verbs;
mod version;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use failure::Failure;
use selvedge_server::Setting;
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
    Serve(Box<serve::Arguments>),
    /// Serve the API with a demonstration worker, for trying things out
    Dev(Box<dev::Arguments>),
    /// Submit an execution
    Submit(Box<verbs::submit::Arguments>),
    /// Show an execution with its timeline, or a flow
    Get(verbs::get::Arguments),
    /// List executions
    List(Box<verbs::list::Arguments>),
    /// Follow an execution or a flow until it ends
    Watch(verbs::watch::Arguments),
    /// Wait for the end of an execution or a flow; exits with its outcome
    Wait(verbs::wait::Arguments),
    /// Say why an execution or a flow does not go on, and what would help
    Explain(verbs::explain::Arguments),
    /// Print the output of an execution
    Logs(verbs::logs::Arguments),
    /// Print the event log
    Events(verbs::events::Arguments),
    /// Submit, list, draw, follow and cancel flows
    Flow(Box<verbs::flow::Arguments>),
    /// Cancel executions
    Cancel(Box<verbs::operate::Cancel>),
    /// Run ended executions again
    Replay(Box<verbs::operate::Replay>),
    /// Resume a suspended execution
    Resume(verbs::operate::Resume),
    /// Move the start of executions
    Reschedule(Box<verbs::operate::Reschedule>),
    /// Change the priority of executions
    Priority(Box<verbs::operate::Priority>),
    /// Change the tags of executions
    Tag(Box<verbs::operate::Tag>),
    /// Take an active execution away from its worker
    RevokeLease(verbs::operate::RevokeLease),
    /// Send a signal to an execution
    Signal(verbs::signal::Arguments),
    /// List and answer the waitpoints at which executions wait for people
    Approvals(verbs::approvals::Arguments),
    /// Run a worker without writing code
    Worker(verbs::worker::Arguments),
    /// List and drain workers
    Workers(verbs::workers::Arguments),
    /// List, limit and pause lanes
    Lanes(verbs::lanes::Arguments),
    /// List and change quotas
    Quotas(verbs::quotas::Arguments),
    /// List, change and reset budgets
    Budgets(verbs::budgets::Arguments),
    /// List, change and run schedules
    Schedules(verbs::schedules::Arguments),
    /// List and change webhooks, and replay deliveries
    Webhooks(verbs::webhooks::Arguments),
    /// List, follow and stop bulk jobs
    BulkJobs(verbs::bulk_jobs::Arguments),
    /// List and repeat refused submissions from SQL
    Inbox(verbs::inbox::Arguments),
    /// Create, list and revoke API keys
    Keys(verbs::keys::Arguments),
    /// Create, change and delete namespaces
    Namespaces(verbs::namespaces::Arguments),
    /// Name servers, so that commands need no address and no key
    Profile(verbs::profile::Arguments),
    /// Examine a store and a server, and say what would help
    Doctor(doctor::Arguments),
    /// Bring the schema of a store up to this version
    Migrate(migrate::Arguments),
    /// Measure the engine and compare it with plain SQL
    Bench(bench::Arguments),
    /// Print the completions of a shell
    Completions(manual::Completions),
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man(manual::Man),
    /// Print the version, of this program and of the server
    Version(version::Arguments),
}

impl Command {
    /// Reports whether the command only prints its settings.
    fn prints_config(&self) -> bool {
        match self {
            Command::Serve(arguments) => arguments.print_config,
            Command::Dev(arguments) => arguments.serve.print_config,
            _ => false,
        }
    }

    /// Gives a server its settings, which its page shows.
    fn set_configuration(&mut self, settings: impl FnOnce() -> Vec<Setting>) {
        match self {
            Command::Serve(arguments) => arguments.configuration = settings(),
            Command::Dev(arguments) => arguments.serve.configuration = settings(),
            _ => {}
        }
    }

    /// Gives the benchmark, which logs by itself, the filter of the log.
    fn set_log(&mut self, log: Option<&str>) {
        if let Command::Bench(arguments) = self {
            arguments.log = log.map(str::to_owned);
        }
    }

    async fn run(self) -> Result<(), Failure> {
        match self {
            Command::Serve(arguments) => serve::run(*arguments).await,
            Command::Dev(arguments) => dev::run(*arguments).await,
            Command::Submit(arguments) => verbs::submit::run(*arguments).await,
            Command::Get(arguments) => verbs::get::run(arguments).await,
            Command::List(arguments) => verbs::list::run(*arguments).await,
            Command::Watch(arguments) => verbs::watch::run(arguments).await,
            Command::Wait(arguments) => verbs::wait::run(arguments).await,
            Command::Explain(arguments) => verbs::explain::run(arguments).await,
            Command::Logs(arguments) => verbs::logs::run(arguments).await,
            Command::Events(arguments) => verbs::events::run(arguments).await,
            Command::Flow(arguments) => verbs::flow::run(*arguments).await,
            Command::Cancel(arguments) => verbs::operate::cancel(*arguments).await,
            Command::Replay(arguments) => verbs::operate::replay(*arguments).await,
            Command::Resume(arguments) => verbs::operate::resume(arguments).await,
            Command::Reschedule(arguments) => verbs::operate::reschedule(*arguments).await,
            Command::Priority(arguments) => verbs::operate::priority(*arguments).await,
            Command::Tag(arguments) => verbs::operate::tag(*arguments).await,
            Command::RevokeLease(arguments) => verbs::operate::revoke_lease(arguments).await,
            Command::Signal(arguments) => verbs::signal::run(arguments).await,
            Command::Approvals(arguments) => verbs::approvals::run(arguments).await,
            Command::Worker(arguments) => verbs::worker::run(arguments).await,
            Command::Workers(arguments) => verbs::workers::run(arguments).await,
            Command::Lanes(arguments) => verbs::lanes::run(arguments).await,
            Command::Quotas(arguments) => verbs::quotas::run(arguments).await,
            Command::Budgets(arguments) => verbs::budgets::run(arguments).await,
            Command::Schedules(arguments) => verbs::schedules::run(arguments).await,
            Command::Webhooks(arguments) => verbs::webhooks::run(arguments).await,
            Command::BulkJobs(arguments) => verbs::bulk_jobs::run(arguments).await,
            Command::Inbox(arguments) => verbs::inbox::run(arguments).await,
            Command::Keys(arguments) => verbs::keys::run(arguments).await,
            Command::Namespaces(arguments) => verbs::namespaces::run(arguments).await,
            Command::Profile(arguments) => verbs::profile::run(arguments).await,
            Command::Doctor(arguments) => doctor::run(arguments).await,
            Command::Migrate(arguments) => migrate::run(&arguments).await,
            Command::Bench(arguments) => bench::run(arguments),
            Command::Completions(arguments) => manual::completions(&arguments, Arguments::command()),
            Command::Man(arguments) => manual::write(&arguments, Arguments::command()),
            Command::Version(arguments) => version::run(&arguments).await,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  selvedge dev                                       try it out
  selvedge serve                                     serve from ./selvedge.db
  selvedge serve --store postgres://ada@db/selvedge  serve from Postgres, as one of many servers
  selvedge submit demo.echo '{\"hello\": 1}' --wait    submit work and wait for its result
  selvedge explain ID                                say why something does not run

Exit codes: 0 success; 1 failure; 2 invalid command line; 3 not found; 4 not permitted; of wait, watch and flow run: 10
failed, 11 cancelled, 12 expired, 13 skipped, 14 not ended in time.";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if failure != Failure::OutputClosed {
                eprintln!("selvedge: {failure}");
            }
            failure.exit_code()
        }
    }
}

fn run() -> Result<(), Failure> {
    let parsed = config::parse(Arguments::command(), std::env::args_os().collect())?;
    let mut arguments = Arguments::from_arg_matches(&parsed.matches).unwrap_or_else(|error| error.exit());
    if arguments.command.prints_config() {
        return serve::print(parsed.print().trim_end());
    }
    arguments.command.set_configuration(|| parsed.settings());
    arguments.command.set_log(arguments.log.as_deref());
    log::start(arguments.log.as_deref())?;
    let processors = std::thread::available_parallelism().map_or(THREADS.0, |count| count.get());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors.clamp(THREADS.0, THREADS.1))
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start the threads of this process: {error}")))?;
    let ended = runtime.block_on(arguments.command.run());
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
