//! The query of a request, its parameters taken one by one like the fields of a body.

use crate::AppState;
use crate::wire::fields::{NOT_A_TIME, join, unknown_word};
use crate::wire::times;
use crate::wire::views::Include;
use axum::extract::FromRequestParts;
use axum::http::Uri;
use axum::http::request::Parts;
use selvedge_core::{Refusal, Timestamp};
use std::convert::Infallible;
use std::time::Duration;
use uuid::Uuid;

/// The longest wait of a request, in milliseconds.
pub const WAIT_MAX_MS: i64 = 60_000;
/// The default number of items of a page.
pub const LIMIT_DEFAULT: u32 = 50;
/// The largest number of items of a page.
pub const LIMIT_MAX: u32 = 500;

/// The query of a request. An empty value counts as absent.
pub struct Query {
    /// The parameters that have not been taken yet.
    remaining: Vec<(String, String)>,
    /// The names of the parameters that the API knows here: every name asked for so far.
    known: Vec<&'static str>,
}

impl FromRequestParts<AppState> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &AppState) -> Result<Self, Infallible> {
        // Bytes that are not UTF-8 are replaced while decoding, so parsing into pairs of strings cannot fail.
        let remaining = axum::extract::Query::try_from_uri(&parts.uri)
            .map_or_else(|_| Vec::new(), |axum::extract::Query(pairs)| pairs);
        Ok(Query { remaining, known: Vec::new() })
    }
}

impl Query {
    /// Returns the fields of a form that a browser sent in a body. A body that is no form has none.
    pub fn of_form(body: &[u8]) -> Query {
        let address = std::str::from_utf8(body).ok().and_then(|body| format!("/?{body}").parse::<Uri>().ok());
        let pairs = address.and_then(|address| axum::extract::Query::try_from_uri(&address).ok());
        Query {
            remaining: pairs.map(|axum::extract::Query(pairs)| pairs).unwrap_or_default(),
            known: Vec::new(),
        }
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

    /// Takes `include`: the fields that items leave out unless it names them. Default: none.
    pub fn include(&mut self) -> Result<Include, Refusal> {
        let mut include = Include::NONE;
        for word in self.text("include")?.unwrap_or_default().split(',').filter(|word| !word.is_empty()) {
            match word {
                "input" => include.input = true,
                "result" => include.result = true,
                "progress" => include.progress = true,
                other => {
                    let known = ["input", "result", "progress"].into_iter();
                    return Err(refuse("include", &unknown_word(other, known)));
                }
            }
        }
        Ok(include)
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

fn pointer(name: &str) -> String {
    join("/query", name)
}

fn refuse(name: &str, detail: &str) -> Refusal {
    Refusal::field(&pointer(name), detail)
}
