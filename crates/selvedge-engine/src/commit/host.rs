//! The engine as the host of the transaction driver: its interned names, its lease cache and its waiting claims.

use super::effects::CommitEffects;
use super::lease_cache::LeaseCache;
use super::refusals::Refusals;
use super::waiting_claims::WaitingClaims;
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::traces::SpanSink;
use selvedge_core::driver::{Admission, Host, Summary};
use selvedge_core::gate::GateName;
use selvedge_core::work::LaneShares;
use selvedge_core::{Changes, Class, ClassId, Classes, Execution, ExecutionId, Gate, GateId};
use selvedge_store::BoxedTask;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The parts of an engine that a transaction uses.
#[derive(Clone)]
pub struct EngineHost {
    /// Interned names, and this process's knowledge of gates.
    pub registry: Arc<Registry>,
    /// Rows of leases that this process granted.
    pub cache: Arc<LeaseCache>,
    /// Claims that wait for work.
    pub waiting: Arc<WaitingClaims>,
    /// Gates that have lately refused many executions.
    pub refusals: Arc<Refusals>,
    /// Counts what is committed.
    pub metrics: Arc<Metrics>,
    /// Receives the spans of executions and attempts that ended, if they are published.
    pub spans: Option<SpanSink>,
}

impl Host for EngineHost {
    type Task = BoxedTask;
    type Effects = CommitEffects;

    fn effects(&self, changes: &Changes, summary: Summary) -> CommitEffects {
        CommitEffects::of(changes, summary, self)
    }

    fn classes(&self) -> Arc<Classes> {
        self.registry.classes()
    }

    fn learn_classes(&self, classes: Vec<(ClassId, Class)>) {
        self.registry.add(classes);
    }

    fn admission(&self) -> Admission {
        Admission {
            lanes: self.registry.has_lanes(),
            limits: self.registry.has_lane_limits(),
            gates: self.registry.has_gates(),
        }
    }

    fn seed(&self) -> u64 {
        fastrand::u64(..)
    }

    fn take_cached(&self, id: ExecutionId) -> Option<Execution> {
        self.cache.take(id, self.registry.lineage())
    }

    fn take_waiting_claims(
        &self,
        ready: BTreeMap<ClassId, usize>,
        fits: &dyn Fn(&[GateId]) -> bool,
    ) -> Vec<BoxedTask> {
        self.waiting.take_for_handover(ready, fits)
    }

    fn waiting_lanes(&self, classes: &BTreeSet<ClassId>) -> Vec<GateId> {
        self.waiting.lanes(classes)
    }

    fn lane_shares(&self) -> LaneShares {
        self.registry.lane_shares()
    }

    fn refusing_gates(&self, classes: &BTreeSet<ClassId>) -> Vec<GateName> {
        self.refusals.of(classes)
    }

    fn keep_lane_shares(&self, shares: &LaneShares) {
        self.registry.save_lane_shares(shares);
    }

    fn see_gates(&self, gates: &[Gate]) {
        self.registry.learn_gates(gates.iter());
    }

    fn expect_gates(&self) {
        self.registry.expect_gates();
    }

    fn report_unreadable(&self, execution: ExecutionId, detail: &str) {
        if self.cache.is_newly_unreadable(execution) {
            tracing::error!(%execution, detail, "an execution cannot be read; its row is left unchanged");
        }
    }
}
