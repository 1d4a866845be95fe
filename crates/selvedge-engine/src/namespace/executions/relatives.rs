//! The upstreams and children of an execution, in pages with their outcomes and results.

use crate::Error;
use crate::namespace::Namespace;
use selvedge_core::ExecutionId;
use selvedge_core::filter::Payloads;
use selvedge_store::{PAGE_BYTES, Stored, within_page};
use std::collections::HashMap;

/// The number of relatives that are read at once.
const CHUNK: usize = 100;
/// Relatives are read with their results.
const RESULTS: Payloads = Payloads { input: false, result: true };

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
        let row = self.row(id).await?;
        let wiring = row.wiring();
        let ids: Vec<ExecutionId> = match relation {
            Relation::Upstream => wiring.upstreams.iter().map(|upstream| upstream.execution).collect(),
            Relation::Child => wiring.children.iter().map(|child| child.execution).collect(),
        };
        let store = &self.inner().store;
        let mut next = (after as usize).min(ids.len());
        let page = &ids[next..ids.len().min(next + limit as usize)];
        let sizes: HashMap<ExecutionId, u64> =
            store.payload_sizes(page, RESULTS).await?.into_iter().collect();
        let size = |id: &&ExecutionId| sizes.get(*id).map_or(0, |size| *size as usize);
        let page: Vec<ExecutionId> = within_page(page, size).copied().collect();
        let (mut found, mut bytes) = (Vec::new(), 0);
        for chunk in page.chunks(CHUNK) {
            let mut rows = store.fetch(chunk, RESULTS).await?;
            rows.sort_by_key(|row| chunk.iter().position(|id| *id == row.execution.id));
            bytes += rows.iter().map(error_size).sum::<usize>();
            found.extend(rows);
            next += chunk.len();
            if bytes >= PAGE_BYTES {
                break;
            }
        }
        Ok((found, (next < ids.len()).then_some(next as u32)))
    }
}

fn error_size(row: &Stored) -> usize {
    row.execution.detail.error.as_ref().map_or(0, |error| error.message.len())
}
