//! Random submissions from SQL in lockstep with a reference: users whose transactions stay open, commit, or roll back in part
//! or as a whole, servers that take rows in at any moment, and operators who repeat and delete refused ones.
//!
//! The reference keeps plain lists: what each transaction has written, and what has become of it. It shares no code with the
//! store. A failed run is repeated with its seed.

use crate::{count, refusal_events, take_in};
use selvedge_engine::core::gate::{Config, GateKind};
use selvedge_engine::core::inbox::InboxNumber;
use selvedge_engine::core::rules::inbox::InboxChange;
use selvedge_engine::core::{ExecutionId, FlowId};
use selvedge_system_tests::server::{Server, operator};
use selvedge_system_tests::{PlainConnection, Sandbox, stop};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Sets the seed, to repeat a failed run.
const SEED: &str = "SELVEDGE_INBOX_MODEL_SEED";
/// Sets the number of sequences, for a longer run.
const CASES: &str = "SELVEDGE_INBOX_MODEL_CASES";
/// The number of users, each with a connection and at most one open transaction.
const USERS: usize = 3;
/// The name of the quota that comes and goes.
const QUOTA: &str = "mail";

/// A submission, as its writer knows it.
#[derive(Clone, Debug, PartialEq)]
enum Request {
    Execution,
    Flow,
    /// Needs the quota.
    WithQuota,
    /// Has a field that no execution has.
    Invalid,
    /// Has the same key as others: only the first creates an execution.
    WithKey,
}

impl Request {
    const ALL: [Request; 5] =
        [Request::Execution, Request::Flow, Request::WithQuota, Request::Invalid, Request::WithKey];

    /// The call that submits it.
    fn call(&self) -> String {
        match self {
            Request::Execution => "submit('k', input => '{\"a\":  1}')".into(),
            Request::Flow => {
                "submit_flow('{\"defaults\": {\"kind\": \"k\"}, \"nodes\": [{\"name\": \"a\"}, {\"name\": \"b\"}], \
                 \"edges\": [{\"from\": \"a\", \"to\": \"b\"}]}')"
                    .into()
            }
            Request::WithQuota => format!("submit('k', quotas => array['{QUOTA}'])"),
            Request::Invalid => "submit('k', retry => '{\"no_such_field\": 1}')".into(),
            Request::WithKey => "submit('k', idempotency_key => 'one')".into(),
        }
    }

    /// The number of executions that it creates.
    fn executions(&self) -> usize {
        match self {
            Request::Flow => 2,
            Request::Execution | Request::WithQuota | Request::Invalid | Request::WithKey => 1,
        }
    }
}

/// A user: a connection, and the submissions of its open transaction.
struct User {
    sql: PlainConnection,
    open: Option<Open>,
}

/// An open transaction.
#[derive(Default)]
struct Open {
    written: Vec<(Uuid, Request)>,
    /// The number of submissions before each savepoint.
    savepoints: Vec<usize>,
}

/// The reference.
#[derive(Default)]
struct Reference {
    /// Submissions that were committed and not yet taken in.
    pending: Vec<(Uuid, Request)>,
    /// Submissions that were taken in, and have created their execution or flow.
    created: BTreeMap<Uuid, Request>,
    refused: BTreeMap<Uuid, Request>,
    /// The number of refusals so far: a repeated submission can be refused again.
    refusals: usize,
    has_quota: bool,
    /// Submissions with the key that were taken in. One of them, whichever a server took in first, has created its execution.
    with_key: BTreeSet<Uuid>,
}

impl Reference {
    fn take_in(&mut self) {
        for (id, request) in std::mem::take(&mut self.pending) {
            let is_refused = match request {
                Request::Invalid => true,
                Request::WithQuota => !self.has_quota,
                Request::Execution | Request::Flow | Request::WithKey => false,
            };
            if is_refused {
                self.refused.insert(id, request);
                self.refusals += 1;
            } else if request == Request::WithKey {
                self.with_key.insert(id);
            } else {
                self.created.insert(id, request);
            }
        }
    }
}

/// A sequence in progress.
struct Walk {
    random: fastrand::Rng,
    servers: Vec<Server>,
    users: Vec<User>,
    plain: PlainConnection,
    reference: Reference,
}

impl Walk {
    async fn step(&mut self) {
        let user = self.random.usize(..USERS);
        match self.random.u8(..16) {
            0..6 => self.submit(user).await,
            6 => self.savepoint(user).await,
            7 => self.roll_back_to_savepoint(user).await,
            8..11 => self.end(user).await,
            11 | 12 => self.take_in().await,
            13 => self.toggle_quota().await,
            _ => self.change_refused().await,
        }
    }

    /// Submits, in the user's open transaction, in a new one, or in one of its own.
    async fn submit(&mut self, user: usize) {
        let request = self.random.choice(&Request::ALL).expect("there are some").clone();
        let user = &mut self.users[user];
        if user.open.is_none() && self.random.bool() {
            user.sql.run("begin").await;
            user.open = Some(Open::default());
        }
        let row = user.sql.query_one(&format!("select {}", request.call()), &[]).await;
        let id: Uuid = row.expect("it is accepted").get(0);
        match &mut user.open {
            Some(open) => open.written.push((id, request)),
            None => self.reference.pending.push((id, request)),
        }
    }

    async fn savepoint(&mut self, user: usize) {
        let User { sql, open } = &mut self.users[user];
        if let Some(open) = open {
            sql.run(&format!("savepoint s{}", open.savepoints.len())).await;
            open.savepoints.push(open.written.len());
        }
    }

    async fn roll_back_to_savepoint(&mut self, user: usize) {
        let User { sql, open } = &mut self.users[user];
        if let Some(open) = open
            && let Some(kept) = open.savepoints.pop()
        {
            sql.run(&format!("rollback to s{}", open.savepoints.len())).await;
            open.written.truncate(kept);
        }
    }

    /// Commits or rolls back.
    async fn end(&mut self, user: usize) {
        let User { sql, open } = &mut self.users[user];
        let Some(open) = open.take() else { return };
        match self.random.u8(..3) {
            0 => sql.run("rollback").await,
            _ => {
                sql.run("commit").await;
                self.reference.pending.extend(open.written);
            }
        }
    }

    /// Lets one server take everything in, or all of them at once.
    async fn take_in(&mut self) {
        match self.random.bool() {
            true => take_in(&self.servers[0]).await,
            false => {
                tokio::join!(take_in(&self.servers[0]), take_in(&self.servers[1]));
                // A server skips the rows that the other has locked.
                take_in(&self.servers[0]).await;
            }
        }
        self.reference.take_in();
        self.compare().await;
    }

    async fn toggle_quota(&mut self) {
        // Rows that wait are decided by the quotas at the time of the take-in.
        let is_used = self.reference.created.values().any(|request| *request == Request::WithQuota);
        if self.reference.has_quota && is_used {
            return;
        }
        let config =
            (!self.reference.has_quota).then(|| Config { concurrency: Some(1), ..Config::default() });
        let configured =
            self.servers[1].namespace.configure(GateKind::Quota, QUOTA, config, &operator()).await;
        configured.expect("the quota is configured");
        self.reference.has_quota = !self.reference.has_quota;
    }

    /// Repeats or deletes a refused submission.
    async fn change_refused(&mut self) {
        let refused: Vec<Uuid> = self.reference.refused.keys().copied().collect();
        let Some(id) = self.random.choice(&refused).copied() else { return };
        let number = InboxNumber(self.plain.number("select number from inbox where id = $1", &[&id]).await);
        let change = if self.random.bool() { InboxChange::Retry } else { InboxChange::Delete };
        let changed = self.servers[0].namespace.change_inbox_row(number, change).await;
        changed.expect("the row was refused");
        let request = self.reference.refused.remove(&id).expect("it was refused");
        if change == InboxChange::Retry {
            self.reference.pending.push((id, request));
        }
    }

    async fn compare(&self) {
        let Reference { pending, created, refused, refusals, with_key, .. } = &self.reference;
        assert!(pending.is_empty());
        let namespace = &self.servers[1].namespace;
        let mut created_with_key = 0;
        for id in with_key {
            created_with_key += usize::from(namespace.get(ExecutionId(*id)).await.is_ok());
        }
        assert_eq!(created_with_key, with_key.len().min(1), "the first with the key, and no other");
        let expected = created.values().map(Request::executions).sum::<usize>() + created_with_key;
        assert_eq!(count(namespace).await, expected);
        for (id, request) in created {
            match request {
                Request::Flow => drop(namespace.flow(FlowId(*id)).await.expect("the flow exists")),
                _ => drop(namespace.get(ExecutionId(*id)).await.expect("the execution exists")),
            }
        }
        let rows = self.plain.query("select id from inbox where refused_at is not null", &[]).await;
        let rows: BTreeSet<Uuid> = rows.expect("the inbox is read").iter().map(|row| row.get(0)).collect();
        assert_eq!(rows, refused.keys().copied().collect::<BTreeSet<Uuid>>());
        assert_eq!(refusal_events(namespace).await.len(), *refusals);
        let waiting = self.plain.number("select count(*) from inbox where refused_at is null", &[]).await;
        assert_eq!(waiting, 0, "rows of open transactions are not visible, all others were taken in");
    }
}

/// Runs one sequence, and ends it with everything committed and taken in.
async fn run_sequence(seed: u64) {
    let sandbox = Sandbox::new();
    let servers = vec![sandbox.server("one").await, sandbox.server("two").await];
    let mut users = Vec::new();
    for _ in 0..USERS {
        users.push(User { sql: sandbox.plain().await, open: None });
    }
    let (random, plain) = (fastrand::Rng::with_seed(seed), sandbox.plain().await);
    let mut walk = Walk { random, servers, users, plain, reference: Reference::default() };
    for _ in 0..walk.random.usize(10..80) {
        walk.step().await;
    }
    for user in 0..USERS {
        walk.end(user).await;
    }
    walk.take_in().await;
    stop(walk.servers.iter().map(|server| &server.engine)).await;
}

#[tokio::test]
async fn random_submissions_from_sql_agree_with_the_model() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number(SEED).unwrap_or_else(|| fastrand::u64(..));
    for case in 0..number(CASES).unwrap_or(12) {
        let seed = seed.wrapping_add(case);
        println!("{SEED}={seed}");
        run_sequence(seed).await;
    }
}
