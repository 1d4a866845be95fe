//! Pages of the records of an execution: signals, steps and frames. A page is bounded in bytes as well as in number.

/// The number of records of the first read of a page. Each further read doubles it, so that a page of large records reads
/// little more than it returns.
const FIRST_READ: u32 = 16;

/// A page of the records of an execution.
#[derive(Clone, Debug)]
pub struct RecordPage<T> {
    /// The records, in the order of their numbers.
    pub items: Vec<T>,
    /// True if the page ends before its limit because its records are large: more may follow.
    pub is_cut: bool,
}

#[derive(Clone, Copy)]
pub(in crate::namespace) struct RecordLimit {
    /// The maximum number of records.
    pub records: u32,
    /// The total size of payloads at which the page ends, in bytes.
    pub bytes: usize,
}

/// A page while it is read.
pub(in crate::namespace) struct PageReader<T> {
    limit: RecordLimit,
    page: RecordPage<T>,
    bytes: usize,
    batch: u32,
    is_complete: bool,
}

impl<T> PageReader<T> {
    pub fn new(limit: RecordLimit) -> Self {
        let page = RecordPage { items: Vec::new(), is_cut: false };
        PageReader { limit, page, bytes: 0, batch: FIRST_READ, is_complete: false }
    }

    /// Returns the number of records to read after the last one; none if the page is complete.
    pub fn wanted(&self) -> Option<u32> {
        let wanted = self.batch.min(self.limit.records - self.page.items.len() as u32);
        (wanted > 0 && !self.is_complete).then_some(wanted)
    }

    /// Returns the last record.
    pub fn last(&self) -> Option<&T> {
        self.page.items.last()
    }

    /// Adds the records that were found. `size` returns the size of a payload.
    pub fn add(&mut self, found: Vec<T>, size: impl Fn(&T) -> usize) {
        self.is_complete = self.wanted().is_none_or(|wanted| found.len() < wanted as usize);
        self.batch = self.batch.saturating_mul(2);
        for item in found {
            if self.bytes >= self.limit.bytes {
                (self.page.is_cut, self.is_complete) = (true, true);
                return;
            }
            self.bytes += size(&item);
            self.page.items.push(item);
        }
    }

    /// Returns the page.
    pub fn finish(self) -> RecordPage<T> {
        self.page
    }
}
