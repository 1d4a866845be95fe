//! Actions of operators, on one execution or on many.

use crate::Error;
use crate::namespace::{KeyedCalls, Namespace};
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::rules::keyed::{Answered, Keyed};
use selvedge_core::rules::operator::{Action, Operate, OperateInBulk};
use selvedge_core::{Execution, ExecutionId, Name, Refusal};
use std::collections::HashSet;

/// The maximum number of executions per bulk call.
pub const BULK_MAX: usize = 10_000;
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
    pub action: Action,
    /// The executions to act on.
    pub target: BulkTarget,
    /// Changes nothing and reports what the action would do.
    pub dry_run: bool,
}

/// The result of a bulk action.
#[derive(Clone, Debug, Default)]
pub struct BulkResult {
    /// The executions that the action changed, or would change in a dry run.
    pub changed: Vec<ExecutionId>,
    /// The number of executions that already were as the action leaves them.
    pub unchanged: usize,
    /// The executions that refused the action, each with the reason.
    pub refused: Vec<(ExecutionId, Refusal)>,
    /// The ids of no execution of the namespace.
    pub not_found: Vec<ExecutionId>,
}

impl BulkResult {
    /// Returns the number of executions that were found.
    pub fn matched(&self) -> usize {
        self.changed.len() + self.unchanged + self.refused.len()
    }
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

    /// Applies an action to many executions, each independently. More than 10 000 are refused before any changes.
    pub async fn bulk(&self, bulk: Bulk, actor: &Name) -> Result<BulkResult, Error> {
        Ok(self.keyed(None).bulk(bulk, actor).await?.done)
    }

    pub(in crate::namespace) async fn bulk_keyed(
        &self,
        calls: &KeyedCalls<'_>,
        bulk: Bulk,
        actor: &Name,
    ) -> Result<Answered<BulkResult>, Error> {
        let ids: Vec<ExecutionId> = match bulk.target {
            BulkTarget::Ids(ids) => {
                let mut seen = HashSet::new();
                ids.into_iter().filter(|id| seen.insert(*id)).collect()
            }
            BulkTarget::Filter(filter) => self.matching(&filter).await?,
        };
        if ids.len() > BULK_MAX {
            let detail =
                format!("selects more than {BULK_MAX} executions; narrow it, and nothing was changed");
            return Err(Refusal::TooMany { pointer: String::new(), detail }.into());
        }
        let Answered { done: ids, duplicate } = match bulk.dry_run {
            true => Answered { done: ids, duplicate: false },
            false => calls.fix_plan(ids).await?,
        };
        let mut result = BulkResult::default();
        for chunk in ids.chunks(CHUNK) {
            let operate = |id: &ExecutionId| {
                let (namespace, action) = (self.id(), bulk.action.clone());
                let (actor, if_version) = (actor.clone(), None);
                let operate = Operate { namespace, execution: *id, actor, if_version, action };
                let call_key = calls.step(id).filter(|_| !bulk.dry_run);
                let rule = OperateInBulk { operate, dry_run: bulk.dry_run };
                Keyed { call_key, rule, keeps_refusals: true }
            };
            let replies = self.inner().committer.run_all(chunk.iter().map(operate)).await?;
            for (id, reply) in chunk.iter().zip(replies) {
                match reply.map(|answered| answered.done) {
                    Ok(true) => result.changed.push(*id),
                    Ok(false) => result.unchanged += 1,
                    Err(Refusal::NotFound { .. }) => result.not_found.push(*id),
                    Err(refusal) => result.refused.push((*id, refusal)),
                }
            }
        }
        Ok(Answered { done: result, duplicate })
    }

    /// Returns the ids of the matching executions; more than [`BULK_MAX`] are not all returned.
    async fn matching(&self, filter: &Filter) -> Result<Vec<ExecutionId>, Error> {
        let (mut ids, mut after) = (Vec::new(), None);
        loop {
            let (page, next) = self.list(filter, after, CHUNK as u32, Payloads::NONE).await?;
            ids.extend(page.into_iter().map(|view| view.stored.execution.id));
            after = next;
            if after.is_none() || ids.len() > BULK_MAX {
                return Ok(ids);
            }
        }
    }
}
