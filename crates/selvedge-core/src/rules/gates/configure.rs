//! Configuring lanes, quotas and budgets.

use super::adopt::begin_count;
use super::budget::{request_stop, without_usage};
use super::machine::Occasion;
use super::{CHUNK, release};
use crate::fact::{self, Fact};
use crate::gate::patch::ConfigPatch;
use crate::gate::{Config, Gate, GateKind, GateName, OnHard};
use crate::rows::{HeldBy, Needs};
use crate::rule::{Phase, Profile, Rule};
use crate::rules::keyed::Repeatable;
use crate::window::Window;
use crate::{Name, NamespaceId, Refusal, Work};

/// Configures a gate, or removes its configuration.
#[derive(Clone, Debug)]
pub struct Configure {
    pub gate: GateName,
    /// The change of its configuration.
    pub setting: Setting,
    pub actor: Name,
}

/// A change of a configuration.
#[derive(Clone, Debug)]
pub enum Setting {
    /// Replaces the configuration, or creates it.
    Replace(Config),
    /// Changes some fields. Refused for a quota or a budget that does not exist.
    Patch(Box<ConfigPatch>),
    /// Removes the configuration. Refused if there is none.
    Remove,
}

impl Setting {
    /// Returns the new configuration of a gate; none if it has none.
    fn apply(&self, gate: &Gate) -> Result<Option<Config>, Refusal> {
        let GateName { kind, name, .. } = &gate.name;
        match self {
            Setting::Replace(config) => Ok(Some(config.clone())),
            Setting::Patch(patch) => patch.merge(*kind, name, gate.config.as_ref()),
            Setting::Remove if gate.config.is_none() => {
                Err(Refusal::NotFound { what: kind.as_str().into(), id: name.to_string() })
            }
            Setting::Remove => Ok(None),
        }
    }
}

/// The reply to a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Configured {
    pub gate: Gate,
    /// The gate was not configured before.
    pub created: bool,
}

impl Rule for Configure {
    type Reply = Result<Configured, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(32)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        let id = self.gate.id();
        // A lane is locked like any other gate, so that concurrent claims from it wait. A lane with limits is locked in
        // the stage of lanes as well, so that all lanes are locked in order.
        needs.gates.lock([id]);
        if self.gate.kind == GateKind::Lane {
            needs.lanes.lock([id]);
        }
        if self.gate.kind != GateKind::Lane {
            needs.queries.held.push(HeldBy::first(id, CHUNK));
        }
    }

    /// Configures the gate, and releases held executions if there is room now.
    fn decide(&self, work: &mut Work) -> Result<Configured, Refusal> {
        let before = work.gate(&self.gate);
        let config = self.setting.apply(&before)?;
        config.as_ref().map_or(Ok(()), Config::check)?;
        let created = before.config.is_none();
        if before.config != config {
            let fact = match config {
                Some(_) => Fact::GateConfigured(fact::GateConfigured { gate: self.gate.clone() }),
                None => Fact::GateRemoved(fact::GateRemoved { gate: self.gate.clone() }),
            };
            let now = work.now();
            let period = |config: &Option<Config>| config.as_ref().and_then(|config| config.period_ms);
            let same_period = period(&before.config) == period(&config);
            let stops_active = |config: &Option<Config>| {
                let stopping = config.as_ref().filter(|config| config.on_hard != OnHard::Hold);
                stopping.is_some_and(|config| before.is_used_up(&config.limits))
            };
            let stops_now = stops_active(&config) && !stops_active(&before.config);
            work.change_gate(&self.gate, |gate| {
                if !same_period {
                    gate.state.resets_at = period(&config).map(|ms| now.plus_ms(ms));
                }
                gate.due_at = gate.due_at.into_iter().chain(gate.state.resets_at).min();
                if config.as_ref().is_none_or(|config| config.rate.is_none()) {
                    gate.state.starts = Window::default();
                }
                if config.is_none() && self.gate.kind == GateKind::Budget {
                    *gate = without_usage(gate);
                }
                // The limits were lowered below the usage, or the policy now stops the active executions of a used-up
                // budget.
                if let Some(config) = config.as_ref().filter(|_| stops_now) {
                    request_stop(gate, config, now);
                }
                let limited =
                    |config: &Option<Config>| config.as_ref().is_some_and(|one| one.concurrency.is_some());
                begin_count(gate, limited(&gate.config), limited(&config), now);
                gate.config = config;
            });
            work.emit(self.gate.namespace, fact, Some(self.actor.clone()));
            match self.gate.kind {
                GateKind::Lane => work.mark_opened(self.gate.id()),
                GateKind::Key | GateKind::Quota | GateKind::Budget | GateKind::Fair => {
                    release(work, &self.gate, Occasion::Configure);
                }
            }
        }
        Ok(Configured { gate: work.gate(&self.gate).into_owned(), created })
    }
}

impl Repeatable for Configure {
    type Done = Configured;
    type Answer = ();

    fn namespace(&self) -> NamespaceId {
        self.gate.namespace
    }

    fn answer(_done: &Configured) {}

    /// Returns the gate as it is now.
    fn repeat(&self, (): (), work: &Work) -> Result<Configured, Refusal> {
        Ok(Configured { gate: work.gate(&self.gate).into_owned(), created: false })
    }
}
