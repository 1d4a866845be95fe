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

pub use api_keys::ApiKeyStore;
pub use bulk_jobs::BulkJobReads;
pub use classes::ClassStore;
pub use due::DueReads;
pub use executions::ExecutionReads;
pub use flows::FlowReads;
pub use gates::GateReads;
pub use inbox::InboxStore;
pub use keys::KeyStore;
pub use log::LogStore;
pub use namespaces::NamespaceStore;
pub use outbox::OutboxReads;
pub use projection::ProjectionStore;
pub use rollups::RollupStore;
pub use schedules::ScheduleReads;
pub use secret::SecretStore;
pub use sessions::SessionReads;
pub use signals::SignalReads;
pub use steps::StepReads;
pub use streams::StreamStore;
pub use token_keys::TokenKeyReads;
pub use transactions::{BoxedTask, Decision, ManualClock, Transactions};
pub use waitpoints::WaitpointReads;
pub use webhooks::WebhookReads;

/// A store of executions, flows, gates and the event log.
pub trait Store:
    Transactions
    + DueReads
    + ExecutionReads
    + FlowReads
    + OutboxReads
    + GateReads
    + SessionReads
    + StreamStore
    + SignalReads
    + StepReads
    + WaitpointReads
    + TokenKeyReads
    + KeyStore
    + ApiKeyStore
    + BulkJobReads
    + WebhookReads
    + ScheduleReads
    + InboxStore
    + NamespaceStore
    + ClassStore
    + LogStore
    + ProjectionStore
    + RollupStore
    + SecretStore
    + 'static
{
}

impl<T> Store for T where
    T: Transactions
        + DueReads
        + ExecutionReads
        + FlowReads
        + OutboxReads
        + GateReads
        + SessionReads
        + StreamStore
        + SignalReads
        + StepReads
        + WaitpointReads
        + TokenKeyReads
        + KeyStore
        + ApiKeyStore
        + BulkJobReads
        + WebhookReads
        + ScheduleReads
        + InboxStore
        + NamespaceStore
        + ClassStore
        + LogStore
        + ProjectionStore
        + RollupStore
        + SecretStore
        + 'static
{
}
