//! Cron expressions of five fields: minute, hour, day of month, month, day of week.
//!
//! A field is `*`, a value, a range `a-b`, or a list of these; `/n` after `*` or a range takes every n-th value. Months and days
//! of the week also have English names of three letters; Sunday is 0 or 7. If neither day field is `*`, a day matches if either field
//! matches, as in cron.

/// The values that a field admits, one bit each.
type Bits = u64;

/// The maximum length of an expression, in bytes.
pub const EXPRESSION_LIMIT: usize = 500;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A parsed expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: Bits,
    hours: Bits,
    days: Bits,
    months: Bits,
    weekdays: Bits,
    /// Neither day field is `*`, so that one of them suffices.
    either_day: bool,
}

/// The name and the limits of a field.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    words: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", least: 0, most: 59, words: &[] };
const HOUR: Field = Field { name: "hour", least: 0, most: 23, words: &[] };
const DAY: Field = Field { name: "day of month", least: 1, most: 31, words: &[] };
const MONTH: Field = Field { name: "month", least: 1, most: 12, words: &MONTHS };
const WEEKDAY: Field = Field { name: "day of week", least: 0, most: 7, words: &WEEKDAYS };

impl Cron {
    /// Parses an expression. The error says what is wrong with it.
    pub fn parse(expression: &str) -> Result<Cron, String> {
        if expression.len() > EXPRESSION_LIMIT {
            return Err(format!("has {} bytes; at most {EXPRESSION_LIMIT} are allowed", expression.len()));
        }
        let fields: Vec<&str> = expression.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(format!(
                "has {} fields; it must have five: minute, hour, day of month, month, day of week",
                fields.len()
            ));
        };
        let weekdays = WEEKDAY.parse(weekday)?;
        let cron = Cron {
            minutes: MINUTE.parse(minute)?,
            hours: HOUR.parse(hour)?,
            days: DAY.parse(day)?,
            months: MONTH.parse(month)?,
            // Sunday is both 0 and 7.
            weekdays: (weekdays | weekdays >> 7) & all(0, 6),
            either_day: day != "*" && weekday != "*",
        };
        match cron.is_possible() {
            true => Ok(cron),
            false => Err("names a day that no month has, so it never fires".into()),
        }
    }

    /// Reports whether there is a day that matches. Only a day of month can exclude all of them.
    fn is_possible(&self) -> bool {
        let longest = |month: u32| match month {
            2 => 29,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let some_day = |month: u32| self.days & all(1, longest(month)) != 0;
        self.either_day || (1..=12).filter(|month| has(self.months, *month)).any(some_day)
    }

    /// Reports whether a month has matching days.
    pub fn has_month(&self, month: i8) -> bool {
        has(self.months, month as u32)
    }

    /// Reports whether a day matches; `weekday` counts from Sunday.
    pub fn has_day(&self, month: i8, day: i8, weekday: i8) -> bool {
        let (by_day, by_weekday) = (has(self.days, day as u32), has(self.weekdays, weekday as u32));
        self.has_month(month) && if self.either_day { by_day || by_weekday } else { by_day && by_weekday }
    }

    /// Reports whether every hour matches.
    pub fn has_every_hour(&self) -> bool {
        self.hours == all(0, 23)
    }

    /// Iterates over the times of a matching day, in order, as minutes since midnight.
    pub fn minutes_of_day(&self) -> impl DoubleEndedIterator<Item = u32> + use<> {
        let (hours, minutes) = (self.hours, self.minutes);
        let of_hour = move |hour: u32| {
            (0..60).filter(move |minute| has(minutes, *minute)).map(move |minute| hour * 60 + minute)
        };
        (0..24).filter(move |hour| has(hours, *hour)).flat_map(of_hour)
    }

    /// Returns the first time of a matching day that is not before this minute.
    pub fn first_minute_from(&self, minute: u32) -> Option<u32> {
        let (hour, of_hour) = (minute / 60, minute % 60);
        if hour < 24 && has(self.hours, hour) {
            let rest = self.minutes >> of_hour;
            if rest != 0 {
                return Some(minute + rest.trailing_zeros());
            }
        }
        let hours = self.hours.checked_shr(hour + 1).unwrap_or(0);
        (hours != 0).then(|| (hour + 1 + hours.trailing_zeros()) * 60 + self.minutes.trailing_zeros())
    }

    /// Returns the last time of a matching day that is not after this minute.
    pub fn last_minute_until(&self, minute: u32) -> Option<u32> {
        let (hour, of_hour) = (minute / 60, minute % 60);
        if has(self.hours, hour) {
            let before = self.minutes & all(0, of_hour);
            if before != 0 {
                return Some(hour * 60 + highest(before));
            }
        }
        let hours = if hour == 0 { 0 } else { self.hours & all(0, hour - 1) };
        (hours != 0).then(|| highest(hours) * 60 + highest(self.minutes))
    }
}

fn has(bits: Bits, value: u32) -> bool {
    bits >> value & 1 == 1
}

fn all(least: u32, most: u32) -> Bits {
    (least..=most).fold(0, |bits, value| bits | 1 << value)
}

fn highest(bits: Bits) -> u32 {
    63 - bits.leading_zeros()
}

impl Field {
    fn parse(&self, text: &str) -> Result<Bits, String> {
        let mut bits = 0;
        for part in text.split(',') {
            bits |= self.parse_part(part)?;
        }
        Ok(bits)
    }

    fn parse_part(&self, part: &str) -> Result<Bits, String> {
        let wrong = |why: String| format!("has {part:?} as {}: {why}", self.name);
        let (range, step) = match part.split_once('/') {
            None => (part, None),
            Some((range, step)) => {
                let step = number(step).filter(|step| *step > 0);
                (range, Some(step.ok_or_else(|| wrong("the step must be a number from 1".into()))?))
            }
        };
        let (least, most) = match range.split_once('-') {
            _ if range == "*" => (self.least, if self.most == 7 { 6 } else { self.most }),
            Some((least, most)) => (self.value(least).map_err(&wrong)?, self.value(most).map_err(&wrong)?),
            None if step.is_some() => return Err(wrong("a step needs * or a range before it".into())),
            None => {
                let value = self.value(range).map_err(&wrong)?;
                (value, value)
            }
        };
        if least > most {
            return Err(wrong("the range ends before it begins".into()));
        }
        let values = (least..=most).step_by(step.unwrap_or(1) as usize);
        Ok(values.fold(0, |bits, value| bits | 1 << value))
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let word = self.words.iter().position(|word| word.eq_ignore_ascii_case(text));
        let value = word.map(|index| index as u32 + self.least).or_else(|| number(text));
        value
            .filter(|value| (self.least..=self.most).contains(value))
            .ok_or_else(|| format!("{text:?} is not a value from {} to {}", self.least, self.most))
    }
}

/// Parses a number of at most three digits, without a sign.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_values_ranges_steps_lists_and_names() {
        let cron = Cron::parse("*/20 8-10 1,15 JAN,mar MON-fri").expect("is valid");
        assert_eq!(cron.minutes_of_day().collect::<Vec<_>>(), [480, 500, 520, 540, 560, 580, 600, 620, 640]);
        assert!(cron.has_month(1) && !cron.has_month(2) && cron.has_month(3));
        assert_eq!(Cron::parse("0 0 * * 7"), Cron::parse("0 0 * * sun"));
        assert_eq!(Cron::parse("0 0 * * 5-7"), Cron::parse("0 0 * * 0,5,6"));
    }

    #[test]
    fn two_restricted_day_fields_are_alternatives() {
        let cron = Cron::parse("0 0 13 * 5").expect("is valid");
        assert!(cron.has_day(3, 13, 2) && cron.has_day(3, 14, 5) && !cron.has_day(3, 14, 6));
        let weekly = Cron::parse("0 0 * * 5").expect("is valid");
        assert!(weekly.has_day(3, 14, 5) && !weekly.has_day(3, 13, 2));
        let daily = Cron::parse("0 0 1-31 * 5").expect("is valid");
        assert!(daily.has_day(3, 13, 2) && daily.has_day(3, 14, 5));
    }

    #[test]
    fn wrong_expressions_are_refused() {
        for wrong in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * 32 * *",
            "* * * 13 *",
            "* * * * 8",
            "*/0 * * * *",
            "5/10 * * * *",
            "9-3 * * * *",
            "a * * * *",
            "-1 * * * *",
            "+1 * * * *",
            "1, * * * *",
            "* * 30 2 *",
            "* * 31 4,6,9,11 *",
            "@daily",
            "* * * foo *",
            "1--2 * * * *",
        ] {
            assert!(Cron::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Cron::parse("0 0 30 2 1").is_ok(), "Mondays match");
        assert!(Cron::parse(&format!("{} * * * *", "1,".repeat(300))).is_err());
    }

    #[test]
    fn the_neighbours_of_a_minute_are_those_of_the_list() {
        for expression in ["* * * * *", "5,59 0,3,23 * * *", "0 0 * * *", "59 23 * * *", "*/7 4-9/2 * * *"] {
            let cron = Cron::parse(expression).expect("is valid");
            let list: Vec<u32> = cron.minutes_of_day().collect();
            for minute in 0..1440 {
                let first = list.iter().copied().find(|one| *one >= minute);
                let last = list.iter().rev().copied().find(|one| *one <= minute);
                assert_eq!(cron.first_minute_from(minute), first, "{expression} from {minute}");
                assert_eq!(cron.last_minute_until(minute), last, "{expression} until {minute}");
            }
        }
    }
}
