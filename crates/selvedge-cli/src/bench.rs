//! `selvedge bench`: measures the engine next to a floor in the same run. What the scenarios are: docs/benchmarks.md.

use crate::failure::Failure;
use clap::{Args, ValueEnum};
use selvedge_bench::{
    Error, Load, Place, Report, backlog, beside, capability, chain, fanout, feed, floor, flows, held, idle,
    latency, limits, queue, quorum_cancel, submit_flow, suspend_signal,
};
use std::time::Duration;

/// What to measure, and where.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// What to measure
    pub scenario: Scenario,
    /// Where: postgres://… (a schema of its own, dropped at the end) or sqlite:DIRECTORY (a file of its own, deleted at
    /// the end) [default: sqlite in the temporary directory]
    #[arg(long, env = "SELVEDGE_STORE", hide_env_values = true, value_name = "ADDRESS")]
    pub store: Option<String>,
    /// Go through the HTTP API of a server in this process
    #[arg(long)]
    pub http: bool,
    /// Print one JSON object on one line
    #[arg(long)]
    pub json: bool,
    /// How many executions [default: 150000, over HTTP 60000]
    #[arg(long, value_name = "N")]
    pub executions: Option<u64>,
    /// How many executions go in one call
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub batch: usize,
    /// How many submit at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub submitters: usize,
    /// How many workers claim at once [default: 4, capability 40]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// How many may be submitted and not yet completed; 0 lets the submitters run ahead as far as they can
    #[arg(long, value_name = "N", default_value_t = 800)]
    pub outstanding: u64,
    /// queue: compare with a limit on the lane (lane), a budget that every execution reserves something of (budget), and
    /// reports of what was spent (usage); without a value with all three
    #[arg(
        long,
        value_enum,
        value_name = "WHICH",
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_values = ["lane", "budget", "usage"]
    )]
    pub limits: Vec<Limited>,
    /// latency: claims behind so many that are held, beside claims from an empty lane [without a value: 10000]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10000")]
    pub held: Option<u64>,
    /// latency: one who wants little, beside another with so many waiting [without a value: 100000]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "100000", conflicts_with = "held")]
    pub beside: Option<u64>,
    /// latency --beside: how far apart the one who wants little submits, in milliseconds [default: 200]
    #[arg(long, value_name = "MS")]
    pub every: Option<u64>,
    /// backlog: how many wait
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub waiting: u64,
    /// backlog: over how many lanes; each worker names ten of them
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub lanes: u64,
    /// backlog: how many have ended
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub finished: u64,
    /// backlog: for how long a foreign session holds an old snapshot, under load, before the rate is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub old_snapshot: u64,
    /// chain, flows: how many nodes each has [default: chain 50, flows 10]
    #[arg(long, value_name = "N")]
    pub length: Option<usize>,
    /// fanout, quorum-cancel: how many nodes stand side by side [default: fanout 1000, quorum-cancel 100]
    #[arg(long, value_name = "N")]
    pub width: Option<usize>,
    /// quorum-cancel: how many of them are enough
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub quorum: usize,
    /// flows: how many
    #[arg(long, value_name = "N", default_value_t = 5000)]
    pub flows: u64,
    /// flows: how many may be submitted and not yet completed; suspend-signal: how many handlers of ten steps run at once
    /// [default: flows 1000, suspend-signal 200]
    #[arg(long, value_name = "N")]
    pub at_once: Option<usize>,
    /// suspend-signal: how many are suspended beside what is claimed (Postgres)
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub suspended: u64,
    /// submit-flow: how many nodes the flow has, at most 10000
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub nodes: usize,
    /// submit-flow: how many flows are stored before
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub stored: u64,
    /// chain, fanout, quorum-cancel, submit-flow, suspend-signal, latency --held and --beside: how often [default: chain and
    /// fanout 20, quorum-cancel and suspend-signal 10, submit-flow 5, --held and --beside 200]
    #[arg(long, value_name = "N")]
    pub rounds: Option<usize>,
}

const EXAMPLES: &str = "\
Examples:
  selvedge bench queue
  selvedge bench queue --store postgres://postgres@127.0.0.1/postgres --http
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
  selvedge bench feed --store postgres://postgres@127.0.0.1/postgres --json";

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Hand-written SQL on a plain table: what the rest is compared with
    Floor,
    /// Executions from submission to their end, as many as go; with and without limits
    Queue,
    /// Executions that ask for one of ten sets of capabilities, and workers that offer them, beside a queue without any
    Capability,
    /// From submission to the start of the handler: idle, and at half of the peak; behind what is held; beside much that waits
    Latency,
    /// Claims when much waits and much has ended, or while an old snapshot is held (Postgres)
    Backlog,
    /// What an engine costs that has nothing to do
    Idle,
    /// Flows of nodes one after another: from a completion to the start of the next
    Chain,
    /// Flows of one, then many, then one that joins them
    Fanout,
    /// Many linear flows at once, as many nodes as go
    Flows,
    /// Some of many are enough: how the rest is cancelled
    QuorumCancel,
    /// One large flow in one call
    SubmitFlow,
    /// From a signal to the start of the handler that waited for it, durable steps, and claims beside much that is suspended
    SuspendSignal,
    /// From a commit to a subscriber, how fast the log is read, and what recording events costs
    Feed,
}

/// A limit that a load may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Limited {
    /// A limit on the lane
    Lane,
    /// A budget that every execution reserves something of
    Budget,
    /// Reports of what was spent
    Usage,
}

/// Measures, and prints what was found.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let report = measure(&arguments).await.map_err(|error| match error {
        Error::Usage(message) => Failure::Usage(message),
        other => Failure::Failed(other.to_string()),
    })?;
    if arguments.json {
        println!("{}", report.json());
    } else {
        print!("{report}");
    }
    Ok(())
}

async fn measure(arguments: &Arguments) -> Result<Report, Error> {
    let temporary = format!("sqlite:{}", std::env::temp_dir().display());
    let place = Place::parse(arguments.store.as_deref().unwrap_or(&temporary))?;
    let load = Load {
        executions: arguments.executions.unwrap_or(if arguments.http { 60_000 } else { 150_000 }),
        batch: arguments.batch.clamp(1, 1000),
        submitters: arguments.submitters.max(1),
        workers: arguments.workers.unwrap_or(arguments.usual_workers()).max(1),
        outstanding: arguments.outstanding,
        http: arguments.http,
    };
    match arguments.scenario {
        Scenario::Floor => floor::run(&place, load.batch, load.workers).await,
        Scenario::Queue => match arguments.limited() {
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

/// What each scenario is asked for: what the command line says, else the scenario's own default.
impl Arguments {
    fn usual_workers(&self) -> usize {
        match self.scenario {
            Scenario::Capability => capability::WORKERS,
            _ => Load::default().workers,
        }
    }

    fn limited(&self) -> Option<limits::Limits> {
        let has = |limit| self.limits.contains(&limit);
        let limits = limits::Limits {
            lane: has(Limited::Lane),
            budget: has(Limited::Budget),
            usage: has(Limited::Usage),
        };
        (!self.limits.is_empty()).then_some(limits)
    }

    fn held(&self, held: u64) -> held::Study {
        held::Study { held, rounds: self.rounds.unwrap_or(held::Study::default().rounds).max(1) }
    }

    fn beside(&self, waiting: u64) -> beside::Study {
        let usual = beside::Study::default();
        beside::Study {
            waiting,
            samples: self.rounds.unwrap_or(usual.samples).max(1),
            every: self.every.map_or(usual.every, |every| Duration::from_millis(every.max(1))),
        }
    }

    fn chain(&self) -> chain::Study {
        let usual = chain::Study::default();
        chain::Study {
            length: self.length.unwrap_or(usual.length).max(1),
            chains: self.rounds.unwrap_or(usual.chains).max(1),
        }
    }

    fn fanout(&self) -> fanout::Study {
        let usual = fanout::Study::default();
        fanout::Study {
            width: self.width.unwrap_or(usual.width).max(1),
            rounds: self.rounds.unwrap_or(usual.rounds).max(1),
        }
    }

    fn many_flows(&self) -> flows::Study {
        let usual = flows::Study::default();
        flows::Study {
            length: self.length.unwrap_or(usual.length).max(1),
            flows: self.flows.max(1),
            at_once: self.at_once.unwrap_or(usual.at_once).max(1),
        }
    }

    fn suspend_signal(&self) -> suspend_signal::Study {
        let usual = suspend_signal::Study::default();
        suspend_signal::Study {
            at_once: self.at_once.unwrap_or(usual.at_once).clamp(1, 1000),
            rounds: self.rounds.unwrap_or(usual.rounds).max(1),
            suspended: self.suspended,
            ..usual
        }
    }

    fn quorum_cancel(&self) -> quorum_cancel::Study {
        let usual = quorum_cancel::Study::default();
        quorum_cancel::Study {
            width: self.width.unwrap_or(usual.width),
            quorum: self.quorum,
            rounds: self.rounds.unwrap_or(usual.rounds).max(1),
        }
    }

    fn submit_flow(&self) -> submit_flow::Study {
        let usual = submit_flow::Study::default();
        submit_flow::Study {
            nodes: self.nodes,
            stored: self.stored,
            rounds: self.rounds.unwrap_or(usual.rounds).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(words: &str) -> Result<Arguments, clap::Error> {
        Line::try_parse_from(["bench"].into_iter().chain(words.split(' '))).map(|line| line.arguments)
    }

    #[test]
    fn limits_are_all_of_them_unless_some_are_named() {
        let limited = |words| parse(words).expect("it is understood").limited();
        let all = limits::Limits { lane: true, budget: true, usage: true };
        assert_eq!(limited("queue"), None);
        assert_eq!(limited("queue --limits"), Some(all));
        assert_eq!(limited("queue --limits --json"), Some(all));
        let some = limits::Limits { usage: false, ..all };
        assert_eq!(limited("queue --limits=lane,budget"), Some(some));
        assert!(parse("queue --limits=floor").is_err());
    }

    #[test]
    fn how_many_are_held_or_wait_beside_has_a_default_once_it_is_asked_for() {
        let asked = |words| parse(words).map(|arguments| (arguments.held, arguments.beside)).ok();
        assert_eq!(asked("latency"), Some((None, None)));
        assert_eq!(asked("latency --held"), Some((Some(10_000), None)));
        assert_eq!(asked("latency --beside 500"), Some((None, Some(500))));
        assert_eq!(asked("latency --held --beside"), None);
    }
}
