//! Interning of namespaces and classes.

use crate::connection::failure::not_understood;
use crate::row::{self, to_json};
use crate::sql;
use rusqlite::{Connection, OptionalExtension, params};
use selvedge_core::class::USED_EVERY_MS;
use selvedge_core::{Class, ClassId, Name, NamespaceId, Timestamp};
use selvedge_store::{Deletion, NamespaceSettings};
use std::collections::{BTreeMap, HashSet};

/// The number of executions per namespace that a removal of classes looks at for the classes they refer to.
const OLDEST_LOOKED_AT: i64 = 10_000;

/// Returns the id of a namespace, which is inserted if it does not exist or was deleted.
pub fn intern_namespace(connection: &Connection, name: &Name) -> rusqlite::Result<NamespaceId> {
    connection.prepare_cached(&sql::NAMESPACES_RETIRE)?.execute([name.as_str()])?;
    connection.prepare_cached(&sql::NAMESPACES_INSERT)?.execute([name.as_str()])?;
    connection
        .prepare_cached(&sql::NAMESPACES_FIND)?
        .query_row([name.as_str()], |row| row.get(0).map(NamespaceId))
}

/// Returns the id of a namespace.
pub fn find_namespace(connection: &Connection, name: &str) -> rusqlite::Result<Option<NamespaceId>> {
    connection
        .prepare_cached(&sql::NAMESPACES_FIND)?
        .query_row([name], |row| row.get(0).map(NamespaceId))
        .optional()
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
        .query_row([namespace.0], |row| {
            Ok(NamespaceSettings {
                suspension_timeout_ms: row.get(0)?,
                retention_ms: row.get(1)?,
                weight: row.get(2)?,
                deletion: row.get::<_, Option<String>>(3)?.as_deref().map(Deletion::decode),
            })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
}

/// Replaces the settings of a namespace.
pub fn configure(
    connection: &Connection,
    namespace: NamespaceId,
    settings: NamespaceSettings,
) -> rusqlite::Result<()> {
    let NamespaceSettings { suspension_timeout_ms, retention_ms, weight, deletion } = settings;
    let mut statement = connection.prepare_cached(&sql::NAMESPACES_UPDATE)?;
    let deletion = deletion.map(Deletion::encode);
    statement.execute(params![namespace.0, suspension_timeout_ms, retention_ms, weight, deletion]).map(drop)
}

/// Deletes up to `limit` rows of each kind of a namespace that has no executions and no flows, and returns how many.
pub fn delete_rest(connection: &Connection, namespace: NamespaceId, limit: u32) -> rusqlite::Result<u64> {
    let statements: [&str; 7] = [
        &sql::NAMESPACES_DELETE_LEDGER,
        &sql::NAMESPACES_DELETE_GATES,
        &sql::NAMESPACES_DELETE_KEYS,
        &sql::NAMESPACES_DELETE_SESSIONS,
        &sql::NAMESPACES_DELETE_ROLLUPS,
        &sql::NAMESPACES_DELETE_BULK_JOBS,
        &sql::NAMESPACES_DELETE_EVENTS,
    ];
    let mut deleted = 0;
    for statement in statements {
        deleted += connection.prepare_cached(statement)?.execute(params![namespace.0, limit])? as u64;
    }
    Ok(deleted)
}

/// Returns the ids of classes, which are inserted where they do not exist, and records their use.
pub fn intern_classes(
    connection: &Connection,
    classes: Vec<Class>,
    now: Timestamp,
) -> rusqlite::Result<Vec<(ClassId, Class)>> {
    let mut insert = connection.prepare_cached(&sql::CLASSES_INSERT)?;
    let mut interned = Vec::with_capacity(classes.len());
    for class in classes {
        let capabilities = to_json(&class.capabilities)?;
        let (lane, kind) = (class.lane.as_str(), class.kind.as_str());
        let columns = params![class.namespace.0, lane, kind, capabilities, now.micros()];
        let (id, pool): (i64, Option<i32>) =
            insert.query_row(columns, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let id = i32::try_from(id).map_err(|_| not_understood("there are too many classes"))?;
        interned.push((ClassId(id), Class { pool: pool.map(ClassId), ..class }));
    }
    Ok(interned)
}

/// Removes unused classes. An execution is submitted at most [`USED_EVERY_MS`] and the time of a call after the last
/// recorded use of its class. So only executions that old can refer to an unused class, and those are looked at, oldest
/// first, up to a bound. Classes that are referred to, or may be, count as used.
pub fn remove_unused_classes(
    connection: &Connection,
    now: Timestamp,
    unused_ms: i64,
    limit: u32,
) -> rusqlite::Result<u64> {
    let mut list = connection.prepare_cached(&sql::CLASSES_LIST_UNUSED)?;
    let unused = list.query_map(params![now.minus_ms(unused_ms).micros(), limit], |row| {
        let used_at = Timestamp::from_micros(row.get(2)?);
        Ok((row.get(0)?, row.get(1)?, used_at.plus_ms(2 * USED_EVERY_MS).micros()))
    })?;
    let unused: Vec<(i32, i32, i64)> = unused.collect::<rusqlite::Result<_>>()?;
    let mut affected: BTreeMap<i32, i64> = BTreeMap::new();
    for (_, namespace, upto) in &unused {
        let latest = affected.entry(*namespace).or_insert(*upto);
        *latest = (*latest).max(*upto);
    }
    let mut oldest = connection.prepare_cached(&sql::EXECUTIONS_LIST_OLDEST)?;
    let mut delete = connection.prepare_cached(&sql::CLASSES_DELETE)?;
    let mut touch = connection.prepare_cached(&sql::CLASSES_TOUCH)?;
    let mut removed = 0;
    for (namespace, upto) in affected {
        let old = oldest.query_map(params![namespace, upto, OLDEST_LOOKED_AT], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i32>(1)?))
        })?;
        let old: Vec<(i64, i32)> = old.collect::<rusqlite::Result<_>>()?;
        let all = (old.len() as i64) < OLDEST_LOOKED_AT;
        let looked_at = if all { i64::MAX } else { old.last().map_or(0, |(at, _)| *at) };
        let referred: HashSet<i32> = old.into_iter().map(|(_, class)| class).collect();
        for (id, of, upto) in &unused {
            if *of != namespace {
                continue;
            }
            if *upto < looked_at && !referred.contains(id) {
                removed += delete.execute([id])? as u64;
            } else {
                // So that it does not hide the classes behind it.
                touch.execute((id, now.micros()))?;
            }
        }
    }
    Ok(removed)
}

/// Returns the classes that were interned after this one.
pub fn classes_after(connection: &Connection, after: ClassId) -> rusqlite::Result<Vec<(ClassId, Class)>> {
    connection.prepare_cached(&sql::CLASSES_LIST)?.query_map([after.0], row::class)?.collect()
}
