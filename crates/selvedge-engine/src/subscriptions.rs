//! Subscriptions: every event after a cursor, as it is committed, without a gap and nothing twice.
//!
//! A subscriber that is behind reads the log by itself until it has caught up, and then gets what the tail of this process
//! reads. One that is slow falls behind and reads the log again; it never holds anybody up.

use crate::events::{EventSelection, end_of};
use crate::tail::{ENTRIES, Segment};
use crate::{Error, EventFilter, From, Namespace, PublicEvent};
use selvedge_core::Timestamp;
use selvedge_core::log::Cursor;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::{Receiver, error::RecvError};

/// How long a subscriber waits before it reads again after a failure: the first time, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What a subscriber gets.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// An event.
    Event(Box<PublicEvent>),
    /// The log cannot be read for now. Everything after the cursor comes when it can be again.
    Break {
        /// The place to go on from.
        cursor: String,
        /// Why.
        detail: String,
    },
}

/// A subscription. It lasts until it is dropped, or the engine shuts down.
pub struct Subscription {
    namespace: Namespace,
    filter: EventFilter,
    since: Option<Timestamp>,
    after: Cursor,
    waiting: VecDeque<PublicEvent>,
    segments: Receiver<Arc<Segment>>,
    behind: bool,
    pause: Duration,
    /// The cursor of the newest event that was given.
    given: String,
    /// Whether nothing comes any more.
    over: bool,
}

impl Namespace {
    /// Subscribes to events. A cursor that is malformed or older than the log is refused at once.
    pub async fn subscribe(&self, filter: EventFilter, from: From) -> Result<Subscription, Error> {
        // Before the start is found, so that nothing falls in between.
        let segments = self.inner().tail.subscribe();
        let (after, since) = self.start(from).await?;
        Ok(Subscription {
            namespace: self.clone(),
            filter,
            since,
            after,
            waiting: VecDeque::new(),
            segments,
            behind: true,
            pause: FIRST_PAUSE,
            given: after.encode(),
            over: false,
        })
    }
}

impl Subscription {
    /// The place to go on from: after every event that was given, and after those that did not pass its filter.
    pub fn cursor(&self) -> String {
        if self.waiting.is_empty() { self.after.encode() } else { self.given.clone() }
    }

    /// The next notice; none when the engine has shut down, or, after a break that says so, when the log has lost what
    /// comes next. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                self.given.clone_from(&event.cursor);
                return Some(Notice::Event(Box::new(event)));
            }
            if self.over || self.namespace.inner().committer.is_closed() {
                return None;
            }
            let failed = if self.behind { self.catch_up().await } else { self.follow().await };
            match failed {
                Ok(()) => {}
                Err(Error::Closed) => return None,
                Err(_) if self.namespace.inner().committer.is_closed() => return None,
                Err(error) => {
                    // The first break is told at once.
                    if self.behind && self.pause > FIRST_PAUSE {
                        tokio::time::sleep(self.pause).await;
                    }
                    if self.behind {
                        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                    }
                    self.over = matches!(error, Error::CursorExpired);
                    return Some(Notice::Break { cursor: self.cursor(), detail: error.to_string() });
                }
            }
        }
    }

    /// Reads a page of the log.
    async fn catch_up(&mut self) -> Result<(), Error> {
        let read_by_tail = self.namespace.inner().tail.upto();
        let page = self.namespace.entries_at(self.after).await?;
        self.pause = FIRST_PAUSE;
        let before = self.after;
        let full = page.entries.len() == ENTRIES as usize;
        for (number, events) in page.entries {
            self.take(number, &events);
        }
        if page.dropped > 0 {
            self.after = self.after.max(end_of(page.dropped));
        }
        // A page may end before a number whose transaction is not over yet, where the tail saw its end.
        let short = self.after.entry < read_by_tail;
        self.behind = full || short;
        if short && self.after == before {
            tokio::time::sleep(FIRST_PAUSE).await;
        }
        Ok(())
    }

    /// Waits for what the tail reads.
    async fn follow(&mut self) -> Result<(), Error> {
        match self.segments.recv().await {
            Ok(segment) => match segment.as_ref() {
                // What comes between was committed before the tail began to read.
                Segment::Read { after, .. } if *after > self.after.entry => {
                    self.behind = true;
                    Ok(())
                }
                Segment::Read { upto, entries, .. } => {
                    for (number, events) in entries {
                        self.take(*number, events);
                    }
                    self.after = self.after.max(end_of(*upto));
                    Ok(())
                }
                // The tail goes on where it was, so nothing is missed meanwhile.
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

    fn take(&mut self, number: i64, events: &[selvedge_core::log::Event]) {
        let scope =
            EventSelection { namespace: self.namespace.id(), filter: &self.filter, since: self.since };
        let told = scope.told(number, events, self.after, self.namespace.name());
        self.waiting.extend(told);
        self.after = self.after.max(end_of(number));
    }
}
