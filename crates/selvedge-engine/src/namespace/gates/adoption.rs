//! The count of the active executions of a lane whose limit was set.
//!
//! The call that sets the limit counts them before it is answered, so that the limit holds from the answer on. If its server
//! stops in the middle, a reconciler counts again: the lane is due until the count is complete.

use crate::Error;
use crate::commit::Committer;
use selvedge_core::filter::{Filter, ListPosition, Payloads};
use selvedge_core::gate::{Adoption, GateName};
use selvedge_core::rules::gates::adopt::Adopt;
use selvedge_core::state::StateName;
use selvedge_core::{ClassId, ExecutionId};
use selvedge_store::Store;
use std::sync::Arc;

/// The number of executions that are listed together, and adopted in one transaction.
const PAGE: u32 = 200;

/// Gives slots of a lane to its active executions that have none, page by page, and completes the count. Returns the
/// number of executions adopted. Any number of servers may do this at the same time.
pub async fn adopt_active(
    store: &dyn Store,
    committer: &Arc<Committer>,
    lane: &GateName,
    count: Adoption,
) -> Result<u64, Error> {
    let classes = store.classes_after(ClassId(0)).await?.into_iter();
    let classes = classes.filter(|(_, class)| class.namespace == lane.namespace && class.lane == lane.name);
    let classes: Vec<ClassId> = classes.map(|(id, _)| id).collect();
    let states = vec![StateName::Active];
    let active = Filter { classes: Some(classes), states, ..Filter::all(lane.namespace) };
    let adopt = |executions, ends| Adopt { lane: lane.clone(), executions, ends };
    let mut adopted = 0;
    let mut after: Option<ListPosition> = None;
    loop {
        let page = store.list(&active, after, PAGE, Payloads::NONE).await?;
        after = page.next;
        let uncounted = page.rows.iter().map(|stored| &stored.execution);
        let uncounted = uncounted.filter(|row| row.detail.slots.lane.is_none()).map(|row| row.id);
        let uncounted: Vec<ExecutionId> = uncounted.collect();
        if !uncounted.is_empty() {
            adopted += u64::from(committer.run(adopt(uncounted, None)).await?);
        }
        if after.is_none() {
            break;
        }
    }
    committer.run(adopt(Vec::new(), Some(count))).await?;
    Ok(adopted)
}
