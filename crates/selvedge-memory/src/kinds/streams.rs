//! Streams, their summaries and their frames.

use crate::MemoryStore;
use crate::kinds::{Kind, Saving, Tables};
use async_trait::async_trait;
use selvedge_core::stream::{BEST_EFFORT_MS, Frame, FrameRange, Stream, StreamName};
use selvedge_core::{Changes, Timestamp};
use selvedge_store::{Error, StreamStore};

pub(crate) const KIND: Kind = Kind {
    load: |tables, needs, rows| {
        let streams = needs.streams.keys().chain(needs.summaries.keys());
        rows.streams = streams.filter_map(|name| tables.streams.get(name).cloned()).collect();
    },
    save,
    ..Kind::EMPTY
};

fn save(tables: &mut Tables, changes: &mut Changes, _: &mut Saving) {
    for (id, _) in &changes.executions.deleted {
        let [first, last] = [0, u32::MAX].map(|attempt| StreamName { execution: *id, attempt });
        tables.streams.retain(|name, _| name.execution != *id);
        drop_frames(tables, (first, 0), (last, u32::MAX), |_| true);
    }
    for mut stream in std::mem::take(&mut changes.streams) {
        let stored = tables.streams.remove(&stream.name);
        if let Some(same) = stored.filter(|stored| stored.summary_version == stream.summary_version) {
            stream.summary = same.summary;
        }
        tables.streams.insert(stream.name, stream);
    }
    let frames = std::mem::take(&mut changes.frames).into_iter();
    tables.frames.extend(frames.map(|frame| ((frame.stream, frame.number), frame)));
    for (stream, before) in &changes.unread.frames_dropped {
        drop_frames(tables, (*stream, 0), (*stream, *before), |frame| frame.best_effort);
    }
}

fn drop_frames(
    tables: &mut Tables,
    from: (StreamName, u32),
    before: (StreamName, u32),
    matches: impl Fn(&Frame) -> bool,
) {
    let range = tables.frames.range(from..before).filter(|(_, frame)| matches(frame));
    let dropped: Vec<(StreamName, u32)> = range.map(|(place, _)| *place).collect();
    dropped.iter().for_each(|place| drop(tables.frames.remove(place)));
}

fn is_old(frame: &Frame, now: Timestamp) -> bool {
    frame.best_effort && frame.at.plus_ms(BEST_EFFORT_MS) <= now
}

pub fn has_old_frames(tables: &Tables, now: Timestamp) -> bool {
    tables.frames.values().any(|frame| is_old(frame, now))
}

#[async_trait]
impl StreamStore for MemoryStore {
    async fn frames(&self, stream: StreamName, range: FrameRange, limit: u32) -> Result<Vec<Frame>, Error> {
        self.read("frames", |tables, now| {
            let from = tables.frames.range((stream, range.from)..=(stream, u32::MAX)).map(|(_, frame)| frame);
            let wanted = |frame: &&Frame| {
                range.before.is_none_or(|before| frame.number < before)
                    && !(range.durable && frame.best_effort)
                    && !is_old(frame, now)
            };
            from.filter(wanted).take(limit as usize).cloned().collect()
        })
        .await
    }

    async fn stream(&self, stream: StreamName) -> Result<Option<Stream>, Error> {
        self.read("stream", |tables, _| tables.streams.get(&stream).cloned()).await
    }

    async fn delete_old_frames(&self, limit: u32) -> Result<u64, Error> {
        self.change("delete_old_frames", |tables, now| {
            let old = tables.frames.iter().filter(|(_, frame)| is_old(frame, now)).take(limit as usize);
            let old: Vec<(StreamName, u32)> = old.map(|(place, _)| *place).collect();
            old.iter().for_each(|place| drop(tables.frames.remove(place)));
            old.len() as u64
        })
        .await
    }
}
