//! The record of an execution: everything that its page shows, with few reads of the store.
//!
//! The row is read first, once. It says what else exists: records that the execution does not have are not read, and the other
//! reads run at once.

use super::record_pages::RecordLimit;
use super::streams::{Frames, PAGE_BYTES};
use super::{ReadHistory, View};
use crate::Error;
use crate::namespace::{Namespace, PublicEvent};
use selvedge_core::explain::{Explanation, is_paused};
use selvedge_core::filter::Payloads;
use selvedge_core::gate::draws::lane_gate;
use selvedge_core::history::HistoryLine;
use selvedge_core::stream::StreamName;
use selvedge_core::{Execution, ExecutionId, Signal, State, Step, Timestamp, Waitpoint};
use tokio::try_join;

/// An execution with its payloads and everything that belongs to it. All parts are as old as the row, or newer.
#[derive(Clone, Debug)]
pub struct ExecutionRecord {
    pub view: View,
    /// The store's time.
    pub now: Timestamp,
    pub explanation: Explanation,
    /// The events of the history, oldest first.
    pub events: Vec<PublicEvent>,
    /// The lines of the history, oldest first.
    pub lines: Vec<HistoryLine>,
    /// In the order of their records, up to the limit of the call.
    pub steps: Vec<Step>,
    /// Oldest first, up to the limit of the call.
    pub signals: Vec<Signal>,
    /// Oldest first, up to the limit of the call.
    pub waitpoints: Vec<Waitpoint>,
    /// The last frames of the newest attempt; none before the first attempt.
    pub frames: Option<Frames>,
}

impl Namespace {
    /// Returns the record of an execution, with at most `records` steps, signals and waitpoints each, and at most `frames`
    /// frames. An unreadable line of the history fails the call.
    pub async fn record(&self, id: ExecutionId, records: u32, frames: u32) -> Result<ExecutionRecord, Error> {
        let mut view = self.view_row(self.stored(id, Payloads::ALL).await?).await?;
        let (gates, now) = try_join!(self.gates_around(&view), self.now())?;
        let lane = lane_gate(self.id(), &view.class.lane);
        view.lane_is_paused = view.stored.execution.state == State::Waiting
            && gates.iter().any(|gate| gate.name == lane && is_paused(gate));
        let row = &view.stored.execution;
        let has = &row.detail.record;
        let (explanation, pages, steps, signals, waitpoints, frames) = try_join!(
            self.explain_view(&view, &gates, now),
            self.history_pages(row),
            self.steps_after(id, 0, records.min(has.steps)),
            self.signals_after(id, 0, records.min(has.signals)),
            self.first_waitpoints(id, records.min(has.waitpoints)),
            self.last_frames(row, frames),
        )?;
        let history = ReadHistory::new(row, pages);
        history.check(id)?;
        let events = self.public_history(row, &history);
        let (steps, signals, lines) = (steps.items, signals.items, history.lines);
        Ok(ExecutionRecord { view, now, explanation, events, lines, steps, signals, waitpoints, frames })
    }

    async fn first_waitpoints(&self, id: ExecutionId, limit: u32) -> Result<Vec<Waitpoint>, Error> {
        match limit {
            0 => Ok(Vec::new()),
            _ => Ok(self.inner().store.waitpoints(id, 0, limit).await?),
        }
    }

    /// Reads the last frames of the newest attempt.
    async fn last_frames(&self, row: &Execution, limit: u32) -> Result<Option<Frames>, Error> {
        let Some(attempt) = row.epoch.checked_sub(1) else { return Ok(None) };
        let name = StreamName { execution: row.id, attempt };
        let next = self.inner().store.stream(name).await?.map_or(0, |stream| stream.next);
        let limit = RecordLimit { records: limit, bytes: PAGE_BYTES };
        let first = next.saturating_sub(limit.records);
        Ok(Some(self.read_frames(name, first.into(), limit, row.state.lease().is_none()).await?))
    }
}
