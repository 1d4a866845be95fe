//! Streams and their frames.

use super::records;
use crate::PostgresStore;
use crate::connection::{Parameters, as_refs};
use crate::kinds::{Asking, Saving, collect};
use crate::sql::{Micros, array, column, columns, payload, some_payload, statements};
use async_trait::async_trait;
use selvedge_core::stream::{BEST_EFFORT_MS, Frame, FrameKind, FrameRange, Stream, StreamName};
use selvedge_core::{ExecutionId, Name};
use selvedge_store::{Error, StreamStore};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

statements! {
    with {
        stream: stream::list_of("streams"),
        stream_columns: stream::list(),
        stream_types: stream::types(1),
        frame: frame::list(),
        frame_types: frame::types(3),
    }
    DELETE = "streams/delete";
    READ = "streams/read";
    UPSERT = "streams/upsert";
    FRAMES_DELETE = "frames/delete";
    FRAMES_DELETE_BEFORE = "frames/delete_before";
    FRAMES_DELETE_OLD = "frames/delete_old";
    FRAMES_INSERT = "frames/insert";
    FRAMES_LIST = "frames/list";
}

// The columns without the summary document.
columns! {
    stream<'a> of row: &'a Stream {
        execution: Uuid = row.name.execution.0,
        attempt: i32 = row.name.attempt as i32,
        next: i32 = row.next as i32,
        bytes: i64 = row.bytes as i64,
        digest: i64 = row.digest as i64,
        summary_version: i32 = row.summary_version as i32,
    }
}

// The columns without the stream.
columns! {
    frame<'a> of row: &'a Frame {
        number: i32 = row.number as i32,
        kind: i16 = row.kind.code(),
        best_effort: bool = row.best_effort,
        at: Micros = row.at.into(),
        data: &'a [u8] = row.data.as_ref(),
        correlation_id: Option<&'a str> = row.correlation_id.as_ref().map(Name::as_str),
    }
}

/// Reads a stream, whose summary document is behind the other columns.
fn decode(row: &Row) -> Result<Stream, Error> {
    use stream::AT;
    Ok(Stream {
        name: StreamName {
            execution: ExecutionId(row.get(AT.execution)),
            attempt: row.get::<_, i32>(AT.attempt) as u32,
        },
        next: row.get::<_, i32>(AT.next) as u32,
        bytes: row.get::<_, i64>(AT.bytes) as u64,
        digest: row.get::<_, i64>(AT.digest) as u64,
        summary_version: row.get::<_, i32>(AT.summary_version) as u32,
        summary: some_payload(row, stream::COUNT),
    })
}

fn decode_frame(row: &Row, stream: StreamName) -> Result<Frame, Error> {
    use frame::AT;
    let (number, code): (i32, i16) = (row.get(AT.number), row.get(AT.kind));
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
        best_effort: row.get(AT.best_effort),
        at: row.get::<_, Micros>(AT.at).time(),
        data: payload(row, AT.data),
        correlation_id: row.get::<_, Option<&str>>(AT.correlation_id).map(Name::trusted),
    })
}

/// Returns the parameters of `streams/read`: the streams, and whether their summary documents are wanted.
fn names(names: &[StreamName], whole: bool) -> Parameters<'static> {
    vec![array(names, |name| name.execution.0), array(names, |name| name.attempt as i32), Box::new(whole)]
}

pub fn read(asking: &mut Asking<'_>) {
    let needs = asking.needs;
    for (streams, whole) in [(&needs.streams, false), (&needs.summaries, true)] {
        let gather = collect(decode, |rows| &mut rows.streams);
        asking.read(streams, &READ, |streams| names(streams, whole), gather);
    }
}

/// Deletes the streams of deleted executions, with their frames.
pub fn delete(saving: &mut Saving<'_>) {
    records::delete(&DELETE, saving);
    records::delete(&FRAMES_DELETE, saving);
}

/// Saves streams and their new frames, and deletes the best-effort frames that were dropped. The executions are locked,
/// so no other transaction changes the same streams.
pub fn save(saving: &mut Saving<'_>) {
    let changes = saving.changes;
    saving.rows(&changes.streams, &UPSERT, |streams| {
        let mut parameters = stream::arrays(streams);
        parameters.push(column(streams, |stream| stream.summary.as_deref()));
        parameters
    });
    saving.rows(&changes.frames, &FRAMES_INSERT, |frames| {
        let mut parameters = vec![
            array(frames, |frame| frame.stream.execution.0),
            array(frames, |frame| frame.stream.attempt as i32),
        ];
        parameters.extend(frame::arrays(frames));
        parameters
    });
    saving.rows(&changes.unread.frames_dropped, &FRAMES_DELETE_BEFORE, |dropped| {
        vec![
            array(dropped, |(stream, _)| stream.execution.0),
            array(dropped, |(stream, _)| stream.attempt as i32),
            array(dropped, |(_, before)| *before as i32),
        ]
    });
}

#[async_trait]
impl StreamStore for PostgresStore {
    async fn frames(&self, stream: StreamName, range: FrameRange, limit: u32) -> Result<Vec<Frame>, Error> {
        let read = async {
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
            let rows = self.query(&FRAMES_LIST, &parameters).await?;
            rows.iter().map(|row| decode_frame(row, stream)).collect()
        };
        self.meter.measure("frames", read).await
    }

    async fn stream(&self, stream: StreamName) -> Result<Option<Stream>, Error> {
        let parameters = names(&[stream], true);
        self.first("stream", &READ, &as_refs(&parameters), decode).await
    }

    async fn delete_old_frames(&self, limit: u32) -> Result<u64, Error> {
        let limit = i64::from(limit);
        let parameters: [&(dyn ToSql + Sync); 2] = [&BEST_EFFORT_MS, &limit];
        self.meter.measure("delete_old_frames", self.execute(&FRAMES_DELETE_OLD, &parameters)).await
    }
}
