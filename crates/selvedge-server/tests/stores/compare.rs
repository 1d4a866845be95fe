//! What makes an answer differ from an expected one: a field that is missing or has another value, an item too many or too few.
//! A field that is not expected is no difference: later versions add fields.

use serde_json::Value;

/// What is not compared, and why.
struct Mask {
    /// How the path ends.
    path: &'static str,
    /// The field, wherever it stands in the answer.
    field: &'static str,
    /// Why it may differ.
    #[allow(dead_code)]
    reason: &'static str,
}

const MASKS: [Mask; 1] = [Mask {
    path: "/explain",
    field: "message",
    reason: "a sentence for people that is composed when it is read: it may be worded differently; code, ref and time are \
             compared",
}];

/// A value of the public form that was changed on purpose since a fixture was written. The files of a fixture are never
/// edited, so a change is entered here.
struct Change {
    /// The field, wherever it stands.
    field: &'static str,
    /// The value that a fixture expects.
    was: &'static str,
    /// The value that is shown now.
    now: &'static str,
}

const CHANGES: [Change; 0] = [];

/// Best-effort frames are shown for ten minutes only, so they are left out on both sides.
fn is_passing(item: &Value) -> bool {
    item["mode"] == "best_effort"
}

/// Every difference between what a path is expected to show and what it shows.
pub fn differences(path: &str, expected: &Value, shown: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(path, path, expected, shown, &mut found);
    found
}

fn compare(path: &str, at: &str, expected: &Value, shown: &Value, found: &mut Vec<String>) {
    match (expected, shown) {
        (Value::Object(expected), Value::Object(shown)) => {
            for (field, value) in expected.iter().filter(|(field, _)| !is_masked(path, field)) {
                match shown.get(field) {
                    Some(shown) => compare(path, &format!("{at}/{field}"), value, shown, found),
                    None => found.push(format!("{at}/{field} is missing; expected {value}")),
                }
            }
        }
        (Value::Array(expected), Value::Array(shown)) => {
            let [expected, shown] = [expected, shown]
                .map(|items| items.iter().filter(|item| !is_passing(item)).collect::<Vec<&Value>>());
            if expected.len() != shown.len() {
                found.push(format!("{at} has {} items; expected {}", shown.len(), expected.len()));
            }
            for (place, (expected, shown)) in expected.iter().zip(&shown).enumerate() {
                compare(path, &format!("{at}/{place}"), expected, shown, found);
            }
        }
        (expected, shown) if expected == shown || is_changed(at, expected, shown) => {}
        (expected, shown) => found.push(format!("{at} is {shown}; expected {expected}")),
    }
}

fn is_changed(at: &str, expected: &Value, shown: &Value) -> bool {
    let field = at.rsplit('/').find(|part| part.parse::<usize>().is_err());
    CHANGES.iter().any(|change| field == Some(change.field) && expected == change.was && shown == change.now)
}

fn is_masked(path: &str, field: &str) -> bool {
    MASKS.iter().any(|mask| path.ends_with(mask.path) && mask.field == field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_missing_field_another_value_and_another_number_of_items_are_differences() {
        let expected = json!({ "a": 1, "b": { "c": [1, { "d": null }] } });
        assert_eq!(differences("/p", &expected, &expected), [""; 0]);
        for (shown, found) in [
            (json!({ "b": expected["b"] }), "/p/a is missing; expected 1"),
            (json!({ "a": 2, "b": expected["b"] }), "/p/a is 2; expected 1"),
            (json!({ "a": 1, "b": { "c": [1] } }), "/p/b/c has 1 items; expected 2"),
            (json!({ "a": 1, "b": { "c": [1, {}] } }), "/p/b/c/1/d is missing; expected null"),
            (json!({ "a": 1, "b": [] }), r#"/p/b is []; expected {"c":[1,{"d":null}]}"#),
        ] {
            assert_eq!(differences("/p", &expected, &shown), [found]);
        }
    }

    #[test]
    fn a_field_that_is_new_and_one_that_is_masked_are_no_differences() {
        let expected = json!({ "message": "old words", "code": "c", "items": [{ "mode": "best_effort" }] });
        let shown = json!({ "message": "new words", "code": "c", "new": 1, "items": [] });
        assert_eq!(differences("/v1/executions/x/explain", &expected, &shown), [""; 0]);
        assert_eq!(differences("/v1/executions/x", &expected, &shown).len(), 1, "masked by its path only");
    }
}
