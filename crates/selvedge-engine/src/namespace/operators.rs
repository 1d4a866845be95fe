//! Actions of operators, on one execution or on many.

use super::{KeyedCalls, Namespace};
use crate::Error;
use selvedge_core::filter::Filter;
use selvedge_core::rules::keyed::{Answered, Keyed};
use selvedge_core::rules::operator::{Action, Operate};
use selvedge_core::{Execution, ExecutionId, Name, Refusal};

/// The maximum number of executions per bulk call. Further matches are reported by [`BulkResult::more`].
const BULK_MAX: usize = 10_000;
/// The number of executions per chunk of a bulk call.
const CHUNK: usize = 500;

/// The executions of a bulk action.
#[derive(Clone, Debug)]
pub enum BulkTarget {
    /// The executions with these ids.
    Ids(Vec<ExecutionId>),
    /// The executions that match.
    Filter(Box<Filter>),
}

/// An action on many executions.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// The action.
    pub action: Action,
    /// The executions to act on.
    pub target: BulkTarget,
    /// Returns the executions that would be acted on, and changes nothing.
    pub dry_run: bool,
}

/// The result of a bulk action.
#[derive(Clone, Debug, Default)]
pub struct BulkResult {
    /// The number of executions that matched.
    pub matched: usize,
    /// The executions that were acted on, or would be in a dry run.
    pub ids: Vec<ExecutionId>,
    /// The executions that refused the action, each with the reason.
    pub refused: Vec<(ExecutionId, Refusal)>,
    /// True if more executions match than one call acts on.
    pub more: bool,
}

impl Namespace {
    /// Applies an action to one execution.
    pub async fn operate(
        &self,
        execution: ExecutionId,
        action: Action,
        if_version: Option<u32>,
        actor: &Name,
    ) -> Result<Execution, Error> {
        Ok(self.keyed(None).operate(execution, action, if_version, actor).await?.done)
    }

    /// Applies an action to many executions, each independently.
    pub async fn bulk(&self, bulk: Bulk, actor: &Name) -> Result<BulkResult, Error> {
        Ok(self.keyed(None).bulk(bulk, actor).await?.done)
    }

    pub(super) async fn bulk_keyed(
        &self,
        calls: &KeyedCalls<'_>,
        bulk: Bulk,
        actor: &Name,
    ) -> Result<Answered<BulkResult>, Error> {
        let (ids, more) = match bulk.target {
            BulkTarget::Ids(ids) if ids.len() > BULK_MAX => {
                let detail = format!("has {} entries; at most {BULK_MAX} are allowed", ids.len());
                return Err(Refusal::field("/ids", detail).into());
            }
            BulkTarget::Ids(ids) => (self.existing(ids).await?, false),
            BulkTarget::Filter(filter) => self.matching(&filter).await?,
        };
        if bulk.dry_run {
            let result = BulkResult { matched: ids.len(), ids, more, ..BulkResult::default() };
            return Ok(Answered { done: result, duplicate: false });
        }
        let Answered { done: (ids, more), duplicate } = calls.fix_plan((ids, more)).await?;
        let mut result = BulkResult { matched: ids.len(), more, ..BulkResult::default() };
        for chunk in ids.chunks(CHUNK) {
            let operate = |id: &ExecutionId| Keyed {
                call_key: calls.step(id),
                rule: Operate {
                    namespace: self.id(),
                    execution: *id,
                    actor: actor.clone(),
                    if_version: None,
                    action: bulk.action.clone(),
                },
                keeps_refusals: true,
            };
            let replies = self.inner().committer.run_all(chunk.iter().map(operate)).await?;
            for (id, reply) in chunk.iter().zip(replies) {
                match reply {
                    Ok(_) => result.ids.push(*id),
                    Err(refusal) => result.refused.push((*id, refusal)),
                }
            }
        }
        Ok(Answered { done: result, duplicate })
    }

    /// Returns the ids that belong to executions of this namespace.
    async fn existing(&self, ids: Vec<ExecutionId>) -> Result<Vec<ExecutionId>, Error> {
        let mut found = Vec::new();
        for chunk in ids.chunks(CHUNK) {
            let rows = self.inner().store.fetch(chunk).await?;
            let ours = rows.into_iter().filter(|stored| stored.execution.namespace == self.id());
            found.extend(ours.map(|stored| stored.execution.id));
        }
        Ok(found)
    }

    /// Returns the ids of the first matching executions, and whether there are more.
    async fn matching(&self, filter: &Filter) -> Result<(Vec<ExecutionId>, bool), Error> {
        let mut ids = Vec::new();
        let mut after = None;
        loop {
            let (page, next) = self.list(filter, after, CHUNK as u32).await?;
            ids.extend(page.into_iter().map(|view| view.stored.execution.id));
            after = next;
            if after.is_none() || ids.len() >= BULK_MAX {
                ids.truncate(BULK_MAX);
                return Ok((ids, after.is_some()));
            }
        }
    }
}
