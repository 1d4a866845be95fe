//! Lanes, quotas and budgets: configured, listed with their current use, spent and reset.

pub(crate) mod adoption;

use crate::Error;
use crate::namespace::{KeyedCalls, Namespace};
use adoption::adopt_active;
use selvedge_core::Rule;
use selvedge_core::gate::patch::ConfigPatch;
use selvedge_core::gate::{Adoption, Amounts, Config, Gate, GateKind, GateName};
use selvedge_core::name::{KEY_LIMIT, NAME_LIMIT};
use selvedge_core::rules::gates::budget::{Counted, Reset, Spend};
use selvedge_core::rules::gates::check::CheckGate;
use selvedge_core::rules::gates::configure::{Configure, Configured, Setting};
use selvedge_core::rules::keyed::{Answered, Keyed};
use selvedge_core::{ClassId, ExecutionId, GateId, Name, Refusal};
use selvedge_store::LaneCounts;
use std::collections::{BTreeSet, HashMap};

/// The bound up to which the use of a gate is counted.
const COUNT_BOUND: u64 = 10_000;
/// The maximum number of parts of a budget that are read.
const PARTS_MAX: u32 = 10_000;
/// The number of parts of a budget that are changed concurrently.
const PARTS_AT_A_TIME: usize = 16;

/// A gate and its current use.
#[derive(Clone, Debug)]
pub struct GateView {
    /// The gate. A lane without configuration is shown with the defaults.
    pub gate: Gate,
    /// The number of active executions. For lanes without limits they are counted up to a bound.
    pub active: u64,
    /// The number of executions that wait in the lane or are held by the gate, counted up to a bound.
    pub waiting: u64,
}

impl Namespace {
    fn gate_name(&self, kind: GateKind, name: &str) -> Result<GateName, Refusal> {
        Ok(GateName::new(self.id(), kind, Name::parse("/name", name, NAME_LIMIT)?))
    }

    /// Configures a gate. None removes the configuration.
    pub async fn configure(
        &self,
        kind: GateKind,
        name: &str,
        config: Option<Config>,
        actor: &Name,
    ) -> Result<Configured, Error> {
        let setting = config.map_or(Setting::Remove, Setting::Replace);
        Ok(self.set_gate(&self.keyed(None), (kind, name), setting, actor).await?.done)
    }

    /// Changes some fields of the configuration of a gate. Refused for a quota or a budget that does not exist.
    pub async fn patch_gate(
        &self,
        kind: GateKind,
        name: &str,
        patch: ConfigPatch,
        actor: &Name,
    ) -> Result<Configured, Error> {
        Ok(self.keyed(None).patch_gate(kind, name, patch, actor).await?.done)
    }

    pub(in crate::namespace) async fn set_gate(
        &self,
        calls: &KeyedCalls<'_>,
        (kind, name): (GateKind, &str),
        setting: Setting,
        actor: &Name,
    ) -> Result<Answered<Configured>, Error> {
        let configure = Configure { gate: self.gate_name(kind, name)?, setting, actor: actor.clone() };
        let Answered { done, duplicate } = calls.run(configure).await?;
        if let Some(count) = done.gate.state.adoption.filter(|count| *count == Adoption::Counting) {
            let inner = self.inner();
            adopt_active(&*inner.store, &inner.committer, &done.gate.name, count).await?;
        }
        if kind == GateKind::Budget {
            self.release_parts(&done.gate.name).await?;
        }
        Ok(Answered { done, duplicate })
    }

    /// Releases executions held by parts of a budget that was just configured. Only parts with a due time hold any. A
    /// crash before this only delays the release until they are due.
    async fn release_parts(&self, name: &GateName) -> Result<(), Error> {
        let parts = self.inner().store.parts_of(name, PARTS_MAX).await?.into_iter();
        let parts = parts.filter(|part| part.due_at.is_some());
        let look = |part: Gate| CheckGate { gate: part.name, stopped: false, now: true };
        self.run_for_parts(parts.map(look).collect()).await?;
        Ok(())
    }

    /// Runs independent rules, a few at a time: there may be as many as a budget has parts.
    async fn run_for_parts<R: Rule + Clone>(&self, rules: Vec<R>) -> Result<Vec<R::Reply>, Error> {
        let mut replies = Vec::with_capacity(rules.len());
        for some in rules.chunks(PARTS_AT_A_TIME) {
            replies.extend(self.inner().committer.run_all(some.iter().cloned()).await?);
        }
        Ok(replies)
    }

    /// Adds spending to a budget, optionally for an execution.
    pub async fn spend(
        &self,
        budget: &str,
        usage: Amounts,
        dedup_key: Option<&str>,
        execution: Option<ExecutionId>,
    ) -> Result<Counted, Error> {
        let budget = Name::parse("/budget", budget, NAME_LIMIT)?;
        let dedup_key = dedup_key.map(|key| Name::parse("/dedup_key", key, KEY_LIMIT)).transpose()?;
        if let Some(id) = execution {
            self.row(id).await?;
        }
        let spend = Spend { namespace: self.id(), budget, usage, dedup_key, execution };
        spend.check()?;
        Ok(self.run(spend).await??)
    }

    /// Resets the usage of a budget and of all its parts to zero.
    pub async fn reset_budget(&self, name: &str, actor: &Name) -> Result<GateView, Error> {
        Ok(self.keyed(None).reset_budget(name, actor).await?.done)
    }

    pub(in crate::namespace) async fn reset_budget_keyed(
        &self,
        calls: &KeyedCalls<'_>,
        name: &str,
        actor: &Name,
    ) -> Result<Answered<GateView>, Error> {
        let whole = self.gate_name(GateKind::Budget, name)?;
        // Refuses an unknown budget before anything is recorded under the key.
        self.gate(GateKind::Budget, name).await?;
        let parts = self.inner().store.parts_of(&whole, PARTS_MAX).await?;
        let gates: Vec<GateName> =
            [whole].into_iter().chain(parts.into_iter().map(|part| part.name)).collect();
        let Answered { done: gates, duplicate } = calls.fix_plan(gates).await?;
        let reset = |gate: GateName| Keyed {
            call_key: calls.step(&gate),
            rule: Reset { gate, actor: actor.clone() },
            keeps_refusals: false,
        };
        for reply in self.run_for_parts(gates.into_iter().map(reset).collect()).await? {
            reply?;
        }
        Ok(Answered { done: self.gate(GateKind::Budget, name).await?, duplicate })
    }

    /// Returns the parts of a budget that are counted separately.
    pub async fn budget_parts(&self, name: &str) -> Result<Vec<Gate>, Error> {
        self.some_budget_parts(name, PARTS_MAX).await
    }

    /// Returns at most `limit` of the parts of a budget that are counted separately.
    pub async fn some_budget_parts(&self, name: &str, limit: u32) -> Result<Vec<Gate>, Error> {
        let whole = self.gate_name(GateKind::Budget, name)?;
        Ok(self.inner().store.parts_of(&whole, limit).await?)
    }

    /// Returns at most `limit` of the parts of a budget that are counted separately, with the number of executions that each
    /// holds.
    pub async fn budget_part_views(&self, name: &str, limit: u32) -> Result<Vec<GateView>, Error> {
        let parts = self.some_budget_parts(name, limit).await?;
        self.gate_views(parts).await
    }

    /// Returns a gate. A lane exists, with the defaults, as soon as an execution was submitted to it.
    pub async fn gate(&self, kind: GateKind, name: &str) -> Result<GateView, Error> {
        let name = self.gate_name(kind, name)?;
        if kind == GateKind::Lane {
            // Another server may have accepted the first submission to it.
            self.inner().registry.refresh_classes().await?;
        }
        let stored = self.inner().store.fetch_gates(&[name.id()]).await?.pop();
        let configured = stored.filter(|gate| gate.config.is_some());
        let used =
            || kind == GateKind::Lane && self.inner().registry.lanes_of(self.id()).contains(&name.name);
        match configured {
            Some(gate) => self.gate_view(gate).await,
            None if used() => self.gate_view(Gate::new(name)).await,
            None => Err(Refusal::NotFound { what: kind.as_str().into(), id: name.name.to_string() }.into()),
        }
    }

    /// Returns a page of gates, by name, and whether there are more.
    pub async fn gates(
        &self,
        kind: GateKind,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<(Vec<GateView>, bool), Error> {
        let mut gates = self.inner().store.list_gates(self.id(), kind, after, limit + 1).await?;
        if kind == GateKind::Lane {
            self.inner().registry.refresh_classes().await?;
            let configured: BTreeSet<Name> = gates.iter().map(|gate| gate.name.name.clone()).collect();
            let used = self.inner().registry.lanes_of(self.id()).into_iter();
            let used = used.filter(|lane| after.is_none_or(|after| lane > after));
            let missing = used.filter(|lane| !configured.contains(lane)).take(limit as usize + 1);
            let names = missing.map(|lane| GateName::new(self.id(), GateKind::Lane, lane));
            gates.extend(names.map(Gate::new));
            gates.sort_by(|a, b| a.name.cmp(&b.name));
        }
        let more = gates.len() > limit as usize;
        gates.truncate(limit as usize);
        Ok((self.gate_views(gates).await?, more))
    }

    /// Returns these lanes, in this order. A lane without configuration has the defaults.
    pub async fn lanes(&self, names: &[Name]) -> Result<Vec<GateView>, Error> {
        let names = names.iter().map(|name| GateName::new(self.id(), GateKind::Lane, name.clone()));
        let names: Vec<GateName> = names.collect();
        let ids: Vec<GateId> = names.iter().map(GateName::id).collect();
        let mut stored: HashMap<GateId, Gate> =
            self.inner().store.fetch_gates(&ids).await?.into_iter().map(|gate| (gate.id(), gate)).collect();
        let gates =
            names.into_iter().map(|name| stored.remove(&name.id()).unwrap_or_else(|| Gate::new(name)));
        self.gate_views(gates.collect()).await
    }

    async fn gate_view(&self, gate: Gate) -> Result<GateView, Error> {
        let name = gate.name.clone();
        let not_counted = || GateView { active: 0, waiting: 0, gate: Gate::new(name) };
        Ok(self.gate_views(vec![gate]).await?.pop().unwrap_or_else(not_counted))
    }

    /// Counts the use of gates. All lanes of a page are counted together.
    async fn gate_views(&self, gates: Vec<Gate>) -> Result<Vec<GateView>, Error> {
        let store = &self.inner().store;
        let classes = self.inner().registry.classes();
        let lanes: Vec<Vec<ClassId>> = gates
            .iter()
            .filter(|gate| gate.name.kind == GateKind::Lane)
            .map(|gate| classes.ranges_of(self.id(), &gate.name.name))
            .collect();
        let counts = match lanes.is_empty() {
            true => Vec::new(),
            false => store.count_lanes(self.id(), &lanes, COUNT_BOUND).await?,
        };
        let mut counts = counts.into_iter();
        let mut views = Vec::with_capacity(gates.len());
        for gate in gates {
            views.push(match gate.name.kind {
                GateKind::Lane => {
                    let LaneCounts { waiting, active } = counts.next().unwrap_or_default();
                    GateView { gate, active, waiting }
                }
                GateKind::Key | GateKind::Quota | GateKind::Budget | GateKind::Fair => {
                    // Fairness lines do not record whether they hold anything.
                    let waiting = match gate.state.holds || gate.name.kind == GateKind::Fair {
                        true => store.held_by(gate.id(), COUNT_BOUND).await?,
                        false => 0,
                    };
                    GateView { active: gate.active.into(), waiting, gate }
                }
            });
        }
        Ok(views)
    }
}
