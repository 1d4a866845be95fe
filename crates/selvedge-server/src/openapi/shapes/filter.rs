//! The filter of executions: `wire::filter`. Lists take its conditions as parameters, bulk actions as an object.

use super::executions::state;
use super::outcome;
use crate::wire::filter::ERROR_LIMIT;
use selvedge_api::schema::*;
use selvedge_core::name::{LABEL_LIMIT, NAME_LIMIT, TAG_VALUE_LIMIT};
use selvedge_core::state::StateName;
use selvedge_core::submission::TAGS_LIMIT;

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
        FilterField { values: Values::Joined, ..one("state", state(), "The states, separated by commas.") },
        one("outcome", outcome(), "The outcome."),
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

/// Returns the filter as an object of a body.
pub fn filter() -> Schema {
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
