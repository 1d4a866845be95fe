//! Lists of executions, read in bounded steps.
//!
//! A store scans the index that is narrowest for a filter, reads the rows whose columns can match, and keeps those that
//! do. [`ListScan`] says what to scan and to read next, and when the page ends: when it is full, at the end of the list,
//! or after [`SCAN_MAX`] entries of the index, so that a filter with few matches never scans a whole table in one call.
//! The page then says where to continue. Rows are read without payloads; the payloads that were asked for are read at
//! the end, for the rows of the page.

use crate::Stored;
use selvedge_core::ExecutionId;
use selvedge_core::filter::{Filter, ListPosition, Listed};
use std::cmp::Reverse;

/// The most entries of an index that one page scans, unless the page has room for more rows than that.
pub const SCAN_MAX: usize = 10_000;
/// The most executions that a count visits where no index has its conditions: the newest ones.
pub const COUNT_SCAN_MAX: usize = 20_000;
/// The size of all payloads from which on a page ends, in bytes.
const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// The number of rows whose payloads are read at a time: together at most 32 MiB.
const PAYLOAD_ROWS: usize = 16;
/// The smallest and largest number of entries per scan. The first scans are small, because most filters match often.
const CHUNK: (usize, usize) = (100, 4000);
/// The smallest and largest number of rows that are read at a time.
const GROUP: (usize, usize) = (16, 500);

/// A page of a list.
#[derive(Clone, Debug, Default)]
pub struct ListPage {
    /// The executions, newest first.
    pub rows: Vec<Stored>,
    /// The position to continue from, if the page ended before the list did.
    pub next: Option<ListPosition>,
}

/// The state of a list while it is read.
pub struct ListScan<'a> {
    filter: &'a Filter,
    limit: usize,
    /// The position after which the next scan begins.
    after: Option<ListPosition>,
    scanned: usize,
    chunk: usize,
    page: ListPage,
    ended: bool,
}

impl<'a> ListScan<'a> {
    /// Starts a page of at most `limit` rows.
    pub fn new(filter: &'a Filter, after: Option<ListPosition>, limit: u32) -> Self {
        let limit = limit as usize;
        let chunk = limit.clamp(CHUNK.0, CHUNK.1);
        ListScan { filter, limit, after, scanned: 0, chunk, page: ListPage::default(), ended: limit == 0 }
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
    pub fn groups(&self, entries: &[Listed]) -> Vec<Vec<ExecutionId>> {
        let candidates = entries.iter().filter(|listed| self.filter.may_match(listed));
        let candidates: Vec<ExecutionId> = candidates.map(|listed| listed.position.id).collect();
        let wanted = (self.limit - self.page.rows.len()).clamp(GROUP.0, GROUP.1);
        let (first, rest) = candidates.split_at(wanted.min(candidates.len()));
        let groups = std::iter::once(first).chain(rest.chunks(GROUP.1));
        groups.filter(|group| !group.is_empty()).map(<[ExecutionId]>::to_vec).collect()
    }

    /// Adds the matching rows of a group. Returns true if the page is full.
    pub fn add(&mut self, rows: Vec<Stored>) -> bool {
        let room = self.limit - self.page.rows.len();
        self.page.rows.extend(matching(self.filter, rows).into_iter().take(room));
        if self.page.rows.len() == self.limit {
            self.page.next = self.page.rows.last().map(position);
            self.ended = true;
        }
        self.ended
    }

    /// Ends the scan of `entries`, whose rows were all added.
    pub fn advance(&mut self, entries: &[Listed]) {
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

/// A page whose payloads are being read.
pub struct PayloadScan<'a> {
    filter: &'a Filter,
    /// The positions of the rows whose payloads were not read yet, oldest first.
    left: Vec<ListPosition>,
    /// The last position of the latest group.
    last: Option<ListPosition>,
    bytes: usize,
    page: ListPage,
}

impl<'a> PayloadScan<'a> {
    /// Starts to read the payloads of a page.
    pub fn new(filter: &'a Filter, page: ListPage) -> Self {
        let left = page.rows.iter().rev().map(position).collect();
        let page = ListPage { rows: Vec::new(), next: page.next };
        PayloadScan { filter, left, last: None, bytes: 0, page }
    }

    /// Returns the rows whose payloads are read next; none at the end of the page.
    pub fn next_group(&mut self) -> Option<Vec<ExecutionId>> {
        if !self.left.is_empty() && self.bytes >= PAGE_BYTES {
            self.page.next = self.last;
            return None;
        }
        let group = self.left.split_off(self.left.len().saturating_sub(PAYLOAD_ROWS));
        self.last = group.first().copied();
        self.last?;
        Some(group.into_iter().rev().map(|position| position.id).collect())
    }

    /// Adds the rows of a group. A row that no longer matches is left out.
    pub fn add(&mut self, rows: Vec<Stored>) {
        let rows = matching(self.filter, rows);
        let size = |stored: &Stored| stored.input.len() + stored.result.as_ref().map_or(0, bytes::Bytes::len);
        self.bytes += rows.iter().map(size).sum::<usize>();
        self.page.rows.extend(rows);
    }

    /// Returns the page with its payloads.
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

fn position(stored: &Stored) -> ListPosition {
    ListPosition::of(&stored.execution)
}
