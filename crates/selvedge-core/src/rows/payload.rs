//! Payloads as stores return them: small ones come with their rows, and of large ones first only the size.
//!
//! A claim decides by sizes which executions it hands out and which results it carries. The large payloads are read after
//! the decision, and only those that are carried, so the memory of a transaction does not depend on what waits in the
//! store.

use crate::fact::Failure;
use crate::{ExecutionId, Name, Outcome};
use bytes::Bytes;

/// The size of all payloads that come with the rows of one read, in bytes.
const INLINE_TOTAL: usize = 4 * 1024 * 1024;
/// The smallest and largest limit of one such payload, in bytes.
const INLINE_RANGE: (usize, usize) = (512, 64 * 1024);

/// Returns the size up to which a payload comes with its row, in bytes, if one read returns this many rows.
pub fn inline_limit(rows: usize) -> usize {
    (INLINE_TOTAL / rows.max(1)).clamp(INLINE_RANGE.0, INLINE_RANGE.1)
}

/// A payload, or the size of one that is too large to come with its row.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    Whole(Bytes),
    /// The size of the payload, in bytes.
    Size(usize),
}

impl Payload {
    /// Returns the payload, or its size if it is larger than `limit`.
    pub fn within(limit: usize, payload: &Bytes) -> Payload {
        match payload.len() <= limit {
            true => Payload::Whole(payload.clone()),
            false => Payload::Size(payload.len()),
        }
    }

    /// Returns the size, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Payload::Whole(payload) => payload.len(),
            Payload::Size(bytes) => *bytes,
        }
    }

    /// Returns the payload, if it was read.
    pub fn whole(&self) -> Option<&Bytes> {
        match self {
            Payload::Whole(payload) => Some(payload),
            Payload::Size(_) => None,
        }
    }
}

impl From<Bytes> for Payload {
    fn from(payload: Bytes) -> Self {
        Payload::Whole(payload)
    }
}

/// An upstream or a child of a claimed execution, as the claim carries it.
#[derive(Clone, Debug, PartialEq)]
pub struct Relative {
    pub execution: ExecutionId,
    /// The name of its node in the flow.
    pub name: Name,
    /// The outcome; none while the execution is live.
    pub outcome: Option<Outcome>,
    /// The error, if the execution ended with one and the error is not left out.
    pub error: Option<Failure>,
    /// The result, if the execution has one and it is not left out.
    pub result: Option<Bytes>,
    /// True if the error and the result were left out of the claim, because all of them together are too large. They are
    /// read by the id of the execution, or as a page of the relatives.
    pub left_out: bool,
}

/// An upstream or a child as a store returns it. If it is too large to come with its row, error and result are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRelative {
    pub relative: Relative,
    /// The size of the error and the result as they are stored, in bytes. The same whether or not they are left out.
    pub bytes: usize,
}

impl StoredRelative {
    /// Returns a relative with its error and its result.
    pub fn whole(relative: Relative) -> Self {
        let error = relative.error.as_ref().map_or(0, |error| error.message.len());
        let bytes = error + relative.result.as_ref().map_or(0, Bytes::len);
        StoredRelative { relative: Relative { left_out: false, ..relative }, bytes }
    }

    /// Leaves error and result out if they are larger than `limit`.
    pub fn within(mut self, limit: usize) -> Self {
        if self.bytes > limit {
            let relative = &mut self.relative;
            (relative.error, relative.result, relative.left_out) = (None, None, true);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_with_the_rows_of_a_read_is_bounded() {
        for rows in [1, 10, 100, 1000, 8192] {
            assert!(rows * inline_limit(rows) <= INLINE_TOTAL, "{rows} rows");
        }
        assert_eq!((inline_limit(0), inline_limit(1_000_000)), (64 * 1024, 512));
    }
}
