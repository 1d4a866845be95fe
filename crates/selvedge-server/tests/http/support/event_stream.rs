//! A reader of server-sent events.

use super::within;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

/// An open event stream.
pub struct EventStream {
    body: Incoming,
    /// Bytes that have been received but not parsed yet.
    buffer: Vec<u8>,
}

/// A message; a comment has only its text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    pub id: Option<String>,
    pub event: String,
    pub data: String,
    pub comment: String,
}

impl Message {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {}", self.data))
    }
}

impl EventStream {
    pub fn new(body: Incoming) -> EventStream {
        EventStream { body, buffer: Vec::new() }
    }

    /// Waits for the next message or comment; none when the server has ended the stream.
    pub async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let message: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Some(parse(&String::from_utf8(message).expect("messages are text")));
            }
            match within(self.body.frame()).await {
                Some(frame) => {
                    let data = frame.expect("the connection stays open").into_data();
                    self.buffer.extend(data.unwrap_or_else(|_| Bytes::new()));
                }
                None => {
                    assert!(self.buffer.is_empty(), "the stream ends with an incomplete message");
                    return None;
                }
            }
        }
    }

    /// Waits for the next message, skipping comments.
    pub async fn message(&mut self) -> Message {
        loop {
            let next = self.next().await.expect("the stream stays open");
            if next.comment.is_empty() {
                return next;
            }
        }
    }

    /// Waits for the next `count` messages.
    pub async fn messages(&mut self, count: usize) -> Vec<Message> {
        let mut messages = Vec::new();
        while messages.len() < count {
            messages.push(self.message().await);
        }
        messages
    }
}

fn parse(text: &str) -> Message {
    let mut message = Message::default();
    let mut data = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.split_once(": ").unwrap_or((line, "")) {
            ("", comment) => message.comment = comment.into(),
            ("id", id) => message.id = Some(id.into()),
            ("event", event) => message.event = event.into(),
            ("data", line) => data.push(line),
            other => panic!("unknown field {other:?} in a message"),
        }
    }
    message.data = data.join("\n");
    message
}
