//! Random admissions: executions draw on keys, quotas, budgets, lanes and fairness keys in any mixture, while these are
//! configured, spent, reset and removed.
//!
//! A submission is refused exactly if it names a quota or a budget that does not exist. No claim exceeds the limits of its
//! gates; the limit of a lane counts executions that were active before it was set. The invariants hold after every sequence, and no execution stays held that its gate
//! would admit. When all limits are removed, every execution ends and every gate row is deleted. A run in which too little
//! happened fails: with a manual clock and enough cases, every cause of gates must occur.

mod command;
mod walk;

use super::compare::Comparison;
use super::random::ModelRuns;
use crate::{Harness, Subject, invariants};
use command::GateCommand;
use selvedge_core::transition::Cause;
use std::future::Future;
use walk::Walk;

/// The number of cases from which every cause of gates must occur.
const CASES_FOR_EVERY_CAUSE: u32 = 100;
/// Sets the seed, to repeat a failed run.
const SEED: &str = "SELVEDGE_GATE_MODEL_SEED";
/// Sets the number of cases, for a longer run.
const CASES: &str = "SELVEDGE_GATE_MODEL_CASES";

/// Runs `cases` random sequences, each on a store of its own that `make` creates. Time passes only on a store with a manual
/// clock (see [`Subject::with_clock`]).
///
/// # Panics
/// If a limit is exceeded, an invariant is violated, or an execution never ends. The message has the seed and the shortest
/// failing sequence.
pub fn run<Made, Given>(make: impl Fn() -> Made, cases: u32)
where
    Made: Future<Output = Given>,
    Given: Into<Subject>,
{
    let causes = vec![
        Cause::Hold,
        Cause::Admit,
        Cause::Breach,
        Cause::Adopt,
        Cause::Claim,
        Cause::Complete,
        Cause::Cancel,
        Cause::Reschedule,
        Cause::Prioritise,
        Cause::Replay,
        Cause::Resume,
        Cause::Revoke,
        Cause::LeaseExpiry,
        Cause::StartBy,
    ];
    let runs = ModelRuns {
        seed: SEED,
        cases: CASES,
        shrinks: 2048,
        cases_for_every_cause: CASES_FOR_EVERY_CAUSE,
        causes,
    };
    runs.run(make, cases, command::commands, run_sequence);
}

async fn run_sequence(harness: &Harness, subject: &Subject, commands: &[GateCommand]) -> Comparison {
    let harness = harness.clone().with_clock(subject.advance.clone());
    let mut walk = Walk::begin(harness).await;
    for (number, command) in commands.iter().enumerate() {
        let checked = walk.run(command).await;
        checked.map_err(|error| format!("at command {number}, {command:?}: {error}"))?;
    }
    let violations = invariants::check(&*subject.store).await;
    if !violations.is_empty() {
        return Err(format!("invariants are violated after the commands: {violations:#?}"));
    }
    walk.check_releases().await?;
    walk.drain().await
}
