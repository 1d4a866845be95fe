//! Configuring lanes, quotas and budgets.

use super::budget::{request_stop, without_usage};
use super::release::{CHUNK, release};
use crate::fact::Fact;
use crate::gate::{Config, Gate, GateKind, GateName, OnHard};
use crate::rows::{HeldBy, Needs};
use crate::rule::{Phase, Profile, Rule};
use crate::rules::keyed::Repeatable;
use crate::window::Window;
use crate::{Name, NamespaceId, Refusal, Work};

/// Configures a gate, or removes its configuration.
#[derive(Clone, Debug)]
pub struct Configure {
    /// The gate.
    pub gate: GateName,
    /// The new configuration; none to remove it.
    pub config: Option<Config>,
    /// The operator.
    pub actor: Name,
}

/// The reply to a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Configured {
    /// The gate as configured.
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
        self.config.as_ref().map_or(Ok(()), Config::check)?;
        let before = work.gate(&self.gate);
        let created = before.config.is_none();
        if self.config.is_none() && created {
            let what = self.gate.kind.as_str().into();
            return Err(Refusal::NotFound { what, id: self.gate.name.to_string() });
        }
        if before.config != self.config {
            let fact = match self.config {
                Some(_) => Fact::GateConfigured { gate: self.gate.clone() },
                None => Fact::GateRemoved { gate: self.gate.clone() },
            };
            let now = work.now();
            let period = |config: &Option<Config>| config.as_ref().and_then(|config| config.period_ms);
            let same_period = period(&before.config) == period(&self.config);
            let stops_active = |config: &Option<Config>| {
                let stopping = config.as_ref().filter(|config| config.on_hard != OnHard::Hold);
                stopping.is_some_and(|config| before.is_used_up(&config.limits))
            };
            let stops_now = stops_active(&self.config) && !stops_active(&before.config);
            work.change_gate(&self.gate, |gate| {
                gate.config.clone_from(&self.config);
                if !same_period {
                    gate.state.resets_at = period(&self.config).map(|ms| now.plus_ms(ms));
                }
                gate.due_at = gate.due_at.into_iter().chain(gate.state.resets_at).min();
                if self.config.as_ref().is_none_or(|config| config.rate.is_none()) {
                    gate.state.starts = Window::default();
                }
                if self.config.is_none() && self.gate.kind == GateKind::Budget {
                    *gate = without_usage(gate);
                }
                // The limits were lowered below the usage, or the policy now stops the active executions of a used-up
                // budget.
                if let Some(config) = self.config.as_ref().filter(|_| stops_now) {
                    request_stop(gate, config, now);
                }
            });
            work.emit(self.gate.namespace, fact, Some(self.actor.clone()));
            match self.gate.kind {
                GateKind::Lane => work.mark_opened(self.gate.id()),
                GateKind::Key | GateKind::Quota | GateKind::Budget | GateKind::Fair => {
                    release(work, &self.gate, true);
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
