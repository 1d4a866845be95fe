//! Streams, their summaries and their frames.

use crate::SqliteStore;
use crate::connection::failure::not_understood;
use crate::kinds::{Kind, Saving};
use crate::row;
use crate::sql::{self, columns, statements};
use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use selvedge_core::stream::{BEST_EFFORT_MS, Frame, FrameKind, FrameRange, Stream, StreamName};
use selvedge_core::{Changes, Name, Needs, Rows};
use selvedge_store::{Error, StreamStore};

pub(crate) const KIND: Kind = Kind {
    columns: &[("stream", stream::LIST), ("frame", frame::LIST)],
    statements: STATEMENTS,
    load,
    save,
    ..Kind::EMPTY
};

statements! {
    FRAMES_DELETE = "frames/delete";
    FRAMES_DELETE_BEFORE = "frames/delete_before";
    FRAMES_DELETE_OLD = "frames/delete_old";
    FRAMES_INSERT = "frames/insert";
    FRAMES_LIST = "frames/list";
    STREAMS_DELETE = "streams/delete";
    STREAMS_RAISE_BEST_EFFORT_FROM = "streams/raise_best_effort_from";
    STREAMS_READ = "streams/read";
    STREAMS_UPSERT = "streams/upsert";
    SUMMARIES_DELETE = "summaries/delete";
    SUMMARIES_UPSERT = "summaries/upsert";
}

// Behind the execution and the attempt.
columns! {
    stream of stream: &Stream {
        next = stream.next,
        bytes = stream.bytes as i64,
        digest = stream.digest as i64,
        summary_version = stream.summary_version,
    }
}

// Behind the execution and the attempt.
columns! {
    frame of frame: &Frame {
        number = frame.number,
        kind = frame.kind.code(),
        best_effort = frame.best_effort,
        at = frame.at.micros(),
        data = &frame.data[..],
        correlation_id = frame.correlation_id.as_ref().map(Name::as_str),
    }
}

fn decode(found: &Row<'_>, name: StreamName) -> rusqlite::Result<Stream> {
    use stream::{AT, COUNT};
    Ok(Stream {
        name,
        next: found.get(AT.next)?,
        bytes: found.get::<_, i64>(AT.bytes)? as u64,
        digest: found.get::<_, i64>(AT.digest)? as u64,
        summary_version: found.get(AT.summary_version)?,
        summary: row::optional_bytes(found, COUNT)?,
    })
}

fn decode_frame(found: &Row<'_>, stream: StreamName) -> rusqlite::Result<Frame> {
    use frame::AT;
    let (number, code) = (found.get(AT.number)?, found.get(AT.kind)?);
    let unknown = || {
        not_understood(&format!(
            "frame {number} of attempt {} of execution {}: unknown kind {code}",
            stream.attempt, stream.execution
        ))
    };
    Ok(Frame {
        stream,
        number,
        kind: FrameKind::from_code(code).ok_or_else(unknown)?,
        best_effort: found.get(AT.best_effort)?,
        at: row::time(found, AT.at)?,
        data: row::bytes(found, AT.data)?,
        correlation_id: row::optional_name(found, AT.correlation_id)?,
    })
}

fn read(connection: &Connection, name: StreamName) -> rusqlite::Result<Option<Stream>> {
    let parameters = params![name.execution.0.as_bytes(), name.attempt];
    sql::row(connection, &STREAMS_READ, parameters, |found| decode(found, name))
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for name in needs.streams.keys().chain(needs.summaries.keys()) {
        rows.streams.extend(read(connection, *name)?);
    }
    Ok(())
}

fn save(connection: &Connection, changes: &Changes, _: &mut Saving) -> rusqlite::Result<Option<String>> {
    for (id, _) in &changes.executions.deleted {
        for statement in [&STREAMS_DELETE, &SUMMARIES_DELETE, &FRAMES_DELETE] {
            sql::execute(connection, statement, [id.0.as_bytes()])?;
        }
    }
    for row in &changes.streams {
        let (execution, attempt) = (row.name.execution.0.as_bytes(), row.name.attempt);
        stream::with(row, |values| {
            sql::execute(connection, &STREAMS_UPSERT, sql::joined(&[&[execution, &attempt], values]))
        })?;
        if let Some(document) = &row.summary {
            let parameters = params![execution, attempt, row.summary_version, &document[..]];
            sql::execute(connection, &SUMMARIES_UPSERT, parameters)?;
        }
    }
    for row in &changes.frames {
        let (execution, attempt) = (row.stream.execution.0.as_bytes(), row.stream.attempt);
        frame::with(row, |values| {
            sql::execute(connection, &FRAMES_INSERT, sql::joined(&[&[execution, &attempt], values]))
        })?;
    }
    for (stream, before) in &changes.unread.frames_dropped {
        for statement in [&FRAMES_DELETE_BEFORE, &STREAMS_RAISE_BEST_EFFORT_FROM] {
            sql::execute(
                connection,
                statement,
                params![stream.execution.0.as_bytes(), stream.attempt, before],
            )?;
        }
    }
    Ok(None)
}

#[async_trait]
impl StreamStore for SqliteStore {
    async fn frames(&self, stream: StreamName, range: FrameRange, limit: u32) -> Result<Vec<Frame>, Error> {
        let before = range.before.map_or(i64::MAX, i64::from);
        // All best-effort frames count as old where only durable ones are wanted.
        let old = if range.durable { i64::MAX } else { self.clock.now().minus_ms(BEST_EFFORT_MS).micros() };
        self.read("frames", move |connection| {
            let (execution, attempt) = (stream.execution.0.as_bytes(), stream.attempt);
            let parameters = params![execution, attempt, range.from, before, old, limit];
            sql::rows(connection, &FRAMES_LIST, parameters, |found| decode_frame(found, stream))
        })
        .await
    }

    async fn stream(&self, name: StreamName) -> Result<Option<Stream>, Error> {
        self.read("stream", move |connection| read(connection, name)).await
    }

    async fn delete_old_frames(&self, limit: u32) -> Result<u64, Error> {
        self.write("delete_old_frames", move |connection, now| {
            let old = now.minus_ms(BEST_EFFORT_MS).micros();
            sql::execute(connection, &FRAMES_DELETE_OLD, params![old, limit])
        })
        .await
    }
}
