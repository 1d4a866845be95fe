//! Subscriptions: every event after a cursor, as it is committed, without a gap and without a duplicate.
//!
//! A subscriber that is behind reads the log itself until it has caught up, and then follows the tail of this process.
//! A slow subscriber falls behind and reads the log again; it never delays the tail or another subscriber.

use super::entries::{Position, ReadEntry};
use super::tail::{ENTRIES_PER_READ, Segment};
use crate::namespace::EventSelection;
use crate::{Error, EventFilter, From, Namespace, PublicEvent};
use selvedge_core::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::{Receiver, error::RecvError};

/// The initial retry pause. It doubles with every failed read; the first failure is reported without a pause.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The maximum retry pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// An item of a subscription.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// An event.
    Event(Box<PublicEvent>),
    /// The log cannot be read for now. Every event after the cursor follows when it can be read again.
    Break {
        /// The cursor to resume from.
        cursor: String,
        /// The error of the failed read.
        detail: String,
    },
}

/// A subscription. Ends when it is dropped or the engine shuts down.
pub struct Subscription {
    namespace: Namespace,
    filter: EventFilter,
    since: Option<Timestamp>,
    /// Everything up to this position has been read and is either in `pending` or was already returned or filtered out.
    after: Position,
    /// Events that were read and not yet returned.
    pending: VecDeque<PublicEvent>,
    segments: Receiver<Arc<Segment>>,
    /// True while the subscriber reads the log itself.
    behind: bool,
    pause: Duration,
    /// The cursor of the event that was returned last.
    returned: String,
    /// True once no further event can follow.
    over: bool,
}

impl Namespace {
    /// Subscribes to events. A cursor that is malformed, older than the log or not of this log is refused at once.
    pub async fn subscribe(&self, filter: EventFilter, from: From) -> Result<Subscription, Error> {
        // Subscribes to the tail before it determines the start, so that no entry falls in between.
        let segments = self.inner().tail.subscribe();
        let (after, since) = self.resolve_start(from).await?;
        Ok(Subscription {
            namespace: self.clone(),
            filter,
            since,
            after,
            pending: VecDeque::new(),
            segments,
            behind: true,
            pause: FIRST_PAUSE,
            returned: after.encode(),
            over: false,
        })
    }
}

impl Subscription {
    /// The cursor to resume from: after every event that was returned, and after those that the filter rejected.
    pub fn cursor(&self) -> String {
        if self.pending.is_empty() { self.after.encode() } else { self.returned.clone() }
    }

    /// Returns the next notice. None once the engine has shut down, or once the log has dropped the next entries or has lost
    /// the last one that was read, which a [`Notice::Break`] announces. Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                self.returned.clone_from(&event.cursor);
                return Some(Notice::Event(Box::new(event)));
            }
            if self.over || self.namespace.inner().committer.is_closed() {
                return None;
            }
            let result = if self.behind { self.catch_up().await } else { self.follow().await };
            match result {
                Ok(()) => {}
                Err(Error::Closed) => return None,
                Err(_) if self.namespace.inner().committer.is_closed() => return None,
                Err(error) => {
                    if self.behind && self.pause > FIRST_PAUSE {
                        tokio::time::sleep(self.pause).await;
                    }
                    if self.behind {
                        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                    }
                    self.over = matches!(error, Error::CursorExpired | Error::CursorUnknown);
                    return Some(Notice::Break { cursor: self.cursor(), detail: error.to_string() });
                }
            }
        }
    }

    /// Reads a page of the log.
    async fn catch_up(&mut self) -> Result<(), Error> {
        let read_by_tail = self.namespace.inner().tail.read_upto();
        let page = self.namespace.entries_from(self.after).await?;
        self.pause = FIRST_PAUSE;
        let before = self.after.cursor;
        let full = page.entries.len() == ENTRIES_PER_READ as usize;
        for entry in &page.entries {
            self.take(entry);
        }
        if page.newest_dropped > self.after.cursor.entry {
            self.after = Position::after_dropped(page.newest_dropped);
        }
        // The page may end before a number whose transaction had not ended yet, although the tail has read past it.
        let short = self.after.cursor.entry < read_by_tail;
        self.behind = full || short;
        if short && self.after.cursor == before {
            tokio::time::sleep(FIRST_PAUSE).await;
        }
        Ok(())
    }

    /// Waits for the next segment of the tail.
    async fn follow(&mut self) -> Result<(), Error> {
        match self.segments.recv().await {
            Ok(segment) => match segment.as_ref() {
                // The entries in between were committed before the tail began to read.
                Segment::Read { after, .. } if *after > self.after.cursor.entry => {
                    self.behind = true;
                    Ok(())
                }
                Segment::Read { entries, .. } => {
                    entries.iter().for_each(|entry| self.take(entry));
                    Ok(())
                }
                // The subscriber compares its own position with the log.
                Segment::OtherHistory => {
                    self.behind = true;
                    Ok(())
                }
                // The tail resumes after the last entry it read, so none is missed.
                Segment::Broken(detail) => Err(selvedge_store::Error::Unavailable(detail.clone()).into()),
                Segment::Over => Err(Error::Closed),
            },
            Err(RecvError::Lagged(_)) => {
                self.behind = true;
                Ok(())
            }
            Err(RecvError::Closed) => Err(Error::Closed),
        }
    }

    /// Adds the events of an entry that the subscription selects, and moves the cursor behind the entry.
    fn take(&mut self, entry: &ReadEntry) {
        let selection =
            EventSelection { namespace: self.namespace.id(), filter: &self.filter, since: self.since };
        let selected = selection.public_events(entry, self.after.cursor, self.namespace.name());
        self.pending.extend(selected);
        self.after.pass(entry);
    }
}
