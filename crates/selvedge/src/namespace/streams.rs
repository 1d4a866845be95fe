//! The streams of attempts.

use super::{Connected, Namespace};
use crate::streams::{Frame, Frames, StreamTail, Summary, TailSource};
use crate::wire::values::optional_json;
use crate::{Error, ExecutionId};
use bytes::Bytes;
use serde::Deserialize;

#[derive(Deserialize)]
struct FramesItem {
    attempt: u32,
    items: Vec<Frame>,
    closed: bool,
}

#[derive(Deserialize)]
struct SummaryItem {
    attempt: u32,
    version: u32,
    #[serde(deserialize_with = "optional_json")]
    document: Option<Bytes>,
}

impl Namespace {
    /// Returns at most `limit` frames of an attempt (up to 500), from the frame with this number on. Default attempt: the
    /// newest.
    pub async fn frames(
        &self,
        id: ExecutionId,
        attempt: Option<u32>,
        from: u32,
        limit: u32,
    ) -> Result<Frames, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                let page = namespace.frames(id, attempt, from, limit).await?;
                let frames = page.frames.into_iter().map(Frame::from).collect();
                Ok(Frames { attempt: page.attempt, frames, closed: page.closed })
            }
            Connected::Remote(client) => {
                let request = client
                    .get(&["executions", &id.to_string(), "stream"])
                    .query_optional("attempt", attempt)
                    .query_optional("after", from.checked_sub(1))
                    .query("limit", limit);
                let FramesItem { attempt, items, closed } = request.send().await?.json()?;
                Ok(Frames { attempt, frames: items, closed })
            }
        }
    }

    /// Follows the stream of an attempt, from the frame with this number on. Default attempt: the newest.
    pub async fn tail(&self, id: ExecutionId, attempt: Option<u32>, from: u32) -> Result<StreamTail, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                let tail = namespace.tail_frames(id, attempt, from).await?;
                Ok(StreamTail(TailSource::Embedded(Box::new(tail))))
            }
            Connected::Remote(client) => {
                let request = client
                    .get(&["executions", &id.to_string(), "stream", "tail"])
                    .query_optional("attempt", attempt)
                    .query_optional("after", from.checked_sub(1));
                let mut stream = request.events();
                stream.connect().await?;
                Ok(StreamTail(TailSource::Remote(Box::new(stream))))
            }
        }
    }

    /// Reads the summary document of an attempt. Default attempt: the newest.
    pub async fn summary(&self, id: ExecutionId, attempt: Option<u32>) -> Result<Summary, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                let stream = namespace.summary(id, attempt).await?;
                Ok(Summary {
                    attempt: stream.name.attempt,
                    version: stream.summary_version,
                    document: stream.summary,
                })
            }
            Connected::Remote(client) => {
                let request = client.get(&["executions", &id.to_string(), "summary"]);
                let SummaryItem { attempt, version, document } =
                    request.query_optional("attempt", attempt).send().await?.json()?;
                Ok(Summary { attempt, version, document })
            }
        }
    }
}
