//! Runs random sequences of commands, for every model.
//!
//! A run in which too little happened fails: with a manual clock and enough cases, each cause that a model covers must occur.

use crate::harness::{runner::locked, subject::runtime};
use crate::{Harness, Subject, invariants};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use selvedge_core::transition::Cause;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::future::Future;
use std::sync::Mutex;
use uuid::Uuid;

/// The settings of one model's runs.
pub struct ModelRuns {
    /// The environment variable that sets the seed, to repeat a failed run.
    pub seed: &'static str,
    /// The environment variable that sets the number of cases, for a longer run.
    pub cases: &'static str,
    /// The maximum number of attempts to shorten a failing sequence.
    pub shrinks: u32,
    /// The number of cases from which every cause must occur.
    pub cases_for_every_cause: u32,
    /// The causes that must occur.
    pub causes: Vec<Cause>,
}

impl ModelRuns {
    /// Runs `cases` sequences with `walk`, each on a store of its own, and checks the invariants after each. `commands`
    /// generates the sequences; its argument is true for a manual clock.
    ///
    /// # Panics
    /// If `walk` reports an error or an invariant is violated. The message has the seed and the shortest failing sequence.
    pub fn run<Made, Given, Command, Commands>(
        self,
        make: impl Fn() -> Made,
        cases: u32,
        commands: impl FnOnce(bool) -> Commands,
        walk: impl AsyncFn(&Harness, &Subject, &[Command]) -> Result<(), String>,
    ) where
        Made: Future<Output = Given>,
        Given: Into<Subject>,
        Command: Debug,
        Commands: Strategy<Value = Vec<Command>>,
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
        let outcome = runner.run(&commands(manual), |commands| {
            let seen = runtime.block_on(async { run_sequence(make().await.into(), &commands, &walk).await });
            let seen = seen.map_err(TestCaseError::fail)?;
            locked(&causes).extend(seen);
            Ok(())
        });
        match outcome {
            Ok(()) => {}
            Err(TestError::Fail(why, commands)) => panic!("{why}\n{}={seed}\n{commands:#?}", self.seed),
            Err(TestError::Abort(why)) => panic!("{why}"),
        }
        let causes = std::mem::take(&mut *locked(&causes));
        if manual && cases >= self.cases_for_every_cause {
            let missing: Vec<&Cause> = self.causes.iter().filter(|cause| !causes.contains(cause)).collect();
            assert!(missing.is_empty(), "{missing:?} never occurred ({}={seed})", self.seed);
        }
    }
}

/// Runs one sequence and returns the causes that occurred.
async fn run_sequence<Command>(
    subject: Subject,
    commands: &[Command],
    walk: &impl AsyncFn(&Harness, &Subject, &[Command]) -> Result<(), String>,
) -> Result<BTreeSet<Cause>, String> {
    let harness = subject.harness().await;
    let compared = walk(&harness, &subject, commands).await;
    let violations = invariants::check(&*subject.store).await;
    let log = invariants::read_log(&*subject.store).await;
    subject.store.close().await;
    compared?;
    match violations.is_empty() {
        true => {
            Ok(log.iter().flat_map(|(_, events)| events).filter_map(|event| event.fact.cause()).collect())
        }
        false => Err(format!("invariants are violated: {violations:#?}")),
    }
}
