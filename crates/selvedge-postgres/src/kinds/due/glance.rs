//! A quick overview: its cost depends neither on the number of sessions nor on the age of the oldest snapshot.
//!
//! The heads of indexes on due times collect entries of rows that are no longer due. Vacuum cannot remove them while any
//! session of the database holds an older snapshot, and a search for the first due row steps over all of them. So the search
//! does not start at the head but at a time before which this server has found nothing that is due, and ends a little after
//! the present: times further ahead are found by later calls.
//!
//! Why it hides nothing: a row that becomes due gets a due time that is not before the time of its transaction. Each call learns a
//! [settled time](crate::settled) with the rows that it finds; the next call, which has a newer snapshot, searches from there on,
//! or from the first row that was found. Rows with a due time in the past, clocks that step back, and anything else that breaks the
//! argument are found by the complete overview, which lowers the times; the engine asks for it twice a minute.
//!
//! The inbox has no such times: any transaction of the database may write to it, and may stay open for long. There the server
//! remembers the snapshot of the last call that found nothing to take in. Whatever this snapshot contains was taken in or
//! refused, so later searches look only for rows of transactions that had not ended then.
//!
//! Leases expire by session. For each session this server knows a time before which none of its leases can expire: its last
//! renewal, or the end of the earliest first term, or the time to live after the present for leases to come. Only sessions
//! whose time has come are looked at, so each costs one search per time to live.

use super::{GLANCE, LEASES_CHECK, due_times, first_of};
use crate::sql::Micros;
use crate::{PostgresStore, settled};
use selvedge_core::inbox::InboxRow;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::schedule::Schedule;
use selvedge_core::stream::BEST_EFFORT_MS;
use selvedge_core::{DueKind, Gate, Timestamp};
use selvedge_store::{DueTimes, Error, FlowDue, Overview};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The time ahead of now up to which due times are returned, in milliseconds. Longer than the time between two calls.
const AHEAD_MS: i64 = 3000;
/// The margin by which each search starts before the earliest time that it could start from, in microseconds.
const MARGIN: i64 = 1_000_000;
/// The maximum number of sessions that one call reads.
const SESSIONS_MAX: usize = 500;
/// The most registered sessions that one call returns.
pub const REGISTERED_LIMIT: usize = 1000;
/// A snapshot that contains no transaction.
const EMPTY_SNAPSHOT: &str = "1:1:";
/// Before all times.
const BEGINNING: Micros = Micros(0);

/// The start times of the searches of one server.
#[derive(Default)]
pub struct Glances(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// The times from which on searches start.
    since: HashMap<Head, i64>,
    /// The time before which no later transaction makes anything due, as of the last call.
    settled: i64,
    /// The time from which on new sessions are searched.
    registered_since: i64,
    sessions: HashMap<i64, Session>,
    /// Sessions by the time at which they are looked at.
    queue: BTreeSet<(i64, i64)>,
    /// A snapshot in which no row of the inbox waits to be taken in. None before the first.
    inbox: Option<String>,
}

/// The head of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Head {
    Due(DueKind),
    Outbox(OutboxKind),
    Flow(FlowDue),
    Gates,
    Keys,
    Frames,
    Schedules,
}

#[derive(Clone, Copy, Default)]
struct Session {
    /// The time before which none of its leases can expire.
    next: i64,
    /// The time before which the index of leases has only dead entries of it.
    since: i64,
}

/// A session as it was found.
struct Checked {
    id: i64,
    ttl: Option<i64>,
    renewed_at: Option<i64>,
    first_term: Option<i64>,
}

impl Known {
    fn since(&self, head: Head) -> Micros {
        self.since.get(&head).map_or(BEGINNING, |since| Micros(*since))
    }

    /// Records the first row that a search found, none if there is none. Rows written later are not before `settled`.
    fn found(&mut self, head: Head, first: Option<Micros>, settled: i64) {
        let since = first.map_or(settled, |first| first.0.min(settled));
        self.since.insert(head, since.saturating_sub(MARGIN));
    }

    fn schedule(&mut self, id: i64, session: Session) {
        if let Some(before) = self.sessions.insert(id, session) {
            self.queue.remove(&(before.next, id));
        }
        self.queue.insert((session.next, id));
    }

    fn forget(&mut self, id: i64) {
        if let Some(before) = self.sessions.remove(&id) {
            self.queue.remove(&(before.next, id));
        }
    }

    /// Returns the sessions whose time has come.
    fn due_sessions(&self, now: i64) -> (Vec<i64>, Vec<Micros>) {
        let due = self.queue.iter().take_while(|(next, _)| *next <= now).take(SESSIONS_MAX);
        due.map(|(_, id)| (*id, Micros(self.sessions[id].since))).unzip()
    }

    /// Records a session that was looked at. Reports whether a lease of it has expired.
    fn checked(&mut self, session: &Checked, now: i64, settled: i64) -> bool {
        let before = self.sessions.get(&session.id).copied().unwrap_or_default();
        let has_expired = session.first_term.is_some_and(|at| at <= now);
        let Some(ttl) = session.ttl else {
            // Its row is gone. A lease that refers to it is found by the complete overview at the latest.
            self.forget(session.id);
            return has_expired;
        };
        let renewed_until = session.renewed_at.map(|at| at + ttl).filter(|until| *until > now);
        // Leases that are not there yet end their first term after this.
        let to_come = settled.saturating_add(ttl);
        let next = match (renewed_until, session.first_term) {
            (Some(until), _) => Session { next: until, since: before.since },
            (None, None) => Session { next: to_come, since: to_come.saturating_sub(MARGIN) },
            (None, Some(at)) => {
                let next = at.min(to_come);
                Session { next, since: next.saturating_sub(MARGIN) }
            }
        };
        self.schedule(session.id, next);
        renewed_until.is_none() && has_expired
    }
}

impl Glances {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything: a connection leads to another server, which may have another history.
    pub fn forget(&self) {
        *self.known() = Known::default();
    }

    /// Returns the time from which on executions that are due for a reason are searched.
    pub fn since(&self, kind: DueKind) -> Micros {
        self.known().since(Head::Due(kind))
    }

    /// Returns a snapshot in which no row of the inbox waits to be taken in.
    pub fn inbox_snapshot(&self) -> String {
        self.known().inbox_snapshot()
    }

    /// Returns the parameters of `overview/glance` as SQL literals.
    #[cfg(feature = "testing")]
    pub fn arguments(&self, writers_key: i64) -> String {
        let known = self.known();
        let time = |at: Micros| format!("timestamptz 'epoch' + {} * interval '1 microsecond'", at.0);
        let times = |all: &[Micros]| {
            let all: Vec<String> = all.iter().map(|at| time(*at)).collect();
            format!("array[{}]", all.join(", "))
        };
        let kinds = |codes: &[i16]| format!("array{codes:?}::smallint[]");
        [
            writers_key.to_string(),
            BEST_EFFORT_MS.to_string(),
            AHEAD_MS.to_string(),
            kinds(&DueKind::ALL.map(DueKind::code)),
            times(&DueKind::ALL.map(|kind| known.since(Head::Due(kind)))),
            kinds(&OutboxKind::ALL.map(OutboxKind::code)),
            times(&OutboxKind::ALL.map(|kind| known.since(Head::Outbox(kind)))),
            kinds(&FlowDue::ALL.map(FlowDue::code)),
            times(&FlowDue::ALL.map(|kind| known.since(Head::Flow(kind)))),
            time(known.since(Head::Gates)),
            times(&[Head::Keys, Head::Frames, Head::Schedules].map(|head| known.since(head))),
            time(Micros(known.registered_since)),
            format!("'{}'", known.inbox_snapshot()),
        ]
        .join(", ")
    }

    /// Lowers the times to what the complete overview has found.
    pub fn lower(&self, overview: &Overview) {
        let mut known = self.known();
        let mut lower = |head: Head, found: Timestamp| {
            let found = found.micros().saturating_sub(MARGIN);
            if let Some(since) = known.since.get_mut(&head) {
                *since = (*since).min(found);
            }
        };
        overview.next.iter().for_each(|(kind, at)| lower(Head::Due(*kind), *at));
        overview.outbox.iter().for_each(|(kind, at)| lower(Head::Outbox(*kind), *at));
        overview.flows.iter().for_each(|(kind, at)| lower(Head::Flow(*kind), *at));
        overview.due.of::<Gate>().into_iter().for_each(|at| lower(Head::Gates, at));
        overview.due.of::<Schedule>().into_iter().for_each(|at| lower(Head::Schedules, at));
        if overview.stale {
            lower(Head::Keys, Timestamp::from_micros(0));
            lower(Head::Frames, Timestamp::from_micros(0));
        }
        if overview.due.of::<InboxRow>().is_some() {
            known.inbox = None;
        }
    }
}

/// The times from which on the searches of one call start.
struct Starts {
    settled: i64,
    registered: Micros,
    due: Vec<Micros>,
    outbox: Vec<Micros>,
    flows: Vec<Micros>,
    gates: Micros,
    /// Keys, best-effort frames, and schedules.
    others: Vec<Micros>,
    inbox: String,
}

struct Found {
    now: Micros,
    /// The clock of the database, which no later transaction reads a time before.
    clock: Micros,
    ahead_ms: i64,
    next: Vec<Option<Micros>>,
    outbox: Vec<Option<Micros>>,
    flows: Vec<Option<Micros>>,
    keys: Option<Micros>,
    frames: Option<Micros>,
    newest_class: i32,
    lanes: bool,
    registered: Vec<i64>,
    begun: Option<Micros>,
    registered_upto: Option<Micros>,
    due: DueTimes,
    snapshot: String,
}

impl Found {
    /// Reads the row of `overview/glance`.
    fn of(row: &Row) -> Found {
        Found {
            now: row.get(0),
            next: row.get(1),
            outbox: row.get(2),
            flows: row.get(3),
            keys: row.get(5),
            frames: row.get(6),
            newest_class: row.get(7),
            lanes: row.get(8),
            registered: row.get(9),
            begun: row.get(10),
            registered_upto: row.get(11),
            due: due_times(row),
            snapshot: row.get(15),
            clock: row.get(16),
            ahead_ms: row.get(17),
        }
    }
}

impl Known {
    fn starts(&self) -> Starts {
        Starts {
            settled: self.settled,
            registered: Micros(self.registered_since),
            due: DueKind::ALL.map(|kind| self.since(Head::Due(kind))).into(),
            outbox: OutboxKind::ALL.map(|kind| self.since(Head::Outbox(kind))).into(),
            flows: FlowDue::ALL.map(|kind| self.since(Head::Flow(kind))).into(),
            gates: self.since(Head::Gates),
            others: [Head::Keys, Head::Frames, Head::Schedules].map(|head| self.since(head)).into(),
            inbox: self.inbox_snapshot(),
        }
    }

    fn inbox_snapshot(&self) -> String {
        self.inbox.clone().unwrap_or_else(|| EMPTY_SNAPSHOT.to_owned())
    }

    /// Takes in the answer to a call that began with `settled`.
    fn learn(&mut self, found: &Found, settled: i64) {
        if found.due.of::<InboxRow>().is_none() {
            self.inbox = Some(found.snapshot.clone());
        }
        for (kind, first) in DueKind::ALL.into_iter().zip(&found.next) {
            self.found(Head::Due(kind), *first, settled);
        }
        for (kind, first) in OutboxKind::ALL.into_iter().zip(&found.outbox) {
            self.found(Head::Outbox(kind), *first, settled);
        }
        for (kind, first) in FlowDue::ALL.into_iter().zip(&found.flows) {
            self.found(Head::Flow(kind), *first, settled);
        }
        self.found(Head::Gates, found.due.of::<Gate>().map(Micros::from), settled);
        self.found(Head::Keys, found.keys, settled);
        self.found(Head::Schedules, found.due.of::<Schedule>().map(Micros::from), settled);
        // The head of the frames is as far behind as their lifetime.
        self.found(Head::Frames, found.frames, settled.saturating_sub(BEST_EFFORT_MS * 1000));
        // The times of this call hold from the next one on: its snapshot is newer.
        self.settled = settled::time(found.clock, found.begun);
        for id in &found.registered {
            if !self.sessions.contains_key(id) {
                self.schedule(*id, Session::default());
            }
        }
        self.registered_since = match found.registered_upto {
            Some(upto) if found.registered.len() >= REGISTERED_LIMIT => upto.0,
            Some(_) | None => settled.saturating_sub(MARGIN),
        };
    }
}

impl PostgresStore {
    pub(crate) async fn read_glance(&self) -> Result<Overview, Error> {
        self.check_schema().await?;
        let starts = self.glances.known().starts();
        let (outbox, flows) = (OutboxKind::ALL.map(OutboxKind::code), FlowDue::ALL.map(FlowDue::code));
        let kinds = DueKind::ALL.map(DueKind::code);
        let parameters: [&(dyn ToSql + Sync); 13] = [
            &self.writers_key,
            &BEST_EFFORT_MS,
            &AHEAD_MS,
            &kinds.as_slice(),
            &starts.due,
            &outbox.as_slice(),
            &starts.outbox,
            &flows.as_slice(),
            &starts.flows,
            &starts.gates,
            &starts.others,
            &starts.registered,
            &starts.inbox,
        ];
        let rows = self.query_in_background(&GLANCE, &parameters).await?;
        let row = rows.first().ok_or_else(|| Error::Failed("the overview returned no row".into()))?;
        let found = Found::of(row);
        self.glances.known().learn(&found, starts.settled);
        let overview = Overview {
            now: found.now.time(),
            ahead_ms: found.ahead_ms,
            expired_leases: self.look_at_sessions(found.now).await?,
            next: first_of(DueKind::ALL, found.next),
            outbox: first_of(OutboxKind::ALL, found.outbox),
            flows: first_of(FlowDue::ALL, found.flows),
            stale: found.keys.is_some() || found.frames.is_some(),
            due: found.due,
            lanes: found.lanes,
            newest_class: found.newest_class,
        };
        self.keep_pace(&overview).await;
        Ok(overview)
    }

    /// Looks at the sessions whose time has come. Reports whether a lease of one has expired.
    async fn look_at_sessions(&self, now: Micros) -> Result<bool, Error> {
        let (due, since) = self.glances.known().due_sessions(now.0);
        if due.is_empty() {
            return Ok(false);
        }
        let rows = self.query_in_background(&LEASES_CHECK, &[&due, &since]).await?;
        let mut known = self.glances.known();
        let settled = known.settled;
        let mut has_expired = false;
        for row in &rows {
            let micros = |index| row.get::<_, Option<Micros>>(index).map(|at: Micros| at.0);
            let session = Checked {
                id: row.get(0),
                ttl: row.get::<_, Option<i64>>(1).map(|ms| ms.saturating_mul(1000)),
                renewed_at: micros(2),
                first_term: micros(3),
            };
            has_expired |= known.checked(&session, now.0, settled);
        }
        Ok(has_expired)
    }
}
