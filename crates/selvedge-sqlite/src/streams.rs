//! Streams and their frames: read, loaded and saved.

use crate::connection::failure::not_understood;
use crate::{row, sql};
use rusqlite::{Connection, OptionalExtension, Row, params};
use selvedge_core::rows::Changes;
use selvedge_core::stream::{BEST_EFFORT_MS, Frame, FrameKind, FrameRange, Stream, StreamName};
use selvedge_core::{ExecutionId, Name, Timestamp};

/// Returns a stream with its summary, or none if nothing was appended to it.
pub fn read(connection: &Connection, name: StreamName) -> rusqlite::Result<Option<Stream>> {
    connection
        .prepare_cached(&sql::STREAMS_READ)?
        .query_row(params![name.execution.0.as_bytes(), name.attempt], |found| {
            Ok(Stream {
                name,
                next: found.get(0)?,
                bytes: found.get::<_, i64>(1)? as u64,
                digest: found.get::<_, i64>(2)? as u64,
                summary_version: found.get(3)?,
                summary: row::optional_bytes(found, 4)?,
            })
        })
        .optional()
}

/// Returns the first frames of a range of a stream, in order, without best-effort frames that are too old at `now`.
pub fn frames(
    connection: &Connection,
    stream: StreamName,
    range: FrameRange,
    limit: u32,
    now: Timestamp,
) -> rusqlite::Result<Vec<Frame>> {
    let before = range.before.map_or(i64::MAX, i64::from);
    // All best-effort frames count as old where only durable ones are wanted.
    let old = if range.durable { i64::MAX } else { now.minus_ms(BEST_EFFORT_MS).micros() };
    let (execution, attempt) = (stream.execution.0.as_bytes(), stream.attempt);
    connection
        .prepare_cached(&sql::FRAMES_LIST)?
        .query_map(params![execution, attempt, range.from, before, old, limit], |found| frame(found, stream))?
        .collect()
}

fn frame(found: &Row<'_>, stream: StreamName) -> rusqlite::Result<Frame> {
    let (number, code) = (found.get(0)?, found.get(1)?);
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
        best_effort: found.get(2)?,
        at: row::time(found, 3)?,
        data: row::bytes(found, 4)?,
        correlation_id: found.get::<_, Option<String>>(5)?.as_deref().map(Name::trusted),
    })
}

/// Deletes best-effort frames that are too old at `now`. Returns their number.
pub fn delete_old_frames(connection: &Connection, now: Timestamp, limit: u32) -> rusqlite::Result<u64> {
    let old = now.minus_ms(BEST_EFFORT_MS).micros();
    let deleted = connection.prepare_cached(&sql::FRAMES_DELETE_OLD)?.execute(params![old, limit])?;
    Ok(deleted as u64)
}

/// Deletes the streams of an execution, with their frames.
pub fn delete(connection: &Connection, id: ExecutionId) -> rusqlite::Result<()> {
    for statement in [&sql::STREAMS_DELETE, &sql::SUMMARIES_DELETE, &sql::FRAMES_DELETE] {
        connection.prepare_cached(statement)?.execute([id.0.as_bytes()])?;
    }
    Ok(())
}

/// Saves streams and their new frames, and deletes the best-effort frames that were dropped.
pub fn save(connection: &Connection, changes: &Changes) -> rusqlite::Result<()> {
    changes.streams.iter().try_for_each(|stream| write(connection, stream))?;
    for frame in &changes.frames {
        connection.prepare_cached(&sql::FRAMES_INSERT)?.execute(params![
            frame.stream.execution.0.as_bytes(),
            frame.stream.attempt,
            frame.number,
            frame.kind.code(),
            frame.best_effort,
            frame.at.micros(),
            &frame.data[..],
            frame.correlation_id.as_ref().map(Name::as_str),
        ])?;
    }
    for (stream, before) in &changes.unread.frames_dropped {
        for statement in [&sql::FRAMES_DELETE_BEFORE, &sql::STREAMS_RAISE_BEST_EFFORT_FROM] {
            let name = params![stream.execution.0.as_bytes(), stream.attempt, before];
            connection.prepare_cached(statement)?.execute(name)?;
        }
    }
    Ok(())
}

fn write(connection: &Connection, stream: &Stream) -> rusqlite::Result<()> {
    let (execution, attempt) = (stream.name.execution.0.as_bytes(), stream.name.attempt);
    connection.prepare_cached(&sql::STREAMS_UPSERT)?.execute(params![
        execution,
        attempt,
        stream.next,
        stream.bytes as i64,
        stream.digest as i64,
        stream.summary_version,
    ])?;
    if let Some(document) = &stream.summary {
        let version = stream.summary_version;
        connection.prepare_cached(&sql::SUMMARIES_UPSERT)?.execute(params![
            execution,
            attempt,
            version,
            &document[..]
        ])?;
    }
    Ok(())
}
