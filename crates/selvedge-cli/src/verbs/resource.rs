//! The parts that configured things share: lanes, quotas, budgets, schedules, webhooks, namespaces.

use super::get::values;
use crate::failure::Failure;
use crate::remote::Session;
use crate::terminal::{Table, confirm};
use selvedge_client::{Error, Response};
use serde_json::{Map, Value};

/// The most items of a collection that a command lists.
const MOST: usize = 10_000;

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

/// Returns the fields of an object, one per line.
pub fn fields(object: &Value) -> String {
    let fields = object.as_object().into_iter().flatten();
    let lines = fields.filter(|(_, value)| !value.is_null()).map(|(name, value)| {
        let value = match name.strip_suffix("_ms").and(value.as_i64()) {
            Some(ms) => crate::terminal::duration_ms(ms),
            None if name.ends_with("_at") => crate::terminal::when(value.as_str().unwrap_or_default()),
            None => crate::terminal::flat(value),
        };
        format!("{:<22} {value}", name.strip_suffix("_ms").or(name.strip_suffix("_at")).unwrap_or(name))
    });
    lines.collect::<Vec<String>>().join("\n")
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
    if !confirm(&format!("{what} will be deleted. Continue?"), yes)? {
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
