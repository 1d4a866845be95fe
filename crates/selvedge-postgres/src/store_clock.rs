//! The time of the store: the clock of the database, and the time that goes on while that clock is behind.
//!
//! The database's clock may step back, as after a failover to a machine that is behind. Whatever became due by the clock before
//! would then wait for as long again. So the row of `store_clock` notes a time of the store and the clock at that moment, and every
//! statement that needs the time computes it in the same way: the later of the clock, and the noted time with what has passed by the
//! clock since (`{now}` in statements). The row changes only while the clock is behind.
//!
//! - A server whose reconcilers see a step back of a second or more brings the time forward to where it would be without the step
//!   ([`carry_on_from`](PostgresStore::carry_on_from)). Several servers write about the same time, and the latest wins, so a step is
//!   never added twice. Until then, at most about a second, the time is behind: a lease that was taken or renewed within it may
//!   expire at once, and its work then runs again. A step of more than a day is not bridged: such a clock was wrong before.
//! - While the clock is behind, servers note the time every two seconds ([`keep_pace`](PostgresStore::keep_pace)), and it runs a
//!   tenth slower than the clock, until the two agree.
//! - Each note begins at the time that follows from the note before, so the time never goes back while the clock only goes on. A
//!   further step of the clock turns it back to the last note, by about two seconds, where it stands still until the next note.
//! - A clock that is set right again, by a step forward, makes nothing due early: without a new note the time goes on for at most
//!   ten seconds, or up to the clock. What it is ahead by then disappears within two minutes.
//! - The row outlives servers and Postgres. If no server runs for longer than those ten seconds, the time waits for the first one,
//!   because nothing tells a clock that was set right in between from time that has passed.
//! - The time is never behind the clock, so the arguments of `bounds` and `glance` hold: they take times of the clock as lower
//!   limits.
//!
//! Servers of earlier versions follow the clock. Beside one, during an upgrade, a step back makes its leases look expired to the
//! others; fences keep their results apart.

use crate::PostgresStore;
use crate::sql::{Micros, statements};
use selvedge_core::Timestamp;
use selvedge_store::{Error, Overview};

statements! {
    BRING_FORWARD = "store_clock/bring_forward";
    KEEP_PACE = "store_clock/keep_pace";
    NOW = "server/now";
}

/// The longest step back of the clock over which the time of the store goes on.
const CLOCK_BRIDGED_MAX: &str = "1 day";
/// The time for which the time of the store goes on without a new note of it. So a clock that is set right again moves the time of
/// the store by no more than this, which is less than what remains of a lease that is kept alive.
const CLOCK_LEAD: &str = "10 seconds";
/// The time between two notes. Far shorter than `CLOCK_LEAD`.
const CLOCK_NOTE_INTERVAL: &str = "2 seconds";
/// The time of the store that follows from the row of `store_clock`. It runs a tenth slower than the clock until the two agree, and
/// is never before the note, where it stands still while the clock is before the note.
const CARRIED_ON: &str =
    "(store_at + least(greatest(clock_timestamp() - clock_at, interval '0'), interval '{clock_lead}') * 0.9)";
/// The time of the store: the clock of the database, unless that stepped back. The row is read through its index, because sequential
/// scans are disabled and would decide the rest of the plan. It is never before the clock, so whoever read the
/// clock earlier knows a time that no later transaction is before.
const TIME: &str = "greatest(clock_timestamp(), (select {carried_on} from store_clock where single))";
/// The milliseconds by which the time of the store is ahead of the clock.
const AHEAD_MS: &str = "(select greatest(extract(epoch from {carried_on} - clock_timestamp()) * 1000, 0)::bigint from store_clock where single)";

/// The placeholders of the time, with their texts. A text may contain placeholders that come later.
pub const PLACEHOLDERS: [(&str, &str); 6] = [
    ("now", TIME),
    ("ahead_ms", AHEAD_MS),
    ("carried_on", CARRIED_ON),
    ("clock_bridged_max", CLOCK_BRIDGED_MAX),
    ("clock_lead", CLOCK_LEAD),
    ("clock_note_interval", CLOCK_NOTE_INTERVAL),
];

impl PostgresStore {
    pub(crate) async fn read_time(&self) -> Result<Timestamp, Error> {
        let rows = self.query(&NOW, &[]).await?;
        let row = rows.first().ok_or_else(|| Error::Failed("the database returned no time".into()))?;
        Ok(row.get::<_, Micros>(0).time())
    }

    /// Lets the time go on from `time`, unless it is later already. Returns false if the clock is too far behind.
    pub(crate) async fn carry_on_from(&self, time: Timestamp) -> Result<bool, Error> {
        let rows = self.query_in_background(&BRING_FORWARD, &[&Micros::from(time)]).await?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }

    /// Notes the time if it is ahead of the clock, so that it goes on. A failure is logged: the time goes on for a while without a
    /// note, and what asked for it goes on, too.
    pub(crate) async fn keep_pace(&self, overview: &Overview) {
        if overview.ahead_ms > 0
            && let Err(error) = self.query_in_background(&KEEP_PACE, &[]).await
        {
            tracing::warn!(%error, "the time of the store was not noted while the clock is behind");
        }
    }
}
