//! When background work is due next.

pub mod glance;

use crate::PostgresStore;
use crate::sql::{Micros, statements};
use async_trait::async_trait;
use glance::REGISTERED_LIMIT;
use selvedge_core::inbox::{InboxRow, REFUSED_KEPT_MS};
use selvedge_core::outbox::OutboxKind;
use selvedge_core::session::FORGET_MS;
use selvedge_core::stream::BEST_EFFORT_MS;
use selvedge_core::{DueKind, TIMED_KINDS, Timed, Timestamp};
use selvedge_store::{DueReads, DueTimes, Error, FlowDue, Overview};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

statements! {
    with { registered_limit: REGISTERED_LIMIT, }
    GLANCE = "overview/glance";
    LEASES_CHECK = "leases/check";
    READ = "overview/read";
}

/// The position before every other one of a scan by time and id.
pub const START: (Micros, Uuid) = (Micros(0), Uuid::nil());

/// Pairs each kind that has a time with its time.
pub fn first_of<K>(kinds: impl IntoIterator<Item = K>, first: Vec<Option<Micros>>) -> Vec<(K, Timestamp)> {
    kinds.into_iter().zip(first).filter_map(|(kind, at)| Some((kind, at?.time()))).collect()
}

/// Reads the due times of the kinds whose first row each has a column of its own, by their names.
fn due_times(row: &Row) -> DueTimes {
    TIMED_KINDS.iter().filter_map(|kind| Some((*kind, row.get::<_, Option<Micros>>(*kind)?.time()))).collect()
}

#[async_trait]
impl DueReads for PostgresStore {
    async fn overview(&self) -> Result<Overview, Error> {
        self.meter.measure("overview", self.read_overview()).await
    }

    async fn glance(&self) -> Result<Overview, Error> {
        self.meter.measure("glance", self.read_glance()).await
    }
}

impl PostgresStore {
    async fn read_overview(&self) -> Result<Overview, Error> {
        self.check_schema().await?;
        let (outbox, flows) = (OutboxKind::ALL.map(OutboxKind::code), FlowDue::ALL.map(FlowDue::code));
        let kinds = DueKind::ALL.map(DueKind::code);
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&FORGET_MS, &outbox.as_slice(), &flows.as_slice(), &BEST_EFFORT_MS, &kinds.as_slice()];
        let rows = self.query_in_background(&READ, &parameters).await?;
        let row = rows.first().ok_or_else(|| Error::Failed("the overview returned no row".into()))?;
        let mut overview = Overview {
            now: row.get::<_, Micros>(0).time(),
            ahead_ms: row.get(13),
            next: first_of(DueKind::ALL, row.get(1)),
            expired_leases: row.get(2),
            stale: row.get(3),
            newest_class: row.get(4),
            outbox: first_of(OutboxKind::ALL, row.get(5)),
            flows: first_of(FlowDue::ALL, row.get(6)),
            lanes: row.get(8),
            due: due_times(row),
        };
        self.glances.lower(&overview);
        self.keep_pace(&overview).await;
        let refused = row.get::<_, Option<Micros>>(12).filter(|_| overview.due.of::<InboxRow>().is_none());
        if let Some(at) = refused {
            overview.due.add(InboxRow::KIND, at.time().plus_ms(REFUSED_KEPT_MS));
        }
        Ok(overview)
    }
}
