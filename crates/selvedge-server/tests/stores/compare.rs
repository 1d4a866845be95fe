//! Differences between an expected and an actual response: missing fields, other values, and other numbers of items. An
//! additional field is not a difference, because later versions add fields.

use selvedge_engine::core::log::Cursor;
use serde_json::Value;

/// A field that is not compared.
struct Mask {
    /// The end of the paths it applies to.
    path: &'static str,
    /// The name of the field, at any depth of the response.
    field: &'static str,
    /// The reason why the field may differ.
    #[allow(dead_code)]
    reason: &'static str,
}

const MASKS: [Mask; 1] = [Mask {
    path: "/explain",
    field: "message",
    reason: "a sentence for people that is composed on reading and may be reworded; code, ref and time are compared",
}];

/// A value of the API that was changed on purpose since a fixture was written. The files of a fixture are never edited,
/// so such changes are listed here.
struct Change {
    /// The name of the field, at any depth of the response.
    field: &'static str,
    /// The value in the fixture.
    was: &'static str,
    /// The value that the API shows now.
    now: &'static str,
}

const CHANGES: [Change; 7] = [
    Change { field: "outcome", was: "success", now: "completed" },
    Change { field: "type", was: "execution.succeeded", now: "execution.completed" },
    Change { field: "code", was: "leased", now: "active" },
    Change {
        field: "message",
        was: "quota closed allows 0 starts in 1000 ms, and as many were started",
        now: "quota closed allows 0 starts in 1 s, and as many were started",
    },
    Change {
        field: "message",
        was: "quota shut allows 0 starts in 1000 ms, and as many were started",
        now: "quota shut allows 0 starts in 1 s, and as many were started",
    },
    // The default, which is not stored.
    Change { field: "max_interruptions", was: "100", now: "5" },
    // A waitpoint of an execution that has ended, which a migration closes.
    Change { field: "state", was: "open", now: "expired" },
];

/// An execution that moved from one list to another on purpose since a fixture was written. It is not compared in either.
struct Moved {
    execution: &'static str,
    lists: [&'static str; 2],
}

/// The executions in a paused lane, which are held.
const MOVED: [Moved; 1] = [Moved {
    execution: "f1c70000-0000-7000-8000-000000000407",
    lists: ["/v1/executions?state=waiting", "/v1/executions?state=held"],
}];

/// Returns a list without the executions that moved into it or out of it.
fn without_moved(path: &str, list: &Value) -> Value {
    let moved = |item: &Value| MOVED.iter().any(|one| one.lists.contains(&path) && *item == one.execution);
    match list {
        Value::Array(items) => items.iter().filter(|item| !moved(item)).cloned().collect(),
        other => other.clone(),
    }
}

/// Reports whether an item is a best-effort frame. These are kept for ten minutes only and therefore not compared.
fn is_transient(item: &Value) -> bool {
    item["mode"] == "best_effort"
}

/// Returns every difference between the expected and the actual response of a path.
pub fn differences(path: &str, expected: &Value, actual: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(path, path, &without_moved(path, expected), &without_moved(path, actual), &mut found);
    found
}

fn compare(path: &str, at: &str, expected: &Value, actual: &Value, found: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (field, value) in expected.iter().filter(|(field, _)| !is_masked(path, field)) {
                match actual.get(field) {
                    Some(actual) => compare(path, &format!("{at}/{field}"), value, actual, found),
                    None => found.push(format!("{at}/{field} is missing; expected {value}")),
                }
            }
        }
        (Value::Array(expected), Value::Array(actual)) if is_reasons(path, at) => {
            compare_reasons(at, expected, actual, found);
        }
        (Value::Array(expected), Value::Array(actual)) => {
            let [expected, actual] = [expected, actual]
                .map(|items| items.iter().filter(|item| !is_transient(item)).collect::<Vec<&Value>>());
            if expected.len() != actual.len() {
                found.push(format!("{at} has {} items; expected {}", actual.len(), expected.len()));
            }
            for (index, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
                compare(path, &format!("{at}/{index}"), expected, actual, found);
            }
        }
        (expected, actual) if expected == actual || is_changed(at, expected, actual) => {}
        (expected, actual) => found.push(format!("{at} is {actual}; expected {expected}")),
    }
}

fn is_reasons(path: &str, at: &str) -> bool {
    path.ends_with("/explain") && at.ends_with("/reasons")
}

/// Compares reasons by code, subject and time. An explanation may name more reasons than before. The subject is an object
/// with a type and an id; it was the id alone.
fn compare_reasons(at: &str, expected: &[Value], actual: &[Value], found: &mut Vec<String>) {
    for reason in expected {
        let same_code = |one: &&Value| {
            one["code"] == reason["code"] || is_changed(&format!("{at}/code"), &reason["code"], &one["code"])
        };
        let same_subject = |one: &&Value| [&one["ref"], &one["ref"]["id"]].contains(&&reason["ref"]);
        let same_time = |one: &&Value| one["until_at"] == reason["until_at"];
        if !actual.iter().any(|one| same_code(&one) && same_subject(&one) && same_time(&one)) {
            found.push(format!("{at} does not have {reason}"));
        }
    }
}

fn is_changed(at: &str, expected: &Value, actual: &Value) -> bool {
    let field = at.rsplit('/').find(|part| part.parse::<usize>().is_err());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let is_cursor = matches!(field, Some("cursor" | "next_cursor"));
    (is_cursor && is_same_position(expected, actual))
        || CHANGES.iter().any(|change| {
            field == Some(change.field) && text(expected) == change.was && text(actual) == change.now
        })
}

/// Reports whether two cursors of the log name the same event. Cursors have had a check of their entry only since version 2.
fn is_same_position(expected: &Value, actual: &Value) -> bool {
    let [expected, actual] =
        [expected, actual].map(|cursor| cursor.as_str().and_then(Cursor::decode).map(|(cursor, _)| cursor));
    expected.is_some() && expected == actual
}

fn is_masked(path: &str, field: &str) -> bool {
    MASKS.iter().any(|mask| path.ends_with(mask.path) && mask.field == field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_engine::core::log::Mark;
    use serde_json::json;

    #[test]
    fn a_missing_field_another_value_and_another_number_of_items_are_differences() {
        let expected = json!({ "a": 1, "b": { "c": [1, { "d": null }] } });
        assert_eq!(differences("/p", &expected, &expected), [""; 0]);
        for (actual, found) in [
            (json!({ "b": expected["b"] }), "/p/a is missing; expected 1"),
            (json!({ "a": 2, "b": expected["b"] }), "/p/a is 2; expected 1"),
            (json!({ "a": 1, "b": { "c": [1] } }), "/p/b/c has 1 items; expected 2"),
            (json!({ "a": 1, "b": { "c": [1, {}] } }), "/p/b/c/1/d is missing; expected null"),
            (json!({ "a": 1, "b": [] }), r#"/p/b is []; expected {"c":[1,{"d":null}]}"#),
        ] {
            assert_eq!(differences("/p", &expected, &actual), [found]);
        }
    }

    #[test]
    fn an_explanation_may_name_more_reasons_and_the_type_of_a_subject() {
        let path = "/v1/executions/x/explain";
        let reason = |code: &str, subject: Value| json!({ "code": code, "ref": subject, "until_at": null });
        let expected = json!({ "reasons": [reason("leased", json!("l"))] });
        let subject = json!({ "type": "lease", "id": "l" });
        let actual = json!({ "reasons": [reason("deadline", json!(null)), reason("active", subject)] });
        assert_eq!(differences(path, &expected, &actual), [""; 0]);
        let other = json!({ "reasons": [reason("active", json!({ "type": "lease", "id": "m" }))] });
        assert_eq!(differences(path, &expected, &other).len(), 1);
    }

    #[test]
    fn a_cursor_of_the_same_event_may_have_a_check() {
        let event = |number| Cursor { entry: number, fact: 0, event: 1 };
        let of = |cursor: Cursor, mark| json!({ "cursor": cursor.encode(mark) });
        let mark = Some(Mark { check: 7, is_last: true });
        assert_eq!(differences("/p", &of(event(3), None), &of(event(3), mark)), [""; 0]);
        assert_eq!(differences("/p", &of(event(3), None), &of(event(4), mark)).len(), 1);
    }

    #[test]
    fn a_new_field_and_a_masked_field_are_not_differences() {
        let expected = json!({ "message": "old words", "code": "c", "items": [{ "mode": "best_effort" }] });
        let actual = json!({ "message": "new words", "code": "c", "new": 1, "items": [] });
        assert_eq!(differences("/v1/executions/x/explain", &expected, &actual), [""; 0]);
        assert_eq!(
            differences("/v1/executions/x", &expected, &actual).len(),
            1,
            "the mask applies to one path only"
        );
    }
}
