//! The filter that lists and bulk actions share, from the words of a query or a body, and the cursor of lists.

use crate::fields::NO_TIME;
use crate::problem::Problem;
use crate::times;
use selvedge_core::filter::{Filter, Place};
use selvedge_core::name::{LABEL_LIMIT, TAG_VALUE_LIMIT, check_text};
use selvedge_core::state::StateName;
use selvedge_core::{ExecutionId, FlowId, Outcome, Refusal, Timestamp};
use selvedge_engine::Namespace;
use uuid::Uuid;

/// A filter as a caller wrote it, not yet checked.
pub struct Words {
    at: &'static str,
    lane: Option<String>,
    kind: Option<String>,
    state: Option<String>,
    outcome: Option<String>,
    flow: Option<String>,
    tag: Option<String>,
    submitted_after: Option<String>,
    submitted_before: Option<String>,
}

impl Words {
    /// Takes the words with `text`; they stand at `at` in the request.
    pub fn take(
        at: &'static str,
        mut text: impl FnMut(&'static str) -> Result<Option<String>, Refusal>,
    ) -> Result<Self, Refusal> {
        Ok(Words {
            at,
            lane: text("lane")?,
            kind: text("kind")?,
            state: text("state")?,
            outcome: text("outcome")?,
            flow: text("flow")?,
            tag: text("tag")?,
            submitted_after: text("submitted_after")?,
            submitted_before: text("submitted_before")?,
        })
    }

    /// The filter they mean.
    pub async fn filter(self, namespace: &Namespace) -> Result<Filter, Problem> {
        let states = self.states()?;
        let flow = self.flow.as_deref().map(Uuid::parse_str).transpose();
        let flow = flow.map_err(|_| self.refuse("flow", "must be a UUID"))?;
        let tag = self.tag.as_deref().map(|tag| check_tag(&self.pointer("tag"), tag));
        tag.transpose()?;
        let submitted_after = self.time("submitted_after", &self.submitted_after)?;
        let submitted_before = self.time("submitted_before", &self.submitted_before)?;
        let mut filter = namespace.filter(self.lane.as_deref(), self.kind.as_deref()).await?;
        match states {
            None => {}
            Some(states) if states.is_empty() => filter.classes = Some(Vec::new()),
            Some(states) => filter.states = states,
        }
        Ok(Filter { flow: flow.map(FlowId), tag: self.tag, submitted_after, submitted_before, ..filter })
    }

    /// The states that match both `state` and `outcome`; none means any, an empty list that nothing can match.
    fn states(&self) -> Result<Option<Vec<StateName>>, Refusal> {
        let mut states: Option<Vec<StateName>> = None;
        if let Some(words) = &self.state {
            let mut named = Vec::new();
            for word in words.split(',') {
                match StateName::parse(word) {
                    Some(state) => named.push(state),
                    None => return Err(self.refuse("state", no_such(word, state_words()))),
                }
            }
            states = Some(named);
        }
        if let Some(word) = &self.outcome {
            let outcome = Outcome::parse(word);
            let outcome = outcome.ok_or_else(|| {
                let known = Outcome::ALL.into_iter().map(Outcome::as_str);
                self.refuse("outcome", no_such(word, known))
            })?;
            let mut named = states.unwrap_or_else(|| StateName::ALL.to_vec());
            named.retain(|state| state.outcome() == Some(outcome));
            states = Some(named);
        }
        Ok(states)
    }

    fn time(&self, name: &str, text: &Option<String>) -> Result<Option<Timestamp>, Refusal> {
        let parse = |text: &String| times::parse(text).ok_or_else(|| self.refuse(name, NO_TIME));
        text.as_ref().map(parse).transpose()
    }

    fn pointer(&self, name: &str) -> String {
        format!("{}/{name}", self.at)
    }

    fn refuse(&self, name: &str, detail: impl Into<String>) -> Refusal {
        Refusal::field(&self.pointer(name), detail)
    }
}

fn state_words() -> impl Iterator<Item = &'static str> {
    StateName::ALL.into_iter().map(StateName::public)
}

/// What is said of a word that is none of the known ones.
pub fn no_such(word: &str, known: impl Iterator<Item = &'static str>) -> String {
    let known: Vec<&str> = known.collect();
    format!("is {word:?}; it must be one of {}", known.join(", "))
}

/// Checks a tag in a filter, which is written `name:value`, and takes it apart.
pub fn check_tag<'a>(pointer: &str, tag: &'a str) -> Result<(&'a str, &'a str), Refusal> {
    check_text(pointer, tag, LABEL_LIMIT + 1 + TAG_VALUE_LIMIT)?;
    tag.split_once(':')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| Refusal::field(pointer, "must be written name:value"))
}

/// The cursor of a place in a list: a version digit, the time and the id, in hexadecimal.
pub fn encode(place: Place) -> String {
    format!("1{:016x}{}", place.submitted_at.micros(), place.id.0.simple())
}

/// The place that a cursor names.
pub fn decode(cursor: &str) -> Result<Place, Problem> {
    let place = || {
        let digits = cursor.strip_prefix('1').filter(|digits| digits.len() == 48)?;
        let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if !digits.bytes().all(hexadecimal) {
            return None;
        }
        let (time, id) = digits.split_at(16);
        Some(Place {
            submitted_at: Timestamp::from_micros(i64::from_str_radix(time, 16).ok()?),
            id: ExecutionId(Uuid::try_parse(id).ok()?),
        })
    };
    place().ok_or_else(invalid_cursor)
}

/// A cursor that was not given out here.
pub fn invalid_cursor() -> Problem {
    selvedge_engine::Error::InvalidCursor.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_and_anything_else_is_refused() {
        let place = Place {
            submitted_at: Timestamp::from_millis(1_700_000_000_123),
            id: ExecutionId(Uuid::from_u128(42)),
        };
        let text = encode(place);
        assert_eq!(decode(&text).ok(), Some(place));
        for text in ["", "1", "x", &text[1..], &format!("{text}0"), &text.replace('1', "Z")] {
            assert!(decode(text).is_err(), "{text}");
        }
    }
}
