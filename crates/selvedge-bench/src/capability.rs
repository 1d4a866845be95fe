//! `capability`: what it costs that workers are not all the same. A load whose executions ask for nothing; one whose executions
//! ask for one of ten sets of capabilities, all of a batch for the same, while each worker offers one of these; one whose
//! workers offer three of them; and one whose batches ask for all sets, so that each worker gets a tenth of a batch at most.
//! In turn, and on stores of their own.

use crate::limits::{compare, report};
use crate::report::{Report, rounded};
use crate::terms::{Asks, Terms, in_turn};
use crate::{Error, Load, Place, floor};
use serde_json::json;

/// How often the loads are driven in turn.
const TURNS: usize = 3;
/// How many sets there are.
const SETS: usize = 10;
/// How many sets a worker offers that offers several.
const SEVERAL: usize = 3;
/// What the throughput with capabilities is to be of that without.
const GOAL: f64 = 0.8;
/// How many workers there are, where that is not said.
pub const WORKERS: usize = 40;

/// A set: what all have in common, and what only this one has.
fn set(index: usize) -> [String; 2] {
    ["accelerator".into(), format!("model-{}", index % SETS)]
}

/// Executions ask for one of the sets, those of a batch for all of them if that is mixed, and workers offer so many.
fn terms(offered: usize, mixed: bool) -> Terms {
    let asks = |index| Asks { capabilities: set(index).into(), ..Asks::lane("default") };
    let offers = |index: usize| {
        let mut all: Vec<String> = (index..index + offered).flat_map(set).collect();
        all.sort();
        all.dedup();
        all
    };
    Terms {
        asks: (0..SETS).map(asks).collect(),
        mixed,
        offers: (0..SETS).map(offers).collect(),
        ..Terms::default()
    }
}

/// Runs it, next to its floor.
pub async fn run(place: &Place, load: &Load) -> Result<Report, Error> {
    if load.workers < SETS {
        let message = format!("--workers {}: capability has {SETS} sets, each with a worker", load.workers);
        return Err(Error::Usage(message));
    }
    let floor = floor::measure(place, load.batch, 4).await?;
    let each = Load { executions: load.executions / TURNS as u64, ..load.clone() };
    let all = [Terms::default(), terms(1, false), terms(SEVERAL, false), terms(1, true)];
    let turns = in_turn(place, &each, &all, TURNS).await?;
    let [without, with, several, mixed] = &turns[..] else {
        return Err(Error::Usage("four loads were to be driven".into()));
    };
    let mut report = report("capability", place, load, &floor, with);
    report.settings.extend([
        ("turns".to_owned(), json!(TURNS)),
        ("sets".to_owned(), json!(SETS)),
        ("several".to_owned(), json!(SEVERAL)),
    ]);
    compare(&mut report, "without_capabilities", without);
    compare(&mut report, "several_sets", several);
    compare(&mut report, "mixed_batches", mixed);
    report.more.insert("capability_ratio".into(), rounded(with.per_second / without.per_second));
    report.more.insert("several_sets_ratio".into(), rounded(several.per_second / without.per_second));
    report.more.insert("mixed_batches_ratio".into(), rounded(mixed.per_second / without.per_second));
    report.more.insert("goal_capability_ratio".into(), json!(GOAL));
    Ok(report)
}
