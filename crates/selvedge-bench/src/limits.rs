//! `queue --limits`: what limits cost. The same load as `queue` without any, and with a limit on its lane, a budget that every
//! execution reserves something of, and with each completion the report of what was spent; in turn, and on stores of their own.
//!
//! No limit is reached: the lane may have as many active as may be outstanding. But all is counted, by every claim and every
//! end, on the same two rows.

use crate::floor::Floor;
use crate::report::{Report, Times, rounded};
use crate::terms::{Spends, Terms, Turns, budget_of, in_turn, tokens};
use crate::{Error, Load, Place, floor};
use selvedge_core::Name;
use selvedge_core::gate::{Config, GateKind};
use serde_json::json;

/// How often the loads are driven in turn.
const TURNS: usize = 3;
/// What the throughput with limits is to be of that without.
const GOAL: f64 = 0.6;
/// The budget.
const BUDGET: &str = "month";
/// What an execution reserves of it, and what it spends.
const RESERVED: u32 = 10;
const SPENT: u32 = 7;

/// Which limits there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The lane has one.
    pub lane: bool,
    /// Executions reserve something of a budget.
    pub budget: bool,
    /// Completions report what was spent of it.
    pub usage: bool,
}

impl Limits {
    /// These terms, for a load.
    fn terms(self, load: &Load) -> Terms {
        let mut terms = Terms::default();
        if self.lane {
            let held = (load.workers * load.batch) as u64;
            let concurrency = if load.outstanding == 0 { 2 * held } else { load.outstanding };
            let config = Config { concurrency: Some(concurrency as u32), ..Config::default() };
            terms.gates.push((GateKind::Lane, "default", config));
        }
        if self.budget || self.usage {
            terms.gates.push((GateKind::Budget, BUDGET, budget_of(u32::MAX)));
        }
        if self.budget {
            for asks in &mut terms.asks {
                asks.draws.budgets = vec![(Name::trusted(BUDGET), tokens(RESERVED))];
            }
        }
        if self.usage {
            terms.spends = Some(Spends { budget: Name::trusted(BUDGET), usage: tokens(SPENT) });
        }
        terms
    }
}

/// Runs it, next to its floor.
pub async fn run(place: &Place, load: &Load, limits: Limits) -> Result<Report, Error> {
    let floor = floor::measure(place, load.batch, 4).await?;
    let each = Load { executions: load.executions / TURNS as u64, ..load.clone() };
    let turns = in_turn(place, &each, &[Terms::default(), limits.terms(load)], TURNS).await?;
    let [without, with] = &turns[..] else {
        return Err(Error::Usage("two loads were to be driven".into()));
    };
    let mut report = report("queue", place, load, &floor, with);
    report.settings.extend([
        ("turns".to_owned(), json!(TURNS)),
        ("lane_limit".to_owned(), json!(limits.lane)),
        ("budget".to_owned(), json!(limits.budget)),
        ("usage".to_owned(), json!(limits.usage)),
    ]);
    compare(&mut report, "without_limits", without);
    report.more.insert("limits_ratio".into(), rounded(with.per_second / without.per_second));
    report.more.insert("goal_limits_ratio".into(), json!(GOAL));
    Ok(report)
}

/// A report about one of several loads that were driven in turn.
pub fn report(scenario: &'static str, place: &Place, load: &Load, floor: &Floor, with: &Turns) -> Report {
    let mut report = Report {
        scenario,
        store: place.name(),
        transport: if load.http { "http" } else { "in_process" },
        executions: with.executions,
        throughput: Some(with.per_second),
        times: with.times,
        commits: with.commits,
        wal_bytes: with.wal_bytes,
        floor: Some(floor.per_second),
        commit_ms: Some(floor.commit.p50),
        ..Report::default()
    };
    report.settings.extend([
        ("batch".to_owned(), json!(load.batch)),
        ("submitters".to_owned(), json!(load.submitters)),
        ("workers".to_owned(), json!(load.workers)),
        ("outstanding".to_owned(), json!(load.outstanding)),
    ]);
    report
}

/// The figures of the load that the report's own are compared with.
pub fn compare(report: &mut Report, name: &str, with: &Turns) {
    let figure = |value: Option<f64>, digits: f64| value.map(|value| (value * digits).round() / digits);
    report.more.insert(format!("{name}_per_s"), json!(with.per_second.round()));
    report
        .more
        .insert(format!("{name}_p99_ms"), json!(figure(with.times.map(|Times { p99, .. }| p99), 1000.0)));
    report.more.insert(format!("{name}_commits_per_execution"), json!(figure(with.commits, 10_000.0)));
    report.more.insert(format!("{name}_wal_bytes_per_execution"), json!(figure(with.wal_bytes, 1.0)));
}
