//! Classes of executions, which are interned.

use crate::SqliteStore;
use crate::connection::failure::not_understood;
use crate::kinds::Kind;
use crate::row;
use crate::sql::{self, statements};
use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use selvedge_core::class::USED_EVERY_MS;
use selvedge_core::{Class, ClassId, NamespaceId, Needs, Rows, Timestamp};
use selvedge_store::{ClassStore, Error};
use std::collections::{BTreeMap, HashSet};

pub(crate) const KIND: Kind = Kind { statements: STATEMENTS, load, ..Kind::EMPTY };

statements! {
    CLASSES_DELETE = "classes/delete";
    CLASSES_INSERT = "classes/insert";
    CLASSES_LIST = "classes/list";
    CLASSES_LIST_UNUSED = "classes/list_unused";
    CLASSES_TOUCH = "classes/touch";
    EXECUTIONS_LIST_OLDEST = "executions/list_oldest";
}

/// The number of executions per namespace that a removal of classes looks at for the classes they refer to.
const OLDEST_LOOKED_AT: i64 = 10_000;

fn after(connection: &Connection, after: ClassId) -> rusqlite::Result<Vec<(ClassId, Class)>> {
    let decode = |found: &Row<'_>| {
        let class = Class {
            namespace: NamespaceId(found.get(1)?),
            lane: row::name(found, 2)?,
            kind: row::name(found, 3)?,
            capabilities: row::json(found, 4, "capabilities")?,
            pool: found.get::<_, Option<i32>>(5)?.map(ClassId),
        };
        Ok((ClassId(found.get(0)?), class))
    };
    sql::rows(connection, &CLASSES_LIST, [after.0], decode)
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    if let Some(class) = needs.queries.classes_after {
        rows.found.classes = after(connection, class)?;
    }
    Ok(())
}

#[async_trait]
impl ClassStore for SqliteStore {
    /// Inserts the classes that do not exist, and records their use.
    async fn intern(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error> {
        let classes = classes.to_vec();
        self.write("intern", move |connection, now| {
            let mut insert = connection.prepare_cached(&CLASSES_INSERT)?;
            let mut interned = Vec::with_capacity(classes.len());
            for class in classes {
                let capabilities = row::to_json(&class.capabilities)?;
                let (lane, kind) = (class.lane.as_str(), class.kind.as_str());
                let columns = params![class.namespace.0, lane, kind, capabilities, now.micros()];
                let (id, pool): (i64, Option<i32>) =
                    insert.query_row(columns, |found| Ok((found.get(0)?, found.get(1)?)))?;
                let id = i32::try_from(id).map_err(|_| not_understood("there are too many classes"))?;
                interned.push((ClassId(id), Class { pool: pool.map(ClassId), ..class }));
            }
            Ok(interned)
        })
        .await
    }

    async fn classes_after(&self, class: ClassId) -> Result<Vec<(ClassId, Class)>, Error> {
        self.read("classes_after", move |connection| after(connection, class)).await
    }

    async fn remove_unused_classes(&self, unused_ms: i64, limit: u32) -> Result<u64, Error> {
        self.write("remove_unused_classes", move |connection, now| {
            remove_unused(connection, now, unused_ms, limit)
        })
        .await
    }
}

/// Removes unused classes. An execution is submitted at most [`USED_EVERY_MS`] and the time of a call after the last
/// recorded use of its class. So only executions that old can refer to an unused class, and those are looked at, oldest
/// first, up to a bound. Classes that are referred to, or may be, count as used.
fn remove_unused(
    connection: &Connection,
    now: Timestamp,
    unused_ms: i64,
    limit: u32,
) -> rusqlite::Result<u64> {
    let mut list = connection.prepare_cached(&CLASSES_LIST_UNUSED)?;
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
    let mut oldest = connection.prepare_cached(&EXECUTIONS_LIST_OLDEST)?;
    let mut delete = connection.prepare_cached(&CLASSES_DELETE)?;
    let mut touch = connection.prepare_cached(&CLASSES_TOUCH)?;
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
