//! The handle of a namespace, and its calls by subject: one file per subject.

mod api_keys;
mod bulk_jobs;
mod claims;
mod counts;
pub(crate) mod creation;
mod deletion;
mod events;
mod executions;
mod explain;
mod flow_cancel;
mod flow_record;
mod flows;
mod gates;
mod inbox;
mod keyed;
mod lease_namespaces;
mod log_positions;
mod namespaces;
mod newest_events;
mod operators;
mod record_pages;
mod relatives;
mod reports;
mod schedules;
mod settings;
mod signals;
mod stats;
mod streams;
mod submissions;
mod webhooks;
mod workers;

pub use api_keys::{ApiKeyDraft, CreatedApiKey};
pub use bulk_jobs::BulkJobDraft;
pub use claims::{ClaimResult, ClaimWait};
pub use counts::{ClassDepth, StateCount};
pub use deletion::MARK_NOTICED_MS;
pub use events::{EventFilter, EventPage, From, PublicEvent};
pub(crate) use events::{EventSelection, FactPlace, LogPage};
pub use executions::{Ended, HeldReason, Spent, View};
pub use flow_record::{FlowMember, FlowRecord};
pub(crate) use flows::planned_graph;
pub use flows::{FlowEnded, FlowView, GrownFlow};
pub use gates::GateView;
pub use keyed::KeyedCalls;
pub use namespaces::Namespaces;
pub use operators::{BULK_MAX, Bulk, BulkResult, BulkTarget};
pub use record_pages::RecordPage;
pub use relatives::Relation;
pub use reports::ReportItem;
pub use schedules::RunView;
pub(crate) use signals::load_secret;
pub use signals::{Decision, WaitpointLook};
pub use stats::{LaneMinute, StatsQuery};
pub use streams::{Frames, StreamTail};
pub use webhooks::WithSecret;
pub use workers::{HeartbeatResult, WorkerView};

use crate::{Engine, Error, Inner};
use selvedge_core::rule::Rule;
use selvedge_core::{Name, NamespaceId};
use std::time::Duration;

/// The maximum time that a call may wait.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The handle of a namespace. Cheap to clone.
#[derive(Clone)]
pub struct Namespace {
    engine: Engine,
    id: NamespaceId,
    name: Name,
    actor: Option<Name>,
}

impl Namespace {
    pub(crate) fn new(engine: Engine, id: NamespaceId, name: Name) -> Self {
        Namespace { engine, id, name, actor: None }
    }

    /// Returns a handle whose submissions name `actor` in their events. Default: no actor.
    pub fn with_actor(self, actor: Name) -> Self {
        Namespace { actor: Some(actor), ..self }
    }

    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The interned id of the namespace.
    pub fn id(&self) -> NamespaceId {
        self.id
    }

    /// The engine that the namespace belongs to.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.engine.inner
    }

    async fn run<R: Rule>(&self, rule: R) -> Result<R::Reply, Error> {
        self.inner().committer.run(rule).await
    }
}
