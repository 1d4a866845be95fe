//! On which terms a load runs: what its executions ask for, what its workers offer and spend, and which gates are there.
//!
//! Loads on different terms are compared in one run, each on an engine and a store of its own, and in turn: a machine that
//! slows down slows all of them. What is compared are medians of the turns.

use crate::queue::{self, Driven};
use crate::report::Times;
use crate::target::{Claimer, Target};
use crate::{Error, Load, Place, Remains};
use selvedge_core::Name;
use selvedge_core::amount::Amount;
use selvedge_core::gate::{Amounts, Config, Draws, GateKind, Limit};
use selvedge_engine::{Engine, Namespace, Options};
use serde_json::{Value, json};

/// The dimension in which budgets are counted here.
const DIMENSION: &str = "tokens";

/// What an execution asks for.
#[derive(Clone, Debug)]
pub struct Asks {
    /// Its lane.
    pub lane: String,
    /// What its worker must be capable of.
    pub capabilities: Vec<String>,
    /// What it draws on.
    pub draws: Draws,
}

/// What every completion reports as spent, in the same call.
#[derive(Clone, Debug)]
pub struct Spends {
    /// Of which budget.
    pub budget: Name,
    /// How much.
    pub usage: Amounts,
}

/// The terms of a load.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The gates that are configured before anything is submitted.
    pub gates: Vec<(GateKind, &'static str, Config)>,
    /// What executions ask for: batches take these in turn.
    pub asks: Vec<Asks>,
    /// Whether those of one batch do.
    pub mixed: bool,
    /// What workers are capable of; they take these in turn.
    pub offers: Vec<Vec<String>>,
    /// What is spent.
    pub spends: Option<Spends>,
}

/// What loads on the same terms showed, turn after turn.
pub struct Turns {
    /// The median of the throughputs.
    pub per_second: f64,
    /// Of all turns together.
    pub executions: u64,
    /// Of all turns together.
    pub times: Option<Times>,
    /// The median.
    pub commits: Option<f64>,
    /// The median.
    pub wal_bytes: Option<f64>,
}

impl Asks {
    /// For nothing but to run, in this lane.
    pub fn lane(lane: &str) -> Asks {
        Asks { lane: lane.into(), capabilities: Vec::new(), draws: Draws::default() }
    }

    /// As the fields of a submission over HTTP.
    pub fn fields(&self) -> Value {
        let Draws { budgets, quotas, concurrency, fairness_key } = &self.draws;
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

impl Default for Terms {
    /// Nothing is asked for, offered or limited.
    fn default() -> Self {
        Terms {
            gates: Vec::new(),
            asks: vec![Asks::lane("default")],
            mixed: false,
            offers: vec![Vec::new()],
            spends: None,
        }
    }
}

impl Terms {
    /// The worker with this number.
    pub fn worker(&self, index: usize, max: usize) -> Claimer {
        let capabilities = self.offers[index % self.offers.len()].clone();
        Claimer { capabilities, spends: self.spends.clone(), ..Claimer::new(index, max) }
    }

    /// Configures the gates.
    pub async fn configure(&self, namespace: &Namespace) -> Result<(), Error> {
        for (kind, name, config) in &self.gates {
            namespace.configure(*kind, name, Some(config.clone()), &Name::trusted("bench")).await?;
        }
        Ok(())
    }
}

/// So many tokens.
pub fn tokens(count: u32) -> Amounts {
    [(DIMENSION.to_owned(), Amount::whole(count))].into()
}

/// A budget of so many tokens.
pub fn budget_of(hard: u32) -> Config {
    let limit = Limit { hard: Some(Amount::whole(hard)), soft: None };
    Config { limits: [(DIMENSION.to_owned(), limit)].into(), ..Config::default() }
}

/// Drives a load on each of these terms, one after another and so many times over; says what each showed.
pub async fn in_turn(place: &Place, load: &Load, terms: &[Terms], turns: usize) -> Result<Vec<Turns>, Error> {
    let mut stands: Vec<(Engine, Target, Remains)> = Vec::new();
    for one in terms {
        let fresh = place.open().await?;
        let engine = Engine::start(fresh.store, Options::default()).await?;
        one.configure(&engine.namespace("default").await?).await?;
        let target = Target::new(&engine, load).await?;
        stands.push((engine, target, fresh.remains));
    }
    let mut driven: Vec<Vec<Driven>> = terms.iter().map(|_| Vec::new()).collect();
    let mut failed = None;
    'turns: for _ in 0..turns {
        for (index, (engine, target, _)) in stands.iter().enumerate() {
            match queue::drive_on(engine, target, load, &terms[index]).await {
                Ok(one) => driven[index].push(one),
                Err(error) => {
                    failed = Some(error);
                    break 'turns;
                }
            }
        }
    }
    for (engine, _, remains) in stands {
        engine.shutdown().await;
        remains.remove().await?;
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(driven.into_iter().map(Turns::of).collect()),
    }
}

impl Turns {
    fn of(driven: Vec<Driven>) -> Turns {
        let all = |of: fn(&Driven) -> Option<f64>| median(driven.iter().filter_map(of).collect());
        Turns {
            per_second: all(|one| Some(one.per_second)).unwrap_or_default(),
            commits: all(|one| one.commits),
            wal_bytes: all(|one| one.wal_bytes),
            executions: driven.iter().map(|one| one.executions).sum(),
            times: Times::of(driven.into_iter().flat_map(|one| one.times).collect()),
        }
    }
}

/// The middle one; of two the mean.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        1 => values.get(middle).copied(),
        _ => Some((values.get(middle.checked_sub(1)?)? + values.get(middle)?) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle_or_the_mean_of_the_two_there() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![5.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![8.0, 1.0, 2.0, 4.0]), Some(3.0));
    }

    #[test]
    fn what_an_execution_asks_for_is_written_as_the_api_takes_it() {
        let draws = Draws {
            budgets: vec![(Name::trusted("month"), tokens(10))],
            concurrency: Some((Name::trusted("tenant"), 2)),
            ..Draws::default()
        };
        let fields = Asks { draws, ..Asks::lane("default") }.fields();
        assert_eq!(fields["budgets"], json!([{"name": "month", "reserve": {"tokens": 10}}]));
        assert_eq!(fields["concurrency"], json!({"key": "tenant", "limit": 2}));
        assert_eq!(fields["fairness_key"], Value::Null);
    }
}
