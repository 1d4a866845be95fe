//! The filter of executions that lists and bulk actions share: parameters of a query, or an object of a body.

use crate::fields::{NOT_A_TIME, unknown_word};
use crate::schema::{Schema, id, list_of_at_most, optional, printable, request, text, time, word};
use crate::shape::{Input, Shape};
use crate::{times, write};
use selvedge_core::name::{LABEL_LIMIT, NAME_LIMIT, TAG_VALUE_LIMIT, check_text};
use selvedge_core::state::StateName;
use selvedge_core::submission::TAGS_LIMIT;
use selvedge_core::{FlowId, Outcome, Refusal, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The longest text that is searched for in errors, in bytes.
pub const ERROR_LIMIT: usize = 512;

/// The conditions of a filter, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    pub lane: Option<String>,
    pub kind: Option<String>,
    /// None matches every state, an empty list no state.
    pub states: Option<Vec<StateName>>,
    pub flow: Option<FlowId>,
    pub worker: Option<String>,
    pub tags: Vec<String>,
    pub error: Option<String>,
    pub submitted_after: Option<Timestamp>,
    pub submitted_before: Option<Timestamp>,
    pub ended_after: Option<Timestamp>,
    pub ended_before: Option<Timestamp>,
}

/// The text of a filter as the caller sent it, not yet checked.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionFilter {
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

impl ExecutionFilter {
    /// Takes the fields of the filter at `pointer` with `text`, except its tags.
    pub fn take(
        pointer: &'static str,
        tags: Vec<String>,
        mut text: impl FnMut(&'static str) -> Result<Option<String>, Refusal>,
    ) -> Result<Self, Refusal> {
        Ok(ExecutionFilter {
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

    /// Checks the conditions. The classes of lane and kind are found by the namespace.
    pub fn check(self) -> Result<Conditions, Refusal> {
        let states = self.states()?;
        let flow = self.flow.as_deref().map(Uuid::parse_str).transpose();
        let flow = flow.map_err(|_| self.refuse("flow", "must be a UUID"))?;
        for (index, tag) in self.tags.iter().enumerate() {
            // In a query the tags have no places.
            let place = if self.pointer == "/query" { String::new() } else { format!("/{index}") };
            parse_tag(&format!("{}{place}", self.pointer("tag")), tag)?;
        }
        if self.tags.len() > TAGS_LIMIT {
            return Err(self.refuse("tag", format!("is given more than {TAGS_LIMIT} times")));
        }
        if let Some(worker) = &self.worker {
            check_text(&self.pointer("worker"), worker, NAME_LIMIT)?;
        }
        self.check_error()?;
        Ok(Conditions {
            states,
            flow: flow.map(FlowId),
            submitted_after: self.time("submitted_after", &self.submitted_after)?,
            submitted_before: self.time("submitted_before", &self.submitted_before)?,
            ended_after: self.time("ended_after", &self.ended_after)?,
            ended_before: self.time("ended_before", &self.ended_before)?,
            lane: self.lane,
            kind: self.kind,
            worker: self.worker,
            tags: self.tags,
            error: self.error,
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

impl Shape for ExecutionFilter {
    fn schema() -> Schema {
        let field = |condition: FilterField| {
            let schema = match condition.values {
                Values::One => condition.schema,
                Values::Joined => joined_states(),
                Values::Repeated => list_of_at_most(TAGS_LIMIT, condition.schema),
            };
            optional(condition.name, schema.about(condition.about))
        };
        request(conditions().into_iter().map(field).collect())
    }

    /// Reads a filter with the names of lists; `tag` is a list. An empty filter is refused: a program that lost its conditions
    /// must not act on every execution.
    fn read(input: &Input<'_, '_>) -> Result<Self, Refusal> {
        let mut fields = input.fields()?;
        let tags = fields.texts("tag")?.unwrap_or_default();
        let filter = ExecutionFilter::take("/filter", tags, |name| fields.text(name))?;
        fields.finish()?;
        match filter.is_empty() {
            true => Err(input.refuse("has no condition; give one, or say all: true instead of a filter")),
            false => Ok(filter),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        write::value(out, &self.asked());
    }
}

/// A condition of a filter.
pub struct FilterField {
    /// The name of the parameter or field.
    pub name: &'static str,
    /// The schema of one value.
    pub schema: Schema,
    pub about: &'static str,
    /// The number of values.
    pub values: Values,
}

/// The number of values of a condition, and how they are written.
pub enum Values {
    One,
    /// Several values, of which one must match, separated by commas.
    Joined,
    /// Several values, which must all match: a repeated parameter, or a list in a body.
    Repeated,
}

/// Returns all conditions.
pub fn conditions() -> Vec<FilterField> {
    let one = |name, schema, about| FilterField { name, schema, about, values: Values::One };
    vec![
        one("lane", text(), "The lane."),
        one("kind", text(), "The kind."),
        FilterField { values: Values::Joined, ..one("state", states(), "The states, separated by commas.") },
        one("outcome", outcomes(), "The outcome."),
        one("flow", id(), "The flow."),
        one("worker", printable(NAME_LIMIT), "The name or instance of the worker of the latest attempt."),
        FilterField {
            values: Values::Repeated,
            ..one("tag", tag_filter(), "Tags, each written name:value. All must match.")
        },
        one(
            "error",
            printable(ERROR_LIMIT),
            "Text in the latest error; needs submitted_after or ended_after.",
        ),
        one("submitted_after", time(), "The earliest submission."),
        one("submitted_before", time(), "The time before which the submission lies."),
        one("ended_after", time(), "The earliest end."),
        one("ended_before", time(), "The time before which the end lies."),
    ]
}

/// Returns a state.
fn states() -> Schema {
    word(StateName::ALL.map(StateName::as_str))
}

fn outcomes() -> Schema {
    word(Outcome::ALL.map(Outcome::as_str))
}

/// Returns states separated by commas.
fn joined_states() -> Schema {
    let state = StateName::ALL.map(StateName::as_str).join("|");
    Schema(text().0.with("pattern", format!("^({state})(,({state}))*$")))
}

/// Returns a tag as filters write it.
pub fn tag_filter() -> Schema {
    let limit = LABEL_LIMIT + 1 + TAG_VALUE_LIMIT;
    let printable = "[^\\u0000-\\u001f\\u007f-\\u009f]";
    let pattern = format!("^[^\\u0000-\\u001f\\u007f-\\u009f:]+:{printable}*$");
    Schema(text().0.with("maxLength", limit as i64).with("pattern", pattern))
}
