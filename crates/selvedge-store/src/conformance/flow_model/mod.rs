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

use super::subject::runtime;
use super::{Bench, Subject, invariants};
use command::Step;
use compare::Differ;
use drive::Drive;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use selvedge_core::transition::Cause;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Mutex;
use uuid::Uuid;

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
    let runtime = runtime();
    let manual = runtime.block_on(async {
        let subject: Subject = make().await.into();
        subject.store.close().await;
        subject.advance.is_some()
    });
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number(SEED).unwrap_or_else(|| Uuid::new_v4().as_u64_pair().0);
    let cases = number(CASES).map_or(cases, |cases| cases as u32);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2048, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let causes: Mutex<BTreeSet<Cause>> = Mutex::default();
    let outcome = runner.run(&command::steps(manual), |steps| {
        let seen = runtime.block_on(async { case(make().await.into(), &steps).await });
        let seen = seen.map_err(TestCaseError::fail)?;
        causes.lock().expect("nobody panics with causes").extend(seen);
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, steps)) => panic!("{why}\n{SEED}={seed}\n{steps:#?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
    let causes = causes.into_inner().expect("nobody panics with causes");
    if manual && cases >= CASES_FOR_EVERY_CAUSE {
        let of_flows = [
            Cause::Hear,
            Cause::Join,
            Cause::Reopen,
            Cause::Wire,
            Cause::Replay,
            Cause::Cancel,
            Cause::Deadline,
            Cause::Lapse,
            Cause::DelayOver,
        ];
        let missing: Vec<Cause> = of_flows.into_iter().filter(|cause| !causes.contains(cause)).collect();
        assert!(missing.is_empty(), "{missing:?} never occurred ({SEED}={seed})");
    }
}

/// One sequence; says which causes occurred in it.
async fn case(subject: Subject, steps: &[Step]) -> Result<BTreeSet<Cause>, String> {
    let bench = Bench::new(subject.store.clone()).await;
    let compared = walk(&bench, &subject, steps).await;
    let broken = invariants::check(&*subject.store).await;
    let log = invariants::read_log(&*subject.store).await;
    subject.store.close().await;
    compared?;
    match broken.is_empty() {
        true => {
            Ok(log.iter().flat_map(|(_, events)| events).filter_map(|event| event.fact.cause()).collect())
        }
        false => Err(format!("invariants are broken: {broken:#?}")),
    }
}

async fn walk(bench: &Bench, subject: &Subject, steps: &[Step]) -> Differ {
    let mut drive = Drive::new(bench, subject.advance.clone()).await;
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
