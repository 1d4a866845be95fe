//! Sessions of workers, with their leases.

use crate::SqliteStore;
use crate::connection::failure::not_understood;
use crate::kinds::{Kind, Saving};
use crate::row::{self, to_json};
use crate::sql::{self, columns, statements};
use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};
use selvedge_core::rows::HeldLease;
use selvedge_core::{
    Changes, ClaimScope, ExecutionId, LeaseId, Name, NamespaceId, Needs, Rows, Session, SessionId, Timestamp,
};
use selvedge_store::columns as stored;
use selvedge_store::{Error, SessionReads};

pub(crate) const KIND: Kind = Kind {
    columns: &[("session", session::LIST)],
    statements: STATEMENTS,
    load,
    save,
    delete_rest: &[&SESSIONS_DELETE_REST],
    ..Kind::EMPTY
};

statements! {
    LEASES_LIST = "leases/list";
    SESSIONS_DELETE = "sessions/delete";
    SESSIONS_DELETE_REST = "sessions/delete_rest";
    SESSIONS_LIST = "sessions/list";
    SESSIONS_LIST_BY_INSTANCE = "sessions/list_by_instance";
    SESSIONS_LIST_UNSEEN = "sessions/list_unseen";
    SESSIONS_READ = "sessions/read";
    SESSIONS_UPSERT = "sessions/upsert";
}

columns! {
    session of session: &Session {
        id = session.id.0,
        namespace = session.scope.namespace.0,
        worker = session.worker.as_str(),
        instance = session.instance.as_str(),
        ttl_ms = session.ttl_ms,
        lanes = to_json(&session.scope.lanes)?,
        kinds = session.scope.kinds.as_ref().map(to_json).transpose()?,
        capabilities = to_json(&session.scope.capabilities)?,
        registered_at = session.registered_at.micros(),
        seen_at = session.seen_at.micros(),
        renewed_at = session.renewed_at.map(Timestamp::micros),
        draining = session.draining,
        life = session.life,
        detail = stored::session_detail_column(&session.detail),
    }
}

fn decode(found: &Row<'_>) -> rusqlite::Result<Session> {
    use session::AT;
    Ok(Session {
        id: SessionId(found.get(AT.id)?),
        worker: row::name(found, AT.worker)?,
        instance: row::name(found, AT.instance)?,
        ttl_ms: found.get(AT.ttl_ms)?,
        scope: ClaimScope {
            namespace: NamespaceId(found.get(AT.namespace)?),
            lanes: row::json(found, AT.lanes, "lanes")?,
            kinds: match found.get_ref(AT.kinds)?.data_type() {
                Type::Null => None,
                _ => Some(row::json(found, AT.kinds, "kinds")?),
            },
            capabilities: row::json(found, AT.capabilities, "capabilities")?,
        },
        registered_at: row::time(found, AT.registered_at)?,
        seen_at: row::time(found, AT.seen_at)?,
        renewed_at: row::optional_time(found, AT.renewed_at)?,
        draining: found.get(AT.draining)?,
        life: found.get(AT.life)?,
        detail: stored::session_detail(found.get::<_, Option<String>>(AT.detail)?.as_deref())
            .map_err(|why| not_understood(&format!("a session cannot be read: {why}")))?,
    })
}

/// Reads a lease of `session` in (id, lease_id, epoch, until_at, detail). The inner error names an unreadable execution.
fn decode_lease(
    found: &Row<'_>,
    session: &Session,
) -> rusqlite::Result<Result<HeldLease, (ExecutionId, String)>> {
    let execution = ExecutionId(row::uuid(found, 0)?);
    let detail: Option<String> = found.get(4)?;
    let cancel_requested = match stored::cancel_requested(detail.as_deref()) {
        Ok(requested) => requested,
        Err(why) => return Ok(Err((execution, why))),
    };
    Ok(Ok(HeldLease {
        execution,
        session: session.id,
        lease_id: LeaseId(row::uuid(found, 1)?),
        epoch: found.get(2)?,
        claimed_at: row::time(found, 3)?.minus_ms(session.ttl_ms),
        cancel_requested,
    }))
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for id in needs.sessions.keys() {
        rows.sessions.extend(sql::row(connection, &SESSIONS_READ, [id.0], decode)?);
    }
    for (namespace, instance) in &needs.queries.instances {
        load_instance(connection, *namespace, instance, rows)?;
    }
    Ok(())
}

/// Loads the sessions of an instance, and their leases.
fn load_instance(
    connection: &Connection,
    namespace: NamespaceId,
    instance: &Name,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    let parameters = params![namespace.0, instance.as_str()];
    let found = sql::rows(connection, &SESSIONS_LIST_BY_INSTANCE, parameters, decode)?;
    for session in &found {
        let leases =
            sql::rows(connection, &LEASES_LIST, [session.id.0], |lease| decode_lease(lease, session))?;
        for lease in leases {
            match lease {
                Ok(lease) => rows.found.leases.push(lease),
                Err(unreadable) => rows.unreadable.push(unreadable),
            }
        }
    }
    rows.sessions.extend(found);
    Ok(())
}

fn save(connection: &Connection, changes: &Changes, _: &mut Saving) -> rusqlite::Result<Option<String>> {
    for id in &changes.sessions.removed {
        sql::execute(connection, &SESSIONS_DELETE, [id.0])?;
    }
    for session in &changes.sessions.written {
        session::write(connection, &SESSIONS_UPSERT, session, &[])?;
    }
    Ok(None)
}

#[async_trait]
impl SessionReads for SqliteStore {
    async fn sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error> {
        let namespace = namespace.map(|namespace| namespace.0);
        self.read("sessions", move |connection| sql::rows(connection, &SESSIONS_LIST, [namespace], decode))
            .await
    }

    async fn unseen_sessions(&self, unseen_ms: i64, limit: u32) -> Result<Vec<SessionId>, Error> {
        let before = self.clock.now().minus_ms(unseen_ms).micros();
        self.read("unseen_sessions", move |connection| {
            sql::rows(connection, &SESSIONS_LIST_UNSEEN, params![before, limit], |found| {
                found.get(0).map(SessionId)
            })
        })
        .await
    }
}
