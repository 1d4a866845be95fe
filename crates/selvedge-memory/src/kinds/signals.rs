//! Signals of executions.

use crate::MemoryStore;
use crate::kinds::{Kind, Saving, Tables, after, all, delete_deleted};
use async_trait::async_trait;
use selvedge_core::{Changes, ExecutionId, Needs, Rows, Signal};
use selvedge_store::{Error, SignalReads};

pub(crate) const KIND: Kind = Kind { load, save, ..Kind::EMPTY };

fn load(tables: &Tables, needs: &Needs, rows: &mut Rows) {
    let of = |id: &ExecutionId| tables.signals.range(all(*id)).map(|(_, signal)| signal);
    for id in &needs.queries.records {
        rows.found.records.push(*id);
        rows.signals.extend(of(id).cloned());
    }
    let without_payload = |signal: &Signal| Signal { payload: None, ..signal.clone() };
    for id in &needs.queries.untaken {
        rows.signals.extend(of(id).filter(|signal| signal.taken.is_none()).map(without_payload));
    }
    for (id, key) in &needs.queries.signal_keys {
        rows.signals.extend(of(id).find(|signal| signal.key.as_ref() == Some(key)).map(without_payload));
    }
}

fn save(tables: &mut Tables, changes: &mut Changes, _: &mut Saving) {
    delete_deleted(&mut tables.signals, changes);
    let written = std::mem::take(&mut changes.signals).into_iter();
    tables.signals.extend(written.map(|signal| ((signal.execution, signal.number), signal)));
    for (execution, number, by) in &changes.unread.signals_taken {
        if let Some(signal) = tables.signals.get_mut(&(*execution, *number)) {
            signal.taken = Some(*by);
        }
    }
}

#[async_trait]
impl SignalReads for MemoryStore {
    async fn signals(&self, of: ExecutionId, number: u32, limit: u32) -> Result<Vec<Signal>, Error> {
        self.read("signals", |tables, _| after(&tables.signals, of, number, limit)).await
    }
}
