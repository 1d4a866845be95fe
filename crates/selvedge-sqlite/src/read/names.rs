//! Interning of namespaces and classes.

use crate::connection::failure::not_understood;
use crate::row::{self, to_json};
use crate::sql;
use rusqlite::{Connection, OptionalExtension, params};
use selvedge_core::{Class, ClassId, Name, NamespaceId};
use selvedge_store::NamespaceSettings;

/// Returns the id of a namespace, which is inserted if it does not exist.
pub fn intern_namespace(connection: &Connection, name: &Name) -> rusqlite::Result<NamespaceId> {
    connection.prepare_cached(&sql::NAMESPACES_INSERT)?.execute([name.as_str()])?;
    connection
        .prepare_cached(&sql::NAMESPACES_FIND)?
        .query_row([name.as_str()], |row| row.get(0).map(NamespaceId))
}

/// Returns all namespaces.
pub fn namespaces(connection: &Connection) -> rusqlite::Result<Vec<(NamespaceId, Name)>> {
    connection
        .prepare_cached(&sql::NAMESPACES_LIST)?
        .query_map((), |row| Ok((NamespaceId(row.get(0)?), row::name(row, 1)?)))?
        .collect()
}

/// Returns the settings of a namespace.
pub fn settings(connection: &Connection, namespace: NamespaceId) -> rusqlite::Result<NamespaceSettings> {
    let found = connection
        .prepare_cached(&sql::NAMESPACES_READ)?
        .query_row([namespace.0], |row| Ok(NamespaceSettings { suspension_timeout_ms: row.get(0)? }))
        .optional()?;
    Ok(found.unwrap_or_default())
}

/// Replaces the settings of a namespace.
pub fn configure(
    connection: &Connection,
    namespace: NamespaceId,
    settings: NamespaceSettings,
) -> rusqlite::Result<()> {
    let NamespaceSettings { suspension_timeout_ms } = settings;
    let mut statement = connection.prepare_cached(&sql::NAMESPACES_UPDATE)?;
    statement.execute(params![namespace.0, suspension_timeout_ms]).map(drop)
}

/// Returns the ids of classes, which are inserted where they do not exist.
pub fn intern_classes(
    connection: &Connection,
    classes: Vec<Class>,
) -> rusqlite::Result<Vec<(ClassId, Class)>> {
    let mut find = connection.prepare_cached(&sql::CLASSES_FIND)?;
    let mut insert = connection.prepare_cached(&sql::CLASSES_INSERT)?;
    let mut interned = Vec::with_capacity(classes.len());
    for class in classes {
        let capabilities = to_json(&class.capabilities)?;
        let columns = params![class.namespace.0, class.lane.as_str(), class.kind.as_str(), capabilities];
        let found = find.query_row(columns, |row| row.get(0)).optional()?;
        let id = match found {
            Some(id) => id,
            None => {
                insert.execute(columns)?;
                i32::try_from(connection.last_insert_rowid())
                    .map_err(|_| not_understood("there are too many classes"))?
            }
        };
        interned.push((ClassId(id), class));
    }
    Ok(interned)
}

/// Returns the classes that were interned after this one.
pub fn classes_after(connection: &Connection, after: ClassId) -> rusqlite::Result<Vec<(ClassId, Class)>> {
    connection.prepare_cached(&sql::CLASSES_LIST)?.query_map([after.0], row::class)?.collect()
}
