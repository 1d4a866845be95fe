//! JSON schemas, written with functions that have the names of the readers in [`fields`](crate::fields).

use crate::node::Node;
use crate::parameters::{LIMIT_DEFAULT, LIMIT_MAX, WAIT_MAX_MS};
use selvedge_core::amount::Amount;
use selvedge_core::gate::DIMENSIONS_MAX;
use selvedge_core::name::{KEY_LIMIT, LABEL_LIMIT, NAME_LIMIT, TAG_VALUE_LIMIT};
use selvedge_core::submission::{DURATION_LIMIT_MS, PRIORITIES, TAGS_LIMIT};
use serde_json::{Value, json};

/// Matches text without control characters.
const PRINTABLE: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";
/// Matches text without control characters and colons: the names of tags.
const TAG_NAME: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f:]+$";

/// A JSON schema.
#[derive(Clone, Debug)]
pub struct Schema(pub Node);

/// A field of an object.
#[derive(Clone, Debug)]
pub struct Field {
    name: &'static str,
    schema: Schema,
    is_required: bool,
}

impl Schema {
    /// Describes the value.
    pub fn about(self, text: &str) -> Schema {
        Schema(self.0.with("description", text))
    }

    /// Says the value that an absent field has.
    pub fn default(self, value: Value) -> Schema {
        Schema(self.0.with("default", value))
    }

    /// Says that one of these fields must be given; nothing if there are none.
    pub fn needs_one_of(self, names: &[&str]) -> Schema {
        if names.is_empty() {
            return self;
        }
        let required = |name: &&str| Node::object().with("required", vec![*name]);
        Schema(self.0.with("anyOf", names.iter().map(required).collect::<Vec<_>>()))
    }

    /// Allows null as well.
    pub fn or_null(self) -> Schema {
        let mut node = self.0;
        if let Some(Node::Value(Value::String(word))) = node.get("type").cloned() {
            node.set("type", vec![word.as_str(), "null"]);
            if let Some(Node::List(mut words)) = node.get("enum").cloned() {
                words.push(Node::Value(Value::Null));
                node.set("enum", words);
            }
            return Schema(node);
        }
        if node.get("type").is_some() || node == Node::object() {
            return Schema(node);
        }
        let description = node.get("description").cloned();
        if let Node::Object(fields) = &mut node {
            fields.retain(|(name, _)| name != "description");
        }
        let null = Node::object().with("type", "null");
        let mut either = Node::object().with("anyOf", vec![node, null]);
        if let Some(description) = description {
            either.set("description", description);
        }
        Schema(either)
    }
}

/// Returns a field that is always there: one that a request must have, or that an answer always has.
pub fn always(name: &'static str, schema: Schema) -> Field {
    Field { name, schema, is_required: true }
}

/// Returns a field of an answer that may be null but is always there.
pub fn nullable(name: &'static str, schema: Schema) -> Field {
    Field { name, schema: schema.or_null(), is_required: true }
}

/// Returns a field of a request that may be left out. Null counts as absent.
pub fn optional(name: &'static str, schema: Schema) -> Field {
    Field { name, schema: schema.or_null(), is_required: false }
}

/// Returns a field of an answer that is left out where it does not apply.
pub fn sometimes(name: &'static str, schema: Schema) -> Field {
    Field { name, schema, is_required: false }
}

/// Returns an object of a request: a field that is not listed is refused.
pub fn request(fields: Vec<Field>) -> Schema {
    Schema(object(fields).with("additionalProperties", false))
}

/// Returns an object of an answer: later versions may add fields.
pub fn answer(fields: Vec<Field>) -> Schema {
    Schema(object(fields))
}

fn object(fields: Vec<Field>) -> Node {
    let required: Vec<&str> =
        fields.iter().filter(|field| field.is_required).map(|field| field.name).collect();
    let mut properties = Node::object();
    for field in &fields {
        properties.set(field.name, field.schema.0.clone());
    }
    let mut node = Node::object().with("type", "object");
    if !required.is_empty() {
        node.set("required", required);
    }
    node.with("properties", properties)
}

fn of_type(word: &str) -> Schema {
    Schema(Node::object().with("type", word))
}

/// Returns any JSON value.
pub fn any() -> Schema {
    Schema(Node::object())
}

/// Returns a reference to a shape of the document.
pub fn shape(name: &str) -> Schema {
    Schema(Node::object().with("$ref", format!("#/components/schemas/{name}")))
}

/// Returns text of any kind.
pub fn text() -> Schema {
    of_type("string")
}

/// Returns a string of at most `limit` bytes without control characters.
pub fn printable(limit: usize) -> Schema {
    Schema(text().0.with("maxLength", limit as i64).with("pattern", PRINTABLE))
}

/// Returns a name: printable, not empty, of at most [`NAME_LIMIT`] bytes.
pub fn name() -> Schema {
    named(NAME_LIMIT)
}

/// Returns an idempotency key or another key: printable, not empty, of at most [`KEY_LIMIT`] bytes.
pub fn key() -> Schema {
    named(KEY_LIMIT)
}

/// Returns a capability: printable, not empty, of at most [`LABEL_LIMIT`] bytes.
pub fn label() -> Schema {
    named(LABEL_LIMIT)
}

fn named(limit: usize) -> Schema {
    Schema(text().0.with("minLength", 1).with("maxLength", limit as i64).with("pattern", PRINTABLE))
}

/// Returns one of some words.
pub fn word(words: impl IntoIterator<Item = &'static str>) -> Schema {
    Schema(text().0.with("enum", words.into_iter().collect::<Vec<&str>>()))
}

/// Returns exactly this word.
pub fn only(word: &str) -> Schema {
    Schema(text().0.with("const", word))
}

/// Returns a priority.
pub fn priority() -> Schema {
    integer_within((*PRIORITIES.start()).into(), (*PRIORITIES.end()).into())
}

/// Returns an integer of 64 bits.
pub fn integer() -> Schema {
    Schema(of_type("integer").0.with("format", "int64"))
}

/// Returns an integer within limits.
pub fn integer_within(least: i64, most: i64) -> Schema {
    Schema(of_type("integer").0.with("minimum", least).with("maximum", most))
}

/// Returns a count: an integer from 0 to 4294967295.
pub fn count() -> Schema {
    integer_within(0, i64::from(u32::MAX))
}

/// Returns a count of an answer, which may exceed 32 bits.
pub fn total() -> Schema {
    Schema(of_type("integer").0.with("minimum", 0))
}

/// Returns a duration in milliseconds.
pub fn duration() -> Schema {
    integer_within(0, DURATION_LIMIT_MS)
}

/// Returns a duration of at least one millisecond.
pub fn period() -> Schema {
    integer_within(1, DURATION_LIMIT_MS)
}

/// Returns the longest time that a call waits, in milliseconds.
pub fn wait() -> Schema {
    Schema(integer_within(0, WAIT_MAX_MS).0.with("default", json!(0)))
}

/// Returns the maximum number of items of a page.
pub fn page_limit() -> Schema {
    integer_within(1, LIMIT_MAX.into()).default(json!(LIMIT_DEFAULT))
}

/// Returns a number.
pub fn number() -> Schema {
    of_type("number")
}

/// Returns an amount of a budget, with at most six decimals.
pub fn amount() -> Schema {
    Schema(number().0.with("minimum", 0).with("maximum", Amount::MAX.millionths() / 1_000_000))
}

/// Returns true or false.
pub fn flag() -> Schema {
    of_type("boolean")
}

/// Returns a UUID.
pub fn id() -> Schema {
    Schema(text().0.with("format", "uuid"))
}

/// Returns an RFC 3339 time, in answers in UTC with milliseconds.
pub fn time() -> Schema {
    Schema(text().0.with("format", "date-time"))
}

/// Returns an array.
pub fn list(items: Schema) -> Schema {
    Schema(of_type("array").0.with("items", items.0))
}

/// Returns an array of at most `limit` items.
pub fn list_of_at_most(limit: usize, items: Schema) -> Schema {
    Schema(list(items).0.with("maxItems", limit as i64))
}

/// Returns an object whose names the caller chooses.
pub fn map(values: Schema) -> Schema {
    Schema(of_type("object").0.with("additionalProperties", values.0))
}

/// Returns amounts by dimension, of a request.
pub fn amounts() -> Schema {
    let names = name().0;
    Schema(map(amount()).0.with("propertyNames", names).with("maxProperties", DIMENSIONS_MAX as i64))
}

/// Returns the tags of a request: names without a colon, and their values.
pub fn tags() -> Schema {
    let name = text().0.with("maxLength", LABEL_LIMIT as i64).with("pattern", TAG_NAME);
    let values = map(printable(TAG_VALUE_LIMIT)).0;
    Schema(values.with("propertyNames", name).with("maxProperties", TAGS_LIMIT as i64))
}

/// Returns one of several shapes.
pub fn one_of(schemas: Vec<Schema>) -> Schema {
    Schema(Node::object().with("oneOf", schemas.into_iter().map(|schema| schema.0).collect::<Vec<_>>()))
}

/// Writes a size, such as `256 KiB`.
pub fn size(bytes: usize) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

/// Writes a time in the largest unit that divides it, such as `24 hours`.
pub fn period_text(ms: i64) -> String {
    const DAY: i64 = 24 * 3_600_000;
    match ms {
        _ if ms > DAY && ms % DAY == 0 => format!("{} days", ms / DAY),
        _ if ms % 3_600_000 == 0 => format!("{} hours", ms / 3_600_000),
        _ => format!("{} minutes", ms / 60_000),
    }
}
