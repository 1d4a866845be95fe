//! The inbox: submissions that a user's own transaction has written to the store, for a server to take in.
//!
//! A store without SQL submission has no inbox. A row of it is a request as over HTTP: nothing of it counts before a
//! server has taken it in as an ordinary submission, in the transaction that deletes the row.

use crate::text::shortened;
use crate::{Name, Refusal, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

/// The time for which a refused row is kept, in milliseconds: 7 days.
pub const REFUSED_KEPT_MS: i64 = 7 * 24 * 3600 * 1000;
/// The longest detail of the problem of a refused row, in bytes.
const DETAIL_MAX: usize = 4000;
/// The longest pointer of the problem of a refused row, in bytes. A longer one is left out; the detail begins with it.
const POINTER_MAX: usize = 500;

/// The number of a row of the inbox. Numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboxNumber(pub i64);

impl fmt::Display for InboxNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The reason why a row was refused. Stored as JSON: fields are never renamed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboxProblem {
    /// The stable code, as in the problems of HTTP.
    pub code: String,
    /// The reason, for people.
    pub detail: String,
    /// The JSON pointer to the refused field, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
}

impl From<&Refusal> for InboxProblem {
    fn from(refusal: &Refusal) -> Self {
        let detail = match refusal.pointer() {
            Some("") => format!("the request{refusal}"),
            Some(_) | None => refusal.to_string(),
        };
        InboxProblem {
            code: refusal.code().into(),
            detail: shortened(detail, DETAIL_MAX),
            pointer: refusal.pointer().filter(|pointer| pointer.len() <= POINTER_MAX).map(str::to_owned),
        }
    }
}

/// A row of the inbox, without its request.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxRow {
    pub number: InboxNumber,
    /// The namespace that the request is for. It may not exist yet.
    pub namespace: Name,
    /// The time of the refusal and the reason. None while the row waits to be taken in.
    pub refused: Option<(Timestamp, InboxProblem)>,
}

/// A row of the inbox with its request.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxEntry {
    pub row: InboxRow,
    /// The number of the transaction that wrote the row. Rows are taken in by transaction, and in the order of numbers within one.
    pub transaction: u64,
    /// The id that the caller got: of the execution or the flow.
    pub id: Uuid,
    /// True for a flow, false for an execution.
    pub is_flow: bool,
    /// The role that submitted it.
    pub role: String,
    /// The time of the call.
    pub submitted_at: Timestamp,
    /// The request, as over HTTP but without the id: a JSON object.
    pub body: String,
}
