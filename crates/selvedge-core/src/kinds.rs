//! The kinds of rows: one list, in the global lock order.
//!
//! An entry says what a rule asks for, the rows that a store answers with, and the writes that it saves:
//!
//! - `asks KEY, at STAGE` makes a field of [`Needs`]. The stage is that of its locks; a request without one is only read.
//! - `stages` are the stages of these locks, and of those that are taken behind them without naming a key: `once` for rows
//!   that are locked all at once, `again` for those that may take several loads, each with its words for the documentation;
//!   `exception` for what deviates from the order, each for the reason given.
//! - `loads ROW, by KEY` makes a field of [`Rows`] and a table of the transaction. `version` is for rows whose writes are
//!   guarded, `with` adds state besides the columns, `ordered` lets rules read by range, `into` replaces the plain load, `due`
//!   makes it a [`Timed`].
//! - `writes FORM, by FUNCTION` makes a field of [`Changes`]: the function turns the table into the writes.
//!
//! Everything else that treats all kinds alike is derived from the list: whether something is empty, the merge of requests,
//! the check of the lock order, loading and finishing. To add a kind, add an entry; the stores then name it in their walks.

use crate::api_key::{ApiKey, ApiKeyId};
use crate::bulk_job::{BulkJob, BulkJobId};
use crate::gate::{Gate, GateId, LedgerEntry};
use crate::inbox::{InboxNumber, InboxRow};
use crate::log::Event;
use crate::outbox::{OutboxName, OutboxRow};
use crate::rows::{
    Found, HistoryPage, Inserted, KeyName, KeyRow, KeySubject, NodeEntry, Payload, Queries, StoredRelative,
    TagEntry, UnreadWrites, Updated,
};
use crate::schedule::{Schedule, ScheduleName};
use crate::stream::{Frame, Stream, StreamName};
use crate::table::{Access, Entries, Guarded, Kind, Plain, Request, Table};
use crate::token::{TokenKey, TokenKeyId};
use crate::webhook::{Delivery, DeliveryId, Webhook, WebhookId, WebhookName};
use crate::work::rows::{self, ExecutionExtra, SessionExtra};
use crate::{
    Execution, ExecutionId, Flow, FlowId, Name, Session, SessionId, Signal, Step, Timestamp, Waitpoint,
};

/// A row that is due at a time, at which a reconciler looks at it.
pub trait Timed {
    /// The name of its kind.
    const KIND: &'static str;
}

/// Passes the list of kinds to a macro.
macro_rules! kinds {
    ($apply:ident) => {
        $apply! {
            api_keys {
                asks ApiKeyId, at ApiKeys: "API keys. Only their revocation locks them.";
                stages { ApiKeys again "API keys, for their revocation", }
                loads ApiKey, by ApiKeyId = |row| row.id;
                writes Vec<ApiKey>, by Table::into_written: "API keys to insert, or to mark as revoked.";
            }
            bulk_jobs {
                asks BulkJobId, at BulkJobs: "Bulk jobs.";
                stages { BulkJobs again "bulk jobs", }
                loads BulkJob, by BulkJobId = |row| row.id, is due;
                writes Entries<BulkJob, BulkJobId>, by Table::into_entries: "Bulk jobs to upsert and to delete.";
            }
            webhooks {
                asks WebhookName, at Webhooks: "Webhooks.";
                stages { Webhooks again "webhooks", }
                loads Webhook, by WebhookName = |row| row.name.clone(), version |row| row.version;
                writes Guarded<Webhook, (Webhook, u32), WebhookName>, by Table::into_guarded: "Webhooks.";
            }
            inbox {
                asks InboxNumber, at Inbox: "Rows of the inbox, locked if they are free.";
                stages { Inbox again "rows of the inbox with `skip locked`", }
                loads InboxRow, by InboxNumber = |row| row.number, is due;
                writes Entries<InboxRow, InboxNumber>, by Table::into_entries:
                    "Rows of the inbox whose refusal to save, and rows to delete.";
            }
            schedules {
                asks ScheduleName, at Schedules: "Schedules.";
                stages { Schedules once "schedules", }
                loads Schedule, by ScheduleName = |row| row.name.clone(), version |row| row.version, is due;
                writes Guarded<Schedule, (Schedule, u32), ScheduleName>, by Table::into_guarded:
                    "Schedules. The specification of an updated one is written only if its `spec_version` exceeds the \
                     expected version.";
            }
            growing {
                asks FlowId, at Growth: "Flows whose growth is serialised by an advisory lock.";
                stages { Growth again "growth of flows (advisory)", }
            }
            executions {
                asks ExecutionId, at Executions: "Executions.";
                stages {
                    /// With the executions that are locked only if free.
                    Executions once "executions, upstreams and downstreams together",
                    /// Exception: executions that a rule finds through loaded rows, such as a key or a node name. Locking the
                    /// keys instead would cost every transaction. If two transactions deadlock here, the database aborts
                    /// one, which is retried.
                    LateExecutions exception,
                }
                loads Execution, by ExecutionId = |row| row.id, version |row| row.version, with ExecutionExtra, into rows::load_executions;
                writes Guarded<Inserted, Updated, ExecutionId>, by rows::written_executions:
                    "Executions. The history pages, streams, steps, signals and waitpoints of a deleted execution are \
                     deleted with it.";
            }
            outbox {
                asks OutboxName, at Outbox: "Outbox rows.";
                stages { Outbox again "outbox", }
                loads OutboxRow, by OutboxName = |row| row.name;
                writes Entries<OutboxRow, OutboxName>, by Table::into_entries: "Outbox rows to upsert and to delete.";
            }
            lanes {
                asks GateId, at Lanes: "Lanes. A store locks those with limits, and reads the others.";
                stages {
                    Lanes once "lanes with limits",
                    /// Exception: lanes that are read late. This process knows no lane with limits, so the read takes no
                    /// locks.
                    UnlimitedLanes exception,
                    Candidates again "candidates with `skip locked`",
                }
            }
            gates {
                asks GateId, at Gates:
                    "Gates other than lanes. A gate that is read without a lock only shows whether it is configured.";
                stages { Gates once "gates", }
                loads Gate, by GateId = |row| row.id(), version |row| row.version, is due;
                writes Guarded<Gate, (Gate, u32), GateId>, by rows::written_gates: "Gates.";
            }
            parts {
                asks GateId, at Parts: "Parts of budgets.";
                stages {
                    Parts once "parts of budgets",
                    Held again "held executions with `skip locked`",
                    /// Exception: candidates behind others that are unreadable or refused, or of a lane that has room only
                    /// now. The search skips locked rows, so it never waits. Their flows may be counted after sessions were
                    /// locked; if two transactions deadlock there, the database aborts one, which is retried.
                    CandidatesAgain exception,
                    /// Exception: gates that this process did not expect, locked after flows and sessions. Only the first
                    /// transaction of a process that loads an execution with gates can do this: from then on gates are
                    /// expected.
                    LateGates exception,
                }
            }
            flows {
                asks FlowId, at Flows: "Flows.";
                stages {
                    /// A transaction that has locked gates updates the counts of flows when it saves, so flows follow gates.
                    Flows again "flows",
                }
                loads Flow, by FlowId = |row| row.id, version |row| row.version;
                writes Guarded<Flow, (Flow, u32), FlowId>, by Table::into_guarded:
                    "Flows. An update writes everything but the counts; namespace, tags and time of submission never \
                     change. The budget parts that count for a deleted flow are deleted with it, as are those of a \
                     deleted execution that had no flow.";
            }
            sessions {
                asks SessionId, at Sessions: "Sessions.";
                stages {
                    /// While saving, the counts of flows are written before sessions, too.
                    Sessions again "sessions",
                    /// Exception: executions from the lease cache, which are locked when they are saved. Locking them earlier
                    /// would cost every completion a statement. Such an execution has no flow and draws on no gate.
                    CachedExecutions exception,
                    /// Exception: the outbox row of a parent, which the end of a child writes without locking the parent.
                    ParentOutbox exception,
                }
                loads Session, by SessionId = |row| row.id, with SessionExtra;
                writes Entries<Session, SessionId>, by rows::written_sessions:
                    "Sessions. A write is merged with the stored row: one of an earlier life changes nothing, and one of \
                     a later life replaces the row. Within a life times never go back, a requested drain stays \
                     requested, and the detail stays. A session that is both removed and written replaces the stored row \
                     without merging.";
            }
            keys {
                asks KeyName: "Keys.";
                loads KeyRow, by KeyName = |row| row.name.clone(), into rows::load_first_keys;
                writes Entries<KeyRow, (KeyName, Option<KeySubject>)>, by rows::written_keys:
                    "Keys. A removed key with a subject is deleted only if it still stands for that subject; one without, \
                     only if it has expired.";
            }
            nodes {
                asks (FlowId, Name): "Nodes of flows, by name.";
                writes Entries<NodeEntry, (FlowId, Name)>: "Names of nodes in flows.";
            }
            inputs {
                asks ExecutionId:
                    "Inputs of executions. Of an input larger than [`inline_inputs`](Needs::inline_inputs), only the size \
                     is read.";
            }
            whole_inputs {
                asks ExecutionId: "Inputs of executions, of any size.";
            }
            relatives {
                asks ExecutionId:
                    "Names and results of executions: the [`Relative`](crate::rows::Relative) rows that a claim carries. \
                     Of a result and an error larger than [`inline_relatives`](Needs::inline_relatives), only the size \
                     is read.";
            }
            whole_relatives {
                asks ExecutionId: "Names and results of executions, of any size.";
            }
            streams {
                asks StreamName:
                    "Streams; a store may leave their summary documents out. Appending to a stream requires the lock on \
                     its execution.";
                loads Stream, by StreamName = |row| row.name, into rows::load_streams;
                writes Vec<Stream>, by Table::into_written:
                    "Streams to upsert. A summary document is written only if its version differs from the stored one.";
            }
            summaries {
                asks StreamName: "Streams with their summary documents.";
            }
            signals {
                loads Signal, by (ExecutionId, u32) = |row| (row.execution, row.number), ordered true, into rows::load_signals;
                writes Vec<Signal>, by Table::into_written: "New signals.";
            }
            steps {
                asks (ExecutionId, Name): "Steps, by name.";
                loads Step, by (ExecutionId, Name) = |row| (row.execution, row.name.clone()), ordered true;
                writes Vec<Step>, by rows::written_steps: "Steps to upsert.";
            }
            waitpoints {
                loads Waitpoint, by (ExecutionId, u32) = |row| (row.execution, row.number), ordered true;
                writes Vec<Waitpoint>, by Table::into_written: "Waitpoints to upsert.";
            }
            token_keys {
                loads TokenKey, by TokenKeyId = |row| row.id, ordered true;
                writes Entries<TokenKey, TokenKeyId>, by Table::into_entries: "Token keys to upsert and to delete.";
            }
            deliveries {
                asks DeliveryId: "Deliveries of webhooks. Changing one requires the lock on its webhook.";
                loads Delivery, by (WebhookId, u64) = |row| (row.webhook, row.number);
                writes Vec<Delivery>, by Table::into_written: "Deliveries of webhooks to upsert.";
            }
            tags {
                writes Entries<TagEntry, TagEntry>: "Entries of the tag index.";
            }
            history_pages {
                writes Vec<HistoryPage>: "New pages of history.";
            }
            frames {
                writes Vec<Frame>: "New frames.";
            }
            ledger {
                writes Vec<LedgerEntry>: "Amounts to add to the ledger.";
            }
            unread {
                writes UnreadWrites: "Changes to rows that need not be loaded.";
            }
            events {
                writes Vec<Event>: "The events of the transaction. They form one entry of the event log.";
            }
        }
    };
}

/// Returns the first of its arguments.
macro_rules! first {
    (type $first:ty $(, $rest:ty)?) => {
        $first
    };
    ($first:expr $(, $rest:expr)?) => {
        $first
    };
}

macro_rules! rows {
    () => {
        None
    };
    ($rows:literal) => {
        Some($rows)
    };
}

macro_rules! order {
    (once) => {
        Order::Once
    };
    (again) => {
        Order::Again
    };
    (exception) => {
        Order::Exception
    };
}

/// The loads in which a transaction may lock the rows of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// One load, all rows in key order.
    Once,
    /// Several loads, as long as nothing of a later stage is locked.
    Again,
    /// Any load that the exception allows.
    Exception,
}

macro_rules! define {
    ($($name:ident {
        $(asks $ask:ty $(, at $stage:ident)?: $ask_doc:literal;)?
        $(stages { $($(#[$about:meta])* $variant:ident $order:ident $($rows:literal)?,)* })?
        $(loads $row:ty, by $key:ty = $key_of:expr_2021 $(, version $version:expr_2021)? $(, with $extra:ty)?
            $(, ordered $ordered:literal)? $(, into $into:path)? $(, is $due:ident)?;)?
        $(writes $writes:ty $(, by $by:path)?: $writes_doc:literal;)?
    })*) => {
        /// The stages of a transaction, in the global lock order. A store runs the statements of one load in this order, too.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Stage {
            $($($(
                $(#[doc = concat!("Locks ", $rows, ".")])?
                $(#[$about])*
                $variant,
            )*)?)*
        }

        impl Stage {
            pub const ALL: &[Stage] = &[$($($(Stage::$variant,)*)?)*];

            /// Returns the rows that the stage locks, for the documentation; none for an exception.
            pub fn rows(self) -> Option<&'static str> {
                match self {
                    $($($(Stage::$variant => rows!($($rows)?),)*)?)*
                }
            }

            /// Returns whether rows of the stage may be locked again, and whether it deviates from the order.
            pub(crate) fn order(self) -> Order {
                match self {
                    $($($(Stage::$variant => order!($order),)*)?)*
                }
            }
        }

        /// The rows that a decision needs. A store takes the locks in the order of [`Stage`], each kind in key order, and
        /// reads the other rows after them.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Needs {
            $($(
                #[doc = $ask_doc]
                pub $name: Request<$ask>,
            )?)*
            /// Rows that are not found by their key.
            pub queries: Queries,
        }

        impl Needs {
            /// Reports whether nothing is needed.
            pub fn is_empty(&self) -> bool {
                $($(Request::<$ask>::is_empty(&self.$name) &&)?)* self.queries.is_empty()
            }

            /// Drops the needs that `loaded` covers, and adds the rest to it. Queries for candidates, and the executions
            /// that they exclude, are kept: they may be repeated.
            pub fn only_new(&mut self, loaded: &mut Needs) {
                $($(Request::<$ask>::only_new(&mut self.$name, &mut loaded.$name);)?)*
                self.queries.only_new(&mut loaded.queries);
            }

            /// Drops the requests for locks at those stages for which `drops` returns true.
            pub(crate) fn drop_locks(&mut self, drops: impl Fn(Stage) -> bool) {
                $($($(
                    if drops(Stage::$stage) {
                        self.$name.retain(|_, access| access == Access::Read);
                    }
                )?)?)*
            }

            /// Returns the stages at which requests lock rows, in the order of the list.
            pub(crate) fn locked_stages(&self) -> impl Iterator<Item = Stage> {
                let stages = [$($($((self.$name.has_locks(), Stage::$stage),)?)?)*];
                stages.into_iter().filter(|(locks, _)| *locks).map(|(_, stage)| stage)
            }
        }

        /// The stages of the list, in its order.
        #[cfg(test)]
        const STAGES: &[Stage] = &[$($($(Stage::$stage,)?)?)*];

        /// The rows that a store found.
        #[derive(Clone, Debug, Default)]
        pub struct Rows {
            /// The time of the transaction, from the database's clock.
            pub now: Timestamp,
            $($(
                #[doc = concat!("Loaded rows: [`", stringify!($row), "`].")]
                pub $name: Vec<$row>,
            )?)*
            /// Executions that were to be locked if free and that another transaction has locked. If such an execution
            /// was also to be read without a lock, it is among the executions as well.
            pub skipped: Vec<ExecutionId>,
            /// Executions whose rows are unreadable, with the reason.
            pub unreadable: Vec<(ExecutionId, String)>,
            /// Inputs of the requested executions and of all candidates, or their sizes.
            pub inputs: Vec<(ExecutionId, Payload)>,
            /// Names and results of executions, or the sizes of the results.
            pub relatives: Vec<StoredRelative>,
            pub nodes: Vec<(FlowId, Name, ExecutionId)>,
            /// Answers to queries that are not rows of a table.
            pub found: Found,
        }

        /// The tables of a transaction, one for each kind.
        #[derive(Debug, Default)]
        pub(crate) struct Tables {
            $($(pub $name: Table<$row>,)?)*
        }

        impl Tables {
            /// Adds loaded rows. Rows that this transaction has changed stay as they are.
            pub fn load(&mut self, rows: &mut Rows) {
                $($(
                    let rows_of_kind: Vec<$row> = std::mem::take(&mut rows.$name);
                    if !rows_of_kind.is_empty() {
                        first!($($into,)? rows::load_all)(&mut self.$name, rows_of_kind);
                    }
                )?)*
            }

            /// Returns the writes of all tables.
            pub fn finish(self) -> Changes {
                Changes {
                    $($($($name: $by(self.$name),)?)?)*
                    ..Changes::default()
                }
            }
        }

        $($(
            impl Kind for $row {
                type Key = $key;
                type Extra = first!(type $($extra,)? ());
                $(const ORDERED: bool = $ordered;)?

                fn key(&self) -> $key {
                    let key_of: fn(&Self) -> $key = $key_of;
                    key_of(self)
                }

                $(fn version(&self) -> u32 {
                    let version_of: fn(&Self) -> u32 = $version;
                    version_of(self)
                })?

                fn table(tables: &Tables) -> &Table<Self> {
                    &tables.$name
                }

                fn table_mut(tables: &mut Tables) -> &mut Table<Self> {
                    &mut tables.$name
                }
            }
        )?)*

        $($($(
            impl Timed for $row {
                const KIND: &'static str = first!(stringify!($name), $due);
            }
        )?)?)*

        /// The names of the kinds that are due at times.
        pub const TIMED_KINDS: &[&str] = &[$($($(first!(stringify!($name), $due),)?)?)*];

        /// The changes of a decision. A store saves all of them or none.
        ///
        /// The store checks the versions of executions, flows, schedules, webhooks and gates, and that a new key or a new
        /// node name does not exist yet.
        #[derive(Clone, Debug, Default)]
        pub struct Changes {
            $($(
                #[doc = $writes_doc]
                pub $name: $writes,
            )?)*
        }

        impl Changes {
            /// Reports whether there is nothing to save.
            pub fn is_empty(&self) -> bool {
                $($(<$writes>::is_empty(&self.$name) &&)?)* true
            }
        }
    };
}

kinds!(define);

impl Plain for ApiKey {}
impl Plain for BulkJob {}
impl Plain for Delivery {}
impl Plain for InboxRow {}
impl Plain for KeyRow {}
impl Plain for OutboxRow {}
impl Plain for Schedule {}
impl Plain for Session {}
impl Plain for Signal {}
impl Plain for Step {}
impl Plain for Stream {}
impl Plain for TokenKey {}
impl Plain for Waitpoint {}
impl Plain for Webhook {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_are_listed_in_the_lock_order() {
        assert!(STAGES.is_sorted(), "{STAGES:?}");
    }
}
