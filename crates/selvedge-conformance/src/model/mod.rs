//! A store against a reference model: random commands to both, the same answers and the same rows after every step.
//!
//! The model is written from the specification and calls no rule of core, so it checks the rules as well as the store.
//! A run that passes because nothing happened is void: with a clock that can be moved and enough cases, every cause of
//! the transition table must have occurred, but for those of flows and of gates, which have models of their own.

mod answers;
mod command;
mod compare;
mod compare_records;
mod drive;
mod expect;
mod recorded;
mod reference;
mod rules;
mod waiting;

use super::random::Runs;
use super::{Harness, Subject};
use command::Step;
use compare::Differ;
use drive::Drive;
use selvedge_core::transition::Cause;
use std::future::Future;

/// With so many cases every cause occurs.
const CASES_FOR_EVERY_CAUSE: u32 = 200;
/// Sets the seed of a run, to repeat one that failed.
const SEED: &str = "SELVEDGE_MODEL_SEED";
/// Sets the number of cases, for a longer run.
const CASES: &str = "SELVEDGE_MODEL_CASES";

/// Compares stores made by `make` with the reference model over so many random sequences of commands, each in a store of
/// its own. A store whose clock can be moved (see [`Subject::with_clock`]) is also taken through time; another gets only
/// commands whose outcome does not depend on it.
///
/// # Panics
/// If they differ, or an invariant is broken: with the shortest sequence that was found to show it, and the seed.
pub fn run<Made, Given>(make: impl Fn() -> Made, cases: u32)
where
    Made: Future<Output = Given>,
    Given: Into<Subject>,
{
    let of_flows = [Cause::Hear, Cause::Join, Cause::Reopen, Cause::Wire];
    let of_gates = [Cause::Hold, Cause::Admit, Cause::Breach];
    let elsewhere = |cause: &Cause| of_flows.contains(cause) || of_gates.contains(cause);
    let causes = Cause::ALL.into_iter().filter(|cause| !elsewhere(cause)).collect();
    let runs = Runs {
        seed: SEED,
        cases: CASES,
        shrinks: 4096,
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
        if drive.is_outgrown().await {
            break;
        }
    }
    Ok(())
}
