//! The upstreams and children of an execution, in pages with their outcomes and results.

use super::Namespace;
use crate::Error;
use selvedge_core::ExecutionId;
use selvedge_store::Stored;

/// The number of relatives that are read at once.
const CHUNK: usize = 16;
/// The size of inputs and results, in bytes, at which a page ends early.
const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// A relation between two executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The other one has an edge to the execution.
    Upstream,
    /// The execution spawned the other one.
    Child,
}

impl Namespace {
    /// Returns the relatives of an execution after a position, in the order in which they were added, and the position to
    /// continue from; none on the last page. A page is short if its relatives are large.
    pub async fn relatives(
        &self,
        id: ExecutionId,
        relation: Relation,
        after: u32,
        limit: u32,
    ) -> Result<(Vec<Stored>, Option<u32>), Error> {
        let view = self.get(id).await?;
        let wiring = view.stored.execution.wiring();
        let ids: Vec<ExecutionId> = match relation {
            Relation::Upstream => wiring.upstreams.iter().map(|upstream| upstream.execution).collect(),
            Relation::Child => wiring.children.iter().map(|child| child.execution).collect(),
        };
        let mut next = (after as usize).min(ids.len());
        let (last, mut bytes) = (ids.len().min(next + limit as usize), 0);
        let mut found = Vec::new();
        while next < last && bytes < PAGE_BYTES {
            let chunk = &ids[next..last.min(next + CHUNK)];
            let mut rows = self.inner().store.fetch(chunk).await?;
            rows.sort_by_key(|row| chunk.iter().position(|id| *id == row.execution.id));
            bytes += rows.iter().map(size).sum::<usize>();
            found.extend(rows);
            next += chunk.len();
        }
        Ok((found, (next < ids.len()).then_some(next as u32)))
    }
}

fn size(row: &Stored) -> usize {
    row.input.len() + row.result.as_ref().map_or(0, |result| result.len())
}
