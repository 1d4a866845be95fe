//! Submission of executions.

use crate::Error;
use crate::namespace::Namespace;
use selvedge_core::rule::Rule;
use selvedge_core::rules::CallKey;
use selvedge_core::rules::submit::{Submit, SubmitItem, Submitted};
use selvedge_core::{Class, ClassId, Draft, ExecutionId, Refusal, Submission};
use selvedge_store::Error as StoreError;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// The time for which a submission is retried while the store is unavailable.
const RETRY_FOR: Duration = Duration::from_secs(5);
/// The time for which a submission is retried that met other transactions: not after the store has waited for a lock.
const RETRY_CONTENDED_FOR: Duration = Duration::from_secs(1);
/// The pause before a retry.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

impl Namespace {
    /// Runs a rule whose ids were minted here, and retries it while the store fails transiently. If the first try
    /// committed and only its reply was lost, the retry finds the rows with these ids. `rule` gets true for a retry.
    pub(in crate::namespace) async fn run_with_retry<R: Rule>(
        &self,
        rule: impl Fn(bool) -> R,
    ) -> Result<R::Reply, Error> {
        let started = Instant::now();
        let mut repeated = false;
        loop {
            match self.run(rule(repeated)).await {
                Err(Error::Store(error)) if started.elapsed() < retry_for(&error) => {
                    tracing::debug!(%error, "retrying a submission");
                    repeated = true;
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                reply => return reply,
            }
        }
    }

    /// Submits one execution.
    pub async fn submit(&self, draft: Draft) -> Result<Submitted, Error> {
        let mut submitted = self.submit_many(vec![Ok(draft)], None).await?;
        match submitted.pop() {
            Some(submitted) => Ok(submitted?),
            None => Err(Error::Closed),
        }
    }

    /// Submits many executions independently: a refused item refuses only itself. An item that was refused before this
    /// call keeps its place in the reply.
    pub async fn submit_many(
        &self,
        mut drafts: Vec<Result<Draft, Refusal>>,
        call_key: Option<CallKey>,
    ) -> Result<Vec<Result<Submitted, Refusal>>, Error> {
        self.add_defaults(drafts.iter_mut().flatten()).await?;
        let submissions: Vec<Result<Submission, Refusal>> =
            drafts.into_iter().map(|draft| draft.and_then(Draft::check)).collect();
        let classes: Vec<Class> =
            submissions.iter().flatten().map(|submission| submission.class(self.id)).collect();
        let mut interned = self.inner().registry.intern(&classes).await?.into_iter();
        let items = submissions
            .into_iter()
            .map(|submission| {
                let valid = submission.as_ref().ok();
                let id = valid.and_then(Submission::id).unwrap_or_else(|| ExecutionId(Uuid::now_v7()));
                let class = valid.and_then(|_| interned.next()).unwrap_or(ClassId(0));
                SubmitItem { submission, class, id }
            })
            .collect();
        let actor = self.actor.clone();
        let submit = Submit { namespace: self.id, items, actor, call_key, repeated: false };
        self.run_with_retry(|repeated| Submit { repeated, ..submit.clone() }).await
    }
}

/// Returns for how long a submission that failed like this is retried, from its start on.
fn retry_for(error: &StoreError) -> Duration {
    match error {
        StoreError::Unavailable(_) => RETRY_FOR,
        StoreError::Contended(_) => RETRY_CONTENDED_FOR,
        StoreError::TooSlow(_)
        | StoreError::SchemaTooNew { .. }
        | StoreError::InUse(_)
        | StoreError::BadAddress(_)
        | StoreError::Failed(_) => Duration::ZERO,
    }
}
