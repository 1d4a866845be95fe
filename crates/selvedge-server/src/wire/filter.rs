//! The filter of executions that lists and bulk actions share, from a query or a body.

use crate::wire::problem::Problem;
use selvedge_api::fields::{NOT_A_TIME, unknown_word};
use selvedge_api::times;
use selvedge_core::filter::Filter;
use selvedge_core::name::{LABEL_LIMIT, NAME_LIMIT, TAG_VALUE_LIMIT, check_text};
use selvedge_core::state::StateName;
use selvedge_core::submission::TAGS_LIMIT;
use selvedge_core::{FlowId, Outcome, Refusal, Timestamp};
use selvedge_engine::Namespace;
use serde_json::Value;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The longest text that is searched for in errors, in bytes.
pub const ERROR_LIMIT: usize = 512;

/// The text of a filter as the caller sent it, not yet checked.
pub struct RawFilter {
    /// The JSON pointer of the filter in the request.
    pointer: &'static str,
    lane: Option<String>,
    kind: Option<String>,
    state: Option<String>,
    outcome: Option<String>,
    flow: Option<String>,
    worker: Option<String>,
    tags: Vec<String>,
    error: Option<String>,
    submitted_after: Option<String>,
    submitted_before: Option<String>,
    ended_after: Option<String>,
    ended_before: Option<String>,
}

impl RawFilter {
    /// Takes the fields of the filter at `pointer` with `text`, except its tags.
    pub fn take(
        pointer: &'static str,
        tags: Vec<String>,
        mut text: impl FnMut(&'static str) -> Result<Option<String>, Refusal>,
    ) -> Result<Self, Refusal> {
        Ok(RawFilter {
            pointer,
            lane: text("lane")?,
            kind: text("kind")?,
            state: text("state")?,
            outcome: text("outcome")?,
            flow: text("flow")?,
            worker: text("worker")?,
            tags,
            error: text("error")?,
            submitted_after: text("submitted_after")?,
            submitted_before: text("submitted_before")?,
            ended_after: text("ended_after")?,
            ended_before: text("ended_before")?,
        })
    }

    /// Reports whether the filter has no condition.
    pub fn is_empty(&self) -> bool {
        self.asked().is_empty()
    }

    /// Returns the conditions as the caller wrote them.
    pub fn asked(&self) -> BTreeMap<String, Value> {
        let texts = [
            ("lane", &self.lane),
            ("kind", &self.kind),
            ("state", &self.state),
            ("outcome", &self.outcome),
            ("flow", &self.flow),
            ("worker", &self.worker),
            ("error", &self.error),
            ("submitted_after", &self.submitted_after),
            ("submitted_before", &self.submitted_before),
            ("ended_after", &self.ended_after),
            ("ended_before", &self.ended_before),
        ];
        let given = texts.into_iter().filter_map(|(name, text)| Some((name, Value::from(text.clone()?))));
        let tags = (!self.tags.is_empty()).then(|| ("tag", Value::from(self.tags.clone())));
        given.chain(tags).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Checks the fields and resolves them to a filter of `namespace`.
    pub async fn resolve(self, namespace: &Namespace) -> Result<Filter, Problem> {
        let states = self.states()?;
        let flow = self.flow.as_deref().map(Uuid::parse_str).transpose();
        let flow = flow.map_err(|_| self.refuse("flow", "must be a UUID"))?;
        for (index, tag) in self.tags.iter().enumerate() {
            // In a query the tags have no places.
            let place = if self.pointer == "/query" { String::new() } else { format!("/{index}") };
            parse_tag(&format!("{}{place}", self.pointer("tag")), tag)?;
        }
        if self.tags.len() > TAGS_LIMIT {
            return Err(self.refuse("tag", format!("is given more than {TAGS_LIMIT} times")).into());
        }
        if let Some(worker) = &self.worker {
            check_text(&self.pointer("worker"), worker, NAME_LIMIT)?;
        }
        self.check_error()?;
        let submitted_after = self.time("submitted_after", &self.submitted_after)?;
        let submitted_before = self.time("submitted_before", &self.submitted_before)?;
        let ended_after = self.time("ended_after", &self.ended_after)?;
        let ended_before = self.time("ended_before", &self.ended_before)?;
        let mut filter = namespace.filter(self.lane.as_deref(), self.kind.as_deref()).await?;
        match states {
            None => {}
            // An empty list of states would match every state; an empty list of classes matches nothing.
            Some(states) if states.is_empty() => filter.classes = Some(Vec::new()),
            Some(states) => filter.states = states,
        }
        Ok(Filter {
            flow: flow.map(FlowId),
            worker: self.worker,
            tags: self.tags,
            error: self.error,
            submitted_after,
            submitted_before,
            ended_after,
            ended_before,
            ..filter
        })
    }

    /// Refuses a search for error text in all executions there ever were: no index serves it.
    fn check_error(&self) -> Result<(), Refusal> {
        let Some(text) = &self.error else { return Ok(()) };
        check_text(&self.pointer("error"), text, ERROR_LIMIT)?;
        if self.submitted_after.is_none() && self.ended_after.is_none() {
            let detail = "needs a time range; give submitted_after or ended_after as well";
            return Err(self.refuse("error", detail));
        }
        Ok(())
    }

    /// Returns the states that match both `state` and `outcome`: none matches every state, an empty list no state.
    fn states(&self) -> Result<Option<Vec<StateName>>, Refusal> {
        let mut states: Option<Vec<StateName>> = None;
        if let Some(words) = &self.state {
            let mut named = Vec::new();
            for word in words.split(',') {
                match StateName::parse(word) {
                    Some(state) => named.push(state),
                    None => {
                        let known = StateName::ALL.into_iter().map(StateName::as_str);
                        return Err(self.refuse("state", unknown_word(word, known)));
                    }
                }
            }
            states = Some(named);
        }
        if let Some(word) = &self.outcome {
            let outcome = Outcome::parse(word);
            let outcome = outcome.ok_or_else(|| {
                let known = Outcome::ALL.into_iter().map(Outcome::as_str);
                self.refuse("outcome", unknown_word(word, known))
            })?;
            let mut named = states.unwrap_or_else(|| StateName::ALL.to_vec());
            named.retain(|state| state.outcome() == Some(outcome));
            states = Some(named);
        }
        Ok(states)
    }

    fn time(&self, name: &str, text: &Option<String>) -> Result<Option<Timestamp>, Refusal> {
        let parse = |text: &String| times::parse(text).ok_or_else(|| self.refuse(name, NOT_A_TIME));
        text.as_ref().map(parse).transpose()
    }

    fn pointer(&self, name: &str) -> String {
        format!("{}/{name}", self.pointer)
    }

    fn refuse(&self, name: &str, detail: impl Into<String>) -> Refusal {
        Refusal::field(&self.pointer(name), detail)
    }
}

/// Splits a tag of a filter, written `name:value`, into its name and value.
pub fn parse_tag<'a>(pointer: &str, tag: &'a str) -> Result<(&'a str, &'a str), Refusal> {
    check_text(pointer, tag, LABEL_LIMIT + 1 + TAG_VALUE_LIMIT)?;
    tag.split_once(':')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| Refusal::field(pointer, "must be written name:value"))
}
