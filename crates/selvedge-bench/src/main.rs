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

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(arguments.log.as_deref().unwrap_or("warn,selvedge=info")))
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
