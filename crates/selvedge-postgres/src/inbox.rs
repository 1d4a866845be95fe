//! The inbox: rows that users write with the functions `submit` and `submit_flow`; read, locked and saved.
//!
//! A search for waiting rows begins at a snapshot: see `read/glance.rs`.

use crate::connection::pipeline::Parameters;
use crate::row::Micros;
use crate::save::{Saving, column};
use crate::{PostgresStore, sql};
use selvedge_core::inbox::{InboxEntry, InboxNumber, InboxProblem, InboxRow, REFUSED_KEPT_MS};
use selvedge_core::{Changes, Name, Rows, Timestamp};
use selvedge_store::{Error, InboxCounts};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The maximum size of the requests of one page, in bytes.
const PAGE_BYTES: i64 = 8 * 1024 * 1024;

impl PostgresStore {
    /// Returns a page of the rows that wait to be taken in.
    pub(crate) async fn list_pending_inbox(
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
        let rows = self.query_in_background(&sql::INBOX_LIST_PENDING, &parameters).await?;
        rows.iter().map(entry).collect()
    }

    /// Returns a page of the refused rows of a namespace, newest first, without their requests.
    pub(crate) async fn list_refused_inbox(
        &self,
        namespace: &Name,
        after: Option<InboxNumber>,
        limit: u32,
    ) -> Result<Vec<InboxEntry>, Error> {
        let after = after.map_or(i64::MAX, |after| after.0);
        let parameters: [&(dyn ToSql + Sync); 3] = [&namespace.as_str(), &after, &i64::from(limit)];
        let rows = self.query(&sql::INBOX_LIST_REFUSED, &parameters).await?;
        rows.iter().map(entry).collect()
    }

    pub(crate) async fn count_inbox_rows(
        &self,
        namespace: Option<&Name>,
        bound: u64,
    ) -> Result<InboxCounts, Error> {
        let (namespace, bound) = (namespace.map(Name::as_str), i64::try_from(bound).unwrap_or(i64::MAX));
        let snapshot = self.glances.inbox_snapshot();
        let rows = self.query(&sql::INBOX_COUNT, &[&namespace, &bound, &snapshot]).await?;
        let counts = |row: &Row| InboxCounts {
            pending: row.get::<_, i64>(0) as u64,
            oldest: row.get::<_, Option<Micros>>(1).map(Micros::time),
            refused: row.get::<_, i64>(2) as u64,
        };
        Ok(rows.first().map(counts).unwrap_or_default())
    }

    /// Deletes rows that were refused long ago.
    pub(crate) async fn delete_old_inbox_rows(&self, limit: u32) -> Result<u64, Error> {
        let parameters: [&(dyn ToSql + Sync); 2] = [&REFUSED_KEPT_MS, &i64::from(limit)];
        Ok(self.query_in_background(&sql::INBOX_DELETE_OLD, &parameters).await?.len() as u64)
    }
}

/// Returns the parameters of `inbox/lock`.
pub fn numbers(numbers: &[InboxNumber]) -> Parameters<'static> {
    vec![Box::new(numbers.iter().map(|number| number.0).collect::<Vec<i64>>())]
}

/// Adds locked rows.
pub fn gather(answer: &[Row], rows: &mut Rows) -> Result<(), Error> {
    for locked in answer {
        rows.inbox.push(row(locked.get(0), locked.get(1), locked.get(2), locked.get(3))?);
    }
    Ok(())
}

/// Saves refusals, and deletes rows.
pub fn save<'a>(changes: &'a Changes, saving: &mut Saving<'a>) {
    saving.rows(&changes.inbox.written, &sql::INBOX_UPDATE, |rows| {
        vec![
            column(rows, |row| row.number.0),
            column(rows, |row| row.refused.as_ref().map(|(at, _)| Micros::from(*at))),
            column(rows, |row| {
                let problem = row.refused.as_ref().map(|(_, problem)| problem);
                problem.map(|problem| serde_json::to_string(problem).expect("a problem always serialises"))
            }),
        ]
    });
    saving
        .rows(&changes.inbox.removed, &sql::INBOX_DELETE, |numbers| vec![column(numbers, |number| number.0)]);
}

/// Reads a row of `{inbox}`.
fn entry(read: &Row) -> Result<InboxEntry, Error> {
    let transaction: &str = read.get(4);
    Ok(InboxEntry {
        row: row(read.get(0), read.get(1), read.get(2), read.get(3))?,
        transaction: transaction
            .parse()
            .map_err(|error| Error::Failed(format!("transaction {transaction}: {error}")))?,
        id: read.get(5),
        is_flow: read.get(6),
        role: read.get(7),
        submitted_at: read.get::<_, Micros>(8).time(),
        body: read.get(9),
    })
}

fn row(
    number: i64,
    namespace: &str,
    refused_at: Option<Micros>,
    problem: Option<&str>,
) -> Result<InboxRow, Error> {
    let refused: Option<(Timestamp, InboxProblem)> = match (refused_at, problem) {
        (Some(at), Some(text)) => {
            let unreadable =
                |error| Error::Failed(format!("row {number} of the inbox cannot be read: {error}"));
            Some((at.time(), serde_json::from_str(text).map_err(unreadable)?))
        }
        (None, _) | (_, None) => None,
    };
    Ok(InboxRow { number: InboxNumber(number), namespace: Name::trusted(namespace), refused })
}
