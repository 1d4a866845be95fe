//! The parts that configured things share: lanes, quotas, budgets, schedules, webhooks, namespaces.

use super::get::values;
use super::values::rate_text;
use crate::failure::Failure;
use crate::remote::Session;
use crate::terminal::{Table, duration_ms, flat, strings, when};
use selvedge_api::operation::PathPart;
use selvedge_client::{Error, Item, Response, TypedResponse};
use serde_json::{Map, Value};

/// The most items of a collection that a command lists.
pub const MOST: usize = 10_000;

/// Lists a collection as a table, or says that it is empty.
pub async fn list(
    session: &Session,
    path: &[&str],
    headings: &[&str],
    empty: &str,
    row: impl Fn(&Value) -> Vec<String>,
) -> Result<(), Failure> {
    let items = session.client.get(path).items(MOST).await?;
    if session.out.json {
        return items.iter().try_for_each(|item| session.out.json_line(item.get()));
    }
    let mut table = Table::new(headings);
    values(&items).iter().for_each(|item| table.row(row(item)));
    match table.is_empty() {
        true => session.out.line(empty),
        false => session.out.table(&table),
    }
}

/// Prints items: as JSON, or as a table; or says that there are none.
pub fn print_items<T>(
    session: &Session,
    items: &[Item<T>],
    headings: &[&str],
    empty: &str,
    row: impl Fn(&T) -> Vec<String>,
) -> Result<(), Failure> {
    if session.out.json {
        return items.iter().try_for_each(|item| session.out.json_line(item.raw.get()));
    }
    let mut table = Table::new(headings);
    items.iter().for_each(|item| table.row(row(&item.value)));
    match table.is_empty() {
        true => session.out.line(empty),
        false => session.out.table(&table),
    }
}

/// Prints an answer: as JSON, or as the text of its value.
pub fn print_value<T>(
    session: &Session,
    answered: &TypedResponse<T>,
    show: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    match session.out.json {
        true => session.out.json_line(answered.response.text()?),
        false => session.out.line(show(&answered.value)),
    }
}

/// Reads an id of the command line. No server knows anything else.
pub fn id<T: PathPart>(text: &str) -> Result<T, Failure> {
    T::read(text).map_err(|detail| Failure::NotFound(format!("not_found: {detail}")))
}

/// Prints an answer: as JSON, or as the text of its value.
pub fn print(session: &Session, response: &Response, show: impl Fn(&Value) -> String) -> Result<(), Failure> {
    match session.out.json {
        true => session.out.json_line(response.text()?),
        false => session.out.line(show(&response.json()?)),
    }
}

/// Shows an object, one field per line.
pub async fn get(session: &Session, path: &[&str]) -> Result<(), Failure> {
    let response = session.client.get(path).send().await?;
    print(session, &response, fields)
}

/// Returns the fields of an object, one per line: the name first, without those that have no value.
pub fn fields(object: &Value) -> String {
    let fields = object.as_object().into_iter().flatten();
    let mut lines: Vec<(bool, String)> = Vec::new();
    for (name, value) in fields {
        let stripped = name.strip_suffix("_ms").or(name.strip_suffix("_at")).unwrap_or(name);
        // `period` counts what `period_ms` measures.
        let label = if object[stripped].is_null() { stripped } else { name };
        let value = match name.strip_suffix("_ms").and(value.as_i64()) {
            Some(ms) if label == stripped => duration_ms(ms),
            _ if name.ends_with("_at") => when(value.as_str().unwrap_or_default()),
            _ if name == "rate" && value.is_object() => rate_text(value),
            _ => nested(value),
        };
        if !value.is_empty() {
            lines.push((name != "name", format!("{label:<18} {value}")));
        }
    }
    lines.sort_by_key(|(is_other, _)| *is_other);
    lines.into_iter().map(|(_, line)| line).collect::<Vec<String>>().join("\n")
}

/// Returns a value of a field: a list of texts with commas, an object without its nulls.
fn nested(value: &Value) -> String {
    match value {
        Value::Array(items) if items.iter().all(Value::is_string) => strings(value, ""),
        Value::Object(fields) => {
            let given: Map<String, Value> = fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            if given.is_empty() { String::new() } else { Value::Object(given).to_string() }
        }
        other => flat(other),
    }
}

/// Changes the fields of an object, or creates it if it does not exist.
pub async fn set(session: &Session, path: &[&str], change: &Map<String, Value>) -> Result<Response, Error> {
    match session.client.patch(path).json(change).send().await {
        Err(error) if error.code() == Some("not_found") => {
            // Null lifts a limit; where there is nothing, there is none to lift.
            let given: Map<String, Value> = change
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            session.client.put(path).json(&given).send().await
        }
        changed => changed,
    }
}

/// Deletes an object after a question.
pub async fn delete(session: &Session, path: &[&str], what: &str, yes: bool) -> Result<(), Failure> {
    if !session.confirm(&format!("{what} will be deleted."), yes)? {
        return Err(Failure::Failed("nothing was deleted".into()));
    }
    let response = session.client.delete(path).send().await?;
    print(session, &response, |_| format!("{what} is deleted."))
}

/// Fails if a command that changes something was given nothing to change.
pub fn require_change(change: &Map<String, Value>, flags: &str) -> Result<(), Failure> {
    match change.is_empty() {
        true => Err(Failure::Usage(format!("say what to change, for example with {flags}"))),
        false => Ok(()),
    }
}
