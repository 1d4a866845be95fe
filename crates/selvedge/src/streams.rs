//! The streams of attempts: frames, live frames, and the summary document.

use crate::wire::values::{bytes, time};
use crate::{Error, FrameKind, FrameMode, Timestamp};
use bytes::Bytes;
use selvedge_client::EventStream;
use selvedge_core::json;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::value::RawValue;

/// A frame of a stream: output of a handler, or an event such as a token of a language model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Frame {
    /// The position in the stream, from 0. There are gaps only where best-effort frames were dropped.
    pub number: u32,
    /// The attempt that appended it.
    pub attempt: u32,
    /// The kind of frame.
    #[serde(deserialize_with = "kind")]
    pub kind: FrameKind,
    /// True if the frame is kept only for a while.
    #[serde(rename = "mode", deserialize_with = "best_effort")]
    pub best_effort: bool,
    /// The time at which it was appended.
    #[serde(deserialize_with = "time")]
    pub at: Timestamp,
    /// The data, as JSON text.
    #[serde(deserialize_with = "data")]
    pub data: Bytes,
}

fn kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FrameKind, D::Error> {
    let word = String::deserialize(deserializer)?;
    FrameKind::parse(&word).ok_or_else(|| D::Error::custom(format!("{word:?} is not a kind of frame")))
}

fn best_effort<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(String::deserialize(deserializer)? == FrameMode::BestEffort.as_str())
}

fn data<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(bytes)
}

impl Frame {
    /// Deserialises the data.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        json::parse(&self.data)
            .map_err(|error| Error::field("/data", format!("has an unexpected type: {error}")))
    }
}

impl From<selvedge_core::stream::Frame> for Frame {
    fn from(frame: selvedge_core::stream::Frame) -> Frame {
        let selvedge_core::stream::Frame { stream, number, kind, best_effort, at, data, .. } = frame;
        Frame { number, attempt: stream.attempt, kind, best_effort, at, data }
    }
}

/// Frames of one attempt.
#[derive(Clone, Debug)]
pub struct Frames {
    /// The index of the attempt, from 0.
    pub attempt: u32,
    /// The frames, in order.
    pub frames: Vec<Frame>,
    /// True if the attempt has ended and these are its last frames.
    pub closed: bool,
}

/// The summary document of an attempt.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The index of the attempt, from 0.
    pub attempt: u32,
    /// The number of patches applied to the document.
    pub version: u32,
    /// The document, as JSON text; none if there is no summary.
    pub document: Option<Bytes>,
}

/// Follows the stream of one attempt until the attempt ends.
pub struct StreamTail(pub(crate) TailSource);

/// The source of live frames.
pub(crate) enum TailSource {
    /// The engine of this process.
    Embedded(Box<selvedge_engine::StreamTail>),
    /// An event stream of a server, which resumes by itself.
    Remote(Box<EventStream>),
    /// The attempt has ended and all its frames were returned.
    Closed,
}

impl StreamTail {
    /// Waits for the next frames. None once the attempt has ended and all its frames were returned, or on shutdown.
    pub async fn next(&mut self) -> Result<Option<Vec<Frame>>, Error> {
        match &mut self.0 {
            TailSource::Closed => Ok(None),
            TailSource::Embedded(tail) => {
                Ok(tail.next().await?.map(|frames| frames.into_iter().map(Frame::from).collect()))
            }
            TailSource::Remote(stream) => {
                let message = stream.next().await?;
                if message.event == "closed" {
                    self.0 = TailSource::Closed;
                    return Ok(None);
                }
                let frame = serde_json::from_str(&message.data)
                    .map_err(|error| Error::Failed(format!("a frame cannot be read: {error}")))?;
                Ok(Some(vec![frame]))
            }
        }
    }
}
