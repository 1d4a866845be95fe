//! A store against a reference model of flows: random graphs that grow, fail, are cancelled and replayed, with dispatches
//! in any order, left out and repeated; the same answers, rows and work left over after every step, and the same end.
//!
//! The model is written from the specification and calls no rule of core. A run that passes because nothing happened is
//! void: with a clock that can be moved and enough cases, every cause of flows must have occurred.

mod command;
mod compare;
mod drive;
mod moves;
mod reference;

use super::random::Runs;
use super::{Harness, Subject, invariants};
use command::Step;
use compare::Differ;
use drive::Drive;
use selvedge_core::transition::Cause;
use std::future::Future;

/// With so many cases every cause of flows occurs.
const CASES_FOR_EVERY_CAUSE: u32 = 100;
/// Sets the seed of a run, to repeat one that failed.
const SEED: &str = "SELVEDGE_FLOW_MODEL_SEED";
/// Sets the number of cases, for a longer run.
const CASES: &str = "SELVEDGE_FLOW_MODEL_CASES";

/// Compares stores made by `make` with the reference model of flows over so many random sequences, each in a store of its
/// own. A store whose clock can be moved (see [`Subject::with_clock`]) is also taken through time.
///
/// # Panics
/// If they differ, or an invariant is broken: with the shortest sequence that was found to show it, and the seed.
pub fn run<Made, Given>(make: impl Fn() -> Made, cases: u32)
where
    Made: Future<Output = Given>,
    Given: Into<Subject>,
{
    let causes = vec![
        Cause::Hear,
        Cause::Join,
        Cause::Reopen,
        Cause::Wire,
        Cause::Replay,
        Cause::Cancel,
        Cause::Deadline,
        Cause::LeaseExpiry,
        Cause::DelayOver,
        Cause::Suspend,
        Cause::Resume,
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

async fn walk(harness: &Harness, subject: &Subject, steps: &[Step]) -> Differ {
    let mut drive = Drive::new(harness, subject.advance.clone()).await;
    for (number, step) in steps.iter().enumerate() {
        let compared = drive.step(step).await;
        compared.map_err(|differ| format!("at step {number}, {step:?}: {differ}"))?;
    }
    let broken = invariants::check(&*subject.store).await;
    if !broken.is_empty() {
        return Err(format!("invariants are broken before the end: {broken:#?}"));
    }
    drive.drain(steps.len()).await.map_err(|differ| format!("when all is drained: {differ}"))
}
