//! A client of server-sent events.

use crate::client::within;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

/// A live answer.
pub struct Live {
    body: Incoming,
    rest: Vec<u8>,
}

/// What a client sees of a message; a remark has only its text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    pub id: Option<String>,
    pub event: String,
    pub data: String,
    pub remark: String,
}

impl Message {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {}", self.data))
    }
}

impl Live {
    pub fn new(body: Incoming) -> Live {
        Live { body, rest: Vec::new() }
    }

    /// The next message or remark; none when the server has ended the answer.
    pub async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
                let message: Vec<u8> = self.rest.drain(..end + 2).collect();
                return Some(parse(&String::from_utf8(message).expect("is text")));
            }
            match within(self.body.frame()).await {
                Some(frame) => {
                    let data = frame.expect("the connection holds").into_data();
                    self.rest.extend(data.unwrap_or_else(|_| Bytes::new()));
                }
                None => {
                    assert!(self.rest.is_empty(), "half a message at the end");
                    return None;
                }
            }
        }
    }

    /// The next message.
    pub async fn message(&mut self) -> Message {
        loop {
            let next = self.next().await.expect("the feed goes on");
            if next.remark.is_empty() {
                return next;
            }
        }
    }

    /// So many messages.
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
            ("", remark) => message.remark = remark.into(),
            ("id", id) => message.id = Some(id.into()),
            ("event", event) => message.event = event.into(),
            ("data", line) => data.push(line),
            other => panic!("what is {other:?}?"),
        }
    }
    message.data = data.join("\n");
    message
}
