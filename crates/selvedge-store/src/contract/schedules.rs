//! Reads of schedules.

use crate::{DueSchedules, Error, ReconcilerScope};
use async_trait::async_trait;
use selvedge_core::schedule::{Schedule, ScheduleName};
use selvedge_core::{Name, NamespaceId, Timestamp};

#[async_trait]
pub trait ScheduleReads: Send + Sync {
    async fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>, Error>;
    /// Returns a page of the schedules of a namespace, by name. Unreadable ones are omitted.
    async fn schedules(
        &self,
        namespace: NamespaceId,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Schedule>, Error>;
    /// Returns a page of the schedules that are due, earliest first: those of the namespace of a scope, whatever its tag.
    /// Unreadable ones are omitted.
    async fn due_schedules(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, ScheduleName)>,
        limit: u32,
    ) -> Result<DueSchedules, Error>;
}
