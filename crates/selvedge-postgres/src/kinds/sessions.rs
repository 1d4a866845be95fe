//! Sessions of workers, and the leases that they hold.

use crate::PostgresStore;
use crate::connection::Parameters;
use crate::kinds::{Asking, Saving, collect, ignore};
use crate::sql::{Micros, array, columns, statements};
use async_trait::async_trait;
use selvedge_core::rows::HeldLease;
use selvedge_core::{ClaimScope, ExecutionId, LeaseId, Name, NamespaceId, Session, SessionId};
use selvedge_store::{Error, SessionReads, columns as stored};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

statements! {
    with { session: session::list(), }
    DELETE = "sessions/delete";
    LEASES_LIST = "leases/list";
    LIST = "sessions/list";
    LIST_UNSEEN = "sessions/list_unseen";
    LOCK = "sessions/lock";
    LOCK_BY_INSTANCE = "sessions/lock_by_instance";
    READ = "sessions/read";
    UPSERT = "sessions/upsert";
}

columns! {
    session<'a> of row: &'a Session {
        id: i64 = row.id.0,
        namespace: i32 = row.namespace().0,
        worker: &'a str = row.worker.as_str(),
        instance: &'a str = row.instance.as_str(),
        ttl_ms: i64 = row.ttl_ms,
        lanes: Vec<&'a str> = words(&row.scope.lanes),
        kinds: Option<Vec<&'a str>> = row.scope.kinds.as_ref().map(words),
        capabilities: Vec<&'a str> = words(&row.scope.capabilities),
        registered_at: Micros = row.registered_at.into(),
        seen_at: Micros = row.seen_at.into(),
        renewed_at: Option<Micros> = row.renewed_at.map(Micros::from),
        draining: bool = row.draining,
        life: i32 = row.life as i32,
        detail: Option<String> = stored::session_detail_column(&row.detail),
    }
}

fn words<'a>(names: impl IntoIterator<Item = &'a Name>) -> Vec<&'a str> {
    names.into_iter().map(Name::as_str).collect()
}

fn decode(row: &Row) -> Result<Session, Error> {
    use session::AT;
    let name = |text: &str| Name::trusted(text);
    let names = |list: Vec<&str>| list.into_iter().map(Name::trusted).collect::<Vec<Name>>();
    let detail = stored::session_detail(row.get::<_, Option<&str>>(AT.detail));
    Ok(Session {
        id: SessionId(row.get(AT.id)),
        worker: name(row.get(AT.worker)),
        instance: name(row.get(AT.instance)),
        ttl_ms: row.get(AT.ttl_ms),
        scope: ClaimScope {
            namespace: NamespaceId(row.get(AT.namespace)),
            lanes: names(row.get(AT.lanes)),
            kinds: row.get::<_, Option<Vec<&str>>>(AT.kinds).map(names),
            capabilities: names(row.get(AT.capabilities)).into_iter().collect(),
        },
        registered_at: row.get::<_, Micros>(AT.registered_at).time(),
        seen_at: row.get::<_, Micros>(AT.seen_at).time(),
        renewed_at: row.get::<_, Option<Micros>>(AT.renewed_at).map(Micros::time),
        draining: row.get(AT.draining),
        life: row.get::<_, i32>(AT.life) as u32,
        detail: detail.map_err(|why| Error::Failed(format!("a session cannot be read: {why}")))?,
    })
}

/// Reads the lease in a row of `leases/list`. The error names an unreadable execution and the reason.
fn decode_lease(row: &Row) -> Result<HeldLease, (ExecutionId, String)> {
    let execution = ExecutionId(row.get(0));
    let ttl_ms: i64 = row.get(5);
    let cancel_requested =
        stored::cancel_requested(row.get::<_, Option<&str>>(6)).map_err(|detail| (execution, detail))?;
    Ok(HeldLease {
        execution,
        session: SessionId(row.get(1)),
        lease_id: LeaseId(row.get(2)),
        epoch: row.get::<_, i32>(3) as u32,
        claimed_at: row.get::<_, Micros>(4).time().minus_ms(ttl_ms),
        cancel_requested,
    })
}

/// Reads sessions, then locks others, then those of instances, and reads the leases that these hold.
pub fn load(asking: &mut Asking<'_>) {
    let needs = asking.needs;
    let ids = |ids: &[SessionId]| vec![array(ids, |id| id.0)];
    let gather = || collect(decode, |rows| &mut rows.sessions);
    asking.read(&needs.sessions, &READ, ids, gather());
    asking.lock(&needs.sessions, &LOCK, ids, gather());
    let instances = &needs.queries.instances;
    asking.about(instances, &LOCK_BY_INSTANCE, instance_names, gather());
    asking.about(instances, &LEASES_LIST, instance_names, |answer, loading| {
        for row in answer {
            match decode_lease(row) {
                Ok(lease) => loading.rows.found.leases.push(lease),
                Err(unreadable) => loading.rows.unreadable.push(unreadable),
            }
        }
        Ok(())
    });
}

fn instance_names(instances: &[(NamespaceId, Name)]) -> Parameters<'static> {
    vec![
        array(instances, |(namespace, _)| namespace.0),
        array(instances, |(_, instance)| instance.to_string()),
    ]
}

pub fn save(saving: &mut Saving<'_>) {
    let sessions = &saving.changes.sessions;
    saving.rows(&sessions.removed, &DELETE, |ids| vec![array(ids, |id| id.0)]);
    for written in &sessions.written {
        saving.add(&UPSERT, session::values(written), ignore);
    }
}

#[async_trait]
impl SessionReads for PostgresStore {
    async fn sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error> {
        let namespace = namespace.map(|namespace| namespace.0);
        self.all("sessions", &LIST, &[&namespace], decode).await
    }

    async fn unseen_sessions(&self, unseen_ms: i64, limit: u32) -> Result<Vec<SessionId>, Error> {
        let parameters: [&(dyn ToSql + Sync); 2] = [&unseen_ms, &i64::from(limit)];
        let rows = self.query_in_background(&LIST_UNSEEN, &parameters);
        let rows = self.meter.measure("unseen_sessions", rows).await?;
        Ok(rows.iter().map(|row| SessionId(row.get(0))).collect())
    }
}
