//! Lanes, quotas and budgets, as callers see them: configured, listed with their current use, spent, reset and removed.

use crate::{Error, Namespace};
use selvedge_core::Rule;
use selvedge_core::filter::Filter;
use selvedge_core::gate::{Amounts, Config, Gate, GateKind, GateName};
use selvedge_core::name::{KEY_LIMIT, NAME_LIMIT};
use selvedge_core::rules::gates::budget::{Reset, Spend};
use selvedge_core::rules::gates::check::CheckGate;
use selvedge_core::rules::gates::configure::{Configure, Configured};
use selvedge_core::state::StateName;
use selvedge_core::{ExecutionId, Name, Refusal};

/// How far the use of a gate is counted.
const COUNT_BOUND: u64 = 10_000;
/// How many parts of a budget are looked at.
const PARTS_MAX: u32 = 10_000;
/// How many parts of a budget are changed at a time.
const AT_A_TIME: usize = 16;

/// A gate and its current use.
#[derive(Clone, Debug)]
pub struct GateView {
    /// The gate. One that nobody has configured is shown as if it were, by its defaults.
    pub gate: Gate,
    /// How many are active, of a lane that counts nothing too.
    pub active: u64,
    /// How many wait in a lane, or are held by another gate, counted up to a bound.
    pub waiting: u64,
}

impl Namespace {
    fn gate_name(&self, kind: GateKind, name: &str) -> Result<GateName, Refusal> {
        Ok(GateName::new(self.id(), kind, Name::parse("/name", name, NAME_LIMIT)?))
    }

    /// Configures a lane or a quota; says whether it was not configured before.
    pub async fn configure(
        &self,
        kind: GateKind,
        name: &str,
        config: Option<Config>,
        actor: &Name,
    ) -> Result<Configured, Error> {
        let configure = Configure { gate: self.gate_name(kind, name)?, config, actor: actor.clone() };
        let done = self.run(configure).await??;
        if kind == GateKind::Budget {
            self.look_at_parts(&done.gate.name).await?;
        }
        Ok(done)
    }

    /// A budget was configured: what its parts hold may go on. One that holds something is to be looked at some time.
    async fn look_at_parts(&self, name: &GateName) -> Result<(), Error> {
        let parts = self.inner().store.parts_of(name, PARTS_MAX).await?.into_iter();
        let parts = parts.filter(|part| part.due_at.is_some());
        let look = |part: Gate| CheckGate { gate: part.name, stopped: false, now: true };
        self.run_all(parts.map(look).collect()).await?;
        Ok(())
    }

    /// Runs rules that do not depend on each other, some at a time: there are as many as a budget has parts.
    async fn run_all<R: Rule + Clone>(&self, rules: Vec<R>) -> Result<Vec<R::Reply>, Error> {
        let mut replies = Vec::with_capacity(rules.len());
        for some in rules.chunks(AT_A_TIME) {
            replies.extend(self.inner().committer.run_all(some.iter().cloned()).await?);
        }
        Ok(replies)
    }

    /// Something was spent of a budget, by an execution or by nobody. Says whether it is counted now, and not before.
    pub async fn spend(
        &self,
        budget: &str,
        usage: Amounts,
        dedup_key: Option<&str>,
        execution: Option<ExecutionId>,
    ) -> Result<bool, Error> {
        let budget = Name::parse("/budget", budget, NAME_LIMIT)?;
        let dedup_key = dedup_key.map(|key| Name::parse("/dedup_key", key, KEY_LIMIT)).transpose()?;
        if let Some(id) = execution {
            self.get(id).await?;
        }
        let spend = Spend { namespace: self.id(), budget, usage, dedup_key, execution };
        spend.check()?;
        Ok(self.run(spend).await??)
    }

    /// Sets the usage of a budget, and of all its parts, back to nothing.
    pub async fn reset_budget(&self, name: &str, actor: &Name) -> Result<GateView, Error> {
        let whole = self.gate_name(GateKind::Budget, name)?;
        let parts = self.inner().store.parts_of(&whole, PARTS_MAX).await?;
        let gates = [whole].into_iter().chain(parts.into_iter().map(|part| part.name));
        let reset = |gate: GateName| Reset { gate, actor: actor.clone() };
        for reply in self.run_all(gates.map(reset).collect()).await? {
            reply?;
        }
        self.gate(GateKind::Budget, name).await
    }

    /// The parts of a budget that are counted on their own.
    pub async fn budget_parts(&self, name: &str) -> Result<Vec<Gate>, Error> {
        let whole = self.gate_name(GateKind::Budget, name)?;
        Ok(self.inner().store.parts_of(&whole, PARTS_MAX).await?)
    }

    /// A gate. A lane is there with its defaults as soon as something was submitted to it.
    pub async fn gate(&self, kind: GateKind, name: &str) -> Result<GateView, Error> {
        let name = self.gate_name(kind, name)?;
        if kind == GateKind::Lane {
            // Something may have been submitted to it through another server.
            self.inner().registry.refresh().await?;
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

    /// A page of gates, by name, and whether there are more.
    pub async fn gates(
        &self,
        kind: GateKind,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<(Vec<GateView>, bool), Error> {
        let mut gates = self.inner().store.list_gates(self.id(), kind, after, limit + 1).await?;
        if kind == GateKind::Lane {
            self.inner().registry.refresh().await?;
            let used = self.inner().registry.lanes_of(self.id()).into_iter();
            let used = used.filter(|lane| after.is_none_or(|after| lane > after));
            let names = used.map(|lane| GateName::new(self.id(), GateKind::Lane, lane));
            let missing: Vec<GateName> =
                names.filter(|name| gates.iter().all(|gate| gate.name != *name)).collect();
            gates.extend(missing.into_iter().map(Gate::new));
            gates.sort_by(|a, b| a.name.cmp(&b.name));
        }
        let more = gates.len() > limit as usize;
        gates.truncate(limit as usize);
        let mut views = Vec::with_capacity(gates.len());
        for gate in gates {
            views.push(self.gate_view(gate).await?);
        }
        Ok((views, more))
    }

    async fn gate_view(&self, gate: Gate) -> Result<GateView, Error> {
        let store = &self.inner().store;
        if gate.name.kind != GateKind::Lane {
            let waiting = store.held_by(gate.id(), COUNT_BOUND).await?;
            return Ok(GateView { active: gate.active.into(), waiting, gate });
        }
        let classes = Some(self.inner().registry.of(self.id(), Some(&gate.name.name), None));
        let count = |state: StateName| {
            let filter = Filter { classes: classes.clone(), states: vec![state], ..Filter::all(self.id()) };
            async move { store.count(&filter, COUNT_BOUND).await }
        };
        let (active, waiting) = (count(StateName::Active).await?, count(StateName::Waiting).await?);
        Ok(GateView { gate, active, waiting })
    }
}
