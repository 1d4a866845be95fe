//! `schedule`: decides the times of schedules that are due.

use super::runtime::ReconcilerContext;
use super::{PAGES, Reconciler, Tally};
use crate::Error;
use crate::namespace::schedules::prepared_runs::prepare;
use async_trait::async_trait;
use selvedge_core::Timestamp;
use selvedge_core::rules::schedule::{FireReply, FireSchedule};
use selvedge_store::{DueSchedules, Overview};
use std::time::Duration;

/// The maximum number of schedules per page of a scan. Their submissions may be large.
const PAGE: u32 = 100;

/// Decides the times of schedules.
pub struct Schedules;

#[async_trait]
impl Reconciler for Schedules {
    fn name(&self) -> &'static str {
        "schedule"
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(20)
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        overview.due.of::<selvedge_core::schedule::Schedule>()
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let (store, registry) = (&*context.store, context.committer.registry());
        let mut tally = Tally::default();
        let mut after = None;
        for _ in 0..PAGES {
            let page = store.due_schedules(&context.scope, after, PAGE).await?;
            let DueSchedules { now, schedules } = page;
            if schedules.is_empty() && tally.scanned == 0 {
                // The only due schedule is unreadable. Counted as found, so that the supervisor backs off.
                let due = self.next_due(&store.overview().await?);
                tally.scanned += u64::from(due.is_some_and(|due| due <= now));
            }
            let found = schedules.len();
            after = schedules.last().and_then(|last| Some((last.due_at?, last.name.clone())));
            let mut fires = Vec::with_capacity(found);
            for schedule in schedules {
                let prepared = prepare(
                    store,
                    registry,
                    &context.defaults,
                    schedule.name.namespace,
                    &schedule.spec.submit,
                )
                .await?;
                let (name, spec_version) = (schedule.name, schedule.spec_version);
                fires.push(FireSchedule { name, spec_version, prepared, upto: now });
            }
            tally += context
                .run_for_each(
                    fires,
                    |fire| context.scope.covers_namespace(fire.name.namespace),
                    |fire| fire.name.clone(),
                    |fire| fire,
                    |reply| Ok(matches!(reply, FireReply::Decided(_))),
                )
                .await?;
            if found < PAGE as usize || after.is_none() {
                break;
            }
        }
        Ok(tally)
    }
}
