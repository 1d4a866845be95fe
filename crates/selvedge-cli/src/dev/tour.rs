//! The sample flow again and again, so that the overview of `selvedge dev` is alive while somebody looks at it.
//!
//! Each run spends from a budget that is used up now and then; some ask a person. A run is submitted only while pages are being
//! viewed, and no more after [`RUNS_MAX`]: an idle server stays idle, and the store stays small.

use super::sample;
use selvedge::limits::BudgetSettings;
use selvedge::{Amount, Error, Namespace};
use selvedge_server::PageViews;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// The most runs of one server.
const RUNS_MAX: u32 = 200;
/// The time between two runs.
const INTERVAL: Duration = Duration::from_secs(4);
/// The time after the last view of a page for which runs go on. A page that is open loads itself again within 10 s.
const VIEWED: Duration = Duration::from_secs(20);
/// The number of runs of which one asks a person.
const ASKS_EVERY: u32 = 5;
/// The dimension of the budget.
const DIMENSION: &str = "tokens";
/// The amount that a run spends, and the limits: the budget is used up towards the end of each period.
const SPENT: u32 = 9;
const LIMITS: (u32, u32) = (80, 100);
const PERIOD: Duration = Duration::from_secs(60);

/// Submits runs until this future is dropped.
pub async fn run(namespace: Namespace, views: PageViews) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut seen, mut viewed_at, mut number) = (views.count(), None, 0);
    while number < RUNS_MAX {
        ticks.tick().await;
        let count = views.count();
        if count != seen {
            (seen, viewed_at) = (count, Some(Instant::now()));
        }
        if viewed_at.is_none_or(|at: Instant| at.elapsed() >= VIEWED) {
            continue;
        }
        match submit(&namespace, number + 1).await {
            Ok(()) => number += 1,
            Err(error) => tracing::debug!(%error, "a sample was not submitted"),
        }
    }
}

async fn submit(namespace: &Namespace, number: u32) -> Result<(), Error> {
    if number == 1 {
        configure_budget(namespace).await?;
    }
    namespace.spend(sample::BUDGET, DIMENSION, Amount::whole(SPENT)).await?;
    sample::again(number % ASKS_EVERY == 1)?.submit(namespace).await?;
    Ok(())
}

async fn configure_budget(namespace: &Namespace) -> Result<(), Error> {
    let (soft, hard) = LIMITS;
    let settings = BudgetSettings::new().limit(DIMENSION, hard, Some(soft)).period(PERIOD);
    namespace.set_budget(sample::BUDGET, settings).await
}
