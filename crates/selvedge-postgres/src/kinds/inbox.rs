//! The inbox: rows that users write with the functions `submit` and `submit_flow`.
//!
//! A search for waiting rows begins at a snapshot: see `due/glance.rs`.

use crate::PostgresStore;
use crate::kinds::{Asking, Saving, collect};
use crate::sql::{Micros, array, columns, statements};
use async_trait::async_trait;
use selvedge_core::Name;
use selvedge_core::inbox::{InboxEntry, InboxNumber, InboxProblem, InboxRow, REFUSED_KEPT_MS};
use selvedge_core::table::Access;
use selvedge_store::{Error, InboxCounts, InboxStore};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

statements! {
    with { inbox: inbox::list(), }
    COUNT = "inbox/count";
    DELETE = "inbox/delete";
    DELETE_OLD = "inbox/delete_old";
    LIST_PENDING = "inbox/list_pending";
    LIST_REFUSED = "inbox/list_refused";
    LOCK = "inbox/lock";
    UPDATE = "inbox/update";
}

// The columns without the request.
columns! {
    inbox {
        number,
        namespace,
        refused_at,
        problem = "problem::text",
        xid = "xid::text",
        id,
        flow,
        role,
        submitted_at,
    }
}

/// The maximum size of the requests of one page, in bytes.
const PAGE_BYTES: i64 = 8 * 1024 * 1024;

fn decode(row: &Row) -> Result<InboxRow, Error> {
    use inbox::AT;
    let number = InboxNumber(row.get(AT.number));
    let unreadable = |error| Error::Failed(format!("row {} of the inbox cannot be read: {error}", number.0));
    let refused_at = row.get::<_, Option<Micros>>(AT.refused_at);
    let refused = refused_at.zip(row.get::<_, Option<&str>>(AT.problem));
    let refused = refused.map(|(at, problem)| {
        Ok::<_, Error>((at.time(), serde_json::from_str::<InboxProblem>(problem).map_err(unreadable)?))
    });
    Ok(InboxRow { number, namespace: Name::trusted(row.get(AT.namespace)), refused: refused.transpose()? })
}

/// Reads an entry, whose request is behind the other columns.
fn decode_entry(row: &Row) -> Result<InboxEntry, Error> {
    use inbox::AT;
    let transaction: &str = row.get(AT.xid);
    Ok(InboxEntry {
        row: decode(row)?,
        transaction: transaction
            .parse()
            .map_err(|error| Error::Failed(format!("transaction {transaction}: {error}")))?,
        id: row.get(AT.id),
        is_flow: row.get(AT.flow),
        role: row.get(AT.role),
        submitted_at: row.get::<_, Micros>(AT.submitted_at).time(),
        body: row.get(inbox::COUNT),
    })
}

/// Locks rows that no other transaction has locked.
pub fn lock(asking: &mut Asking<'_>) {
    let numbers = asking.needs.inbox.with(Access::LockIfFree);
    let gather = collect(decode, |rows| &mut rows.inbox);
    asking.about(&numbers, &LOCK, |numbers| vec![array(numbers, |number| number.0)], gather);
}

/// Saves refusals, and deletes rows.
pub fn save(saving: &mut Saving<'_>) {
    let inbox = &saving.changes.inbox;
    saving.rows(&inbox.written, &UPDATE, |rows| {
        let json =
            |problem: &InboxProblem| serde_json::to_string(problem).expect("a problem always serialises");
        vec![
            array(rows, |row| row.number.0),
            array(rows, |row| row.refused.as_ref().map(|(at, _)| Micros::from(*at))),
            array(rows, |row| row.refused.as_ref().map(|(_, problem)| json(problem))),
        ]
    });
    saving.rows(&inbox.removed, &DELETE, |numbers| vec![array(numbers, |number| number.0)]);
}

#[async_trait]
impl InboxStore for PostgresStore {
    async fn pending_inbox(
        &self,
        namespace: Option<&Name>,
        after: Option<(u64, InboxNumber)>,
        limit: u32,
    ) -> Result<Vec<InboxEntry>, Error> {
        let snapshot = self.glances.inbox_snapshot();
        let namespace = namespace.map(Name::as_str);
        let (transaction, number) = after.map_or((0, 0), |(transaction, number)| (transaction, number.0));
        let transaction = transaction.to_string();
        let limit = i64::from(limit);
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&snapshot, &namespace, &transaction, &number, &limit, &PAGE_BYTES];
        let read = async {
            self.query_in_background(&LIST_PENDING, &parameters).await?.iter().map(decode_entry).collect()
        };
        self.meter.measure("pending_inbox", read).await
    }

    async fn refused_inbox(
        &self,
        namespace: &Name,
        after: Option<InboxNumber>,
        limit: u32,
    ) -> Result<Vec<InboxEntry>, Error> {
        let after = after.map_or(i64::MAX, |after| after.0);
        let parameters: [&(dyn ToSql + Sync); 3] = [&namespace.as_str(), &after, &i64::from(limit)];
        self.all("refused_inbox", &LIST_REFUSED, &parameters, decode_entry).await
    }

    async fn count_inbox(&self, namespace: Option<&Name>, bound: u64) -> Result<InboxCounts, Error> {
        let (namespace, bound) = (namespace.map(Name::as_str), i64::try_from(bound).unwrap_or(i64::MAX));
        let snapshot = self.glances.inbox_snapshot();
        let parameters: [&(dyn ToSql + Sync); 3] = [&namespace, &bound, &snapshot];
        let rows = self.meter.measure("count_inbox", self.query(&COUNT, &parameters)).await?;
        let counts = |row: &Row| InboxCounts {
            pending: row.get::<_, i64>(0) as u64,
            oldest: row.get::<_, Option<Micros>>(1).map(Micros::time),
            refused: row.get::<_, i64>(2) as u64,
        };
        Ok(rows.first().map(counts).unwrap_or_default())
    }

    async fn delete_old_inbox(&self, limit: u32) -> Result<u64, Error> {
        let parameters: [&(dyn ToSql + Sync); 2] = [&REFUSED_KEPT_MS, &i64::from(limit)];
        let deleted = self.query_in_background(&DELETE_OLD, &parameters);
        Ok(self.meter.measure("delete_old_inbox", deleted).await?.len() as u64)
    }
}
