//! `latency --held`: the time of a claim when many executions before it are held.
//!
//! Many executions go through a gate that is full: a concurrency key, a quota or a budget, each on a store of its own.
//! Behind them comes an execution that goes through another gate of the same kind and may run. It is claimed in two
//! situations. First, when the executions before it are waiting and no claim has met them: one claim waits until it
//! gets the execution that may run, and every transaction on the way holds the executions that it meets. Then,
//! repeatedly, when all of them are held.
//!
//! Measures the call that claims the execution that may run. Compared with the same call on an empty lane: the goal for
//! the median is twice that time plus 1 ms.

use crate::harness::workload::{token_budget, tokens};
use crate::harness::{BenchWorker, Requirements, Target, TestBed};
use crate::report::{Report, Times, rounded};
use crate::{Error, Load, Place, floor};
use selvedge_core::Name;
use selvedge_core::gate::{Config, GateKind, GateName, RequiredGates};
use selvedge_engine::Namespace;
use serde_json::json;
use std::time::{Duration, Instant};

/// The number of executions in one call of submit.
const BATCH: usize = 1000;
/// The goal for a claim behind held executions: a multiple of the time on an empty lane, plus milliseconds.
const GOAL: (f64, f64) = (2.0, 1.0);
/// The name of the gate that is full.
const FULL: &str = "full";
/// The name of the gate that admits executions.
const FREE: &str = "free";

/// The parameters of the scenario.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// The number of held executions. Default: 10 000.
    pub held: u64,
    /// The number of claims that are timed behind the held executions, and on the empty lane. Default: 200.
    pub rounds: usize,
}

impl Default for Study {
    fn default() -> Self {
        Study { held: 10_000, rounds: 200 }
    }
}

/// The figures of one kind of gate.
struct GateFigures {
    /// The time of a claim on the empty lane.
    empty_lane: Times,
    /// The time of a claim behind held executions.
    behind_held: Times,
    /// The time until the execution that may run was claimed when nothing was held yet, and the number of transactions.
    first_claim: (Duration, u64),
    /// The time of a claim that found nothing, because all executions are held.
    nothing_found: Times,
}

/// Runs the scenario.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    if load.http {
        return Err(Error::Usage("--held is measured in process; leave out --http".into()));
    }
    let floor = floor::measure_for(place, load).await?;
    let mut figures: Vec<(GateKind, GateFigures)> = Vec::new();
    let mut report = None;
    for kind in [GateKind::Key, GateKind::Quota, GateKind::Budget] {
        let bed = TestBed::with_floor(place, load, floor).await?;
        report.get_or_insert_with(|| bed.report("latency", place, load));
        let measured = measure(&bed, kind, study).await;
        bed.close().await?;
        figures.push((kind, measured?));
    }
    let mut report = report.ok_or_else(|| Error::Usage("no gate was measured".into()))?;
    report.executions = study.held;
    report.settings.insert("held".into(), json!(study.held));
    report.settings.insert("rounds".into(), json!(study.rounds));
    for (kind, GateFigures { empty_lane, behind_held, first_claim, nothing_found }) in figures {
        let kind = kind.as_str();
        let goal = GOAL.0 * empty_lane.p50 + GOAL.1;
        let mut insert =
            |name: &str, value: f64| report.more.insert(format!("{kind}_{name}"), rounded(value));
        insert("empty_lane_p50_ms", empty_lane.p50);
        insert("empty_lane_p99_ms", empty_lane.p99);
        insert("behind_held_p50_ms", behind_held.p50);
        insert("behind_held_p99_ms", behind_held.p99);
        insert("goal_p50_ms", goal);
        insert("all_held_nothing_p50_ms", nothing_found.p50);
        insert("none_held_yet_ms", first_claim.0.as_secs_f64() * 1000.0);
        insert("none_held_yet_transactions", first_claim.1 as f64);
    }
    Ok(report)
}

/// Returns the requirements of an execution that goes through this gate. One execution fills the gate `full`.
fn through_gate(kind: GateKind, gate: &str, lane: &str) -> Result<Requirements, Error> {
    let name = Name::trusted(gate);
    let none = RequiredGates::default();
    let required_gates = match kind {
        GateKind::Key => RequiredGates { concurrency: Some((name, 1)), ..none },
        GateKind::Quota => RequiredGates { quotas: vec![name], ..none },
        GateKind::Budget => RequiredGates { budgets: vec![(name, tokens(10))], ..none },
        GateKind::Lane | GateKind::Fair => {
            return Err(Error::Usage("a lane or a fairness line does not hold executions".into()));
        }
    };
    Ok(Requirements { required_gates, ..Requirements::lane(lane) })
}

async fn configure(namespace: &Namespace, kind: GateKind) -> Result<(), Error> {
    let limit = |concurrency| Config { concurrency: Some(concurrency), ..Config::default() };
    let gates = match kind {
        GateKind::Quota => vec![(FULL, limit(1)), (FREE, limit(1000))],
        GateKind::Budget => vec![(FULL, token_budget(10)), (FREE, token_budget(1_000_000))],
        GateKind::Lane | GateKind::Key | GateKind::Fair => Vec::new(),
    };
    for (name, config) in gates {
        namespace.configure(kind, name, Some(config), &Name::trusted("bench")).await?;
    }
    Ok(())
}

/// A lane, a worker of that lane that does not wait, and an execution that may run there.
struct Lane {
    worker: BenchWorker,
    may_run: Requirements,
}

impl Lane {
    fn new(kind: GateKind, lane: &str) -> Result<Lane, Error> {
        let worker = BenchWorker { lanes: vec![lane.into()], wait: Duration::ZERO, ..BenchWorker::new(0, 1) };
        Ok(Lane { worker, may_run: through_gate(kind, FREE, lane)? })
    }

    /// Times claims that each find one execution, which is submitted just before and completed after.
    async fn time_claims(&self, target: &Target, count: usize) -> Result<Vec<Duration>, Error> {
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            target.submit_with(1, std::slice::from_ref(&self.may_run), 0).await?;
            let begun = Instant::now();
            let active = target.work(&[], &self.worker).await?;
            times.push(begun.elapsed());
            if active.is_empty() {
                return Err(Error::Usage("the execution that may run was not claimed".into()));
            }
            target.complete(&active, &self.worker).await?;
        }
        Ok(times)
    }
}

async fn measure(bed: &TestBed, kind: GateKind, study: &Study) -> Result<GateFigures, Error> {
    let namespace = bed.engine.namespace("default").await?;
    configure(&namespace, kind).await?;
    let target = &bed.target;
    let (empty, behind) = (Lane::new(kind, "empty")?, Lane::new(kind, "default")?);
    for lane in [&empty, &behind] {
        lane.time_claims(target, 20).await?;
    }

    fill(target, &behind, kind, study).await?;
    let first_claim = claim_behind_waiting(bed, &behind).await?;
    let gate = GateName::new(namespace.id(), kind, Name::trusted(FULL)).id();
    let mut held = bed.engine.store().held_by(gate, study.held + 1).await?;
    // The first claim has found its execution behind the others. Further claims, which find nothing, hold the rest.
    for _ in 0..study.held {
        if held >= study.held {
            break;
        }
        target.work(&[], &behind.worker).await?;
        held = bed.engine.store().held_by(gate, study.held + 1).await?;
    }
    if held != study.held {
        return Err(Error::Usage(format!("{held} executions are held instead of {}", study.held)));
    }

    let (mut empty_lane, mut behind_held, mut nothing_found) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..study.rounds {
        empty_lane.extend(empty.time_claims(target, 1).await?);
        behind_held.extend(behind.time_claims(target, 1).await?);
        let begun = Instant::now();
        target.work(&[], &behind.worker).await?;
        nothing_found.push(begun.elapsed());
    }
    let times = |times| Times::of(times).ok_or_else(|| Error::Usage("no claim was measured".into()));
    Ok(GateFigures {
        empty_lane: times(empty_lane)?,
        behind_held: times(behind_held)?,
        first_claim,
        nothing_found: times(nothing_found)?,
    })
}

/// Fills the gate with one active execution, and submits those that it will hold.
async fn fill(target: &Target, lane: &Lane, kind: GateKind, study: &Study) -> Result<(), Error> {
    let full = through_gate(kind, FULL, "default")?;
    target.submit_with(1, std::slice::from_ref(&full), 0).await?;
    target.work(&[], &lane.worker).await?;
    let mut left = study.held as usize;
    while left > 0 {
        let count = left.min(BATCH);
        target.submit_with(count, std::slice::from_ref(&full), 0).await?;
        left -= count;
    }
    Ok(())
}

/// Claims the execution that may run behind executions that no claim has met. Returns the time and the number of
/// transactions.
async fn claim_behind_waiting(bed: &TestBed, lane: &Lane) -> Result<(Duration, u64), Error> {
    bed.target.submit_with(1, std::slice::from_ref(&lane.may_run), 0).await?;
    let patient = BenchWorker { wait: Duration::from_secs(60), ..lane.worker.clone() };
    let (begun, transactions) = (Instant::now(), bed.engine.activity().0);
    let active = bed.target.work(&[], &patient).await?;
    let first_claim = (begun.elapsed(), bed.engine.activity().0 - transactions);
    if active.is_empty() {
        return Err(Error::Usage("the execution that may run was not claimed within a minute".into()));
    }
    bed.target.complete(&active, &lane.worker).await?;
    Ok(first_claim)
}
