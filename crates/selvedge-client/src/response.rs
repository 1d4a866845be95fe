//! Answers: their bytes, and values in them.

use crate::Error;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// A successful answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status, from 200 to 299.
    pub status: u16,
    pub body: Bytes,
    /// The number of times that the request was sent. More than one: an earlier answer was lost, or asked for patience.
    pub tries: u32,
    pub(crate) server: String,
}

impl Response {
    /// Deserialises the body.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Error::Answer { server: self.server.clone(), detail: error.to_string() })
    }

    /// Returns the body as text.
    pub fn text(&self) -> Result<&str, Error> {
        std::str::from_utf8(&self.body)
            .map_err(|error| Error::Answer { server: self.server.clone(), detail: error.to_string() })
    }

    /// Deserialises a page of a list.
    pub fn page(&self) -> Result<Page, Error> {
        self.json()
    }
}

/// A page of a list, whose items keep their bytes.
#[derive(Debug, Deserialize)]
pub struct Page {
    pub items: Vec<Box<RawValue>>,
    /// The cursor of the next page; none at the end.
    pub next_cursor: Option<String>,
}
