//! An event stream that resumes by itself.
//!
//! A connection that breaks, ends or stays silent for longer than the keep-alive comments of a server allow is replaced by one
//! that begins after the last message that was read. So no message is missed, and none is read twice.

use crate::message::{Message, MessageReader};
use crate::{Error, Request};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The longest silence of a connection. Servers send a comment every 15 s.
const SILENCE: Duration = Duration::from_secs(40);
/// The first and the longest delay before a further connection.
const DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

#[derive(Debug)]
pub struct EventStream {
    request: Request,
    /// The id of the last message that was read.
    last_id: String,
    connection: Option<(Incoming, MessageReader)>,
    ready: VecDeque<Message>,
    delay: Duration,
    /// The error of the latest connection, if the stream is interrupted.
    interruption: Option<Error>,
}

impl EventStream {
    pub(crate) fn new(request: Request) -> EventStream {
        EventStream {
            request,
            last_id: String::new(),
            connection: None,
            ready: VecDeque::new(),
            delay: Duration::ZERO,
            interruption: None,
        }
    }

    /// Begins after the message with this id.
    pub fn after(mut self, id: impl Into<String>) -> EventStream {
        self.last_id = id.into();
        self
    }

    /// Connects if there is no connection yet, so that a refusal is noticed at once.
    pub async fn connect(&mut self) -> Result<(), Error> {
        if self.connection.is_none() {
            let limit = self.request.client.0.answer_timeout;
            let opened = timeout(limit, self.request.open(Some(&self.last_id))).await;
            let opened = opened.unwrap_or_else(|_elapsed| {
                let server = self.request.client.server().to_owned();
                Err(Error::NoAnswer { server, detail: format!("none came within {} s", limit.as_secs()) })
            });
            let (_, body) = opened?;
            self.connection = Some((body, MessageReader::default()));
            // A position in the address is only that of the first connection.
            if !self.last_id.is_empty() {
                self.request.query.retain(|(name, _)| name != "after" && name != "from");
            }
            self.delay = Duration::ZERO;
            self.interruption = None;
        }
        Ok(())
    }

    /// Returns the next message. Waits while there is none, and while the server cannot be reached. Fails if the server refuses
    /// the stream. Cancel safe.
    pub async fn next(&mut self) -> Result<Message, Error> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                if !message.id.is_empty() {
                    self.last_id.clone_from(&message.id);
                }
                return Ok(message);
            }
            if self.connection.is_none() {
                sleep(self.delay).await;
                self.delay = (self.delay * 2).clamp(DELAYS.0, DELAYS.1);
                match self.connect().await {
                    Ok(()) => {}
                    Err(error) if error.is_transient() => {
                        tracing::debug!(%error, "an event stream is interrupted");
                        self.interruption = Some(error);
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            self.read().await;
        }
    }

    /// Returns the cause of an interruption that lasts, for a notice to people.
    pub fn interruption(&self) -> Option<&Error> {
        self.interruption.as_ref()
    }

    /// Reads the next bytes of the connection, or gives it up.
    async fn read(&mut self) {
        let Some((body, reader)) = &mut self.connection else { return };
        match timeout(SILENCE, body.frame()).await {
            Ok(Some(Ok(frame))) => {
                if let Ok(bytes) = frame.into_data() {
                    self.ready.extend(reader.read(&bytes));
                }
            }
            Ok(Some(Err(_)) | None) | Err(_) => {
                self.connection = None;
                self.delay = self.delay.max(DELAYS.0);
            }
        }
    }
}
