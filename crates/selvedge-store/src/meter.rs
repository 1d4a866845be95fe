//! The meter of a store: every call reports its name, its duration and whether it failed to the observers.
//!
//! A store measures a call where it sends the statement, so no wrapper has to know all calls.

use crate::Error;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Receives the calls of a store that have ended. Calls that are dropped before their end are not reported.
pub trait CallObserver: Send + Sync {
    /// Takes note of a call: its name, its duration, and whether it failed.
    fn observe(&self, call: &'static str, took: Duration, failed: bool);
}

/// The observers of one store. Each engine that uses the store adds one.
#[derive(Default)]
pub struct CallMeter(RwLock<Vec<Arc<dyn CallObserver>>>);

impl fmt::Debug for CallMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallMeter").finish_non_exhaustive()
    }
}

impl CallMeter {
    /// Adds an observer of all later calls.
    pub fn add(&self, observer: Arc<dyn CallObserver>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(observer);
    }

    /// Awaits a call and reports it.
    pub async fn measure<T>(
        &self,
        call: &'static str,
        result: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let begun = Instant::now();
        let result = result.await;
        self.report(call, begun, result.is_err());
        result
    }

    /// Reports a call that began at an instant.
    pub fn report(&self, call: &'static str, begun: Instant, failed: bool) {
        let took = begun.elapsed();
        for observer in self.0.read().unwrap_or_else(PoisonError::into_inner).iter() {
            observer.observe(call, took, failed);
        }
    }
}
