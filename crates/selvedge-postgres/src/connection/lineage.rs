//! The history of the database that connections lead to.
//!
//! After a failover that lost commits, or after a backup was restored, the database gives the ids of lost classes and
//! namespaces to others, and rows that this process has cached may never have been written. Only another server process, or
//! another database, can have another history. So every new connection, before it is used, is compared with what this
//! process knows:
//!
//! - If the server was started at another time than the one known so far, or names are missing, everything that is cached
//!   about rows is dropped: bounds, the settled part of the log, and the leases of the engine, which compares
//!   [`Lineage::number`]. Connections that were opened before are closed instead of lent again.
//! - All classes and namespaces that this process knows are compared with those of the database. Missing ones are inserted
//!   again with their ids: nobody has them yet. Processes learn classes in the order of their ids, so each knows all up to
//!   some id, and none is inserted behind one that others have learned. If an id stands for something else, the connection
//!   is refused: this process would claim the work of one lane or tenant as that of another. Every call then fails as
//!   unavailable, until the process is started again and reads the names anew.
//!
//! Namespaces are never deleted. Unused classes are, and their ids are never used again. A removal first records the
//! highest id that existed then (`class_removal`), in the same transaction. An absent class with an id up to that number
//! was therefore removed: its insertion was committed before the removal, and a database that has lost the one has lost
//! the other. This process forgets it.

use super::SERVER_IDENTIFY;
use crate::kinds::{classes, namespaces};
use selvedge_core::{Class, ClassId, Name, NamespaceId};
use selvedge_store::{is_retired, is_retired_form, retired_name};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;
use tokio_postgres::{Client, Error};

/// The server that this process has met, and the names that it has learned from the database.
#[derive(Default)]
pub struct Lineage {
    number: AtomicU64,
    server: Mutex<Server>,
    known: Mutex<Known>,
    /// The pools of the known classes that have one.
    pools: RwLock<HashMap<i32, i32>>,
}

/// The server that the latest connection led to.
#[derive(Default)]
struct Server {
    /// Its start and the database. None before the first connection.
    identity: Option<String>,
    /// The time at which it was first met instead of another one.
    changed_at: Option<Instant>,
}

#[derive(Clone, Default)]
struct Known {
    namespaces: HashMap<i32, Name>,
    classes: BTreeMap<i32, Class>,
}

#[derive(Debug, PartialEq, Eq)]
enum Comparison {
    /// The database has all known names.
    Same,
    /// The database lacks names.
    Missing,
    /// An id stands for something else.
    Other(String),
}

impl Lineage {
    /// Returns a number that rises whenever cached rows may have become wrong.
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Notes that rows which were read before may never have been written.
    pub fn changed(&self) {
        self.server().changed_at = Some(Instant::now());
        self.number.fetch_add(1, Ordering::AcqRel);
    }

    /// Reports whether a connection that was opened at this time may lead to another history than the latest one.
    pub fn is_older(&self, opened_at: Instant) -> bool {
        self.server().changed_at.is_some_and(|changed_at| opened_at < changed_at)
    }

    /// Reads which server a new connection leads to. Reports whether it is another one than before.
    pub async fn is_other_server(&self, client: &Client) -> Result<bool, Error> {
        let row = client.query_one(&*SERVER_IDENTIFY, &[]).await?;
        let previous = self.server().identity.replace(row.get(0));
        Ok(previous.is_some_and(|previous| previous != row.get::<_, String>(0)))
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers namespaces that were read or written. A name that has a new id was that of a deleted namespace before.
    pub fn learn_namespaces<'a>(&self, namespaces: impl Iterator<Item = &'a (NamespaceId, Name)>) {
        let mut known = self.known();
        for (id, name) in namespaces {
            if known.namespaces.get(&id.0) == Some(name) {
                continue;
            }
            for (old, known) in
                known.namespaces.iter_mut().filter(|(old, known)| **old < id.0 && *known == name)
            {
                *known = retired_name(name, NamespaceId(*old));
            }
            known.namespaces.insert(id.0, name.clone());
        }
    }

    /// Remembers classes that were read or written.
    pub fn learn_classes(&self, classes: &[(ClassId, Class)]) {
        if classes.is_empty() {
            return;
        }
        self.known().classes.extend(classes.iter().map(|(id, class)| (id.0, class.clone())));
        let mut pooled = classes.iter().filter_map(|(id, class)| Some((id.0, class.pool?.0))).peekable();
        if pooled.peek().is_some() {
            self.pools.write().unwrap_or_else(PoisonError::into_inner).extend(pooled);
        }
    }

    /// Returns the pool of a class that was read or written.
    pub fn pool_of(&self, class: ClassId) -> Option<ClassId> {
        self.pools.read().unwrap_or_else(PoisonError::into_inner).get(&class.0).copied().map(ClassId)
    }

    pub fn forget_classes(&self, removed: &[i32]) {
        let mut known = self.known();
        let mut pools = self.pools.write().unwrap_or_else(PoisonError::into_inner);
        for class in removed {
            known.classes.remove(class);
            pools.remove(class);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares the known names with the database of a new connection, and inserts missing ones. Returns whether names were
    /// missing, or the reason why the connection must not be used.
    pub async fn check(&self, client: &mut Client) -> Result<Result<bool, String>, Error> {
        let mut known = self.known().clone();
        if known.namespaces.is_empty() && known.classes.is_empty() {
            return Ok(Ok(false));
        }
        let removed = known.remove_absent(client).await?;
        self.forget_classes(&removed);
        Ok(match known.compare(client).await? {
            Comparison::Same => Ok(false),
            Comparison::Other(what) => Err(what),
            Comparison::Missing => {
                tracing::warn!("the database has lost classes or namespaces; they are inserted again");
                known.restore(client).await?;
                match known.compare(client).await? {
                    Comparison::Same => Ok(true),
                    Comparison::Missing => {
                        Err("classes or namespaces are missing in the database".to_owned())
                    }
                    Comparison::Other(what) => Err(what),
                }
            }
        })
    }
}

impl Known {
    /// Forgets the classes that the database has removed, and returns them.
    async fn remove_absent(&mut self, client: &Client) -> Result<Vec<i32>, Error> {
        let upto: i32 = client.query_one(&*classes::READ_REMOVAL, &[]).await?.get(0);
        if upto == 0 {
            return Ok(Vec::new());
        }
        let rows = client.query(&*classes::LIST, &[&0_i32]).await?;
        let found: HashSet<i32> = rows.iter().map(|row| row.get(0)).collect();
        let absent = self.classes.range(..=upto).map(|(id, _)| *id);
        let removed: Vec<i32> = absent.filter(|id| !found.contains(id)).collect();
        removed.iter().for_each(|id| drop(self.classes.remove(id)));
        Ok(removed)
    }

    async fn compare(&self, client: &Client) -> Result<Comparison, Error> {
        let rows = client.query(&*namespaces::LIST, &[]).await?;
        let namespaces: HashMap<i32, &str> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let rows = client.query(&*classes::LIST, &[&0_i32]).await?;
        let classes: HashMap<i32, Class> =
            rows.iter().map(classes::decode).map(|(id, class)| (id.0, class)).collect();
        let mut missing = false;
        for (id, name) in &self.namespaces {
            match namespaces.get(id) {
                Some(found) if *found == name.as_str() || is_retired_form(found, name) => {}
                // The namespace was deleted and its name used again, and the database has lost that.
                Some(found) if is_retired_form(name, found) => missing = true,
                Some(found) => {
                    return Ok(Comparison::Other(format!("namespace {id} is {found}, not {name}")));
                }
                None => missing = true,
            }
        }
        for (id, class) in &self.classes {
            match classes.get(id) {
                Some(found) if found == class => {}
                Some(_) => return Ok(Comparison::Other(format!("class {id} is another one"))),
                None => missing = true,
            }
        }
        Ok(if missing { Comparison::Missing } else { Comparison::Same })
    }

    /// Inserts the missing names with their ids. Names or ids that exist are left alone.
    async fn restore(&self, client: &mut Client) -> Result<(), Error> {
        let transaction = client.transaction().await?;
        transaction.batch_execute("lock table namespaces, classes in share row exclusive mode").await?;
        for (id, name) in self.namespaces.iter().filter(|(_, name)| is_retired(name)) {
            let retired = &*namespaces::RESTORE_RETIRED;
            transaction.execute(retired, &[id, &name.as_str()]).await?;
        }
        for (id, name) in &self.namespaces {
            transaction.execute(&*namespaces::RESTORE, &[id, &name.as_str()]).await?;
        }
        transaction.query(&*namespaces::CONTINUE, &[]).await?;
        for (id, class) in &self.classes {
            let capabilities: Vec<&str> = class.capabilities.iter().map(Name::as_str).collect();
            transaction
                .execute(
                    &*classes::RESTORE,
                    &[
                        id,
                        &class.namespace.0,
                        &class.lane.as_str(),
                        &class.kind.as_str(),
                        &capabilities,
                        &class.pool.map(|pool| pool.0),
                    ],
                )
                .await?;
        }
        transaction.commit().await
    }
}
