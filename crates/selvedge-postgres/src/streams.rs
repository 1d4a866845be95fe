//! Streams and their frames: read, loaded and saved.

use crate::connection::pipeline::{Parameters, as_refs};
use crate::row::{self, Micros};
use crate::save::{Saving, column};
use crate::{PostgresStore, sql};
use selvedge_core::rows::Changes;
use selvedge_core::stream::{BEST_EFFORT_MS, Frame, FrameKind, FrameRange, Stream, StreamName};
use selvedge_core::{ExecutionId, Name};
use selvedge_store::Error;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

impl PostgresStore {
    pub(crate) async fn read_frames(
        &self,
        stream: StreamName,
        range: FrameRange,
        limit: u32,
    ) -> Result<Vec<Frame>, Error> {
        let Ok(from) = i32::try_from(range.from) else { return Ok(Vec::new()) };
        let before = range.before.and_then(|before| i32::try_from(before).ok()).unwrap_or(i32::MAX);
        let parameters: [&(dyn ToSql + Sync); 7] = [
            &stream.execution.0,
            &(stream.attempt as i32),
            &from,
            &before,
            &range.durable,
            &BEST_EFFORT_MS,
            &i64::from(limit),
        ];
        self.query(&sql::FRAMES_LIST, &parameters).await?.iter().map(|row| frame(row, stream)).collect()
    }

    pub(crate) async fn read_stream(&self, stream: StreamName) -> Result<Option<Stream>, Error> {
        let parameters = names(&[stream], true);
        let rows = self.query(&sql::STREAMS_READ, &as_refs(&parameters)).await?;
        Ok(rows.first().map(found))
    }

    pub(crate) async fn delete_frames(&self, limit: u32) -> Result<u64, Error> {
        self.execute(&sql::FRAMES_DELETE_OLD, &[&BEST_EFFORT_MS, &i64::from(limit)]).await
    }
}

/// Returns the parameters of `streams/read`: the streams, and whether their summary documents are wanted.
pub fn names(names: &[StreamName], whole: bool) -> Parameters<'static> {
    vec![
        Box::new(names.iter().map(|name| name.execution.0).collect::<Vec<Uuid>>()),
        Box::new(names.iter().map(|name| name.attempt as i32).collect::<Vec<i32>>()),
        Box::new(whole),
    ]
}

/// Reads the stream in a row of `streams/read`.
pub fn found(row: &Row) -> Stream {
    Stream {
        name: StreamName { execution: ExecutionId(row.get(0)), attempt: row.get::<_, i32>(1) as u32 },
        next: row.get::<_, i32>(2) as u32,
        bytes: row.get::<_, i64>(3) as u64,
        digest: row.get::<_, i64>(4) as u64,
        summary_version: row.get::<_, i32>(5) as u32,
        summary: row::some_payload(row, 6),
    }
}

/// Reads the frame in a row of `frames/list`.
fn frame(row: &Row, stream: StreamName) -> Result<Frame, Error> {
    let (number, code): (i32, i16) = (row.get(0), row.get(1));
    let unknown = || {
        Error::Failed(format!(
            "frame {number} of attempt {} of execution {}: unknown kind {code}",
            stream.attempt, stream.execution
        ))
    };
    Ok(Frame {
        stream,
        number: number as u32,
        kind: FrameKind::from_code(code).ok_or_else(unknown)?,
        best_effort: row.get(2),
        at: row.get::<_, Micros>(3).time(),
        data: row::payload(row, 4),
        correlation_id: row.get::<_, Option<&str>>(5).map(Name::trusted),
    })
}

/// Deletes the streams of deleted executions, with their frames.
pub fn delete<'a>(changes: &'a Changes, saving: &mut Saving<'a>) {
    for text in [&sql::STREAMS_DELETE, &sql::FRAMES_DELETE] {
        saving.rows(&changes.executions.deleted, text, |rows| vec![column(rows, |(id, _)| id.0)]);
    }
}

/// Saves streams and their new frames, and deletes the best-effort frames that were dropped. The executions are locked,
/// so no other transaction changes the same streams.
pub fn save<'a>(changes: &'a Changes, saving: &mut Saving<'a>) {
    saving.rows(&changes.streams, &sql::STREAMS_UPSERT, |streams| {
        vec![
            column(streams, |stream| stream.name.execution.0),
            column(streams, |stream| stream.name.attempt as i32),
            column(streams, |stream| stream.next as i32),
            column(streams, |stream| stream.bytes as i64),
            column(streams, |stream| stream.digest as i64),
            column(streams, |stream| stream.summary_version as i32),
            column(streams, |stream| stream.summary.as_deref()),
        ]
    });
    saving.rows(&changes.frames, &sql::FRAMES_INSERT, |frames| {
        vec![
            column(frames, |frame| frame.stream.execution.0),
            column(frames, |frame| frame.stream.attempt as i32),
            column(frames, |frame| frame.number as i32),
            column(frames, |frame| frame.kind.code()),
            column(frames, |frame| frame.best_effort),
            column(frames, |frame| Micros::from(frame.at)),
            column(frames, |frame| frame.data.as_ref()),
            column(frames, |frame| frame.correlation_id.as_ref().map(Name::as_str)),
        ]
    });
    saving.rows(&changes.unread.frames_dropped, &sql::FRAMES_DELETE_BEFORE, |dropped| {
        vec![
            column(dropped, |(stream, _)| stream.execution.0),
            column(dropped, |(stream, _)| stream.attempt as i32),
            column(dropped, |(_, before)| *before as i32),
        ]
    });
}
