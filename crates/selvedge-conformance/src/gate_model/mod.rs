//! Random admissions: executions that draw on keys, quotas, budgets, lanes and fairness keys in any mixture, while all of these are
//! configured, spent, reset and removed.
//!
//! No claim takes more than its gates had room for, the invariants hold wherever a sequence stops, nothing stays held then that its
//! gate would let go on, and when nothing is limited any more everything comes to its end and nothing is left of what was counted.
//! A run that passes because nothing happened is void: with a clock that can be moved and enough cases, every cause of gates must
//! have occurred.

mod command;
mod drive;

use super::random::Runs;
use super::{Harness, Subject, invariants};
use command::Step;
use drive::Drive;
use selvedge_core::transition::Cause;
use std::future::Future;

/// With so many cases every cause of gates occurs.
const CASES_FOR_EVERY_CAUSE: u32 = 100;
/// Sets the seed of a run, to repeat one that failed.
const SEED: &str = "SELVEDGE_GATE_MODEL_SEED";
/// Sets the number of cases, for a longer run.
const CASES: &str = "SELVEDGE_GATE_MODEL_CASES";

/// Takes stores made by `make` through so many random sequences, each in a store of its own. A store whose clock can be moved
/// (see [`Subject::with_clock`]) is also taken through time.
///
/// # Panics
/// If a limit is passed, an invariant is broken, or something never ends: with the shortest sequence that was found to show it,
/// and the seed.
pub fn run<Made, Given>(make: impl Fn() -> Made, cases: u32)
where
    Made: Future<Output = Given>,
    Given: Into<Subject>,
{
    let causes = vec![
        Cause::Hold,
        Cause::Admit,
        Cause::Breach,
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
    let runs = Runs {
        seed: SEED,
        cases: CASES,
        shrinks: 2048,
        cases_for_every_cause: CASES_FOR_EVERY_CAUSE,
        causes,
    };
    runs.run(make, cases, command::steps, walk);
}

async fn walk(harness: &Harness, subject: &Subject, steps: &[Step]) -> Result<(), String> {
    let harness = harness.clone().with_clock(subject.advance.clone());
    let mut drive = Drive::new(harness);
    for (number, step) in steps.iter().enumerate() {
        let walked = drive.step(step).await;
        walked.map_err(|wrong| format!("at step {number}, {step:?}: {wrong}"))?;
    }
    let broken = invariants::check(&*subject.store).await;
    if !broken.is_empty() {
        return Err(format!("invariants are broken before the end: {broken:#?}"));
    }
    drive.nobody_is_left_behind().await?;
    drive.drain().await
}
