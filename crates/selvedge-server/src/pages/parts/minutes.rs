//! The last hour of a namespace, minute by minute: the rollups that `/v1/stats` lists, in total and by lane.

use selvedge_core::rollup::{Rollup, Spread};
use selvedge_core::{Name, Timestamp};
use selvedge_engine::{Error, Namespace, StatsQuery};
use std::collections::BTreeMap;

/// The number of minutes, the one that has begun included.
const MINUTES: usize = 60;
const MINUTE_MS: i64 = 60_000;
/// The most rows that are read: 60 minutes of 100 lanes.
const ROWS_MAX: u32 = 6000;

/// The minutes of a lane or of all lanes, oldest first.
#[derive(Clone)]
pub struct Minutes(Vec<Rollup>);

impl Default for Minutes {
    fn default() -> Self {
        Minutes(vec![Rollup::default(); MINUTES])
    }
}

/// The last hour of a namespace.
#[derive(Default)]
pub struct LastHour {
    pub total: Minutes,
    pub lanes: BTreeMap<Name, Minutes>,
    /// True if there are more rows than are read: some minutes are missing.
    pub is_cut: bool,
}

impl LastHour {
    /// Reads the last hour of a namespace before the store's time `now`.
    pub async fn read(namespace: &Namespace, now: Timestamp) -> Result<LastHour, Error> {
        let to = now.plus_ms(MINUTE_MS);
        let last = to.millis() / MINUTE_MS * MINUTE_MS - MINUTE_MS;
        let first = last - (MINUTES as i64 - 1) * MINUTE_MS;
        let from = Timestamp::from_millis(first);
        let (rows, is_cut) =
            namespace.stats(StatsQuery { lane: None, from, to, after: None, limit: ROWS_MAX }).await?;
        let mut hour = LastHour { is_cut, ..LastHour::default() };
        for row in rows {
            let Ok(index) = usize::try_from((row.minute_at.millis() - first) / MINUTE_MS) else { continue };
            let Some(total) = hour.total.0.get_mut(index) else { continue };
            total.merge(&row.rollup);
            if let Some(lane) = row.lane {
                hour.lanes.entry(lane).or_default().0[index].merge(&row.rollup);
            }
        }
        Ok(hour)
    }
}

impl Minutes {
    /// Returns a count of each minute.
    pub fn counts(&self, count: impl Fn(&Rollup) -> u64) -> Vec<Option<f64>> {
        self.0.iter().map(|minute| Some(count(minute) as f64)).collect()
    }

    /// Returns a quantile of each minute, in milliseconds; none where nothing was measured.
    pub fn quantiles(&self, spread: impl Fn(&Rollup) -> &Spread, quantile: f64) -> Vec<Option<f64>> {
        let of_minute = |minute| spread(minute).quantile_us(quantile).map(|us| us as f64 / 1000.0);
        self.0.iter().map(of_minute).collect()
    }

    /// Returns a level at the end of each minute, given its present value and its change in a minute. The changes of executions that
    /// are not counted, such as replays, are missing, so an early level may be off; it is never negative.
    pub fn levels(&self, now: u64, change: impl Fn(&Rollup) -> i64) -> Vec<Option<f64>> {
        let mut level = now as i64;
        let before = |minute: &Rollup| {
            let at_end = level;
            level -= change(minute);
            Some(at_end.max(0) as f64)
        };
        let mut levels: Vec<Option<f64>> = self.0.iter().rev().map(before).collect();
        levels.reverse();
        levels
    }

    /// Returns the sum of a count.
    pub fn sum(&self, count: impl Fn(&Rollup) -> u64) -> u64 {
        self.0.iter().map(count).sum()
    }

    /// Returns the distribution of durations of the whole hour.
    pub fn spread(&self, spread: impl Fn(&Rollup) -> &Spread) -> Spread {
        let mut whole = Spread::default();
        self.0.iter().for_each(|minute| whole.merge(spread(minute)));
        whole
    }
}

/// Returns the number of executions that ended in a minute.
pub fn ended(minute: &Rollup) -> u64 {
    minute.completed + minute.failed + minute.cancelled + minute.expired + minute.skipped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_computed_backwards_from_the_present() {
        let mut minutes = Minutes::default();
        minutes.0[MINUTES - 2].submitted = 5;
        minutes.0[MINUTES - 1] = Rollup { submitted: 3, completed: 4, ..Rollup::default() };
        let levels = minutes.levels(7, |minute| minute.submitted as i64 - ended(minute) as i64);
        assert_eq!(levels[MINUTES - 3..], [Some(3.0), Some(8.0), Some(7.0)]);
        assert_eq!(minutes.levels(0, |minute| minute.submitted as i64)[0], Some(0.0), "never negative");
    }
}
