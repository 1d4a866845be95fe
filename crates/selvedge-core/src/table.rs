//! Tables: the rows of one kind that a transaction asks for, works on and writes.
//!
//! A rule asks for rows by key, each with an [`Access`]: that is a [`Request`]. The store answers with rows, which go
//! into a `Table`. Once the rules are decided, the table becomes writes: [`Guarded`] if rows have versions,
//! [`Entries`] if they have none.

use crate::kinds::Tables;
use std::collections::hash_map::Entry as MapEntry;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::ops::RangeBounds;

/// The access of a transaction to a row, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Read without a lock.
    Read,
    /// Locked and read, unless another transaction holds the lock.
    LockIfFree,
    /// Locked, but not read: the transaction has the row from the lease cache.
    Cached,
    /// Locked and read, waiting for the lock.
    Lock,
}

impl Access {
    /// Reports whether a row that was loaded with this access need not be loaded again with `other`. A row that was to
    /// be locked if free may have been skipped, so it still has to be read.
    fn covers(self, other: Access) -> bool {
        match (self, other) {
            (Access::Lock | Access::Cached, _) => true,
            (Access::LockIfFree, other) => other == Access::LockIfFree,
            (Access::Read, other) => other == Access::Read,
        }
    }
}

/// The rows of one kind that a transaction asks for, each with its access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<K>(Vec<(K, Access)>);

impl<K> Default for Request<K> {
    fn default() -> Self {
        Request(Vec::new())
    }
}

impl<K: Ord + Clone> Request<K> {
    /// Returns a request to read rows without locks.
    pub fn reading(keys: impl IntoIterator<Item = K>) -> Self {
        Request::default().and(Access::Read, keys)
    }

    /// Returns a request to lock rows.
    pub fn locking(keys: impl IntoIterator<Item = K>) -> Self {
        Request::default().and(Access::Lock, keys)
    }

    /// Adds rows to the request, and returns it.
    pub fn and(mut self, access: Access, keys: impl IntoIterator<Item = K>) -> Self {
        self.add(access, keys);
        self
    }

    /// Asks for rows with this access.
    pub fn add(&mut self, access: Access, keys: impl IntoIterator<Item = K>) {
        self.0.extend(keys.into_iter().map(|key| (key, access)));
    }

    /// Asks to read rows without locks.
    pub fn read(&mut self, keys: impl IntoIterator<Item = K>) {
        self.add(Access::Read, keys);
    }

    /// Asks to lock rows.
    pub fn lock(&mut self, keys: impl IntoIterator<Item = K>) {
        self.add(Access::Lock, keys);
    }

    /// Asks to lock rows, skipping those that another transaction has locked.
    pub fn lock_if_free(&mut self, keys: impl IntoIterator<Item = K>) {
        self.add(Access::LockIfFree, keys);
    }

    /// Asks to lock, without reading them, rows that the transaction has from the lease cache.
    pub fn cached(&mut self, keys: impl IntoIterator<Item = K>) {
        self.add(Access::Cached, keys);
    }

    /// Returns the keys with this access, in the order of the request.
    pub fn with(&self, access: Access) -> Vec<K> {
        self.iter(access).cloned().collect()
    }

    /// Iterates over the keys with this access.
    pub fn iter(&self, access: Access) -> impl Iterator<Item = &K> + Clone {
        self.0.iter().filter(move |(_, asked)| *asked == access).map(|(key, _)| key)
    }

    /// Iterates over all keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> + Clone {
        self.0.iter().map(|(key, _)| key)
    }

    /// Iterates over the keys of the rows that the store returns: all but the cached ones.
    pub fn returned(&self) -> impl Iterator<Item = &K> + Clone {
        self.0.iter().filter(|(_, access)| *access != Access::Cached).map(|(key, _)| key)
    }

    /// Reports whether a row is asked for with this access.
    pub fn has(&self, access: Access) -> bool {
        self.iter(access).next().is_some()
    }

    /// Reports whether the request locks any row.
    pub fn has_locks(&self) -> bool {
        self.0.iter().any(|(_, access)| *access > Access::Read)
    }

    /// Reports whether the request is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of rows asked for.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps the rows for which `keeps` returns true.
    pub fn retain(&mut self, mut keeps: impl FnMut(&K, Access) -> bool) {
        self.0.retain(|(key, access)| keeps(key, *access));
    }

    /// Moves the rows to lock from `other` to this request.
    pub fn take_locks(&mut self, other: &mut Request<K>) {
        let (locked, read) =
            std::mem::take(&mut other.0).into_iter().partition(|(_, access)| *access > Access::Read);
        other.0 = read;
        let mut locked: Vec<_> = locked;
        self.0.append(&mut locked);
    }

    /// Takes all rows out of the request, in key order.
    pub fn take_sorted(&mut self) -> Request<K> {
        let mut taken = std::mem::take(&mut self.0);
        taken.sort_unstable();
        Request(taken)
    }

    /// Replaces the access `from` by `to` for every row.
    pub fn weaken(&mut self, from: Access, to: Access) {
        self.0.iter_mut().filter(|(_, access)| *access == from).for_each(|(_, access)| *access = to);
    }

    /// Drops the rows that `granted` covers, and adds the rest to `granted`. Both requests are in key order afterwards.
    pub fn only_new(&mut self, granted: &mut Request<K>) {
        if self.0.is_empty() {
            return;
        }
        self.0.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        self.0.dedup_by(|weaker, stronger| weaker.0 == stronger.0 && stronger.1.covers(weaker.1));
        if granted.0.is_empty() {
            granted.0.clone_from(&self.0);
            return;
        }
        self.0.retain(|(key, access)| !granted.accesses(key).any(|had| had.covers(*access)));
        if !self.0.is_empty() {
            granted.0.retain(|(key, had)| !self.accesses(key).any(|new| new.covers(*had)));
            granted.0.extend(self.0.iter().cloned());
            granted.0.sort_unstable();
        }
    }

    /// Iterates over the accesses with which a row is asked for. The request must be in key order.
    pub fn accesses(&self, key: &K) -> impl Iterator<Item = Access> {
        let from = self.0.partition_point(|(asked, _)| asked < key);
        self.0[from..].iter().take_while(move |(asked, _)| asked == key).map(|(_, access)| *access)
    }

    /// Reports whether a row was to be locked. A row that was to be locked if free may have been skipped instead. The
    /// request must be in key order.
    pub fn locks(&self, key: &K) -> bool {
        self.accesses(key).any(|access| access > Access::Read)
    }
}

/// A kind of row, by the type of its rows. The list in [`kinds`](crate::kinds) implements it.
pub(crate) trait Kind: Debug {
    type Key: Clone + Debug + Ord + Hash;

    /// State that a transaction keeps about a row besides its columns.
    type Extra: Debug + Default;

    /// Keeps the keys in order, so that rules can read by range. Default: false.
    const ORDERED: bool = false;

    /// Returns the key of the row.
    fn key(&self) -> Self::Key;

    /// Returns the version of the row. Default: 0, for rows without versions.
    fn version(&self) -> u32 {
        0
    }

    /// Returns the table of this kind.
    fn table(tables: &Tables) -> &Table<Self>
    where
        Self: Sized;

    /// Returns the table of this kind, for changing it.
    fn table_mut(tables: &mut Tables) -> &mut Table<Self>
    where
        Self: Sized;
}

/// A kind whose rows a rule may write without further steps: no history, no counts, no slots depend on them.
pub(crate) trait Plain: Kind {}

/// A row in a transaction.
#[derive(Debug)]
pub(crate) struct Entry<R: Kind> {
    /// The row as the transaction leaves it.
    pub row: R,
    /// State about the row besides its columns. Kept when the row is loaded again.
    pub extra: R::Extra,
    /// The version in the store; none for a new row.
    stored: Option<u32>,
    change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    Written,
    Deleted,
}

impl<R: Kind> Entry<R> {
    fn new(row: R, stored: Option<u32>, change: Change) -> Box<Self> {
        // Boxed, because rows are large and are moved often.
        Box::new(Entry { row, extra: R::Extra::default(), stored, change })
    }

    /// Returns the version in the store; none for a new row.
    pub fn stored(&self) -> Option<u32> {
        self.stored
    }

    /// Reports whether the row is as it was loaded.
    pub fn is_unchanged(&self) -> bool {
        self.change == Change::None
    }

    /// Reports whether the transaction deletes the row.
    pub fn is_deleted(&self) -> bool {
        self.change == Change::Deleted
    }

    /// Reports whether the transaction inserts the row.
    pub fn is_new(&self) -> bool {
        self.stored.is_none()
    }
}

/// The rows of one kind in a transaction: as they were loaded, and as the rules leave them.
///
/// Rows are found by hash, because a transaction finds each of them many times.
#[derive(Debug)]
pub(crate) struct Table<R: Kind> {
    entries: HashMap<R::Key, Box<Entry<R>>>,
    /// The keys in order, of a table that is read by range.
    order: Option<BTreeSet<R::Key>>,
}

impl<R: Kind> Default for Table<R> {
    fn default() -> Self {
        Table { entries: HashMap::new(), order: R::ORDERED.then(BTreeSet::new) }
    }
}

impl<R: Kind> Table<R> {
    fn place(&mut self, key: R::Key) -> MapEntry<'_, R::Key, Box<Entry<R>>> {
        if let Some(order) = &mut self.order {
            order.insert(key.clone());
        }
        self.entries.entry(key)
    }

    /// Adds a loaded row, and returns its entry. Returns none and keeps the row as it is if this transaction has
    /// changed it. A row that is loaded again replaces the earlier one: it may have been locked only now.
    pub fn load(&mut self, row: R) -> Option<&mut Entry<R>> {
        let stored = Some(row.version());
        match self.place(row.key()) {
            MapEntry::Vacant(place) => Some(place.insert(Entry::new(row, stored, Change::None))),
            MapEntry::Occupied(place) => {
                let entry = place.into_mut();
                if !entry.is_unchanged() {
                    return None;
                }
                (entry.row, entry.stored) = (row, stored);
                Some(entry)
            }
        }
    }

    /// Returns the entry of a row, deleted or not.
    pub fn entry(&self, key: &R::Key) -> Option<&Entry<R>> {
        self.entries.get(key).map(|entry| &**entry)
    }

    /// Returns a row that is not deleted.
    pub fn get(&self, key: &R::Key) -> Option<&R> {
        self.entry(key).filter(|entry| !entry.is_deleted()).map(|entry| &entry.row)
    }

    /// Returns the entry of a row, deleted or not, for changing its `extra`. Does not mark the row as written.
    pub fn entry_mut(&mut self, key: &R::Key) -> Option<&mut Entry<R>> {
        self.entries.get_mut(key).map(|entry| &mut **entry)
    }

    /// Returns the entry of a row, deleted or not, for changing it. Marks the row as written.
    pub fn change(&mut self, key: &R::Key) -> Option<&mut Entry<R>> {
        let entry = self.entries.get_mut(key)?;
        if entry.change == Change::None {
            entry.change = Change::Written;
        }
        Some(entry)
    }

    /// Inserts a row. Returns the stored version of the deleted row that it replaces, if there is one.
    pub fn insert(&mut self, row: R, extra: R::Extra) -> Option<u32> {
        let mut entry = Entry::new(row, None, Change::Written);
        entry.extra = extra;
        match self.place(entry.row.key()) {
            MapEntry::Vacant(place) => {
                place.insert(entry);
                None
            }
            MapEntry::Occupied(mut place) => place.insert(entry).stored,
        }
    }

    /// Inserts or updates a row.
    pub fn put(&mut self, row: R) {
        match self.place(row.key()) {
            MapEntry::Vacant(place) => {
                place.insert(Entry::new(row, None, Change::Written));
            }
            MapEntry::Occupied(mut place) => {
                let entry = place.get_mut();
                (entry.row, entry.change) = (row, Change::Written);
            }
        }
    }

    /// Deletes a row, and returns it.
    pub fn delete(&mut self, key: &R::Key) -> Option<&R> {
        let entry = self.entries.get_mut(key)?;
        entry.change = Change::Deleted;
        Some(&entry.row)
    }

    /// Drops rows as if they had never been loaded or written.
    pub fn forget(&mut self, mut drops: impl FnMut(&R) -> bool) {
        self.entries.retain(|_, entry| !drops(&entry.row));
        if let Some(order) = &mut self.order {
            order.retain(|key| self.entries.contains_key(key));
        }
    }

    /// Reports whether a row is loaded or new, deleted or not.
    pub fn contains(&self, key: &R::Key) -> bool {
        self.entries.contains_key(key)
    }

    /// Iterates over the rows that are not deleted, in no order.
    pub fn rows(&self) -> impl Iterator<Item = &R> {
        let entries = self.entries.values().filter(|entry| !entry.is_deleted());
        entries.map(|entry| &entry.row)
    }

    /// Iterates over the rows in a range of keys that are not deleted, in key order. For tables that are [ordered](Kind::ORDERED).
    pub fn range(&self, range: impl RangeBounds<R::Key>) -> impl DoubleEndedIterator<Item = &R> {
        let order = self.order.as_ref().expect("a table that is read by range is ordered");
        order.range(range).filter_map(|key| self.get(key))
    }

    /// Returns all entries, in key order.
    pub fn into_all(self) -> impl Iterator<Item = (R::Key, Entry<R>)> {
        self.into_sorted(|_| true)
    }

    /// Returns the entries that this transaction has changed, in key order.
    pub fn into_changed(self) -> impl Iterator<Item = (R::Key, Entry<R>)> {
        self.into_sorted(|entry| !entry.is_unchanged())
    }

    fn into_sorted(self, keeps: impl Fn(&Entry<R>) -> bool) -> impl Iterator<Item = (R::Key, Entry<R>)> {
        let mut entries: Vec<_> = self.entries.into_iter().filter(|(_, entry)| keeps(entry)).collect();
        // Sorted while they are boxed: rows are large.
        entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        entries.into_iter().map(|(key, entry)| (key, *entry))
    }

    /// Returns the rows that this transaction has written, in key order.
    pub fn into_written(self) -> Vec<R> {
        self.into_changed().filter(|(_, entry)| !entry.is_deleted()).map(|(_, entry)| entry.row).collect()
    }

    /// Returns the rows that this transaction has written and the keys of the rows it has deleted, each in key order.
    /// For rows without versions.
    pub fn into_entries(self) -> Entries<R, R::Key> {
        let mut entries = Entries::default();
        for (key, entry) in self.into_changed() {
            match entry.is_deleted() {
                true => entries.removed.push(key),
                false => entries.written.push(entry.row),
            }
        }
        entries
    }

    /// Returns the writes to rows with versions, in key order. A row that was inserted and deleted again needs no
    /// write.
    pub fn into_guarded(self) -> Guarded<R, (R, u32), R::Key> {
        let mut writes = Guarded::default();
        for (key, entry) in self.into_changed() {
            match (entry.stored, entry.is_deleted()) {
                (Some(version), true) => writes.deleted.push((key, version)),
                (None, true) => {}
                (None, false) => writes.inserted.push(entry.row),
                (Some(version), false) => writes.updated.push((entry.row, version)),
            }
        }
        writes
    }
}

/// Writes to a table whose rows have versions, each list in key order. The store checks that an inserted row does not
/// exist, and that an updated or deleted row still has its expected version.
#[derive(Clone, Debug, PartialEq)]
pub struct Guarded<I, U, K> {
    pub inserted: Vec<I>,
    /// Changed rows, with the version that is expected in the store.
    pub updated: Vec<U>,
    /// Keys of deleted rows, with the version that is expected in the store. Rows are deleted before any is inserted.
    pub deleted: Vec<(K, u32)>,
}

impl<I, U, K> Default for Guarded<I, U, K> {
    fn default() -> Self {
        Guarded { inserted: Vec::new(), updated: Vec::new(), deleted: Vec::new() }
    }
}

impl<I, U, K> Guarded<I, U, K> {
    /// Returns writes that only insert.
    pub fn inserting(rows: impl IntoIterator<Item = I>) -> Self {
        Guarded { inserted: rows.into_iter().collect(), ..Guarded::default() }
    }

    /// Returns writes that only update.
    pub fn updating(rows: impl IntoIterator<Item = U>) -> Self {
        Guarded { updated: rows.into_iter().collect(), ..Guarded::default() }
    }

    /// Returns writes that only delete.
    pub fn deleting(keys: impl IntoIterator<Item = (K, u32)>) -> Self {
        Guarded { deleted: keys.into_iter().collect(), ..Guarded::default() }
    }

    /// Reports whether nothing is written.
    pub fn is_empty(&self) -> bool {
        let Guarded { inserted, updated, deleted } = self;
        inserted.is_empty() && updated.is_empty() && deleted.is_empty()
    }
}

impl<R, K> Guarded<R, (R, u32), K> {
    /// Iterates over the rows that are inserted or updated.
    pub fn written(&self) -> impl Iterator<Item = &R> {
        self.versioned().map(|(row, _)| row)
    }

    /// Iterates over the rows that are inserted or updated, with the expected version; none for a new row.
    pub fn versioned(&self) -> impl Iterator<Item = (&R, Option<u32>)> {
        let updated = self.updated.iter().map(|(row, expected)| (row, Some(*expected)));
        self.inserted.iter().map(|row| (row, None)).chain(updated)
    }

    /// Returns writes that insert the rows without an expected version, and update the others.
    pub fn writing(rows: impl IntoIterator<Item = (R, Option<u32>)>) -> Self {
        let mut writes = Guarded::default();
        for (row, expected) in rows {
            match expected {
                None => writes.inserted.push(row),
                Some(version) => writes.updated.push((row, version)),
            }
        }
        writes
    }
}

/// Writes to a table whose rows have no versions, in key order.
#[derive(Clone, Debug, PartialEq)]
pub struct Entries<R, K> {
    /// Rows to insert or update.
    pub written: Vec<R>,
    /// Keys of rows to delete, before any row is written.
    pub removed: Vec<K>,
}

impl<R, K> Default for Entries<R, K> {
    fn default() -> Self {
        Entries { written: Vec::new(), removed: Vec::new() }
    }
}

impl<R, K> Entries<R, K> {
    /// Returns writes that delete nothing.
    pub fn writing(rows: impl IntoIterator<Item = R>) -> Self {
        Entries { written: rows.into_iter().collect(), removed: Vec::new() }
    }

    /// Returns writes that only delete.
    pub fn removing(keys: impl IntoIterator<Item = K>) -> Self {
        Entries { written: Vec::new(), removed: keys.into_iter().collect() }
    }

    /// Reports whether nothing is written.
    pub fn is_empty(&self) -> bool {
        let Entries { written, removed } = self;
        written.is_empty() && removed.is_empty()
    }
}
