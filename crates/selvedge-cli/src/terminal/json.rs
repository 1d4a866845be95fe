//! Reads values of answers. A field that is missing or null reads as nothing, because older servers lack newer fields.

use serde_json::Value;
use serde_json::value::RawValue;

/// Returns the value at a JSON pointer; null if there is none.
pub fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

/// Returns the text at a JSON pointer; empty if there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    at(value, pointer).as_str().unwrap_or_default()
}

/// Returns the whole number at a JSON pointer; 0 if there is none.
pub fn number(value: &Value, pointer: &str) -> i64 {
    at(value, pointer).as_i64().unwrap_or_default()
}

/// Reports whether the value at a JSON pointer is true.
pub fn truth(value: &Value, pointer: &str) -> bool {
    at(value, pointer).as_bool().unwrap_or_default()
}

/// Returns the list at a JSON pointer; empty if there is none.
pub fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    at(value, pointer).as_array().map_or(&[], Vec::as_slice)
}

/// Returns the texts of the list at a JSON pointer, separated by commas.
pub fn strings(value: &Value, pointer: &str) -> String {
    let texts: Vec<&str> = items(value, pointer).iter().filter_map(Value::as_str).collect();
    texts.join(", ")
}

/// Returns a value as text on one line: a string without quotes, everything else as JSON, null as nothing.
pub fn flat(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns JSON text without white space between its parts, with its fields in their order.
pub fn compact(text: &str) -> String {
    // A raw value keeps its text; only line breaks between parts must go, which servers of this version do not write.
    match serde_json::from_str::<&RawValue>(text.trim()) {
        Ok(raw) if !raw.get().contains('\n') => raw.get().to_owned(),
        _ => text.lines().map(str::trim).collect(),
    }
}
