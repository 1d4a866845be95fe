//! A histogram of relaxed atomic counters, and a table of metrics that is read without a lock.

use selvedge_core::rollup::BOUNDS_US;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The upper bounds of the sizes of batches.
const SIZES: [i64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// A histogram with fixed buckets. Adding a value is two relaxed additions.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [i64],
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// The values of a histogram at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The upper bounds of the buckets but the last, which has none.
    pub bounds: Vec<f64>,
    /// The number of values in each bucket.
    pub buckets: Vec<u64>,
    /// The sum of all values.
    pub sum: f64,
}

impl Histogram {
    /// Returns an empty histogram of durations.
    pub fn of_durations() -> Self {
        Self::new(&BOUNDS_US)
    }

    /// Returns an empty histogram of the sizes of batches.
    pub fn of_sizes() -> Self {
        Self::new(&SIZES)
    }

    fn new(bounds: &'static [i64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, buckets, sum: AtomicU64::new(0) }
    }

    /// Adds a value; for a duration, in microseconds. A negative value counts as zero.
    pub fn add(&self, value: i64) {
        let index = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[index].fetch_add(1, Relaxed);
        self.sum.fetch_add(value.max(0) as u64, Relaxed);
    }

    pub fn add_time(&self, time: Duration) {
        self.add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX));
    }

    /// Returns the values; durations in seconds.
    pub fn read(&self) -> Distribution {
        let unit = if std::ptr::eq(self.bounds, BOUNDS_US.as_slice()) { 1e6 } else { 1.0 };
        Distribution {
            bounds: self.bounds.iter().map(|bound| *bound as f64 / unit).collect(),
            buckets: self.buckets.iter().map(|count| count.load(Relaxed)).collect(),
            sum: self.sum.load(Relaxed) as f64 / unit,
        }
    }
}

/// Metrics by a pair of texts. Entries are only added, so looking one up takes no lock. When the table is full, further
/// pairs share one entry.
#[derive(Debug)]
pub struct Slots<V> {
    slots: Box<[OnceLock<Slot<V>>]>,
    rest: V,
}

#[derive(Debug)]
struct Slot<V> {
    key: (Box<str>, Box<str>),
    value: V,
}

impl<V: Default> Slots<V> {
    /// Returns an empty table for this many pairs.
    pub fn new(capacity: usize) -> Self {
        Slots { slots: (0..capacity).map(|_| OnceLock::new()).collect(), rest: V::default() }
    }

    /// Returns the entry of a pair, which is added if it is new.
    pub fn get(&self, first: &str, second: &str) -> &V {
        let hash = fnv(first.bytes().chain([0]).chain(second.bytes()));
        let capacity = self.slots.len();
        for probe in 0..capacity {
            let slot = &self.slots[(hash as usize).wrapping_add(probe) % capacity];
            let found = slot.get_or_init(|| Slot { key: (first.into(), second.into()), value: V::default() });
            if &*found.key.0 == first && &*found.key.1 == second {
                return &found.value;
            }
        }
        &self.rest
    }

    /// Returns all entries, and the entry that pairs beyond the capacity share.
    pub fn read(&self) -> (Vec<(&str, &str, &V)>, &V) {
        let entries = self.slots.iter().filter_map(OnceLock::get);
        (entries.map(|slot| (&*slot.key.0, &*slot.key.1, &slot.value)).collect(), &self.rest)
    }
}

/// The FNV-1a hash of bytes.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_in_the_first_bucket_whose_bound_they_do_not_exceed() {
        let histogram = Histogram::of_durations();
        [-1, 0, 1_000, 1_001, i64::MAX / 4].into_iter().for_each(|micros| histogram.add(micros));
        let read = histogram.read();
        assert_eq!((read.bounds[0], read.bounds.len() + 1), (0.001, read.buckets.len()));
        assert_eq!((read.buckets[0], read.buckets[1], read.buckets[read.bounds.len()]), (3, 1, 1));
    }

    #[test]
    fn pairs_beyond_the_capacity_share_an_entry() {
        let slots: Slots<AtomicU64> = Slots::new(2);
        for (first, second) in [("a", "b"), ("ab", ""), ("a", "b"), ("c", ""), ("d", "")] {
            slots.get(first, second).fetch_add(1, Relaxed);
        }
        let (entries, rest) = slots.read();
        let mut counts: Vec<u64> = entries.iter().map(|(.., count)| count.load(Relaxed)).collect();
        counts.sort_unstable();
        assert_eq!((counts, rest.load(Relaxed)), (vec![1, 2], 2));
    }
}
