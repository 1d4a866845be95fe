//! The conformance suite and the random models, run through an engine: its lease cache serves reports, and transactions
//! hand over work to its waiting claims.

use async_trait::async_trait;
use selvedge_conformance::{PendingReply, RuleRunner, Subject, execution_model, flow_model, gate_model};
use selvedge_core::rules::claim::{Claim, Claims};
use selvedge_core::token::Secret;
use selvedge_core::{Refusal, Timestamp};
use selvedge_engine::store::{BoxedTask, Error, Store, Transaction};
use selvedge_engine::{Engine, Error as EngineError, Options};
use selvedge_memory::{Clock, MemoryStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Runs rules with the lease cache and the waiting claims of an engine.
struct EngineRunner(Engine);

/// The number of executions that were handed over to waiting claims.
static HANDED_OVER: AtomicUsize = AtomicUsize::new(0);
/// The number of rows that were taken from a lease cache.
static CACHED: AtomicU64 = AtomicU64::new(0);

#[async_trait]
impl RuleRunner for EngineRunner {
    async fn run(&self, tasks: Vec<BoxedTask>) -> Result<Transaction, Error> {
        let hits = self.0.cache_hits();
        let transaction = self.0.transact(tasks).await;
        CACHED.fetch_add(self.0.cache_hits() - hits, Ordering::Relaxed);
        transaction.map_err(|error| match error {
            EngineError::Store(error) => error,
            other => Error::Failed(other.to_string()),
        })
    }

    fn wait(&self, claim: &Claim) -> Option<PendingReply<Option<Result<Claims, Refusal>>>> {
        let collect = self.0.wait_for_handover(claim);
        Some(Box::new(move || {
            let claims = collect()?;
            HANDED_OVER
                .fetch_add(claims.as_ref().map_or(0, |claims| claims.claimed.len()), Ordering::Relaxed);
            Some(claims)
        }))
    }
}

/// Runs the subject through an engine that does nothing by itself.
async fn through_engine(subject: Subject) -> Subject {
    let options = Options {
        reconcilers: false,
        dispatch: false,
        notifications: false,
        secret: Some(Secret::new(vec![7; 32]).expect("the secret is long enough")),
        ..Options::default()
    };
    let engine = Engine::start(subject.store.clone(), options).await.expect("the engine starts");
    subject.with_runner(Arc::new(EngineRunner(engine)))
}

async fn with_system_clock() -> Subject {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    through_engine(store.into()).await
}

async fn with_manual_clock() -> Subject {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(clock.clone()));
    through_engine(Subject::with_clock(store, move |ms| clock.advance_ms(ms))).await
}

selvedge_conformance::suite!(with_system_clock);

#[test]
fn random_operations_match_the_model() {
    execution_model::run(with_manual_clock, 256);
    let (handed_over, cached) = (HANDED_OVER.load(Ordering::Relaxed), CACHED.load(Ordering::Relaxed));
    assert!(
        handed_over > 100 && cached > 100,
        "{handed_over} executions were handed over, {cached} rows came from the cache"
    );
}

#[test]
fn random_graphs_match_the_model() {
    flow_model::run(with_manual_clock, 128);
}

#[test]
fn random_admissions_exceed_no_limit_and_leak_no_slots() {
    gate_model::run(with_manual_clock, 256);
}
