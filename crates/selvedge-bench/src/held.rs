//! `latency --held`: what it costs a claim that much is held ahead of what it gets.
//!
//! So many executions draw on a gate that is full: a concurrency key, a quota, a budget, each on a store of its own. Behind them
//! comes one that draws on another gate of the same kind, and may run. First while those ahead are ready and no claim has met
//! them: a worker's claim waits until it has the one that may run, and every transaction on the way holds what it meets. Then
//! again and again while all of them are held: the time of the call that claims it, beside that of the same call on a lane that
//! is empty.

use crate::bed::Bed;
use crate::report::{Report, Times, rounded};
use crate::target::{Claimer, Target};
use crate::terms::{Asks, budget_of, tokens};
use crate::{Error, Load, Place, floor};
use selvedge_core::Name;
use selvedge_core::gate::{Config, Draws, GateKind, GateName};
use selvedge_engine::Namespace;
use serde_json::json;
use std::time::{Duration, Instant};

/// How many are submitted in one call.
const BATCH: usize = 1000;
/// What a claim behind the held ones may take: this often the time of a claim from an empty lane, and so much more.
const GOAL: (f64, f64) = (2.0, 1.0);
/// The gate that is full, and the one that is not.
const FULL: &str = "full";
const FREE: &str = "free";

/// How much there is.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// How many are held.
    pub held: u64,
    /// How often a claim is measured behind them, and as often on an empty lane.
    pub rounds: usize,
}

impl Default for Study {
    fn default() -> Self {
        Study { held: 10_000, rounds: 200 }
    }
}

/// What was measured with one kind of gate.
struct Measured {
    empty: Times,
    behind: Times,
    /// Until the one that may run was claimed, and in how many transactions, when nothing was held yet.
    first: (Duration, u64),
    /// A claim that was answered at once with nothing, when all were held.
    nothing: Times,
}

/// Runs it, next to its floor.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    if load.http {
        return Err(Error::Usage("--held is measured in process; leave out --http".into()));
    }
    let floor = floor::measure(place, load.batch, 4).await?;
    let mut found: Vec<(GateKind, Measured)> = Vec::new();
    let mut report = None;
    for kind in [GateKind::Key, GateKind::Quota, GateKind::Budget] {
        let bed = Bed::beside(place, load, floor).await?;
        report.get_or_insert_with(|| bed.report("latency", place, load));
        let measured = measure(&bed, kind, study).await;
        bed.close().await?;
        found.push((kind, measured?));
    }
    let mut report = report.ok_or_else(|| Error::Usage("nothing was measured".into()))?;
    report.executions = study.held;
    report.settings.insert("held".into(), json!(study.held));
    report.settings.insert("rounds".into(), json!(study.rounds));
    for (kind, Measured { empty, behind, first, nothing }) in found {
        let kind = kind.as_str();
        let goal = GOAL.0 * empty.p50 + GOAL.1;
        let mut put = |name: &str, value: f64| report.more.insert(format!("{kind}_{name}"), rounded(value));
        put("empty_lane_p50_ms", empty.p50);
        put("empty_lane_p99_ms", empty.p99);
        put("behind_held_p50_ms", behind.p50);
        put("behind_held_p99_ms", behind.p99);
        put("goal_p50_ms", goal);
        put("all_held_nothing_p50_ms", nothing.p50);
        put("none_held_yet_ms", first.0.as_secs_f64() * 1000.0);
        put("none_held_yet_transactions", first.1 as f64);
    }
    Ok(report)
}

/// What draws on a gate of this kind: all of the one that is full, something of the one that is not.
fn asks(kind: GateKind, gate: &str, lane: &str) -> Result<Asks, Error> {
    let name = Name::trusted(gate);
    let none = Draws::default();
    let draws = match kind {
        GateKind::Key => Draws { concurrency: Some((name, 1)), ..none },
        GateKind::Quota => Draws { quotas: vec![name], ..none },
        GateKind::Budget => Draws { budgets: vec![(name, tokens(10))], ..none },
        GateKind::Lane | GateKind::Fair => {
            return Err(Error::Usage("a lane or a line holds nothing that it refuses".into()));
        }
    };
    Ok(Asks { draws, ..Asks::lane(lane) })
}

async fn configure(namespace: &Namespace, kind: GateKind) -> Result<(), Error> {
    let few = |count| Config { concurrency: Some(count), ..Config::default() };
    let gates = match kind {
        GateKind::Quota => vec![(FULL, few(1)), (FREE, few(1000))],
        GateKind::Budget => vec![(FULL, budget_of(10)), (FREE, budget_of(1_000_000))],
        GateKind::Lane | GateKind::Key | GateKind::Fair => Vec::new(),
    };
    for (name, config) in gates {
        namespace.configure(kind, name, Some(config), &Name::trusted("bench")).await?;
    }
    Ok(())
}

async fn measure(bed: &Bed, kind: GateKind, study: &Study) -> Result<Measured, Error> {
    let namespace = bed.engine.namespace("default").await?;
    configure(&namespace, kind).await?;
    let (target, full) = (&bed.target, asks(kind, FULL, "default")?);
    let worker =
        |lane: &str| Claimer { lanes: vec![lane.into()], wait: Duration::ZERO, ..Claimer::new(0, 1) };
    let (behind, empty) = (worker("default"), worker("empty"));
    let (may_run, alone) = (asks(kind, FREE, "default")?, asks(kind, FREE, "empty")?);
    for (claimer, asks) in [(&empty, &alone), (&behind, &may_run)] {
        claims(target, claimer, asks, 20).await?;
    }

    // The one that fills the gate, and does not end.
    target.submit_asking(1, std::slice::from_ref(&full), 0).await?;
    target.work(&[], &behind).await?;
    let mut left = study.held as usize;
    while left > 0 {
        let count = left.min(BATCH);
        target.submit_asking(count, std::slice::from_ref(&full), 0).await?;
        left -= count;
    }
    target.submit_asking(1, std::slice::from_ref(&may_run), 0).await?;
    let patient = Claimer { wait: Duration::from_secs(60), ..behind.clone() };
    let (begun, batches) = (Instant::now(), bed.engine.activity().0);
    let taken = target.work(&[], &patient).await?;
    let first = (begun.elapsed(), bed.engine.activity().0 - batches);
    if taken.is_empty() {
        return Err(Error::Usage("the one that may run was not claimed within a minute".into()));
    }
    target.complete(&taken, &behind).await?;
    let gate = GateName::new(namespace.id(), kind, Name::trusted(FULL)).id();
    let held = bed.engine.store().held_by(gate, study.held + 1).await?;
    if held != study.held {
        return Err(Error::Usage(format!("{held} are held, and not {}", study.held)));
    }

    let (mut times_empty, mut times_behind, mut times_nothing) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..study.rounds {
        times_empty.extend(claims(target, &empty, &alone, 1).await?);
        times_behind.extend(claims(target, &behind, &may_run, 1).await?);
        let begun = Instant::now();
        target.work(&[], &behind).await?;
        times_nothing.push(begun.elapsed());
    }
    let of = |times| Times::of(times).ok_or_else(|| Error::Usage("no claim was measured".into()));
    Ok(Measured { empty: of(times_empty)?, behind: of(times_behind)?, first, nothing: of(times_nothing)? })
}

/// The times of claims that find one execution, which was submitted just before, and is completed after.
async fn claims(
    target: &Target,
    claimer: &Claimer,
    asks: &Asks,
    count: usize,
) -> Result<Vec<Duration>, Error> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        target.submit_asking(1, std::slice::from_ref(asks), 0).await?;
        let begun = Instant::now();
        let taken = target.work(&[], claimer).await?;
        times.push(begun.elapsed());
        if taken.is_empty() {
            return Err(Error::Usage("the one that may run was not claimed".into()));
        }
        target.complete(&taken, claimer).await?;
    }
    Ok(times)
}
