//! The kinds of rows in a transaction: the key and version of each, and the state that a transaction keeps besides the
//! columns.

use crate::api_key::{ApiKey, ApiKeyId};
use crate::bulk_job::{BulkJob, BulkJobId};
use crate::gate::{Gate, GateId};
use crate::inbox::{InboxNumber, InboxRow};
use crate::outbox::{OutboxName, OutboxRow};
use crate::rows::{KeyName, KeyRow, Payload, ResultChange};
use crate::schedule::{Schedule, ScheduleName};
use crate::stream::{Stream, StreamName};
use crate::table::Row;
use crate::token::{TokenKey, TokenKeyId};
use crate::webhook::{Delivery, Webhook, WebhookId, WebhookName};
use crate::{Execution, ExecutionId, Flow, FlowId, Name, Session, SessionId, Signal, Step, Waitpoint};

/// State that a transaction keeps about an execution besides its row.
#[derive(Debug)]
pub(crate) struct ExecutionExtra {
    /// The input, or its size, if it is loaded.
    pub input: Option<Payload>,
    /// The input was replaced.
    pub replaces_input: bool,
    /// The change to the result.
    pub result: ResultChange,
    /// The flow or the wiring changed. They are written only if this is set.
    pub rewired: bool,
    /// The execution had neither steps nor signals when it was loaded.
    pub bare: bool,
}

impl Default for ExecutionExtra {
    fn default() -> Self {
        ExecutionExtra {
            input: None,
            replaces_input: false,
            result: ResultChange::Keep,
            rewired: false,
            bare: false,
        }
    }
}

impl Row for Execution {
    type Key = ExecutionId;
    type Extra = ExecutionExtra;

    fn key(&self) -> ExecutionId {
        self.id
    }

    fn version(&self) -> u32 {
        self.version
    }
}

impl Row for Flow {
    type Key = FlowId;
    type Extra = ();

    fn key(&self) -> FlowId {
        self.id
    }

    fn version(&self) -> u32 {
        self.version
    }
}

impl Row for Gate {
    type Key = GateId;
    type Extra = ();

    fn key(&self) -> GateId {
        self.id()
    }

    fn version(&self) -> u32 {
        self.version
    }
}

impl Row for Schedule {
    type Key = ScheduleName;
    type Extra = ();

    fn key(&self) -> ScheduleName {
        self.name.clone()
    }

    fn version(&self) -> u32 {
        self.version
    }
}

impl Row for KeyRow {
    type Key = KeyName;
    type Extra = ();

    fn key(&self) -> KeyName {
        self.name.clone()
    }
}

/// State that a transaction keeps about a session besides its row.
#[derive(Debug, Default)]
pub(crate) struct SessionExtra {
    /// The session replaces the stored row instead of being merged with it.
    pub reset: bool,
}

impl Row for Session {
    type Key = SessionId;
    type Extra = SessionExtra;

    fn key(&self) -> SessionId {
        self.id
    }
}

impl Row for OutboxRow {
    type Key = OutboxName;
    type Extra = ();

    fn key(&self) -> OutboxName {
        self.name
    }
}

impl Row for Stream {
    type Key = StreamName;
    type Extra = ();

    fn key(&self) -> StreamName {
        self.name
    }
}

impl Row for Signal {
    type Key = (ExecutionId, u32);
    type Extra = ();

    fn key(&self) -> (ExecutionId, u32) {
        (self.execution, self.number)
    }
}

impl Row for Step {
    type Key = (ExecutionId, Name);
    type Extra = ();

    fn key(&self) -> (ExecutionId, Name) {
        (self.execution, self.name.clone())
    }
}

impl Row for Waitpoint {
    type Key = (ExecutionId, u32);
    type Extra = ();

    fn key(&self) -> (ExecutionId, u32) {
        (self.execution, self.number)
    }
}

impl Row for ApiKey {
    type Key = ApiKeyId;
    type Extra = ();

    fn key(&self) -> ApiKeyId {
        self.id
    }
}

impl Row for BulkJob {
    type Key = BulkJobId;
    type Extra = ();

    fn key(&self) -> BulkJobId {
        self.id
    }
}

impl Row for Webhook {
    type Key = WebhookName;
    type Extra = ();

    fn key(&self) -> WebhookName {
        self.name.clone()
    }

    fn version(&self) -> u32 {
        self.version
    }
}

impl Row for Delivery {
    type Key = (WebhookId, u64);
    type Extra = ();

    fn key(&self) -> (WebhookId, u64) {
        (self.webhook, self.number)
    }
}

impl Row for InboxRow {
    type Key = InboxNumber;
    type Extra = ();

    fn key(&self) -> InboxNumber {
        self.number
    }
}

impl Row for TokenKey {
    type Key = TokenKeyId;
    type Extra = ();

    fn key(&self) -> TokenKeyId {
        self.id
    }
}
