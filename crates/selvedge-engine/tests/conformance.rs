//! The conformance suite and the random models, run through an engine: its lease cache serves reports, and its waiting claims
//! are taken along by transactions.

use async_trait::async_trait;
use selvedge_conformance::{PendingReply, RuleRunner, Subject, execution_model, flow_model, gate_model};
use selvedge_core::rule::Task;
use selvedge_core::rules::claim::{Claim, Claims};
use selvedge_core::token::Secret;
use selvedge_core::{Refusal, Timestamp};
use selvedge_engine::store::{Error, Store, Transaction};
use selvedge_engine::{Engine, Error as EngineError, Options};
use selvedge_memory::{Clock, MemoryStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Runs rules with the lease cache and the waiting claims of an engine.
struct ByEngine(Engine);

/// How many executions were handed to waiting claims, and how many rows came from a cache.
static HANDED: AtomicUsize = AtomicUsize::new(0);
static CACHED: AtomicU64 = AtomicU64::new(0);

#[async_trait]
impl RuleRunner for ByEngine {
    async fn run(&self, tasks: Vec<Box<dyn Task>>) -> Result<Transaction, Error> {
        let hits = self.0.cache_hits();
        let transaction = self.0.transact(tasks).await;
        CACHED.fetch_add(self.0.cache_hits() - hits, Ordering::Relaxed);
        transaction.map_err(|error| match error {
            EngineError::Store(error) => error,
            other => Error::Failed(other.to_string()),
        })
    }

    fn wait(&self, claim: &Claim) -> Option<PendingReply<Option<Result<Claims, Refusal>>>> {
        let handed = self.0.wait_for_hand_off(claim);
        Some(Box::new(move || {
            let claims = handed()?;
            HANDED.fetch_add(claims.as_ref().map_or(0, |claims| claims.claimed.len()), Ordering::Relaxed);
            Some(claims)
        }))
    }
}

/// An engine that does nothing by itself.
async fn by_engine(subject: Subject) -> Subject {
    let options = Options {
        reconcilers: false,
        dispatch: false,
        notifications: false,
        secret: Some(Secret::new(vec![7; 32]).expect("it is long enough")),
        ..Options::default()
    };
    let engine = Engine::start(subject.store.clone(), options).await.expect("the engine starts");
    subject.with_runner(Arc::new(ByEngine(engine)))
}

async fn on_the_systems_clock() -> Subject {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    by_engine(store.into()).await
}

async fn on_a_manual_clock() -> Subject {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(clock.clone()));
    by_engine(Subject::with_clock(store, move |ms| clock.advance_ms(ms))).await
}

selvedge_conformance::suite!(on_the_systems_clock);

#[test]
fn random_commands_have_the_outcome_that_the_model_says() {
    execution_model::run(on_a_manual_clock, 256);
    let (handed, cached) = (HANDED.load(Ordering::Relaxed), CACHED.load(Ordering::Relaxed));
    assert!(handed > 100 && cached > 100, "{handed} were handed over, {cached} rows came from the cache");
}

#[test]
fn random_graphs_come_to_the_end_that_the_model_says() {
    flow_model::run(on_a_manual_clock, 128);
}

#[test]
fn random_admissions_pass_no_limit_and_leave_nothing_behind() {
    gate_model::run(on_a_manual_clock, 256);
}
