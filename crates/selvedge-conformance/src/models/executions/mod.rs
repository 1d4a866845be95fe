//! A store against a reference model of single executions: random commands run on both, and replies and rows are compared after
//! every step.
//!
//! The model is written from the specification and calls no rule of core, so it checks the rules as well as the store. A run in
//! which too little happened fails: with a manual clock and enough cases, every cause of the transition table must occur, except
//! those of flows and gates, which have models of their own.

mod answers;
mod command;
mod compare;
mod compare_records;
mod convert;
mod expect;
mod lockstep;
mod records;
mod reference;
mod waits;

use super::compare::Comparison;
use super::random::ModelRuns;
use crate::{Harness, Subject};
use command::ScriptStep;

use lockstep::Lockstep;
use selvedge_core::transition::Cause;
use std::future::Future;

/// The number of cases from which every cause must occur.
const CASES_FOR_EVERY_CAUSE: u32 = 200;
/// Sets the seed, to repeat a failed run.
const SEED: &str = "SELVEDGE_MODEL_SEED";
/// Sets the number of cases, for a longer run.
const CASES: &str = "SELVEDGE_MODEL_CASES";

/// Compares a store with the reference model over `cases` random sequences, each on a store of its own that `make` creates. Time
/// passes only on a store with a manual clock (see [`Subject::with_clock`]); others get only commands whose result does not
/// depend on time.
///
/// # Panics
/// If they differ or an invariant is violated. The message has the seed and the shortest failing sequence.
pub fn run<ModelWaitpoint, Given>(make: impl Fn() -> ModelWaitpoint, cases: u32)
where
    ModelWaitpoint: Future<Output = Given>,
    Given: Into<Subject>,
{
    let of_flows = [Cause::UpstreamChange, Cause::Join, Cause::Reopen, Cause::Wire, Cause::Await];
    let of_gates = [Cause::Hold, Cause::Admit, Cause::Breach, Cause::Adopt];
    let has_another_model = |cause: &Cause| of_flows.contains(cause) || of_gates.contains(cause);
    let causes = Cause::ALL.into_iter().filter(|cause| !has_another_model(cause)).collect();
    let runs = ModelRuns {
        seed: SEED,
        cases: CASES,
        shrinks: 4096,
        cases_for_every_cause: CASES_FOR_EVERY_CAUSE,
        causes,
    };
    runs.run(make, cases, command::steps, run_sequence);
}

async fn run_sequence(harness: &Harness, subject: &Subject, steps: &[ScriptStep]) -> Comparison {
    let mut lockstep = Lockstep::new(harness, subject.advance.clone()).await;
    for (number, step) in steps.iter().enumerate() {
        let compared = lockstep.run(step).await;
        compared.map_err(|difference| format!("at step {number}, {step:?}: {difference}"))?;
        if lockstep.has_moved_history().await {
            break;
        }
    }
    Ok(())
}
