//! The event log and its window.

use crate::MemoryStore;
use crate::kinds::{Kind, Tables};
use async_trait::async_trait;
use selvedge_core::log::pack;
use selvedge_store::{Entries, Entry, Error, LogLimit, LogStore};

/// Saving appends one entry with all events.
pub(crate) const KIND: Kind = Kind {
    save: |tables, changes, saving| {
        if let Some(event) = changes.events.first() {
            tables.log.push_back((event.at, pack(&changes.events).into()));
            saving.entry = Some(newest(tables));
        }
    },
    ..Kind::EMPTY
};

/// Returns the number of the newest entry.
fn newest(tables: &Tables) -> i64 {
    tables.log_dropped + i64::try_from(tables.log.len()).unwrap_or(i64::MAX)
}

#[async_trait]
impl LogStore for MemoryStore {
    async fn log_page(&self, after: i64, limit: LogLimit) -> Result<Entries, Error> {
        self.read("log_page", |tables, _| {
            let from = after.max(tables.log_dropped);
            let skipped = usize::try_from(from - tables.log_dropped).unwrap_or(usize::MAX);
            let (count, is_full) = limit.cut(tables.log.iter().skip(skipped).map(|(_, body)| body.len()));
            let bodies = tables.log.iter().skip(skipped).take(count).zip(from + 1..);
            let entries: Vec<Entry> =
                bodies.map(|((at, body), number)| Entry { number, at: *at, body: body.clone() }).collect();
            Entries {
                is_full,
                upto: entries.last().map_or(after.min(newest(tables)), |entry| entry.number),
                entries,
                oldest: if tables.log_dropped == 0 { 0 } else { tables.log_dropped + 1 },
            }
        })
        .await
    }

    /// Every entry is a period of its own.
    async fn drop_old_log(&self, keep_ms: i64) -> Result<u64, Error> {
        self.change("drop_old_log", |tables, now| {
            let before = now.minus_ms(keep_ms);
            let old = tables.log.iter().take_while(|(at, _)| *at < before).count();
            tables.log.drain(..old);
            tables.log_dropped += old as i64;
            old as u64
        })
        .await
    }
}
