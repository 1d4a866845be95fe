//! Classes of executions and their ids.

use crate::Error;
use async_trait::async_trait;
use selvedge_core::{Class, ClassId};

#[async_trait]
pub trait ClassStore: Send + Sync {
    /// Returns the ids of classes in the order of the argument; missing classes are created, and the use of all of them is
    /// recorded. Writers of classes exclude each other, so ids become visible in ascending order: a reader that sees an id has
    /// seen all smaller ones. The first [`UNPOOLED`](selvedge_core::class::UNPOOLED) classes of a lane and capability set have
    /// no pool, later ones share one.
    async fn intern(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error>;
    /// Returns the classes with ids greater than `after`, in ascending order.
    async fn classes_after(&self, after: ClassId) -> Result<Vec<(ClassId, Class)>, Error>;
    /// Looks at up to `limit` classes that were not used for `unused_ms` milliseconds, removes those that no execution refers
    /// to, and returns how many were removed. The others count as used, so that they do not hide the classes behind them.
    /// Bounded work: a class may stay although it could be removed. Ids are never used again. Callers use the id of a class
    /// only for [`USED_EVERY_MS`](selvedge_core::class::USED_EVERY_MS) after they
    /// interned it.
    async fn remove_unused_classes(&self, unused_ms: i64, limit: u32) -> Result<u64, Error>;
}
