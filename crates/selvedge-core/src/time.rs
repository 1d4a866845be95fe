//! Points in time, in microseconds of the Unix epoch, as the database's clock told them.
//!
//! Core never asks what time it is: every rule is handed the transaction's time.

use serde::{Deserialize, Serialize};

/// A point in time: microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

/// The latest time that is accepted anywhere: the end of the year 9999, which every store can hold.
const LATEST_US: i64 = 253_402_300_799_999_999;

impl Timestamp {
    /// From microseconds since the Unix epoch; times after the year 9999 become its end.
    pub fn from_micros(micros: i64) -> Self {
        Timestamp(micros.clamp(0, LATEST_US))
    }

    /// From milliseconds since the Unix epoch.
    pub fn from_millis(millis: i64) -> Self {
        Self::from_micros(millis.saturating_mul(1000))
    }

    /// Microseconds since the Unix epoch.
    pub fn micros(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since the Unix epoch.
    pub fn millis(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// This time and `millis` milliseconds.
    pub fn plus_ms(self, millis: i64) -> Self {
        Self::from_micros(self.0.saturating_add(millis.saturating_mul(1000)))
    }

    /// This time less `millis` milliseconds.
    pub fn minus_ms(self, millis: i64) -> Self {
        Self::from_micros(self.0.saturating_sub(millis.saturating_mul(1000)))
    }

    /// Milliseconds from `earlier` to this time, rounded up, never negative.
    pub fn ms_since(self, earlier: Timestamp) -> i64 {
        let micros = (self.0 - earlier.0).max(0);
        (micros + 999) / 1000
    }
}
