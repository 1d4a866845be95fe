//! The time of the store: the clock of the database, and the time that goes on while that clock is behind.
//!
//! The database's clock may step back, as after a failover to a machine that is behind. Whatever became due by the clock before
//! would then wait for as long again. So the row of `store_clock` notes a time of the store and the clock at that moment, and every
//! statement that needs the time computes it in the same way: the later of the clock, and the noted time with what has passed by the
//! clock since (`{now}` in `sql`). The row changes only while the clock is behind.
//!
//! - A server whose reconcilers see a step back of a second or more brings the time forward to where it would be without the step
//!   ([`carry_on_from`](PostgresStore::carry_on_from)). Several servers write about the same time, and the latest wins, so a step is
//!   never added twice. Until then, at most about a second, the time is behind: a lease that was taken or renewed within it may
//!   expire at once, and its work then runs again. A step of more than a day is not bridged: such a clock was wrong before.
//! - While the clock is behind, servers note the time every two seconds ([`keep_pace`](PostgresStore::keep_pace)), and it runs a
//!   tenth slower than the clock, until the two agree.
//! - The time never goes back: each note begins at the time that follows from the note before, and the time stands still while the
//!   clock is before the note, as after a further step.
//! - A clock that is set right again, by a step forward, makes nothing due early: without a new note the time goes on for at most
//!   ten seconds, or up to the clock. What it is ahead by then disappears within two minutes.
//! - The row outlives servers and Postgres. If no server runs for longer than those ten seconds, the time waits for the first one,
//!   because nothing tells a clock that was set right in between from time that has passed.
//! - The time is never behind the clock, so the arguments of `bounds` and `glance` hold: they take times of the clock as lower
//!   limits.
//!
//! Servers of earlier versions follow the clock. Beside one, during an upgrade, a step back makes its leases look expired to the
//! others; fences keep their results apart.

use crate::row::Micros;
use crate::{PostgresStore, sql};
use selvedge_core::Timestamp;
use selvedge_store::{Error, Overview};

impl PostgresStore {
    /// Returns the time of the store.
    pub(crate) async fn read_time(&self) -> Result<Timestamp, Error> {
        let rows = self.query(&sql::SERVER_NOW, &[]).await?;
        let row = rows.first().ok_or_else(|| Error::Failed("the database returned no time".into()))?;
        Ok(row.get::<_, Micros>(0).time())
    }

    /// Lets the time go on from `time`, unless it is later already. Returns false if the clock is too far behind.
    pub(crate) async fn carry_on_from(&self, time: Timestamp) -> Result<bool, Error> {
        let rows = self.query_in_background(&sql::STORE_CLOCK_BRING_FORWARD, &[&Micros::from(time)]).await?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }

    /// Notes the time if it is ahead of the clock, so that it goes on.
    pub(crate) async fn keep_pace(&self, overview: &Overview) -> Result<(), Error> {
        if overview.ahead_ms > 0 {
            self.query_in_background(&sql::STORE_CLOCK_KEEP_PACE, &[]).await?;
        }
        Ok(())
    }
}
