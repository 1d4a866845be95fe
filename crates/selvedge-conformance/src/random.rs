//! Random sequences of steps against a reference model: what every model does alike.
//!
//! A run that passes because nothing happened is void: with a clock that can be moved and enough cases, each of the causes
//! that a model is about must have occurred.

use super::subject::runtime;
use super::{Harness, Subject, invariants};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use selvedge_core::transition::Cause;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::future::Future;
use std::sync::Mutex;
use uuid::Uuid;

/// How the runs of one model are made.
pub struct Runs {
    /// The variable that sets the seed, to repeat a run that failed.
    pub seed: &'static str,
    /// The variable that sets the number of cases, for a longer run.
    pub cases: &'static str,
    /// How much is tried to shorten a sequence that fails.
    pub shrinks: u32,
    /// With so many cases every one of the causes occurs.
    pub cases_for_every_cause: u32,
    /// The causes that must occur.
    pub causes: Vec<Cause>,
}

impl Runs {
    /// Takes so many sequences, which `steps` makes for a store whose clock can be moved or not, each through a store of its
    /// own by `walk`, and checks the invariants after each.
    ///
    /// # Panics
    /// If `walk` finds a difference, or an invariant is broken: with the shortest sequence that was found to show it, and
    /// the seed.
    pub fn run<Made, Given, Step, Steps>(
        self,
        make: impl Fn() -> Made,
        cases: u32,
        steps: impl FnOnce(bool) -> Steps,
        walk: impl AsyncFn(&Harness, &Subject, &[Step]) -> Result<(), String>,
    ) where
        Made: Future<Output = Given>,
        Given: Into<Subject>,
        Step: Debug,
        Steps: Strategy<Value = Vec<Step>>,
    {
        let runtime = runtime();
        let manual = runtime.block_on(async {
            let subject: Subject = make().await.into();
            subject.store.close().await;
            subject.advance.is_some()
        });
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let seed = number(self.seed).unwrap_or_else(|| Uuid::new_v4().as_u64_pair().0);
        let cases = number(self.cases).map_or(cases, |cases| cases as u32);
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let config =
            Config { cases, failure_persistence: None, max_shrink_iters: self.shrinks, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
        let causes: Mutex<BTreeSet<Cause>> = Mutex::default();
        let outcome = runner.run(&steps(manual), |steps| {
            let seen = runtime.block_on(async { case(make().await.into(), &steps, &walk).await });
            let seen = seen.map_err(TestCaseError::fail)?;
            causes.lock().expect("nobody panics with causes").extend(seen);
            Ok(())
        });
        match outcome {
            Ok(()) => {}
            Err(TestError::Fail(why, steps)) => panic!("{why}\n{}={seed}\n{steps:#?}", self.seed),
            Err(TestError::Abort(why)) => panic!("{why}"),
        }
        let causes = causes.into_inner().expect("nobody panics with causes");
        if manual && cases >= self.cases_for_every_cause {
            let missing: Vec<&Cause> = self.causes.iter().filter(|cause| !causes.contains(cause)).collect();
            assert!(missing.is_empty(), "{missing:?} never occurred ({}={seed})", self.seed);
        }
    }
}

/// One sequence; says which causes occurred in it.
async fn case<Step>(
    subject: Subject,
    steps: &[Step],
    walk: &impl AsyncFn(&Harness, &Subject, &[Step]) -> Result<(), String>,
) -> Result<BTreeSet<Cause>, String> {
    let harness = subject.harness().await;
    let compared = walk(&harness, &subject, steps).await;
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
