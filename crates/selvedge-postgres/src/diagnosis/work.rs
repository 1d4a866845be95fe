//! Checks of the work that servers do in the background: partitions of the log, uncovered namespaces, and rows that wait.

use super::{COUNT_STALE, Examination, READ_SECRET, duration, settled};
use crate::connection::StatementError;
use crate::coverage;
use crate::kinds::{log, namespaces};
use selvedge_core::outbox::OutboxKind;
use selvedge_store::{Finding, Level};
use std::collections::HashSet;

/// The number of days after today that need a partition of the log.
const DAYS_AHEAD: i32 = 2;

impl Examination<'_> {
    /// Checks the background work, and the place of the root secret.
    pub(super) async fn work(&self) -> Vec<Finding> {
        let mut findings = settled("secret", self.secret().await);
        findings.extend(settled("partitions", self.partitions().await));
        findings.extend(settled("scopes", self.scopes().await));
        findings.extend(settled("waiting", self.waiting().await));
        findings
    }

    async fn secret(&self) -> Result<Vec<Finding>, StatementError> {
        let rows = self.query(&READ_SECRET, &[]).await?;
        Ok(rows.iter().map(|row| Finding::secret(row.get(0), row.get(1))).collect())
    }

    async fn partitions(&self) -> Result<Vec<Finding>, StatementError> {
        let rows = self.query(&log::LIST_MISSING_DAYS, &[&DAYS_AHEAD]).await?;
        let days: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
        if days.is_empty() {
            return Ok(vec![Finding::ok("partitions", "the event log has partitions for the next days")]);
        }
        let message = format!(
            "the event log lacks the partitions {}: its entries go to the default partition, where deleting them is slow",
            days.join(", ")
        );
        let remedy =
            "keep a server running, which creates them, with the right to create tables in the schema";
        Ok(vec![Finding::new("partitions", Level::Warning, message, remedy)])
    }

    async fn scopes(&self) -> Result<Vec<Finding>, StatementError> {
        let text = "select oid::bigint from pg_namespace where nspname = current_schema()";
        let rows = self.query(text, &[]).await?;
        let key = rows.first().map_or(0, |row| coverage::key(row.get::<_, i64>(0) as u32));
        let covered = self.query(&coverage::LIST, &[&i64::from(key)]).await?;
        let covered: HashSet<i32> = covered.iter().map(|row| row.get::<_, i64>(0) as u32 as i32).collect();
        let namespaces = self.query(&namespaces::LIST, &[]).await?;
        if covered.is_empty() {
            let message =
                "no server does the background work of this store: nothing is retried, expired or scheduled";
            return Ok(vec![Finding::new(
                "scopes",
                Level::Warning,
                message,
                "start a server: selvedge serve",
            )]);
        }
        let uncovered: Vec<&str> = namespaces
            .iter()
            .filter(|row| !covered.contains(&coverage::EVERY_NAMESPACE) && !covered.contains(&row.get(0)))
            .map(|row| row.get(1))
            .collect();
        if uncovered.is_empty() {
            return Ok(vec![Finding::ok("scopes", "the background work of every namespace is done")]);
        }
        let message =
            format!("no server does the background work of the namespaces {}", uncovered.join(", "));
        let remedy = "start a server without --reconciler-namespace, or one for each of them";
        Ok(vec![Finding::new("scopes", Level::Warning, message, remedy)])
    }

    async fn waiting(&self) -> Result<Vec<Finding>, StatementError> {
        let kinds: Vec<i16> = OutboxKind::ALL.iter().map(|kind| kind.code()).collect();
        let seconds = self.limits.stale_after.as_secs() as i64;
        let rows = self.query(&COUNT_STALE, &[&kinds, &seconds]).await?;
        let findings: Vec<Finding> = rows
            .iter()
            .filter(|row| row.get::<_, i64>(1) > 0)
            .map(|row| {
                let (table, count, age): (&str, i64, i64) = (row.get(0), row.get(1), row.get(2));
                let message = format!("{count} rows of the {table} wait, the oldest for {}", duration(age));
                let remedy =
                    "read the log of the servers for errors of the reconcilers; start one if none runs";
                Finding::new("waiting", Level::Warning, message, remedy)
            })
            .collect();
        Ok(match findings.is_empty() {
            true => vec![Finding::ok("waiting", "no row of the outbox or the inbox waits for long")],
            false => findings,
        })
    }
}
