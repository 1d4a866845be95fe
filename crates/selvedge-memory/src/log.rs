//! The event log and its window, and streams with their frames.

use crate::tables::Tables;
use selvedge_core::stream::{BEST_EFFORT_MS, Frame, FrameRange, Stream, StreamName};
use selvedge_core::{ExecutionId, Timestamp};
use selvedge_store::{Entries, Entry, LogLimit};

impl Tables {
    /// Returns the number of the newest entry.
    pub fn newest_entry(&self) -> i64 {
        self.log_dropped + i64::try_from(self.log.len()).unwrap_or(i64::MAX)
    }

    /// Returns a page of the log. A reader that continues after `upto` misses nothing.
    pub fn log_page(&self, after: i64, limit: LogLimit) -> Entries {
        let from = after.max(self.log_dropped);
        let skipped = usize::try_from(from - self.log_dropped).unwrap_or(usize::MAX);
        let (count, is_full) = limit.cut(self.log.iter().skip(skipped).map(|(_, body)| body.len()));
        let bodies = self.log.iter().skip(skipped).take(count).zip(from + 1..);
        let entries: Vec<Entry> =
            bodies.map(|((at, body), number)| Entry { number, at: *at, body: body.clone() }).collect();
        Entries {
            is_full,
            upto: entries.last().map_or(after.min(self.newest_entry()), |entry| entry.number),
            entries,
            oldest: if self.log_dropped == 0 { 0 } else { self.log_dropped + 1 },
        }
    }

    /// Drops the entries before `before` and returns how many. Every entry is a period of its own.
    pub fn drop_log(&mut self, before: Timestamp) -> u64 {
        let old = self.log.iter().take_while(|(at, _)| *at < before).count();
        self.log.drain(..old);
        self.log_dropped += old as i64;
        old as u64
    }

    /// Saves streams and their new frames, and drops superseded best-effort frames.
    pub fn save_streams(&mut self, streams: Vec<Stream>, frames: Vec<Frame>, dropped: &[(StreamName, u32)]) {
        for mut stream in streams {
            let stored = self.streams.remove(&stream.name);
            if let Some(same) = stored.filter(|stored| stored.summary_version == stream.summary_version) {
                stream.summary = same.summary;
            }
            self.streams.insert(stream.name, stream);
        }
        self.frames.extend(frames.into_iter().map(|frame| ((frame.stream, frame.number), frame)));
        for (stream, before) in dropped {
            self.drop_frames((*stream, 0), (*stream, *before), |frame| frame.best_effort);
        }
    }

    /// Deletes the streams of an execution and their frames.
    pub fn take_streams(&mut self, execution: ExecutionId) {
        let [first, last] = [0, u32::MAX].map(|attempt| StreamName { execution, attempt });
        self.streams.retain(|name, _| name.execution != execution);
        self.drop_frames((first, 0), (last, u32::MAX), |_| true);
    }

    fn drop_frames(
        &mut self,
        from: (StreamName, u32),
        before: (StreamName, u32),
        matches: impl Fn(&Frame) -> bool,
    ) {
        let range = self.frames.range(from..before).filter(|(_, frame)| matches(frame));
        let dropped: Vec<(StreamName, u32)> = range.map(|(place, _)| *place).collect();
        dropped.iter().for_each(|place| drop(self.frames.remove(place)));
    }

    pub fn frames_in(&self, stream: StreamName, range: FrameRange, limit: u32, now: Timestamp) -> Vec<Frame> {
        let from = self.frames.range((stream, range.from)..=(stream, u32::MAX)).map(|(_, frame)| frame);
        let wanted = |frame: &&Frame| {
            range.before.is_none_or(|before| frame.number < before)
                && !(range.durable && frame.best_effort)
                && !is_old(frame, now)
        };
        from.filter(wanted).take(limit as usize).cloned().collect()
    }

    pub fn has_old_frames(&self, now: Timestamp) -> bool {
        self.frames.values().any(|frame| is_old(frame, now))
    }

    pub fn delete_old_frames(&mut self, now: Timestamp, limit: u32) -> u64 {
        let old = self.frames.iter().filter(|(_, frame)| is_old(frame, now)).take(limit as usize);
        let old: Vec<(StreamName, u32)> = old.map(|(place, _)| *place).collect();
        old.iter().for_each(|place| drop(self.frames.remove(place)));
        old.len() as u64
    }
}

fn is_old(frame: &Frame, now: Timestamp) -> bool {
    frame.best_effort && frame.at.plus_ms(BEST_EFFORT_MS) <= now
}
