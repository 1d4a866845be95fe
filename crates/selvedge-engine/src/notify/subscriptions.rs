//! Subscriptions: every event after a cursor, as it is committed, without a gap and without a duplicate.
//!
//! A subscriber that is behind reads the log itself until it has caught up, and then follows the tail of this process.
//! A slow subscriber falls behind and reads the log again; it never delays the tail or another subscriber.

use super::backlog::{Backlog, RunReader, Step};
use super::entries::Position;
use super::tail::Segment;
use crate::namespace::{EventSelection, LogPage};
use crate::{Error, EventFilter, From, Namespace, PublicEvent};
use selvedge_core::Timestamp;
use selvedge_core::log::Cursor;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::broadcast::{Receiver, error::RecvError};

/// The initial retry pause. It doubles with every failed read; the first failure is reported without a pause.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The maximum retry pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// An item of a subscription.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
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
    /// Events of one fact that were not returned yet.
    pending: VecDeque<PublicEvent>,
    unread: Unread,
    segments: Receiver<Segment>,
    /// True while the subscriber reads the log itself.
    behind: bool,
    /// True if the last page had nothing, although there is more: pause before the next.
    stalled: bool,
    pause: Duration,
    /// The cursor of the event that was returned last.
    returned: String,
    /// True once no further event can follow.
    over: bool,
}

/// The part of the log that was read and not yet passed.
enum Unread {
    Nothing,
    /// A page that the subscriber has read itself.
    Page(Box<Page>),
    /// A run of the tail.
    Run(RunReader),
}

/// A page of the log that a subscriber which is behind has read.
struct Page {
    backlog: Backlog,
    /// The highest number that was dropped from the log.
    newest_dropped: i64,
    /// The number up to which the tail had read the log when the page was read.
    read_by_tail: i64,
    /// The position of the subscriber before the page.
    after: Cursor,
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
            unread: Unread::Nothing,
            segments,
            behind: true,
            stalled: false,
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
            if self.read_on() {
                continue;
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

    /// Returns the next event if it has been read already, without waiting.
    pub fn next_ready(&mut self) -> Option<PublicEvent> {
        if self.pending.is_empty() {
            self.read_on();
        }
        let event = self.pending.pop_front()?;
        self.returned.clone_from(&event.cursor);
        Some(event)
    }

    /// Reads a page of the log.
    async fn catch_up(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.stalled) {
            tokio::time::sleep(FIRST_PAUSE).await;
        }
        let read_by_tail = self.namespace.inner().tail.read_upto();
        let LogPage { backlog, newest_dropped, .. } = self.namespace.read_log_from(self.after).await?;
        self.pause = FIRST_PAUSE;
        self.unread =
            Unread::Page(Box::new(Page { backlog, newest_dropped, read_by_tail, after: self.after.cursor }));
        Ok(())
    }

    /// Waits for the next segment of the tail.
    async fn follow(&mut self) -> Result<(), Error> {
        match self.segments.recv().await {
            Ok(segment) => match segment {
                // The entries in between were committed before the tail began to read.
                Segment::Read { after, .. } if after > self.after.cursor.entry => {
                    self.behind = true;
                    Ok(())
                }
                Segment::Read { run, .. } => {
                    self.unread = Unread::Run(RunReader::new(run));
                    Ok(())
                }
                // The subscriber compares its own position with the log.
                Segment::OtherHistory => {
                    self.behind = true;
                    Ok(())
                }
                // The tail resumes after the last entry it read, so none is missed.
                Segment::Broken(detail) => {
                    Err(selvedge_store::Error::Unavailable(detail.as_ref().to_owned()).into())
                }
                Segment::Over => Err(Error::Closed),
            },
            Err(RecvError::Lagged(_)) => {
                self.behind = true;
                Ok(())
            }
            Err(RecvError::Closed) => Err(Error::Closed),
        }
    }

    /// Passes what was read, up to the next fact with events that the subscription selects. Returns false if there is none.
    fn read_on(&mut self) -> bool {
        let namespace = &self.namespace;
        let selection = EventSelection {
            namespace: namespace.id(),
            name: namespace.name(),
            filter: &self.filter,
            since: self.since,
        };
        let reader = namespace.inner().tail.entries();
        while self.pending.is_empty() {
            let step = match &mut self.unread {
                Unread::Nothing => return false,
                Unread::Page(page) => {
                    Some(page.backlog.step(&selection, reader, &mut self.after, &mut self.pending))
                }
                Unread::Run(run) => run.read(&selection, &mut self.after, &mut self.pending),
            };
            match step {
                Some(Step::Passed(_)) => continue,
                Some(Step::End) => {}
                // The tail has dropped the run.
                None => self.behind = true,
            }
            if let Unread::Page(page) = std::mem::replace(&mut self.unread, Unread::Nothing) {
                if page.newest_dropped > self.after.cursor.entry {
                    self.after = Position::after_dropped(page.newest_dropped);
                }
                // The page may end before a number whose transaction had not ended yet, although the tail has read past it.
                let short = self.after.cursor.entry < page.read_by_tail;
                self.behind = page.backlog.more || short;
                self.stalled = short && self.after.cursor == page.after;
            }
        }
        true
    }
}
