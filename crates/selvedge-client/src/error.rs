//! The errors of requests, each of which says what the caller can do.

use crate::CertificateFault;
use bytes::Bytes;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// An error of a request.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the request. Change the request, or follow `retry_after`.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// The server cannot be reached. Check the address, and that the server runs. Nothing was sent.
    #[error("cannot reach the server at {server}: {detail}")]
    Unreachable {
        /// The address of the server.
        server: String,
        detail: String,
    },
    /// The certificate of the server is not accepted. Nothing was sent.
    #[error("the certificate of the server at {server} {fault}")]
    Certificate {
        /// The address of the server.
        server: String,
        fault: CertificateFault,
    },
    /// The connection broke, or the answer did not come in time: the request may have taken effect. Repeat it.
    #[error("no answer from the server at {server}: {detail}")]
    NoAnswer {
        /// The address of the server.
        server: String,
        detail: String,
    },
    /// The answer is not one of a Selvedge server. Check the address.
    #[error("the answer of {server} is not one of a Selvedge server: {detail}")]
    Answer {
        /// The address of the server.
        server: String,
        detail: String,
    },
    /// The address of the server is invalid.
    #[error("the address {server:?} of the server is invalid: {detail}")]
    Address {
        /// The address as given.
        server: String,
        detail: String,
    },
    /// The certificates that the client should trust cannot be used.
    #[error("cannot use TLS: {0}")]
    Tls(String),
    /// The request cannot be written: its body is not JSON, or a header is invalid.
    #[error("the request is invalid: {0}")]
    Request(String),
}

impl Error {
    /// Returns the problem with which the server refused the request.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// Returns the stable code of the problem with which the server refused the request.
    pub fn code(&self) -> Option<&str> {
        self.problem().map(|problem| problem.code.as_str())
    }

    /// Reports whether the request may succeed if it is sent again unchanged.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Unreachable { .. } | Error::Certificate { .. } | Error::NoAnswer { .. } => true,
            Error::Problem(problem) => matches!(problem.status, 408 | 429 | 502 | 503 | 504),
            Error::Answer { .. } | Error::Address { .. } | Error::Tls(_) | Error::Request(_) => false,
        }
    }
}

/// A refusal by the server (RFC 9457).
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Problem {
    /// The status of the response.
    pub status: u16,
    /// The stable code.
    pub code: String,
    /// The name of the code for people.
    #[serde(default)]
    pub title: String,
    /// The cause, for people.
    #[serde(default)]
    pub detail: String,
    /// The JSON pointer to the field that is wrong.
    #[serde(default)]
    pub pointer: Option<String>,
    /// The time after which the request may be repeated, in milliseconds.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
    /// The further fields, such as the holder of a lease.
    #[serde(flatten)]
    pub more: serde_json::Map<String, Value>,
}

impl Problem {
    /// Returns the problem in the body of a response, or none if there is no problem in it.
    pub(crate) fn parse(body: &Bytes) -> Option<Problem> {
        serde_json::from_slice(body).ok()
    }

    /// Returns a problem for a response without one, as proxies send it.
    pub(crate) fn of_status(status: StatusCode, retry_after_ms: Option<u64>) -> Problem {
        Problem {
            status: status.as_u16(),
            code: "http_error".into(),
            title: status.canonical_reason().unwrap_or("An HTTP error").to_owned(),
            detail: format!("the answer is {status}, without an explanation"),
            pointer: None,
            retry_after_ms,
            more: serde_json::Map::new(),
        }
    }

    /// Returns the time after which the request may be repeated.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.detail.is_empty() { &self.title } else { &self.detail };
        match &self.pointer {
            // Most details name the field themselves.
            Some(pointer) if !text.contains(pointer.as_str()) => write!(f, "{}: {pointer} {text}", self.code),
            Some(_) | None => write!(f, "{}: {text}", self.code),
        }
    }
}
