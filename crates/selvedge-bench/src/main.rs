//! The program of the benchmark, which `selvedge bench` starts. The report goes to standard output, logs and errors to standard
//! error; the exit codes are those of `selvedge`.

mod arguments;

use arguments::Arguments;
use clap::Parser;
use selvedge_bench::Error;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// The smallest and largest number of threads that run tasks. Between them it is the number of processors.
const THREADS: (usize, usize) = (2, 8);

/// The default filter of the log.
const DEFAULT_LOG: &str = "warn,selvedge=info";

/// Returns the filter of a log setting of `selvedge`, which may begin with `json`. The benchmark logs text.
fn filter(setting: &str) -> &str {
    let rest = setting.strip_prefix("json").filter(|rest| rest.is_empty() || rest.starts_with(','));
    match rest.map_or(setting, |rest| rest.trim_start_matches(',')).trim() {
        "" => DEFAULT_LOG,
        filter => filter,
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let log = arguments.log.clone().or_else(|| std::env::var(EnvFilter::DEFAULT_ENV).ok());
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(log.as_deref().map_or(DEFAULT_LOG, filter)))
        .with_writer(std::io::stderr)
        .init();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("selvedge: {}", error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" "));
            ExitCode::from(if matches!(error, Error::Usage(_)) { 2 } else { 1 })
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Error> {
    let processors = std::thread::available_parallelism().map_or(THREADS.0, |count| count.get());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors.clamp(THREADS.0, THREADS.1))
        .enable_all()
        .build()?;
    let report = runtime.block_on(arguments::measure(arguments))?;
    // Threads that are still blocked do not delay the report.
    runtime.shutdown_background();
    if arguments.json {
        println!("{}", report.json());
    } else {
        print!("{report}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_the_log_is_left_out_of_its_filter() {
        let settings = ["", "json", "json,", "json,debug", "debug", "jsonish=debug"];
        let filters = [DEFAULT_LOG, DEFAULT_LOG, DEFAULT_LOG, "debug", "debug", "jsonish=debug"];
        assert_eq!(settings.map(filter), filters);
    }
}
