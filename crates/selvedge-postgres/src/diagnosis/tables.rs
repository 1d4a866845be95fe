//! Checks of the tables: dead rows, bloat, transactions that keep dead rows alive, and invalid indexes.

use super::{
    Examination, LIST_BLOAT, LIST_DEAD_ROWS, LIST_INVALID_INDEXES, LIST_SNAPSHOTS, duration, settled,
};
use crate::connection::StatementError;
use selvedge_store::{Finding, Level};

/// The factor by which a table or an index must exceed its estimated need.
const BLOAT_FACTOR: i64 = 4;
/// The size of a page, in KiB.
const PAGE_KIB: i64 = 8;

impl Examination<'_> {
    /// Checks the tables and indexes of the schema.
    pub(super) async fn tables(&self) -> Vec<Finding> {
        let mut findings = settled("vacuum", self.dead_rows().await);
        findings.extend(settled("bloat", self.bloat().await));
        findings.extend(settled("snapshots", self.snapshots().await));
        findings.extend(settled("indexes", self.invalid_indexes().await));
        findings
    }

    async fn dead_rows(&self) -> Result<Vec<Finding>, StatementError> {
        let rows = self.query(&LIST_DEAD_ROWS, &[&self.limits.dead_rows]).await?;
        let findings = rows.iter().map(|row| {
            let (name, dead, live): (&str, i64, i64) = (row.get(0), row.get(1), row.get(2));
            let vacuumed = match row.get::<_, Option<i64>>(3) {
                Some(seconds) => format!("vacuumed {} ago", duration(seconds)),
                None => "never vacuumed".into(),
            };
            let message = format!("{name} has {dead} dead and {live} live rows, {vacuumed}");
            let remedy =
                format!("vacuum (analyze) {}; see the findings about snapshots", self.qualified(name));
            Finding::new("vacuum", Level::Warning, message, remedy)
        });
        Ok(findings.collect())
    }

    async fn bloat(&self) -> Result<Vec<Finding>, StatementError> {
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 2] =
            [&self.limits.bloat_pages, &BLOAT_FACTOR];
        let rows = self.query(&LIST_BLOAT, &parameters).await?;
        let findings: Vec<Finding> = rows
            .iter()
            .map(|row| {
                let (name, is_index, pages, needed): (&str, bool, i64, i64) =
                    (row.get(0), row.get(1), row.get(2), row.get(3));
                let (mib, needed_mib) = (pages * PAGE_KIB / 1024, needed * PAGE_KIB / 1024);
                let (kind, remedy) = match is_index {
                    true => ("index", format!("reindex index concurrently {}", self.qualified(name))),
                    false => (
                        "table",
                        format!("vacuum full {} while no server runs, or pg_repack", self.qualified(name)),
                    ),
                };
                let message =
                    format!("the {kind} {name} has {mib} MiB, and its rows need about {needed_mib} MiB");
                Finding::new("bloat", Level::Notice, message, remedy)
            })
            .collect();
        Ok(match findings.is_empty() {
            true => vec![Finding::ok("bloat", "no table or index is much larger than its rows need")],
            false => findings,
        })
    }

    async fn snapshots(&self) -> Result<Vec<Finding>, StatementError> {
        let seconds = self.limits.snapshot_age.as_secs() as i64;
        let rows = self.query(&LIST_SNAPSHOTS, &[&seconds]).await?;
        let findings: Vec<Finding> = rows
            .iter()
            .map(|row| {
                let (kind, name, pid): (&str, &str, Option<i32>) = (row.get(0), row.get(1), row.get(2));
                let (age, detail): (Option<i64>, &str) = (row.get(3), row.get(4));
                let level = match age {
                    Some(age) if age < seconds * 10 => Level::Notice,
                    _ => Level::Warning,
                };
                let mut message = format!("the {kind} {name:?}");
                if let Some(pid) = pid {
                    message += &format!(" of process {pid}");
                }
                if let Some(age) = age {
                    message += &format!(" is {} old", duration(age));
                }
                if !detail.is_empty() {
                    message += &format!(" ({detail})");
                }
                message += match (kind, pid) {
                    ("replication slot", None) => ": nobody reads it, and what it keeps fills the disk",
                    _ => ": dead rows stay until it ends",
                };
                let remedy = match (kind, pid) {
                    ("replication slot", None) => {
                        format!("start its reader, or select pg_drop_replication_slot('{name}')")
                    }
                    ("prepared transaction", _) => {
                        format!("commit prepared '{name}', or rollback prepared '{name}'")
                    }
                    (_, Some(pid)) => format!("end it in its program, or select pg_terminate_backend({pid})"),
                    (_, None) => "end it in its program".into(),
                };
                Finding::new("snapshots", level, message, remedy)
            })
            .collect();
        Ok(match findings.is_empty() {
            true => vec![Finding::ok("snapshots", "no old transaction keeps dead rows alive")],
            false => findings,
        })
    }

    async fn invalid_indexes(&self) -> Result<Vec<Finding>, StatementError> {
        let rows = self.query(&LIST_INVALID_INDEXES, &[]).await?;
        let findings: Vec<Finding> = rows
            .iter()
            .map(|row| match (row.get::<_, &str>(0), row.get(1)) {
                (name, true) => Finding::new(
                    "indexes",
                    Level::Notice,
                    format!("the index {name} is being built"),
                    "wait for its end",
                ),
                (name, false) => {
                    let index = self.qualified(name);
                    let remedy =
                        format!("drop index concurrently {index}, or reindex index concurrently {index}");
                    let message = format!("the index {name} is invalid: it costs writes and serves no reads");
                    Finding::new("indexes", Level::Warning, message, remedy)
                }
            })
            .collect();
        Ok(match findings.is_empty() {
            true => vec![Finding::ok("indexes", "every index is valid")],
            false => findings,
        })
    }

    /// Returns the name of a table or an index with its schema.
    fn qualified(&self, name: &str) -> String {
        format!("{}.{name}", self.settings.schema)
    }
}
