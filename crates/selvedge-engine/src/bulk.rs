//! One action on many executions: by ids, or by the filter that lists.

use crate::{Error, Namespace};
use selvedge_core::filter::Filter;
use selvedge_core::rules::operator::{Action, Operate};
use selvedge_core::{ExecutionId, Name, Refusal};

/// The most executions one call acts on. A filter that matches more is acted on up to here, and the answer says so.
pub const BULK_MAX: usize = 10_000;
/// How many are acted on at a time.
const CHUNK: usize = 500;

/// On which executions.
#[derive(Clone, Debug)]
pub enum BulkTarget {
    /// On these.
    Ids(Vec<ExecutionId>),
    /// On those that match.
    Filter(Box<Filter>),
}

/// One action on many executions.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// What.
    pub action: Action,
    /// On which.
    pub target: BulkTarget,
    /// Only say which would be acted on.
    pub dry_run: bool,
}

/// What a bulk action did.
#[derive(Clone, Debug, Default)]
pub struct Bulked {
    /// How many matched.
    pub matched: usize,
    /// Which the action was done to, or would be.
    pub ids: Vec<ExecutionId>,
    /// Which refused it, and why.
    pub refused: Vec<(ExecutionId, Refusal)>,
    /// Whether more match than one call acts on.
    pub more: bool,
}

impl Namespace {
    /// Does one action to many executions, each on its own.
    pub async fn bulk(&self, bulk: Bulk, actor: &Name) -> Result<Bulked, Error> {
        let (ids, more) = match bulk.target {
            BulkTarget::Ids(ids) if ids.len() > BULK_MAX => {
                let detail = format!("has {} entries; at most {BULK_MAX} are allowed", ids.len());
                return Err(Refusal::field("/ids", detail).into());
            }
            BulkTarget::Ids(ids) => (self.existing(ids).await?, false),
            BulkTarget::Filter(filter) => self.matching(&filter).await?,
        };
        let mut bulked = Bulked { matched: ids.len(), more, ..Bulked::default() };
        if bulk.dry_run {
            bulked.ids = ids;
            return Ok(bulked);
        }
        for chunk in ids.chunks(CHUNK) {
            let operate = |id: &ExecutionId| Operate {
                namespace: self.id(),
                execution: *id,
                actor: actor.clone(),
                if_version: None,
                action: bulk.action.clone(),
            };
            let replies = self.inner().committer.run_all(chunk.iter().map(operate)).await?;
            for (id, reply) in chunk.iter().zip(replies) {
                match reply {
                    Ok(_) => bulked.ids.push(*id),
                    Err(refusal) => bulked.refused.push((*id, refusal)),
                }
            }
        }
        Ok(bulked)
    }

    async fn existing(&self, ids: Vec<ExecutionId>) -> Result<Vec<ExecutionId>, Error> {
        let mut found = Vec::new();
        for chunk in ids.chunks(CHUNK) {
            let rows = self.inner().store.fetch(chunk).await?;
            let ours = rows.into_iter().filter(|stored| stored.execution.namespace == self.id());
            found.extend(ours.map(|stored| stored.execution.id));
        }
        Ok(found)
    }

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
