//! Minute rollups of a namespace by lane: the sums of all servers.

use super::Namespace;
use crate::Error;
use selvedge_core::rollup::{Rollup, RollupKey, RollupQuery, RollupRow};
use selvedge_core::{Name, Timestamp};

/// The number of rows per read.
const ROWS: u32 = 1000;

/// A query for minute rollups. A query of one lane looks up each minute, so the two times should be at most days apart.
#[derive(Clone, Debug, PartialEq)]
pub struct StatsQuery {
    /// Only this lane.
    pub lane: Option<Name>,
    /// Only minutes that begin at this time or later.
    pub from: Timestamp,
    /// Only minutes that begin before this time.
    pub to: Timestamp,
    /// Only minutes and lanes after this one.
    pub after: Option<(Timestamp, Option<Name>)>,
    /// The maximum number of minutes and lanes.
    pub limit: u32,
}

/// The changes of a lane within a minute, on all servers.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneMinute {
    /// The beginning of the minute.
    pub minute_at: Timestamp,
    /// The lane; none for the lanes beyond those that a server counts separately.
    pub lane: Option<Name>,
    pub rollup: Rollup,
}

impl Namespace {
    /// Returns minute rollups, by minute and lane, and whether there are more. Saves those of this server first, at most once a
    /// second, so that they include what it has committed; those of other servers are up to 10 s old.
    pub async fn stats(&self, wanted: StatsQuery) -> Result<(Vec<LaneMinute>, bool), Error> {
        let inner = self.inner();
        // The rollups of the store are still worth reading if it refuses writes.
        let _ = inner.metrics.flush_old_rollups(&inner.store).await;
        let after = wanted.after.map(|(minute_at, lane)| RollupKey { minute_at, lane, server: i64::MAX });
        let mut query =
            RollupQuery { namespace: self.id(), lane: wanted.lane, from: wanted.from, to: wanted.to, after };
        let mut minutes: Vec<LaneMinute> = Vec::new();
        loop {
            let rows = inner.store.rollups(&query, ROWS).await?;
            let is_last = rows.len() < ROWS as usize;
            query.after = rows.last().map(|row| row.key.clone());
            for RollupRow { key, rollup, .. } in rows {
                let is_full = minutes.len() == wanted.limit as usize;
                match minutes.last_mut() {
                    Some(last) if last.minute_at == key.minute_at && last.lane == key.lane => {
                        last.rollup.merge(&rollup);
                    }
                    _ if is_full => return Ok((minutes, true)),
                    _ => minutes.push(LaneMinute { minute_at: key.minute_at, lane: key.lane, rollup }),
                }
            }
            if is_last {
                return Ok((minutes, false));
            }
        }
    }
}
