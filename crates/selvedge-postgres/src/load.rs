//! The loading half of a transaction: all statements that a decision needs are sent together, and their answers are
//! gathered.
//!
//! The server runs the statements in the order in which they are sent, so locks are taken in the global order: API keys, bulk
//! jobs, webhooks, the inbox, schedules, growth of flows, executions, outbox, lanes, candidates, gates, parts of gates, held executions, flows, sessions. Rows that a
//! lock protects are read by a statement behind it: relatives and records after executions and the outbox, held
//! executions after their gate, leases after their session. The first lock of all, even before the time is read, is the
//! writers' advisory lock, which is only shared: see `bounds` and `log`.

use crate::api_keys;
use crate::bounds::Bounds;
use crate::bulk_jobs;
use crate::connection::Connection;
use crate::connection::pipeline::{Parameters, Pipeline};
use crate::gates;
use crate::inbox;
use crate::records;
use crate::row::{self, Micros};
use crate::schedules;
use crate::sql;
use crate::streams;
use crate::transaction::Failed;
use crate::webhooks;
use selvedge_core::filter::ListPosition;
use selvedge_core::gate::GateName;
use selvedge_core::outbox::OutboxName;
use selvedge_core::rows::{Candidates, KeyName, KeyRow, KeyScope, KeySubject, Members, Queries, mention};
use selvedge_core::table::{Access, Request};
use selvedge_core::{ClassId, ExecutionId, FlowId, Name, NamespaceId, Needs, Rows, SessionId};
use selvedge_store::Error;
use std::collections::HashSet;
use std::time::Duration;
use tokio_postgres::Row;
use uuid::Uuid;

/// The purpose of a statement, to interpret its answer.
enum Asked {
    Begin,
    Lock,
    Now,
    Nodes,
    Members,
    Executions,
    FreeExecutions,
    Keys,
    Outbox,
    Flows,
    Gates,
    Candidates,
    Passing,
    Held,
    FoundHeld,
    Inputs,
    /// The upstreams and children, up to this size.
    Relatives(usize),
    Streams,
    Signals,
    Steps,
    Waitpoints,
    ApiKeys,
    BulkJobs,
    Webhooks,
    Deliveries,
    Schedules,
    Inbox,
    TokenKeys,
    Sessions,
    Leases,
    Classes,
}

/// Statements to send, in order.
#[derive(Default)]
struct Asking(Vec<(Asked, &'static str, Parameters<'static>)>);

impl Asking {
    fn add(&mut self, asked: Asked, text: &'static str, parameters: Parameters<'static>) {
        self.0.push((asked, text, parameters));
    }

    /// Adds a statement about these keys, if there are any.
    fn about<T>(
        &mut self,
        keys: &[T],
        asked: Asked,
        text: &'static str,
        parameters: impl FnOnce(&[T]) -> Parameters<'static>,
    ) {
        if !keys.is_empty() {
            self.add(asked, text, parameters(keys));
        }
    }

    /// Adds a statement that reads the rows of a request.
    fn read<K: Ord + Clone>(
        &mut self,
        request: &Request<K>,
        asked: Asked,
        text: &'static str,
        parameters: impl FnOnce(&[K]) -> Parameters<'static>,
    ) {
        self.about(&request.with(Access::Read), asked, text, parameters);
    }

    /// Adds a statement that locks the rows of a request.
    fn lock<K: Ord + Clone>(
        &mut self,
        request: &Request<K>,
        asked: Asked,
        text: &'static str,
        parameters: impl FnOnce(&[K]) -> Parameters<'static>,
    ) {
        self.about(&request.with(Access::Lock), asked, text, parameters);
    }
}

/// The beginning of a transaction.
pub struct Begin {
    /// The key of the advisory lock that all writers share.
    pub writers_key: i64,
    /// The time limit of each statement, if it differs from that of the connection.
    pub patience: Option<Duration>,
}

/// A size that no payload reaches: it is read whole.
const WHOLE: usize = usize::MAX;

/// The part of its patience that a transaction has for a lock.
const LOCK_PATIENCE: u32 = 5;

/// Loads rows, and first begins the transaction if asked to.
pub async fn load(
    client: &Connection,
    needs: &Needs,
    begin: Option<Begin>,
    writers_key: i64,
    bounds: &Bounds,
) -> Result<Rows, Failed> {
    let mut asking = Asking::default();
    if let Some(Begin { writers_key, patience }) = begin {
        asking.add(Asked::Begin, "begin", vec![]);
        if let Some(patience) = patience {
            let text =
                "select set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true)";
            let ms = |time: Duration| Box::new(time.as_millis().max(1).to_string());
            asking.add(Asked::Begin, text, vec![ms(patience / LOCK_PATIENCE), ms(patience)]);
        }
        let parameters: Parameters<'_> = vec![Box::new(writers_key)];
        asking.add(Asked::Lock, "select pg_advisory_xact_lock_shared($1)", parameters);
    }
    ask(needs, writers_key, bounds, &mut asking);
    // Read last, when all locks are held: so the times of a row's versions never go back.
    asking.add(Asked::Now, &sql::SERVER_NOW, vec![]);
    let mut pipeline = Pipeline::new(client);
    let mut asked = Vec::new();
    for (purpose, text, parameters) in asking.0 {
        asked.push(purpose);
        pipeline.add(text, parameters).await?;
    }
    let mut rows = Rows::default();
    let mut damaged = Vec::new();
    for (asked, answer) in asked.iter().zip(pipeline.run().await?) {
        let answer = answer?;
        match asked {
            Asked::Held => damaged = gates::gather_locked(&answer, &needs.queries.held, &mut rows),
            asked => gather(asked, &answer, needs, &mut rows)?,
        }
    }
    gates::look_behind(client, damaged, &mut rows).await?;
    rows.found.candidates = in_claim_order(&rows);
    records::gather_whole(&needs.queries.records, &mut rows);
    Ok(rows)
}

/// Adds all statements, in lock order.
fn ask(needs: &Needs, writers_key: i64, bounds: &Bounds, asking: &mut Asking) {
    let Needs { growing, nodes, executions, inputs, relatives, keys, outbox, lanes, gates, parts, .. } =
        needs;
    let Needs { schedules, whole_inputs, whole_relatives, .. } = needs;
    let Needs { flows, sessions, streams, summaries, steps, queries, .. } = needs;
    asking.lock(&needs.api_keys, Asked::ApiKeys, &sql::API_KEYS_LOCK, api_keys::ids);
    asking.lock(&needs.bulk_jobs, Asked::BulkJobs, &sql::BULK_JOBS_LOCK, bulk_jobs::ids);
    asking.lock(&needs.webhooks, Asked::Webhooks, &sql::WEBHOOKS_LOCK, webhooks::names);
    let inbox = needs.inbox.with(Access::LockIfFree);
    asking.about(&inbox, Asked::Inbox, &sql::INBOX_LOCK, inbox::numbers);
    asking.lock(schedules, Asked::Schedules, &sql::SCHEDULES_LOCK, schedules::names);
    asking.read(schedules, Asked::Schedules, &sql::SCHEDULES_READ, schedules::names);
    asking.lock(growing, Asked::Lock, &sql::FLOWS_LOCK_GROWTH, |flows| growth(flows, writers_key));
    asking.read(nodes, Asked::Nodes, &sql::NODES_FIND, node_names);
    asking.about(&queries.members, Asked::Members, &sql::NODES_LIST_MEMBERS, members);
    let (mut locked, cached) = (executions.with(Access::Lock), executions.with(Access::Cached));
    if locked.is_empty() {
        asking.about(&cached, Asked::Lock, &sql::EXECUTIONS_LOCK_CACHED, ids);
    } else {
        // All by one statement, which locks in id order.
        locked.extend(cached);
        asking.about(&locked, Asked::Executions, &sql::EXECUTIONS_LOCK, ids);
    }
    let free = executions.with(Access::LockIfFree);
    asking.about(&free, Asked::FreeExecutions, &sql::EXECUTIONS_LOCK_AVAILABLE, ids);
    asking.read(keys, Asked::Keys, &sql::KEYS_READ, key_names);
    asking.lock(outbox, Asked::Outbox, &sql::OUTBOX_LOCK, outbox_names);
    asking.read(flows, Asked::Flows, &sql::FLOWS_READ, flow_ids);
    asking.read(gates, Asked::Gates, &sql::GATES_READ, gates::ids);
    asking.lock(lanes, Asked::Gates, &sql::GATES_LOCK_LANES, gates::ids);
    asking.about(&queries.candidates, Asked::Candidates, &sql::EXECUTIONS_LOCK_CANDIDATES, |wanted| {
        candidates(wanted, &queries.except, bounds, needs.inline_inputs())
    });
    if !queries.refusing.is_empty() {
        asking.about(&queries.candidates, Asked::Passing, &sql::EXECUTIONS_LOCK_PASSING, |wanted| {
            passing(wanted, queries, bounds, needs.inline_inputs())
        });
    }
    asking.lock(gates, Asked::Gates, &sql::GATES_LOCK, gates::ids);
    asking.lock(parts, Asked::Gates, &sql::GATES_LOCK, gates::ids);
    asking.about(&queries.held, Asked::Held, &sql::EXECUTIONS_LOCK_HELD, |held| gates::held_but(held, &[]));
    asking.about(&queries.held, Asked::FoundHeld, &sql::EXECUTIONS_FIND_HELD, gates::held);
    asking.lock(flows, Asked::Flows, &sql::FLOWS_LOCK, flow_ids);
    asking.read(executions, Asked::Executions, &sql::EXECUTIONS_READ, ids);
    for (inputs, limit) in [(inputs, needs.inline_inputs()), (whole_inputs, WHOLE)] {
        asking.read(inputs, Asked::Inputs, &sql::EXECUTIONS_READ_INPUTS, |some| ids_within(some, limit));
    }
    for (relatives, limit) in [(relatives, needs.inline_relatives()), (whole_relatives, WHOLE)] {
        let asked = Asked::Relatives(limit);
        asking.read(relatives, asked, &sql::EXECUTIONS_READ_RELATIVES, |some| ids_within(some, limit));
    }
    for (streams, whole) in [(streams, false), (summaries, true)] {
        asking.read(streams, Asked::Streams, &sql::STREAMS_READ, |names| streams::names(names, whole));
    }
    asking.about(&queries.records, Asked::Signals, &sql::SIGNALS_READ, ids);
    asking.about(&queries.records, Asked::Steps, &sql::STEPS_READ, ids);
    asking.about(&queries.untaken, Asked::Signals, &sql::SIGNALS_LIST_UNTAKEN, ids);
    asking.about(&queries.signal_keys, Asked::Signals, &sql::SIGNALS_FIND, records::names);
    asking.read(steps, Asked::Steps, &sql::STEPS_FIND, records::names);
    asking.about(&queries.waitpoints, Asked::Waitpoints, &sql::WAITPOINTS_READ, ids);
    if queries.token_keys {
        asking.add(Asked::TokenKeys, &sql::TOKEN_KEYS_LIST, vec![]);
    }
    asking.read(&needs.deliveries, Asked::Deliveries, &sql::WEBHOOK_DELIVERIES_FIND, webhooks::delivery_ids);
    asking.read(sessions, Asked::Sessions, &sql::SESSIONS_READ, session_ids);
    asking.lock(sessions, Asked::Sessions, &sql::SESSIONS_LOCK, session_ids);
    asking.about(&queries.instances, Asked::Sessions, &sql::SESSIONS_LOCK_BY_INSTANCE, instances);
    asking.about(&queries.instances, Asked::Leases, &sql::LEASES_LIST, instances);
    if let Some(after) = queries.classes_after {
        asking.add(Asked::Classes, &sql::CLASSES_LIST, vec![Box::new(after.0)]);
    }
}

fn gather(asked: &Asked, answer: &[Row], needs: &Needs, rows: &mut Rows) -> Result<(), Error> {
    match asked {
        Asked::Begin | Asked::Lock | Asked::Held => {}
        Asked::Gates => gates::gather(answer, rows)?,
        Asked::FoundHeld => gates::gather_found(answer, rows),
        Asked::Now => rows.now = answer.first().map(|row| row.get::<_, Micros>(0).time()).unwrap_or_default(),
        Asked::Nodes => rows.nodes.extend(
            answer.iter().map(|row| (FlowId(row.get(0)), Name::trusted(row.get(1)), ExecutionId(row.get(2)))),
        ),
        Asked::Members => gather_members(answer, &needs.queries.members, rows),
        Asked::Executions => answer.iter().for_each(|row| {
            gather_execution(row, rows);
        }),
        Asked::FreeExecutions => {
            let locked: HashSet<ExecutionId> = answer.iter().map(|row| row::place(row).id).collect();
            let asked = needs.executions.iter(Access::LockIfFree);
            rows.skipped.extend(asked.filter(|id| !locked.contains(id)));
            answer.iter().for_each(|row| {
                gather_execution(row, rows);
            });
        }
        Asked::Candidates | Asked::Passing => {
            for answer in answer {
                if let Some(id) = gather_execution(answer, rows) {
                    rows.found.candidates.push(id);
                    rows.inputs.push((id, row::sized_payload(answer, sql::EXECUTION_COLUMN_COUNT)));
                }
            }
        }
        Asked::Inputs => {
            let input = |row: &Row| (ExecutionId(row.get(0)), row::sized_payload(row, 1));
            rows.inputs.extend(answer.iter().map(input));
        }
        Asked::Relatives(limit) => {
            for answer in answer {
                match row::relative(answer, *limit) {
                    Ok(relative) => rows.relatives.push(relative),
                    Err(unreadable) => rows.unreadable.push(unreadable),
                }
            }
        }
        Asked::Streams => rows.streams.extend(answer.iter().map(streams::found)),
        Asked::Signals => records::gather_signals(answer, rows),
        Asked::Steps => records::gather_steps(answer, rows),
        Asked::Waitpoints => records::gather_waitpoints(answer, rows),
        Asked::TokenKeys => records::gather_token_keys(answer, rows),
        Asked::ApiKeys => api_keys::gather(answer, rows)?,
        Asked::BulkJobs => bulk_jobs::gather(answer, rows)?,
        Asked::Webhooks => webhooks::gather(answer, rows)?,
        Asked::Deliveries => webhooks::gather_deliveries(answer, rows)?,
        Asked::Schedules => schedules::gather(answer, rows)?,
        Asked::Inbox => inbox::gather(answer, rows)?,
        Asked::Keys => {
            for row in answer {
                rows.keys.push(key(row)?);
            }
        }
        Asked::Outbox => {
            for answer in answer {
                rows.outbox.push(row::outbox(answer)?);
            }
        }
        Asked::Flows => {
            for answer in answer {
                rows.flows.push(row::flow(answer)?);
            }
        }
        Asked::Sessions => {
            for answer in answer {
                rows.sessions.push(row::session(answer)?);
            }
        }
        Asked::Leases => {
            for answer in answer {
                match row::held_lease(answer) {
                    Ok(lease) => rows.found.leases.push(lease),
                    Err(unreadable) => rows.unreadable.push(unreadable),
                }
            }
        }
        Asked::Classes => rows.found.classes.extend(answer.iter().map(row::class)),
    }
    Ok(())
}

/// Adds an execution to the rows. Returns its id, or none if it is unreadable.
pub fn gather_execution(answer: &Row, rows: &mut Rows) -> Option<ExecutionId> {
    match row::execution(answer) {
        Ok(execution) => {
            let id = execution.id;
            rows.executions.push(execution);
            Some(id)
        }
        Err(unreadable) => {
            rows.unreadable.push(unreadable);
            None
        }
    }
}

/// Adds members to the rows, with the page of each. An unreadable member counts too.
fn gather_members(answer: &[Row], pages: &[Members], rows: &mut Rows) {
    let mut found: Vec<(i64, ListPosition)> =
        answer.iter().map(|row| (row.get(sql::EXECUTION_COLUMN_COUNT), row::place(row))).collect();
    found.sort_unstable();
    let mut found = found.into_iter().peekable();
    for (page, number) in pages.iter().zip(1_i64..) {
        let of_page = std::iter::from_fn(|| found.next_if(|(on, _)| *on == number));
        rows.found.members.push((*page, of_page.map(|(_, place)| place.id).collect()));
    }
    for row in answer {
        gather_execution(row, rows);
    }
}

/// Returns the candidates of several statements, merged in claim order.
fn in_claim_order(rows: &Rows) -> Vec<ExecutionId> {
    let mut candidates = rows.found.candidates.clone();
    if candidates.len() > 1 {
        let place: std::collections::HashMap<_, _> =
            rows.executions.iter().map(|row| (row.id, row.claim_order())).collect();
        candidates.sort_by_key(|id| place.get(id).copied());
        candidates.dedup();
    }
    candidates
}

/// Returns the parameters of the search for candidates of all claims, each class from its bound on, with inputs up to this
/// size.
fn candidates(
    wanted: &[Candidates],
    except: &[ExecutionId],
    bounds: &Bounds,
    inline_inputs: usize,
) -> Parameters<'static> {
    let all: Vec<ClassId> = wanted.iter().flat_map(|one| one.classes.iter().copied()).collect();
    let passed = bounds.of(&all);
    let each = wanted.iter().zip(1_i32..);
    let each = each.flat_map(|(one, ask)| one.classes.iter().map(move |class| (class.0, ask, one.limit)));
    let (mut classes, mut asks, mut limits) = (Vec::new(), Vec::new(), Vec::new());
    for (class, ask, limit) in each {
        classes.push(class);
        asks.push(ask);
        limits.push(i64::from(limit));
    }
    let mut parameters: Parameters<'static> = vec![
        Box::new(classes),
        Box::new(passed.keys),
        Box::new(passed.generations),
        Box::new(passed.bounds),
        Box::new(asks),
        Box::new(limits),
    ];
    parameters.extend(ids_within(except, inline_inputs));
    parameters
}

/// Returns the parameters of the search for executions that name no refusing gate.
fn passing(
    wanted: &[Candidates],
    queries: &Queries,
    bounds: &Bounds,
    inline_inputs: usize,
) -> Parameters<'static> {
    let mut parameters = candidates(wanted, &queries.except, bounds, inline_inputs);
    let pattern = |gate: &GateName| {
        let escaped = mention(gate).replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        format!("%{escaped}%")
    };
    parameters.push(Box::new(queries.refusing.iter().map(pattern).collect::<Vec<String>>()));
    parameters
}

/// Returns the keys of the advisory locks for the growth of flows: one of the schema, and one of each flow. Two flows
/// with the same key wait for each other needlessly.
fn growth(flows: &[FlowId], writers_key: i64) -> Parameters<'static> {
    let fold = |flow: &FlowId| {
        let bits = flow.0.as_u128();
        (bits ^ (bits >> 32) ^ (bits >> 64) ^ (bits >> 96)) as u32 as i32
    };
    let mut numbers: Vec<i32> = flows.iter().map(fold).collect();
    numbers.sort_unstable();
    numbers.dedup();
    vec![Box::new(writers_key as i32), Box::new(numbers)]
}

fn node_names(names: &[(FlowId, Name)]) -> Parameters<'static> {
    vec![
        Box::new(names.iter().map(|(flow, _)| flow.0).collect::<Vec<Uuid>>()),
        Box::new(names.iter().map(|(_, name)| name.to_string()).collect::<Vec<String>>()),
    ]
}

/// Returns the parameters of `nodes/list_members`.
pub fn members(pages: &[Members]) -> Parameters<'static> {
    vec![
        Box::new(pages.iter().map(|page| page.flow.0).collect::<Vec<Uuid>>()),
        Box::new(pages.iter().map(|page| i64::from(page.skip)).collect::<Vec<i64>>()),
        Box::new(pages.iter().map(|page| i64::from(page.limit)).collect::<Vec<i64>>()),
    ]
}

fn outbox_names(names: &[OutboxName]) -> Parameters<'static> {
    vec![
        Box::new(names.iter().map(|name| name.id).collect::<Vec<Uuid>>()),
        Box::new(names.iter().map(|name| name.kind.code()).collect::<Vec<i16>>()),
    ]
}

fn ids(ids: &[ExecutionId]) -> Parameters<'static> {
    vec![Box::new(ids.iter().map(|id| id.0).collect::<Vec<Uuid>>())]
}

/// Returns ids, and a size up to which payloads are read.
fn ids_within(some: &[ExecutionId], limit: usize) -> Parameters<'static> {
    let mut parameters = ids(some);
    parameters.push(Box::new(i32::try_from(limit).unwrap_or(i32::MAX)));
    parameters
}

fn flow_ids(ids: &[FlowId]) -> Parameters<'static> {
    vec![Box::new(ids.iter().map(|id| id.0).collect::<Vec<Uuid>>())]
}

fn session_ids(ids: &[SessionId]) -> Parameters<'static> {
    vec![Box::new(ids.iter().map(|id| id.0).collect::<Vec<i64>>())]
}

fn key_names(names: &[KeyName]) -> Parameters<'static> {
    vec![
        Box::new(names.iter().map(|name| name.namespace.0).collect::<Vec<i32>>()),
        Box::new(names.iter().map(|name| name.scope.code()).collect::<Vec<i16>>()),
        Box::new(names.iter().map(|name| name.key.to_string()).collect::<Vec<String>>()),
    ]
}

fn instances(instances: &[(NamespaceId, Name)]) -> Parameters<'static> {
    vec![
        Box::new(instances.iter().map(|(namespace, _)| namespace.0).collect::<Vec<i32>>()),
        Box::new(instances.iter().map(|(_, instance)| instance.to_string()).collect::<Vec<String>>()),
    ]
}

fn key(row: &Row) -> Result<KeyRow, Error> {
    let code: i16 = row.get(1);
    let scope =
        KeyScope::from_code(code).ok_or_else(|| Error::Failed(format!("keys: unknown scope {code}")))?;
    Ok(KeyRow {
        name: KeyName { namespace: NamespaceId(row.get(0)), scope, key: Name::trusted(row.get(2)) },
        subject: row.get::<_, Option<Uuid>>(3).map(|id| KeySubject::new(scope, id)),
        digest: row.get::<_, i64>(4) as u64,
        answer: row::payload(row, 5),
        expires_at: row.get::<_, Option<Micros>>(6).map(Micros::time),
    })
}
