//! Lists of executions, read in bounded steps.
//!
//! A store scans the index that is narrowest for a filter, reads the rows whose columns can match, and keeps those that
//! do. [`ListScan`] says what to scan and to read next, and when the page ends: when it is full, at the end of the list,
//! or after [`SCAN_MAX`] entries of the index or [`READ_MAX`] rows, so that a filter with few matches never scans a whole
//! table in one call.
//! The page then says where to continue. A page also ends when its rows have [`PAGE_BYTES`]. Rows are read without payloads;
//! the payloads that were asked for are read at the end, for the rows of the page of which they fit.

use crate::Stored;
use selvedge_core::filter::{Filter, ListPosition, Listed};
use selvedge_core::{Execution, ExecutionId};
use std::cmp::Reverse;
use std::collections::HashMap;

/// The most entries of an index that one page scans, unless the page has room for more rows than that.
pub const SCAN_MAX: usize = 10_000;
/// The most rows that one page reads to compare what no index has, unless the page has room for more rows than that.
pub const READ_MAX: usize = 1_000;
/// The most executions that a count visits where no index has its conditions: the newest ones.
pub const COUNT_SCAN_MAX: usize = 20_000;
/// The size from which on a page ends, in bytes: of its rows, and of their payloads.
pub const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// The smallest and largest number of entries per scan. The first scans are small, because most filters match often.
const CHUNK: (usize, usize) = (100, 4000);
/// The smallest and largest number of rows that are read at a time.
const GROUP: (usize, usize) = (16, 128);

/// Returns the first items, up to the one with which they have [`PAGE_BYTES`] together.
pub fn within_page<T>(
    items: impl IntoIterator<Item = T>,
    size: impl Fn(&T) -> usize,
) -> impl Iterator<Item = T> {
    let mut bytes = 0_usize;
    items.into_iter().take_while(move |item| {
        let fits = bytes < PAGE_BYTES;
        bytes = bytes.saturating_add(size(item));
        fits
    })
}

#[derive(Clone, Debug, Default)]
pub struct ListPage {
    /// The executions, newest first.
    pub rows: Vec<Stored>,
    /// The position to continue from, if the page ended before the list did.
    pub next: Option<ListPosition>,
}

impl ListPage {
    /// Drops the rows whose payloads do not fit on the page, and returns the ids of the others. `sizes` are the sizes of
    /// the payloads.
    pub fn cut(&mut self, sizes: &[(ExecutionId, u64)]) -> Vec<ExecutionId> {
        let sizes: HashMap<ExecutionId, u64> = sizes.iter().copied().collect();
        let size = |id: &ExecutionId| sizes.get(id).map_or(0, |size| *size as usize);
        let ids: Vec<ExecutionId> = self.rows.iter().map(|stored| stored.execution.id).collect();
        let ids: Vec<ExecutionId> = within_page(ids, size).collect();
        if ids.len() < self.rows.len() {
            self.rows.truncate(ids.len());
            self.next = self.rows.last().map(position);
        }
        ids
    }

    /// Replaces the rows by these, which were read again with their payloads. Rows that no longer match are left out.
    pub fn with_rows(self, filter: &Filter, rows: Vec<Stored>) -> ListPage {
        ListPage { rows: matching(filter, rows), ..self }
    }
}

/// The state of a list while it is read.
pub struct ListScan<'a> {
    filter: &'a Filter,
    limit: usize,
    /// The position after which the next scan begins.
    after: Option<ListPosition>,
    scanned: usize,
    /// The number of rows that were to be read.
    read: usize,
    /// The last entry whose row is read, if the rest of its scan is left for the next page.
    cut: Option<ListPosition>,
    chunk: usize,
    page: ListPage,
    /// The size of the rows of the page.
    bytes: usize,
    ended: bool,
}

impl<'a> ListScan<'a> {
    /// Starts a page of at most `limit` rows.
    pub fn new(filter: &'a Filter, after: Option<ListPosition>, limit: u32) -> Self {
        let limit = limit as usize;
        let chunk = limit.clamp(CHUNK.0, CHUNK.1);
        let page = ListPage::default();
        ListScan {
            filter,
            limit,
            after,
            scanned: 0,
            read: 0,
            cut: None,
            chunk,
            page,
            bytes: 0,
            ended: limit == 0,
        }
    }

    /// Returns true if the page is complete.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns the position after which the next scan begins, and the number of entries to scan.
    pub fn next_scan(&self) -> (Option<ListPosition>, u32) {
        (self.after, self.chunk as u32)
    }

    /// Takes the entries of a scan, in order, and returns the rows to read, in groups.
    pub fn groups(&mut self, entries: &[Listed]) -> Vec<Vec<ExecutionId>> {
        let candidates = entries.iter().filter(|listed| self.filter.may_match(listed));
        let mut candidates: Vec<ListPosition> = candidates.map(|listed| listed.position).collect();
        let left = READ_MAX.max(self.limit).saturating_sub(self.read);
        if candidates.len() > left {
            candidates.truncate(left);
            self.cut = candidates.last().copied().or(self.after);
        }
        self.read += candidates.len();
        let candidates: Vec<ExecutionId> = candidates.iter().map(|position| position.id).collect();
        let wanted = (self.limit - self.page.rows.len()).clamp(GROUP.0, GROUP.1);
        let (first, rest) = candidates.split_at(wanted.min(candidates.len()));
        let groups = std::iter::once(first).chain(rest.chunks(GROUP.1));
        groups.filter(|group| !group.is_empty()).map(<[ExecutionId]>::to_vec).collect()
    }

    /// Adds the matching rows of a group. Returns true if the page is full.
    pub fn add(&mut self, rows: Vec<Stored>) -> bool {
        for stored in matching(self.filter, rows) {
            self.bytes += size(&stored);
            self.page.rows.push(stored);
            if self.page.rows.len() == self.limit || self.bytes >= PAGE_BYTES {
                self.page.next = self.page.rows.last().map(position);
                self.ended = true;
                break;
            }
        }
        self.ended
    }

    /// Ends the scan of `entries`, whose rows were all added.
    pub fn advance(&mut self, entries: &[Listed]) {
        if let Some(cut) = self.cut {
            self.page.next = Some(cut);
            self.ended = true;
            return;
        }
        self.scanned += entries.len();
        self.after = entries.last().map(|listed| listed.position).or(self.after);
        let left = SCAN_MAX.max(self.limit).saturating_sub(self.scanned);
        if entries.len() < self.chunk {
            self.ended = true;
        } else if left == 0 {
            self.page.next = self.after;
            self.ended = true;
        }
        self.chunk = (self.chunk * 4).min(CHUNK.1).min(left);
    }

    /// Returns the page, without payloads.
    pub fn page(self) -> ListPage {
        self.page
    }
}

/// Returns the rows that match, newest first.
fn matching(filter: &Filter, mut rows: Vec<Stored>) -> Vec<Stored> {
    rows.retain(|stored| filter.matches(&stored.execution));
    rows.sort_by_key(|stored| Reverse(position(stored)));
    rows
}

/// Returns the size of a row without its payloads, as far as callers determine it, in bytes.
fn size(stored: &Stored) -> usize {
    let Execution { detail, history, tags, .. } = &stored.execution;
    let error = detail.error.as_ref().map_or(0, |error| error.message.len());
    let progress =
        detail.progress.as_ref().and_then(|progress| progress.message.as_ref()).map_or(0, String::len);
    let tags: usize = tags.iter().map(|(name, value)| name.len() + value.len()).sum();
    error + progress + tags + history.as_bytes().len()
}

fn position(stored: &Stored) -> ListPosition {
    ListPosition::of(&stored.execution)
}
