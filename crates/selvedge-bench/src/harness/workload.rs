//! A workload: the requirements of its executions, the capabilities and reported usage of its workers, and its gates.

use super::BenchWorker;
use crate::Error;
use selvedge_core::Name;
use selvedge_core::amount::Amount;
use selvedge_core::gate::{Amounts, Config, GateKind, Limit, RequiredGates};
use selvedge_engine::Namespace;
use serde_json::{Value, json};

/// The dimension of the budgets.
const DIMENSION: &str = "tokens";

/// The requirements of an execution.
#[derive(Clone, Debug)]
pub struct Requirements {
    pub lane: String,
    /// The capabilities that its worker must offer.
    pub capabilities: Vec<String>,
    /// The budgets, quotas, concurrency key and fairness key.
    pub required_gates: RequiredGates,
}

/// The usage that a worker reports with every completion, in the same call.
#[derive(Clone, Debug)]
pub struct ReportedUsage {
    pub budget: Name,
    /// The amounts by dimension.
    pub amounts: Amounts,
}

/// A workload. The default has no requirements, capabilities, usage or gates.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The gates that are configured before the first submission.
    pub gates: Vec<(GateKind, &'static str, Config)>,
    /// The requirements of the executions. Batches have them in turn.
    pub requirements: Vec<Requirements>,
    /// True if the executions of each batch have the requirements in turn.
    pub mixed_batches: bool,
    /// The sets of capabilities that workers offer. Workers have them in turn.
    pub worker_capabilities: Vec<Vec<String>>,
    /// The usage that workers report.
    pub usage: Option<ReportedUsage>,
}

impl Requirements {
    /// Requires only this lane.
    pub fn lane(lane: &str) -> Requirements {
        Requirements { lane: lane.into(), capabilities: Vec::new(), required_gates: RequiredGates::default() }
    }

    /// Returns the fields of a submission over HTTP.
    pub fn fields(&self) -> Value {
        let RequiredGates { budgets, quotas, concurrency, fairness_key } = &self.required_gates;
        let budget = |(name, reserve): &(Name, Amounts)| json!({"name": name, "reserve": reserve});
        json!({
            "lane": self.lane,
            "capabilities": self.capabilities,
            "budgets": budgets.iter().map(budget).collect::<Vec<Value>>(),
            "quotas": quotas,
            "concurrency": concurrency.as_ref().map(|(key, limit)| json!({"key": key, "limit": limit})),
            "fairness_key": fairness_key,
        })
    }
}

impl Default for Workload {
    fn default() -> Self {
        Workload {
            gates: Vec::new(),
            requirements: vec![Requirements::lane("default")],
            mixed_batches: false,
            worker_capabilities: vec![Vec::new()],
            usage: None,
        }
    }
}

impl Workload {
    /// Returns the worker with this index, which claims up to `max` executions in one call.
    pub fn worker(&self, index: usize, max: usize) -> BenchWorker {
        let capabilities = self.worker_capabilities[index % self.worker_capabilities.len()].clone();
        BenchWorker { capabilities, usage: self.usage.clone(), ..BenchWorker::new(index, max) }
    }

    /// Configures the gates.
    pub async fn configure(&self, namespace: &Namespace) -> Result<(), Error> {
        for (kind, name, config) in &self.gates {
            namespace.configure(*kind, name, Some(config.clone()), &Name::trusted("bench")).await?;
        }
        Ok(())
    }
}

/// Returns an amount of tokens.
pub fn tokens(count: u32) -> Amounts {
    [(DIMENSION.to_owned(), Amount::whole(count))].into()
}

/// Returns a budget with this hard limit of tokens.
pub fn token_budget(hard: u32) -> Config {
    let limit = Limit { hard: Some(Amount::whole(hard)), soft: None };
    Config { limits: [(DIMENSION.to_owned(), limit)].into(), ..Config::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_become_the_fields_of_the_api() {
        let required_gates = RequiredGates {
            budgets: vec![(Name::trusted("month"), tokens(10))],
            concurrency: Some((Name::trusted("tenant"), 2)),
            ..RequiredGates::default()
        };
        let fields = Requirements { required_gates, ..Requirements::lane("default") }.fields();
        assert_eq!(fields["budgets"], json!([{"name": "month", "reserve": {"tokens": 10}}]));
        assert_eq!(fields["concurrency"], json!({"key": "tenant", "limit": 2}));
        assert_eq!(fields["fairness_key"], Value::Null);
    }
}
