//! Amounts counted by budgets: exact decimals with six digits after the point.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A non-negative number with at most six digits after the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(i64);

/// The number 1, in millionths.
const ONE: i64 = 1_000_000;
/// The largest amount, in millionths.
const MAX: i64 = i64::MAX / 4;

impl Amount {
    /// The largest amount.
    pub const MAX: Amount = Amount(MAX);

    /// Returns a whole number.
    pub fn whole(count: u32) -> Amount {
        Amount(i64::from(count) * ONE)
    }

    /// Parses a JSON number. Returns none if it is negative, too large, or has more than six digits after the point.
    pub fn parse(text: &str) -> Option<Amount> {
        if text.contains(['e', 'E']) {
            let number: f64 = text.parse().ok()?;
            return Amount::parse(&format!("{number:.6}")).filter(|amount| amount.to_f64() == number);
        }
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if part.trim_end_matches('0').len() > 6 || whole.is_empty() || !digits(whole) || !digits(part) {
            return None;
        }
        let whole: i64 = whole.parse().ok()?;
        let padded = format!("{:0<6}", part.trim_end_matches('0'));
        let part: i64 = padded.parse().ok()?;
        let amount = whole.checked_mul(ONE)?.checked_add(part)?;
        (amount <= MAX).then_some(Amount(amount))
    }

    fn to_f64(self) -> f64 {
        self.0 as f64 / ONE as f64
    }

    /// Reports whether the amount is zero.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns the amount in millionths.
    pub fn millionths(self) -> i64 {
        self.0
    }
}

impl Add for Amount {
    type Output = Amount;

    fn add(self, other: Amount) -> Amount {
        Amount(self.0.saturating_add(other.0).min(MAX))
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        *self = *self + other;
    }
}

/// Subtraction stops at zero.
impl Sub for Amount {
    type Output = Amount;

    fn sub(self, other: Amount) -> Amount {
        Amount((self.0 - other.0).max(0))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / ONE, self.0 % ONE);
        match part {
            0 => write!(f, "{whole}"),
            part => write!(f, "{whole}.{}", format!("{part:06}").trim_end_matches('0')),
        }
    }
}

/// Written to JSON as an exact number, and to binary formats in millionths.
impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return self.0.serialize(serializer);
        }
        let text = self.to_string();
        let raw: Box<serde_json::value::RawValue> =
            serde_json::value::RawValue::from_string(text).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return i64::deserialize(deserializer).map(Amount);
        }
        let raw = <Box<serde_json::value::RawValue>>::deserialize(deserializer)?;
        Amount::parse(raw.get()).ok_or_else(|| {
            serde::de::Error::custom(
                "must be a number from 0 to 2305843009213.693951 with at most six digits after the point",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_and_survive_a_round_trip() {
        for text in ["0", "1", "0.1", "0.000001", "12345678.9", "2305843009213"] {
            let amount = Amount::parse(text).expect(text);
            assert_eq!(amount.to_string(), text);
            let json = serde_json::to_string(&amount).expect("is JSON");
            assert_eq!(json, text);
            assert_eq!(serde_json::from_str::<Amount>(&json).expect("is read"), amount);
        }
        let tenth = Amount::parse("0.1").expect("is an amount");
        let sum = (0..10).fold(Amount::default(), |sum, _| sum + tenth);
        assert_eq!(sum, Amount::whole(1));
        assert_eq!(Amount::parse("1e3"), Some(Amount::whole(1000)));
        assert_eq!(Amount::parse("1.50"), Amount::parse("1.5"));
    }

    #[test]
    fn invalid_amounts_are_refused() {
        for text in [
            "-1",
            "+1",
            "0.0000001",
            "9223372036854775807",
            "1e30",
            "",
            "x",
            "-0.5",
            ".",
            "1.-5",
            "1.+5",
            "1.5x",
        ] {
            assert_eq!(Amount::parse(text), None, "{text}");
        }
    }

    #[test]
    fn subtraction_stops_at_zero() {
        assert_eq!(Amount::whole(1) - Amount::whole(2), Amount::default());
    }
}
