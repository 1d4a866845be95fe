//! A store against a reference model of flows: random graphs grow, fail, are cancelled and replayed, with outbox rows dispatched
//! in any order, omitted and repeated. Replies, rows and the outbox are compared after every command.
//!
//! The model is written from the specification and calls no rule of core. A run in which too little happened fails: with a
//! manual clock and enough cases, every cause of flows must occur.

mod apply;
mod command;
mod compare;
mod lockstep;
mod past;
mod reference;

use super::compare::Comparison;
use super::random::ModelRuns;
use crate::{Harness, Subject, invariants};
use command::FlowCommand;
use lockstep::Lockstep;
use selvedge_core::transition::Cause;
use std::future::Future;

/// The number of cases from which every cause of flows must occur.
const CASES_FOR_EVERY_CAUSE: u32 = 100;
/// Sets the seed, to repeat a failed run.
const SEED: &str = "SELVEDGE_FLOW_MODEL_SEED";
/// Sets the number of cases, for a longer run.
const CASES: &str = "SELVEDGE_FLOW_MODEL_CASES";

/// Compares a store with the reference model over `cases` random sequences, each on a store of its own that `make` creates.
/// Time passes only on a store with a manual clock (see [`Subject::with_clock`]).
///
/// # Panics
/// If they differ or an invariant is violated. The message has the seed and the shortest failing sequence.
pub fn run<Made, Given>(make: impl Fn() -> Made, cases: u32)
where
    Made: Future<Output = Given>,
    Given: Into<Subject>,
{
    let causes = vec![
        Cause::UpstreamChange,
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
        Cause::Await,
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

async fn run_sequence(harness: &Harness, subject: &Subject, commands: &[FlowCommand]) -> Comparison {
    let mut lockstep = Lockstep::new(harness, subject.advance.clone()).await;
    for (number, command) in commands.iter().enumerate() {
        let compared = lockstep.run(command).await;
        compared.map_err(|difference| format!("at command {number}, {command:?}: {difference}"))?;
    }
    let violations = invariants::check(&*subject.store).await;
    if !violations.is_empty() {
        return Err(format!("invariants are violated after the commands: {violations:#?}"));
    }
    lockstep
        .drain(commands.len())
        .await
        .map_err(|difference| format!("after the outbox is drained: {difference}"))
}
