//! The parameters of a query, taken one by one like the fields of a body.

use crate::fields::{NOT_A_TIME, join};
use crate::times;
use selvedge_core::{Refusal, Timestamp};
use std::time::Duration;
use uuid::Uuid;

/// The longest wait of a request, in milliseconds.
pub const WAIT_MAX_MS: i64 = 60_000;
/// The default number of items of a page.
pub const LIMIT_DEFAULT: u32 = 50;
/// The largest number of items of a page.
pub const LIMIT_MAX: u32 = 500;

/// The parameters of a query. An empty value counts as absent.
#[derive(Debug, Default)]
pub struct Parameters {
    /// The parameters that have not been taken yet.
    remaining: Vec<(String, String)>,
    /// The names of the parameters that the API knows here: every name asked for so far.
    known: Vec<&'static str>,
}

impl Parameters {
    /// Returns the parameters of these names and values, in the order of the query.
    pub fn new(pairs: Vec<(String, String)>) -> Parameters {
        Parameters { remaining: pairs, known: Vec::new() }
    }

    /// Takes a parameter as text.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, Refusal> {
        self.known.push(name);
        let (found, remaining): (Vec<_>, Vec<_>) =
            self.remaining.drain(..).partition(|(other, _)| other == name);
        self.remaining = remaining;
        if found.len() > 1 {
            return Err(refuse(name, "is given twice; give it once"));
        }
        let value = found.into_iter().next().map(|(_, value)| value);
        Ok(value.filter(|value| !value.is_empty()))
    }

    /// Takes a parameter that may be given several times.
    pub fn texts(&mut self, name: &'static str) -> Vec<String> {
        self.known.push(name);
        let (found, remaining): (Vec<_>, Vec<_>) =
            self.remaining.drain(..).partition(|(other, _)| other == name);
        self.remaining = remaining;
        found.into_iter().map(|(_, value)| value).filter(|value| !value.is_empty()).collect()
    }

    /// Joins a parameter of words that is given several times, as the checkboxes of a form send it, to one with commas.
    pub fn join(&mut self, name: &'static str) {
        let words = self.texts(name);
        if !words.is_empty() {
            self.remaining.push((name.to_owned(), words.join(",")));
        }
    }

    /// Takes a parameter that `parse` accepts; `detail` refuses any other.
    pub fn parsed<T>(
        &mut self,
        name: &'static str,
        detail: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Refusal> {
        let text = self.text(name)?;
        text.map(|text| parse(&text).ok_or_else(|| refuse(name, detail))).transpose()
    }

    /// Takes a UUID.
    pub fn id(&mut self, name: &'static str) -> Result<Option<Uuid>, Refusal> {
        self.parsed(name, "must be a UUID", |text| Uuid::parse_str(text).ok())
    }

    /// Takes a count: an integer from 0 to 4294967295.
    pub fn count(&mut self, name: &'static str) -> Result<Option<u32>, Refusal> {
        self.parsed(name, "must be an integer between 0 and 4294967295", |text| text.parse().ok())
    }

    /// Takes an RFC 3339 time.
    pub fn time(&mut self, name: &'static str) -> Result<Option<Timestamp>, Refusal> {
        self.parsed(name, NOT_A_TIME, times::parse)
    }

    /// Takes an RFC 3339 time or one of the words `now` and `beginning`, which `word` converts.
    pub fn time_or_word<T>(
        &mut self,
        name: &'static str,
        word: impl FnOnce(&str) -> Option<T>,
        time: impl FnOnce(Timestamp) -> T,
    ) -> Result<Option<T>, Refusal> {
        let parse = |text: &str| word(text).or_else(|| times::parse(text).map(time));
        self.parsed(name, &format!("{NOT_A_TIME}, or now, or beginning"), parse)
    }

    /// Takes `wait_ms`. Default: no wait.
    pub fn wait(&mut self) -> Result<Duration, Refusal> {
        let ms = self.parsed("wait_ms", "must be an integer", |text| text.parse().ok())?;
        check_wait(&pointer("wait_ms"), ms)
    }

    /// Takes `limit`, the number of items of a page. Default: 50.
    pub fn limit(&mut self) -> Result<u32, Refusal> {
        let in_range = |text: &str| text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
        let limit = self.parsed("limit", "must be an integer between 1 and 500", in_range)?;
        Ok(limit.unwrap_or(LIMIT_DEFAULT))
    }

    /// Refuses any parameter that has not been taken.
    pub fn finish(self) -> Result<(), Refusal> {
        match self.remaining.first() {
            None => Ok(()),
            Some((name, _)) => Err(Refusal::UnknownField {
                pointer: pointer(name),
                detail: match self.known.is_empty() {
                    true => "there is no such parameter; this path takes none".into(),
                    false => format!("there is no such parameter; there are {}", self.known.join(", ")),
                },
            }),
        }
    }
}

/// Checks the wait of a request, in milliseconds. Default: no wait.
pub fn check_wait(pointer: &str, ms: Option<i64>) -> Result<Duration, Refusal> {
    let ms = ms.unwrap_or(0);
    if !(0..=WAIT_MAX_MS).contains(&ms) {
        let detail = format!("is {ms}; it must lie between 0 and {WAIT_MAX_MS}");
        return Err(Refusal::field(pointer, detail));
    }
    Ok(Duration::from_millis(ms.unsigned_abs()))
}

/// Returns the JSON pointer of a parameter.
fn pointer(name: &str) -> String {
    join("/query", name)
}

/// Returns a refusal of a parameter.
pub fn refuse(name: &str, detail: &str) -> Refusal {
    Refusal::field(&pointer(name), detail)
}
