//! Conversion between SQLite's columns and values of core.

use crate::connection::failure::not_understood;
use bytes::Bytes;
use rusqlite::Row;
use rusqlite::types::FromSql;
use selvedge_core::rows::Payload;
use selvedge_core::{Name, Timestamp};
use selvedge_store::columns;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Reads tags. The inner error says why they are unreadable.
pub fn tags(row: &Row<'_>, column: usize) -> rusqlite::Result<Result<BTreeMap<String, String>, String>> {
    let text: Option<String> = row.get(column)?;
    Ok(columns::tags(text.as_deref()))
}

pub fn uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get(column).map(Uuid::from_bytes)
}

pub fn optional_uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Uuid>> {
    optional(row, column, Uuid::from_bytes)
}

pub fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

pub fn optional_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    optional(row, column, Timestamp::from_micros)
}

pub fn bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Bytes> {
    row.get::<_, Vec<u8>>(column).map(Bytes::from)
}

/// Reads the size of a payload, and behind it the payload, which is null if it is larger than `limit`.
pub fn sized_payload(row: &Row<'_>, column: usize, limit: usize) -> rusqlite::Result<Payload> {
    match row.get::<_, i64>(column)? as usize {
        size if size > limit => Ok(Payload::Size(size)),
        _ => bytes(row, column + 1).map(Payload::Whole),
    }
}

pub fn optional_bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Bytes>> {
    optional(row, column, |body: Vec<u8>| Bytes::from(body))
}

pub fn name(row: &Row<'_>, column: usize) -> rusqlite::Result<Name> {
    Ok(Name::trusted(row.get_ref(column)?.as_str()?))
}

pub fn optional_name(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Name>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.map(Name::trusted))
}

fn optional<V: FromSql, T>(
    row: &Row<'_>,
    column: usize,
    make: impl FnOnce(V) -> T,
) -> rusqlite::Result<Option<T>> {
    Ok(row.get::<_, Option<V>>(column)?.map(make))
}

/// Serialises a value as JSON for a column.
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Reads a value from a column of JSON; `title` names the column in errors.
pub fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize, title: &str) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| not_understood(&format!("column {title}: {error}")))
}
