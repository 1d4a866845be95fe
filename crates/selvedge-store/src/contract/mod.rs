//! The contract that every store implements: transactions, and one trait of reads per noun. [`Store`] is their sum.
//!
//! A trait named `…Reads` changes nothing. One named `…Store` also writes, outside of decisions: it creates names, deletes rows
//! that have expired, or keeps rows that are derived from others.
//!
//! No method except [`Transactions::transact`] locks a row of an execution, a flow or a gate; rows that a method returns may
//! be stale by then. Pages are keyed: `after` is the last key of the previous page, none for the first page. Times come from
//! the store's clock.

mod api_keys;
mod bulk_jobs;
mod classes;
mod due;
mod executions;
mod flows;
mod gates;
mod inbox;
mod keys;
mod log;
mod namespaces;
mod outbox;
mod projection;
mod rollups;
mod schedules;
mod secret;
mod sessions;
mod signals;
mod steps;
mod streams;
mod token_keys;
mod transactions;
mod waitpoints;
mod webhooks;

pub use api_keys::*;
pub use bulk_jobs::*;
pub use classes::*;
pub use due::*;
pub use executions::*;
pub use flows::*;
pub use gates::*;
pub use inbox::*;
pub use keys::*;
pub use log::*;
pub use namespaces::*;
pub use outbox::*;
pub use projection::*;
pub use rollups::*;
pub use schedules::*;
pub use secret::*;
pub use sessions::*;
pub use signals::*;
pub use steps::*;
pub use streams::*;
pub use token_keys::*;
pub use transactions::*;
pub use waitpoints::*;
pub use webhooks::*;

macro_rules! store {
    ($($part:ident)*) => {
        /// A store of executions, flows, gates and the event log.
        pub trait Store: $($part +)* 'static {}

        impl<T: $($part +)* 'static> Store for T {}
    };
}

store! {
    Transactions DueReads ExecutionReads FlowReads OutboxReads GateReads SessionReads StreamStore SignalReads StepReads
    WaitpointReads TokenKeyReads KeyStore ApiKeyStore BulkJobReads WebhookReads ScheduleReads InboxStore NamespaceStore
    ClassStore LogStore ProjectionStore RollupStore SecretStore
}
