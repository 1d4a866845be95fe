//! The command line of the benchmark: the scenarios and their options. docs/benchmarks.md describes the scenarios.

use clap::{Parser, ValueEnum};
use selvedge_bench::{
    Error, Load, Place, Report, backlog, beside, capability, chain, fanout, feed, floor, flows, held, idle,
    latency, limits, queue, quorum_cancel, submit_flow, suspend_signal, webhooks,
};
use std::time::Duration;

/// Measure the engine and compare it with plain SQL
#[derive(Clone, Debug, Parser)]
#[command(name = "selvedge-bench", bin_name = "selvedge bench", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Arguments {
    /// Run this scenario
    pub scenario: Scenario,
    /// Use this store: postgres://… (in a temporary schema) or sqlite:DIRECTORY (in a temporary file) [default: SQLite
    /// in the system's temporary directory]
    #[arg(long, env = "SELVEDGE_STORE", hide_env_values = true, value_name = "ADDRESS")]
    pub store: Option<String>,
    /// Go through the HTTP API of a server in this process
    #[arg(long)]
    pub http: bool,
    /// --http: let the server demand API keys, one of the role submitter and one of the role worker
    #[arg(long, requires = "http")]
    pub keys: bool,
    /// queue: fill the SQL views of events and attempts meanwhile
    #[arg(long)]
    pub event_views: bool,
    /// Print one JSON object on one line
    #[arg(long)]
    pub json: bool,
    /// Log to standard error with this filter [default: warn,selvedge=info]
    #[arg(long, env = "SELVEDGE_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// Submit N executions [default: 150000, with --http 60000]
    #[arg(long, value_name = "N")]
    pub executions: Option<u64>,
    /// Submit and claim up to N executions per call
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub batch: usize,
    /// Run N concurrent submitters
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub submitters: usize,
    /// Run N concurrent workers [default: 4, capability 40]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Allow N executions that are submitted and not yet completed; 0 removes the limit
    #[arg(long, value_name = "N", default_value_t = 800)]
    pub outstanding: u64,
    /// queue: compare with a concurrency limit on the lane (lane), a budget with reservations (budget) and usage
    /// reports (usage) [without a value: all three]
    #[arg(
        long,
        value_enum,
        value_name = "WHICH",
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_values = ["lane", "budget", "usage"]
    )]
    pub limits: Vec<Limit>,
    /// latency: measure claims behind N held executions and compare with an empty lane [without a value: 10000]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10000")]
    pub held: Option<u64>,
    /// latency: measure a fairness key with few executions beside one with N waiting executions [without a value:
    /// 100000]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "100000", conflicts_with = "held")]
    pub beside: Option<u64>,
    /// latency --beside: submit for the key with few executions every MS milliseconds [default: 200]
    #[arg(long, value_name = "MS")]
    pub every: Option<u64>,
    /// backlog: start with N waiting executions
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub waiting: u64,
    /// backlog: spread the waiting executions over N lanes; each worker claims from ten of them
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub lanes: u64,
    /// backlog: start with N terminal executions
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub finished: u64,
    /// backlog: hold an old snapshot in another session for this many seconds, under load, before measuring
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub old_snapshot: u64,
    /// chain, flows: give each flow N nodes [default: chain 50, flows 10]
    #[arg(long, value_name = "N")]
    pub length: Option<usize>,
    /// fanout, quorum-cancel: use N parallel nodes [default: fanout 1000, quorum-cancel 100]
    #[arg(long, value_name = "N")]
    pub width: Option<usize>,
    /// quorum-cancel: require N of the parallel nodes
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub quorum: usize,
    /// flows: submit N flows
    #[arg(long, value_name = "N", default_value_t = 5000)]
    pub flows: u64,
    /// flows: allow N flows that are submitted and not yet completed; suspend-signal: run N concurrent handlers of ten
    /// steps [default: flows 1000, suspend-signal 200]
    #[arg(long, value_name = "N")]
    pub at_once: Option<usize>,
    /// suspend-signal: measure claims beside N suspended executions (Postgres only)
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub suspended: u64,
    /// submit-flow: submit a flow of N nodes, at most 10000
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub nodes: usize,
    /// submit-flow: store N flows beforehand
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub stored: u64,
    /// chain, fanout, quorum-cancel, submit-flow, suspend-signal, latency --held and --beside: repeat N times [default:
    /// chain and fanout 20, quorum-cancel and suspend-signal 10, submit-flow 5, --held and --beside 200]
    #[arg(long, value_name = "N")]
    pub rounds: Option<usize>,
}

const EXAMPLES: &str = "\
Examples:
  selvedge bench queue
  selvedge bench queue --store postgres://postgres@127.0.0.1/postgres --http
  selvedge bench queue --store postgres://postgres@127.0.0.1/postgres --http --keys
  selvedge bench latency --store postgres://postgres@127.0.0.1/postgres --json
  selvedge bench queue --limits --store postgres://postgres@127.0.0.1/postgres
  selvedge bench queue --limits=lane
  selvedge bench capability --workers 40
  selvedge bench latency --held 10000 --store postgres://postgres@127.0.0.1/postgres
  selvedge bench latency --beside 100000 --every 1000 --rounds 120
  selvedge bench backlog --store postgres://postgres@127.0.0.1/postgres
  selvedge bench backlog --waiting 10000 --lanes 1 --finished 0 --old-snapshot 600 --store postgres://…
  selvedge bench chain --length 50
  selvedge bench fanout --width 100 --http
  selvedge bench flows --store postgres://postgres@127.0.0.1/postgres --json
  selvedge bench quorum-cancel --width 1000
  selvedge bench submit-flow --stored 100000
  selvedge bench suspend-signal --store postgres://postgres@127.0.0.1/postgres --json
  selvedge bench feed --store postgres://postgres@127.0.0.1/postgres --json
  selvedge bench webhooks --store postgres://postgres@127.0.0.1/postgres";

/// A benchmark scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Measure hand-written SQL on a plain table, the baseline of the other scenarios
    Floor,
    /// Measure the throughput of executions from submission to completion, optionally with limits
    Queue,
    /// Measure the throughput of executions that require one of ten sets of capabilities
    Capability,
    /// Measure the time from submission to the start of the handler: idle, at half of the peak rate, behind held
    /// executions, or beside a backlog
    Latency,
    /// Measure claims with many waiting and many terminal executions, or with an old snapshot (Postgres only)
    Backlog,
    /// Measure the cost of an engine without work
    Idle,
    /// Measure the time from the completion of a node to the start of the next, in linear flows
    Chain,
    /// Measure flows of one node, many parallel nodes, and one join
    Fanout,
    /// Measure the throughput of many concurrent linear flows, in nodes
    Flows,
    /// Measure the cancellation of the remaining nodes once a quorum is satisfied
    QuorumCancel,
    /// Measure the submission of one large flow
    SubmitFlow,
    /// Measure the time from a signal to the start of the suspended handler, durable steps, and claims beside suspended
    /// executions
    SuspendSignal,
    /// Measure the time from a commit to a subscriber, the speed of reading the event log, and the cost of writing it
    Feed,
    /// Measure deliveries of webhooks to a fast receiver, alone and beside receivers that do not answer
    Webhooks,
}

/// A limit of the `queue` scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Limit {
    /// Limit the concurrency of the lane
    Lane,
    /// Reserve an amount of a budget for every execution
    Budget,
    /// Report usage with every completion
    Usage,
}

/// Runs the scenario.
pub async fn measure(arguments: &Arguments) -> Result<Report, Error> {
    let temporary = format!("sqlite:{}", std::env::temp_dir().display());
    let place = Place::parse(arguments.store.as_deref().unwrap_or(&temporary))?;
    let load = Load {
        executions: arguments.executions.unwrap_or(if arguments.http { 60_000 } else { 150_000 }),
        batch: arguments.batch.clamp(1, 1000),
        submitters: arguments.submitters.max(1),
        workers: arguments.workers.unwrap_or(arguments.default_workers()).max(1),
        outstanding: arguments.outstanding,
        http: arguments.http,
        keys: arguments.keys,
        event_views: arguments.event_views,
    };
    match arguments.scenario {
        Scenario::Floor => floor::run(&place, load.batch, load.workers).await,
        Scenario::Queue => match arguments.limits() {
            None => queue::run(&place, &load).await,
            Some(limits) => limits::run(&place, &load, limits).await,
        },
        Scenario::Capability => capability::run(&place, &load).await,
        Scenario::Latency => match (arguments.held, arguments.beside) {
            (Some(held), _) => held::run(&place, &load, &arguments.held(held)).await,
            (None, Some(waiting)) => beside::run(&place, &load, &arguments.beside(waiting)).await,
            (None, None) => latency::run(&place, &load).await,
        },
        Scenario::Idle => idle::run(&place).await,
        Scenario::Chain => chain::run(&place, &load, &arguments.chain()).await,
        Scenario::Fanout => fanout::run(&place, &load, &arguments.fanout()).await,
        Scenario::Flows => flows::run(&place, &load, &arguments.many_flows()).await,
        Scenario::QuorumCancel => quorum_cancel::run(&place, &load, &arguments.quorum_cancel()).await,
        Scenario::SubmitFlow => submit_flow::run(&place, &load, &arguments.submit_flow()).await,
        Scenario::SuspendSignal => suspend_signal::run(&place, &load, &arguments.suspend_signal()).await,
        Scenario::Feed => feed::run(&place, &load, &feed::Study::default()).await,
        Scenario::Webhooks => webhooks::run(&place, &load).await,
        Scenario::Backlog => {
            let study = backlog::Study {
                waiting: arguments.waiting,
                lanes: arguments.lanes.max(1),
                named: arguments.lanes.clamp(1, 10),
                finished: arguments.finished,
                old_snapshot: Duration::from_secs(arguments.old_snapshot),
                ..backlog::Study::default()
            };
            backlog::run(&place, &load, &study).await
        }
    }
}

/// The options of each scenario: from the command line, else the scenario's default.
impl Arguments {
    fn default_workers(&self) -> usize {
        match self.scenario {
            Scenario::Capability => capability::WORKERS,
            _ => Load::default().workers,
        }
    }

    fn limits(&self) -> Option<limits::Limits> {
        let has = |limit| self.limits.contains(&limit);
        let limits =
            limits::Limits { lane: has(Limit::Lane), budget: has(Limit::Budget), usage: has(Limit::Usage) };
        (!self.limits.is_empty()).then_some(limits)
    }

    fn held(&self, held: u64) -> held::Study {
        held::Study { held, rounds: self.rounds.unwrap_or(held::Study::default().rounds).max(1) }
    }

    fn beside(&self, waiting: u64) -> beside::Study {
        let default = beside::Study::default();
        beside::Study {
            waiting,
            samples: self.rounds.unwrap_or(default.samples).max(1),
            every: self.every.map_or(default.every, |every| Duration::from_millis(every.max(1))),
        }
    }

    fn chain(&self) -> chain::Study {
        let default = chain::Study::default();
        chain::Study {
            length: self.length.unwrap_or(default.length).max(1),
            chains: self.rounds.unwrap_or(default.chains).max(1),
        }
    }

    fn fanout(&self) -> fanout::Study {
        let default = fanout::Study::default();
        fanout::Study {
            width: self.width.unwrap_or(default.width).max(1),
            rounds: self.rounds.unwrap_or(default.rounds).max(1),
        }
    }

    fn many_flows(&self) -> flows::Study {
        let default = flows::Study::default();
        flows::Study {
            length: self.length.unwrap_or(default.length).max(1),
            flows: self.flows.max(1),
            at_once: self.at_once.unwrap_or(default.at_once).max(1),
        }
    }

    fn suspend_signal(&self) -> suspend_signal::Study {
        let default = suspend_signal::Study::default();
        suspend_signal::Study {
            at_once: self.at_once.unwrap_or(default.at_once).clamp(1, 1000),
            rounds: self.rounds.unwrap_or(default.rounds).max(1),
            suspended: self.suspended,
            ..default
        }
    }

    fn quorum_cancel(&self) -> quorum_cancel::Study {
        let default = quorum_cancel::Study::default();
        quorum_cancel::Study {
            width: self.width.unwrap_or(default.width),
            quorum: self.quorum,
            rounds: self.rounds.unwrap_or(default.rounds).max(1),
        }
    }

    fn submit_flow(&self) -> submit_flow::Study {
        let default = submit_flow::Study::default();
        submit_flow::Study {
            nodes: self.nodes,
            stored: self.stored,
            rounds: self.rounds.unwrap_or(default.rounds).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(words: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(["selvedge-bench"].into_iter().chain(words.split(' ')))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn limits_without_a_value_are_all_limits() {
        let limits = |words| parse(words).expect("the arguments are valid").limits();
        let all = limits::Limits { lane: true, budget: true, usage: true };
        assert_eq!(limits("queue"), None);
        assert_eq!(limits("queue --limits"), Some(all));
        assert_eq!(limits("queue --limits --json"), Some(all));
        let some = limits::Limits { usage: false, ..all };
        assert_eq!(limits("queue --limits=lane,budget"), Some(some));
        assert!(parse("queue --limits=floor").is_err());
    }

    #[test]
    fn keys_need_http() {
        assert!(parse("queue --http --keys").is_ok_and(|arguments| arguments.keys));
        assert!(parse("queue --keys").is_err());
    }

    #[test]
    fn held_and_beside_have_a_default_value_and_exclude_each_other() {
        let parsed = |words| parse(words).map(|arguments| (arguments.held, arguments.beside)).ok();
        assert_eq!(parsed("latency"), Some((None, None)));
        assert_eq!(parsed("latency --held"), Some((Some(10_000), None)));
        assert_eq!(parsed("latency --beside 500"), Some((None, Some(500))));
        assert_eq!(parsed("latency --held --beside"), None);
    }

    /// The lines around the table of options in `docs/benchmarks.md`.
    const TABLE: [&str; 2] =
        ["<!-- options: SELVEDGE_REGENERATE=1 cargo test -p selvedge-bench -->", "<!-- end -->"];

    /// Returns the table of all options, in the form of the page.
    fn table() -> String {
        let command = Arguments::command();
        let rows = command.get_arguments().filter_map(|argument| {
            let value = match argument.get_action().takes_values() {
                true => argument.get_value_names().map(|names| format!(" {}", names[0])).unwrap_or_default(),
                false => String::new(),
            };
            let help = argument.get_help()?.to_string();
            let stated = help.contains(" [default: ") || argument.get_default_values().is_empty();
            let default = match stated {
                true => String::new(),
                false => format!(" [default: {}]", argument.get_default_values()[0].to_string_lossy()),
            };
            Some(format!("| `--{}{value}` | {help}{default} |\n", argument.get_long()?))
        });
        format!("\n| option | meaning |\n| --- | --- |\n{}\n", rows.collect::<String>())
    }

    #[test]
    fn the_page_of_benchmarks_has_every_option() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/benchmarks.md");
        let page = std::fs::read_to_string(path).expect("the page is read");
        let [begin, end] = TABLE;
        let (before, rest) = page.split_once(begin).expect("the page has the table");
        let (_, after) = rest.split_once(end).expect("the table has an end");
        let expected = format!("{before}{begin}\n{}{end}{after}", table());
        if std::env::var_os("SELVEDGE_REGENERATE").is_some() {
            std::fs::write(path, &expected).expect("the page is written");
        } else {
            assert_eq!(page, expected, "run SELVEDGE_REGENERATE=1 cargo test -p selvedge-bench");
        }
    }
}
