//! Executions: submit, read, list, wait for results, explain.

use super::{Connected, Namespace, WAIT_SLICE};
use crate::execution::EndedItem;
use crate::wire::submissions::SubmissionBody;
use crate::{
    Ended, Error, Execution, ExecutionFilter, ExecutionId, Explanation, Page, Submission, Submitted,
};
use bytes::Bytes;
use selvedge_api::times;
use selvedge_client::Problem;
use selvedge_core::Draft;
use selvedge_core::filter::Payloads;
use selvedge_engine::request::cursors;
use selvedge_store::Stored;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::Instant;

#[derive(Serialize)]
struct Batch<'a> {
    executions: Vec<SubmissionBody<'a>>,
}

#[derive(Deserialize)]
struct BatchAnswer {
    results: Vec<BatchItem>,
}

/// A submitted execution, or the problem that refused it.
#[derive(Deserialize)]
struct BatchItem {
    execution: Option<Execution>,
    #[serde(default)]
    duplicate: bool,
    error: Option<Problem>,
}

impl Namespace {
    /// Submits one execution. Repeated with the same id or idempotency key it returns the existing execution.
    pub async fn submit(&self, submission: impl Into<Submission>) -> Result<Submitted, Error> {
        let draft = Draft::from(submission.into());
        match &self.connected {
            Connected::Embedded(namespace) => {
                let submitted = namespace.submit(draft).await?;
                view(namespace, submitted).await
            }
            Connected::Remote(client) => {
                let request = client.post(&["executions"]).json(&SubmissionBody::new(&draft)?);
                Ok(request.header_optional("traceparent", draft.trace).send().await?.json()?)
            }
        }
    }

    /// Submits up to 1000 executions independently in one call. A refused one refuses only itself.
    pub async fn submit_many(
        &self,
        submissions: impl IntoIterator<Item = Submission>,
    ) -> Result<Vec<Result<Submitted, Error>>, Error> {
        let drafts: Vec<Draft> = submissions.into_iter().map(Draft::from).collect();
        match &self.connected {
            Connected::Embedded(namespace) => {
                let drafts = drafts.into_iter().map(Ok).collect();
                let mut all = Vec::new();
                for submitted in namespace.submit_many(drafts, None).await? {
                    all.push(match submitted {
                        Ok(submitted) => view(namespace, submitted).await,
                        Err(refusal) => Err(refusal.into()),
                    });
                }
                Ok(all)
            }
            Connected::Remote(client) => {
                let executions = drafts.iter().map(SubmissionBody::new).collect::<Result<_, _>>()?;
                let request = client.post(&["executions", "batch"]).json(&Batch { executions });
                let answer: BatchAnswer = request.send().await?.json()?;
                Ok(answer.results.into_iter().map(BatchItem::submitted).collect())
            }
        }
    }

    /// Reads an execution with its input and result.
    pub async fn get(&self, id: ExecutionId) -> Result<Execution, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => Ok(namespace.get(id).await?.into()),
            Connected::Remote(client) => {
                let mut execution: Execution =
                    client.get(&["executions", &id.to_string()]).send().await?.json()?;
                if execution.result.is_none() && execution.outcome == Some(crate::Outcome::Completed) {
                    execution.result = Some(Bytes::from_static(b"null"));
                }
                Ok(execution)
            }
        }
    }

    /// Returns a page of at most `limit` executions (up to 500), newest first, without inputs and results. `cursor` is the
    /// `next_cursor` of the page before.
    pub async fn list(
        &self,
        filter: &ExecutionFilter,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<Execution>, Error> {
        let ExecutionFilter { lane, kind, states, flow, tags, submitted_after, submitted_before } = filter;
        let tags = tags.iter().map(|(name, value)| format!("{name}:{value}"));
        match &self.connected {
            Connected::Embedded(namespace) => {
                let mut wanted = namespace.filter(lane.as_deref(), kind.as_deref()).await?;
                wanted.states.clone_from(states);
                wanted.flow = *flow;
                wanted.tags = tags.collect();
                wanted.submitted_after = *submitted_after;
                wanted.submitted_before = *submitted_before;
                let after = cursor.map(cursors::parse_cursor).transpose()?;
                let (views, next) = namespace.list(&wanted, after, limit, Payloads::NONE).await?;
                Ok(Page {
                    items: views.into_iter().map(Execution::from).collect(),
                    next_cursor: next.map(cursors::format_cursor),
                })
            }
            Connected::Remote(client) => {
                let words: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
                let states = Some(words.join(",")).filter(|words| !words.is_empty());
                let mut request = client
                    .get(&["executions"])
                    .query("limit", limit)
                    .query_optional("cursor", cursor)
                    .query_optional("lane", lane.as_ref())
                    .query_optional("kind", kind.as_ref())
                    .query_optional("state", states)
                    .query_optional("flow", *flow)
                    .query_optional("submitted_after", submitted_after.map(times::text))
                    .query_optional("submitted_before", submitted_before.map(times::text));
                for tag in tags {
                    request = request.query("tag", tag);
                }
                Ok(request.send().await?.json()?)
            }
        }
    }

    /// Waits up to `wait` for the end of an execution and returns it. None if it has not ended by then.
    pub async fn result(&self, id: ExecutionId, wait: Duration) -> Result<Option<Ended>, Error> {
        let deadline = Instant::now() + wait;
        loop {
            let began = Instant::now();
            let slice = deadline.saturating_duration_since(began).min(WAIT_SLICE);
            let ended = self.result_once(id, slice).await?;
            // An engine that shuts down, or a server that does, answers early.
            let is_early = began.elapsed() < slice;
            if ended.is_some()
                || Instant::now() >= deadline
                || (is_early && self.engine_namespace().is_some())
            {
                return Ok(ended);
            }
        }
    }

    async fn result_once(&self, id: ExecutionId, wait: Duration) -> Result<Option<Ended>, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => Ok(namespace.result(id, wait).await?.map(Ended::from)),
            Connected::Remote(client) => {
                let request = client.get(&["executions", &id.to_string(), "result"]);
                let item: EndedItem =
                    request.query("wait_ms", wait.as_millis()).waits(wait).send().await?.json()?;
                Ok(item.ended())
            }
        }
    }

    /// Explains why an execution is not running, or how its outcome came about.
    pub async fn explain(&self, id: ExecutionId) -> Result<Explanation, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => Ok(namespace.explain(id).await?.into()),
            Connected::Remote(client) => {
                Ok(client.get(&["executions", &id.to_string(), "explain"]).send().await?.json()?)
            }
        }
    }
}

impl BatchItem {
    fn submitted(self) -> Result<Submitted, Error> {
        match (self.execution, self.error) {
            (Some(execution), _) => Ok(Submitted { execution, duplicate: self.duplicate }),
            (None, Some(problem)) => Err(problem.into()),
            (None, None) => Err(Error::Failed("a submission has no answer".into())),
        }
    }
}

/// Returns the view of a submitted execution. A new one is viewed without reading it; a duplicate is read.
async fn view(
    namespace: &selvedge_engine::Namespace,
    submitted: selvedge_core::rules::submit::Submitted,
) -> Result<Submitted, Error> {
    let duplicate = submitted.duplicate;
    let execution = read_row(namespace, submitted.execution, duplicate).await?;
    Ok(Submitted { execution, duplicate })
}

/// Returns the view of a row. If it is to be read again but has been deleted since, the row is the last that is known.
pub(super) async fn read_row(
    namespace: &selvedge_engine::Namespace,
    row: selvedge_core::Execution,
    again: bool,
) -> Result<Execution, Error> {
    if again && let Ok(view) = namespace.get_with(row.id, Payloads::NONE).await {
        return Ok(view.into());
    }
    let stored = Stored { execution: row, input: Bytes::new(), result: None, renewed_at: None };
    Ok(namespace.view(stored).await?.into())
}
