//! The meter of a store: every call reports its name, its duration and whether it failed.
//!
//! A store measures a call where it sends the statement, so nothing else has to know all calls. Tests and benchmarks change
//! calls at the same place; see [`Interceptor`].

use crate::{Decision, Error};
use async_trait::async_trait;
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Receives the calls of a store that have ended. Calls that are dropped before their end are not reported.
pub trait CallObserver: Send + Sync {
    /// Takes note of a call: its name, its duration, and whether it failed.
    fn observe(&self, call: &'static str, took: Duration, failed: bool);
}

/// Changes the calls of a store, by name: delays them, lets them fail, or alters what they return. For tests and benchmarks.
#[async_trait]
pub trait Interceptor: Send + Sync {
    /// Runs before a call. An error is the result of the call, which is then not made. Default: does nothing.
    async fn before(&self, _call: &'static str) -> Result<(), Error> {
        Ok(())
    }

    /// Replaces the decision of a transaction. Default: keeps it.
    fn decision(&self, decision: Box<dyn Decision>) -> Box<dyn Decision> {
        decision
    }

    /// Runs after a call that succeeded, and may alter what it returns. An error replaces it. Default: does nothing.
    async fn after(&self, _call: &'static str, _returned: &mut (dyn Any + Send)) -> Result<(), Error> {
        Ok(())
    }
}

/// The observers of one store. Each engine that uses the store adds one.
#[derive(Default)]
pub struct CallMeter {
    observers: RwLock<Vec<Arc<dyn CallObserver>>>,
    interceptor: OnceLock<Arc<dyn Interceptor>>,
}

impl fmt::Debug for CallMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallMeter").finish_non_exhaustive()
    }
}

impl CallMeter {
    /// Adds an observer of all later calls.
    pub fn add(&self, observer: Arc<dyn CallObserver>) {
        self.observers.write().unwrap_or_else(PoisonError::into_inner).push(observer);
    }

    /// Lets all later calls pass through an interceptor. A second one is ignored.
    pub fn intercept(&self, interceptor: Arc<dyn Interceptor>) {
        let _ = self.interceptor.set(interceptor);
    }

    /// Returns the decision to run in place of the given one.
    pub fn decision(&self, decision: Box<dyn Decision>) -> Box<dyn Decision> {
        match self.interceptor.get() {
            Some(interceptor) => interceptor.decision(decision),
            None => decision,
        }
    }

    /// Awaits a call and reports it.
    pub async fn measure<T: Any + Send>(
        &self,
        call: &'static str,
        result: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let begun = Instant::now();
        let result = match self.interceptor.get() {
            Some(interceptor) => intercepted(&**interceptor, call, result).await,
            None => result.await,
        };
        self.report(call, begun, result.is_err());
        result
    }

    /// Reports a call that began at an instant.
    fn report(&self, call: &'static str, begun: Instant, failed: bool) {
        let took = begun.elapsed();
        for observer in self.observers.read().unwrap_or_else(PoisonError::into_inner).iter() {
            observer.observe(call, took, failed);
        }
    }
}

/// Passes a call through an interceptor.
async fn intercepted<T: Any + Send>(
    interceptor: &dyn Interceptor,
    call: &'static str,
    result: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    interceptor.before(call).await?;
    let mut returned = result.await?;
    interceptor.after(call, &mut returned).await?;
    Ok(returned)
}
