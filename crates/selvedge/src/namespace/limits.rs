//! Lanes, quotas and budgets.

use super::{Connected, Namespace, actor};
use crate::limits::{BudgetSettings, BudgetUse, LaneSettings, QuotaSettings};
use crate::{Amount, Error};
use selvedge_core::gate::Amounts;
use selvedge_core::gate::patch::ConfigPatch;
use selvedge_core::gate::{Config, GateKind, LaneState};

impl Namespace {
    /// Configures a lane.
    pub async fn set_lane(&self, name: &str, settings: LaneSettings) -> Result<(), Error> {
        self.configure(GateKind::Lane, "lanes", name, Some(settings.into())).await
    }

    /// Pauses a lane: its executions cannot be claimed until it is resumed.
    pub async fn pause_lane(&self, name: &str) -> Result<(), Error> {
        self.set_lane_state(name, "pause", LaneState::Paused).await
    }

    /// Makes a paused or draining lane active again.
    pub async fn resume_lane(&self, name: &str) -> Result<(), Error> {
        self.set_lane_state(name, "resume", LaneState::Active).await
    }

    async fn set_lane_state(&self, name: &str, word: &str, state: LaneState) -> Result<(), Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                let patch = ConfigPatch::of_state(state);
                namespace.patch_gate(GateKind::Lane, name, patch, &actor()).await?;
            }
            Connected::Remote(client) => {
                client.post(&["lanes", name, word]).send().await?;
            }
        }
        Ok(())
    }

    /// Creates or replaces a quota.
    pub async fn set_quota(&self, name: &str, settings: QuotaSettings) -> Result<(), Error> {
        self.configure(GateKind::Quota, "quotas", name, Some(settings.into())).await
    }

    /// Removes a quota. It no longer limits the executions that name it.
    pub async fn remove_quota(&self, name: &str) -> Result<(), Error> {
        self.configure(GateKind::Quota, "quotas", name, None).await
    }

    /// Creates or replaces a budget. Its usage is kept.
    pub async fn set_budget(&self, name: &str, settings: BudgetSettings) -> Result<(), Error> {
        self.configure(GateKind::Budget, "budgets", name, Some(settings.into())).await
    }

    /// Removes a budget. It no longer limits the executions that name it.
    pub async fn remove_budget(&self, name: &str) -> Result<(), Error> {
        self.configure(GateKind::Budget, "budgets", name, None).await
    }

    /// Reads the use of a budget.
    pub async fn budget(&self, name: &str) -> Result<BudgetUse, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                let state = namespace.gate(GateKind::Budget, name).await?.gate.state;
                Ok(BudgetUse { usage: state.used, reserved: state.reserved, next_reset: state.resets_at })
            }
            Connected::Remote(client) => Ok(client.get(&["budgets", name]).send().await?.json()?),
        }
    }

    /// Counts spending on a budget, outside of any execution.
    pub async fn spend(&self, name: &str, dimension: &str, amount: Amount) -> Result<(), Error> {
        let usage = Amounts::from([(dimension.to_owned(), amount)]);
        match &self.connected {
            Connected::Embedded(namespace) => {
                namespace.spend(name, usage, None, None).await?;
            }
            Connected::Remote(client) => {
                let body = serde_json::json!({ "usage": usage });
                client.post(&["budgets", name, "usage"]).json(&body).send().await?;
            }
        }
        Ok(())
    }

    /// Begins the usage of a budget at zero again.
    pub async fn reset_budget(&self, name: &str) -> Result<(), Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                namespace.reset_budget(name, &actor()).await?;
            }
            Connected::Remote(client) => {
                client.post(&["budgets", name, "reset"]).send().await?;
            }
        }
        Ok(())
    }

    /// Creates or replaces a gate, or removes it if there is no configuration.
    async fn configure(
        &self,
        kind: GateKind,
        collection: &str,
        name: &str,
        config: Option<Config>,
    ) -> Result<(), Error> {
        match (&self.connected, config) {
            (Connected::Embedded(namespace), config) => {
                namespace.configure(kind, name, config, &actor()).await?;
            }
            (Connected::Remote(client), Some(config)) => {
                client.put(&[collection, name]).json(&config).send().await?;
            }
            (Connected::Remote(client), None) => {
                client.delete(&[collection, name]).send().await?;
            }
        }
        Ok(())
    }
}
