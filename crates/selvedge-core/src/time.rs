//! Points in time, in microseconds since the Unix epoch, read from the database's clock.
//!
//! Core never reads a clock: every rule is given the transaction's time.

use serde::{Deserialize, Serialize};

/// A point in time: microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

/// The latest representable time: the end of the year 9999, which every store can hold.
const LATEST_US: i64 = 253_402_300_799_999_999;

impl Timestamp {
    /// Creates a time from microseconds since the Unix epoch, clamped to the years 1970 to 9999.
    pub fn from_micros(micros: i64) -> Self {
        Timestamp(micros.clamp(0, LATEST_US))
    }

    /// Creates a time from milliseconds since the Unix epoch, clamped like [`Timestamp::from_micros`].
    pub fn from_millis(millis: i64) -> Self {
        Self::from_micros(millis.saturating_mul(1000))
    }

    /// Returns the microseconds since the Unix epoch.
    pub fn micros(self) -> i64 {
        self.0
    }

    /// Returns the whole milliseconds since the Unix epoch.
    pub fn millis(self) -> i64 {
        self.0.div_euclid(1000)
    }

    pub fn plus_ms(self, millis: i64) -> Self {
        Self::from_micros(self.0.saturating_add(millis.saturating_mul(1000)))
    }

    pub fn minus_ms(self, millis: i64) -> Self {
        Self::from_micros(self.0.saturating_sub(millis.saturating_mul(1000)))
    }

    /// Returns the milliseconds from `earlier` to this time, rounded up; zero if `earlier` is later.
    pub fn ms_since(self, earlier: Timestamp) -> i64 {
        let micros = (self.0 - earlier.0).max(0);
        (micros + 999) / 1000
    }
}
