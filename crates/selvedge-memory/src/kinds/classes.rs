//! Classes of executions, which are interned.

use crate::MemoryStore;
use crate::kinds::{Kind, Tables};
use async_trait::async_trait;
use selvedge_core::class::UNPOOLED;
use selvedge_core::{Class, ClassId, Timestamp};
use selvedge_store::{ClassStore, Error};
use std::collections::HashSet;
use std::ops::Bound::{Excluded, Unbounded};

pub(crate) const KIND: Kind = Kind {
    load: |tables, needs, rows| {
        if let Some(class) = needs.queries.classes_after {
            rows.found.classes = after(tables, class);
        }
    },
    ..Kind::EMPTY
};

fn after(tables: &Tables, class: ClassId) -> Vec<(ClassId, Class)> {
    let newer = tables.classes.range((Excluded(class), Unbounded));
    newer.map(|(id, (class, _))| (*id, class.clone())).collect()
}

/// Returns a class and its pool.
pub fn ranges_of(tables: &Tables, class: ClassId) -> impl Iterator<Item = ClassId> + use<> {
    let pool = tables.classes.get(&class).and_then(|(class, _)| class.pool);
    [Some(class), pool].into_iter().flatten()
}

#[async_trait]
impl ClassStore for MemoryStore {
    /// Records the use of the classes.
    async fn intern(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error> {
        self.change("intern", |tables, now| {
            classes.iter().map(|class| intern_class(tables, class, now)).collect()
        })
        .await
    }

    async fn classes_after(&self, class: ClassId) -> Result<Vec<(ClassId, Class)>, Error> {
        self.read("classes_after", |tables, _| after(tables, class)).await
    }

    /// Looks at the classes that were not used for some time, longest unused first. Removes those that no execution refers to;
    /// the others count as used.
    async fn remove_unused_classes(&self, unused_ms: i64, limit: u32) -> Result<u64, Error> {
        self.change("remove_unused_classes", |tables, now| {
            let before = now.minus_ms(unused_ms);
            let referred: HashSet<ClassId> =
                tables.executions.values().map(|record| record.execution.class).collect();
            let unused = tables.classes.iter().filter(|(_, (_, used_at))| *used_at < before);
            let mut unused: Vec<(Timestamp, ClassId)> = unused.map(|(id, (_, at))| (*at, *id)).collect();
            unused.sort_unstable();
            unused.truncate(limit as usize);
            let before = tables.classes.len();
            for (_, id) in unused {
                if !referred.contains(&id) {
                    tables.classes.remove(&id);
                } else if let Some((_, used_at)) = tables.classes.get_mut(&id) {
                    *used_at = now;
                }
            }
            tables.class_ids.retain(|_, id| tables.classes.contains_key(id));
            (before - tables.classes.len()) as u64
        })
        .await
    }
}

fn intern_class(tables: &mut Tables, class: &Class, now: Timestamp) -> (ClassId, Class) {
    if let Some((id, (class, used_at))) =
        tables.class_ids.get(class).and_then(|id| Some((*id, tables.classes.get_mut(id)?)))
    {
        *used_at = now;
        return (id, class.clone());
    }
    tables.newest_class += 1;
    let id = ClassId(tables.newest_class);
    let shares_claims = |other: &&Class| {
        (other.namespace, &other.lane, &other.capabilities)
            == (class.namespace, &class.lane, &class.capabilities)
    };
    let others: Vec<&Class> = tables.classes.values().map(|(other, _)| other).filter(shares_claims).collect();
    let is_pooled = others.iter().filter(|other| other.pool.is_none()).count() >= UNPOOLED;
    let pool = others.iter().find_map(|other| other.pool).unwrap_or(ClassId(-id.0));
    let interned = Class { pool: is_pooled.then_some(pool), ..class.clone() };
    tables.class_ids.insert(class.clone(), id);
    tables.classes.insert(id, (interned.clone(), now));
    (id, interned)
}
