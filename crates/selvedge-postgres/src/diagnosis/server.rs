//! Checks of the server: its version, its clock, durability, encryption, connections and autovacuum.

use super::{Examination, LIST_SETTINGS, READ_SERVER, settled};
use crate::connection::StatementError;
use selvedge_store::{Finding, Level};
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio_postgres::Row;
use tokio_postgres::config::Host;

/// The oldest version that is tested.
const OLDEST_VERSION: i32 = 150_000;
/// The most connections that one server uses.
const CONNECTIONS_PER_SERVER: i64 = 12;
/// The differences of clocks, in milliseconds, from which on there is a notice or a warning.
const CLOCK_NOTICE_MS: i64 = 1_000;
const CLOCK_WARNING_MS: i64 = 10_000;

/// The settings that are read, with the values that new sessions get.
const SETTINGS: [&str; 10] = [
    "autovacuum",
    "default_transaction_read_only",
    "fsync",
    "full_page_writes",
    "max_connections",
    "reserved_connections",
    "superuser_reserved_connections",
    "synchronous_commit",
    "synchronous_standby_names",
    "track_counts",
];

/// The server's state and its settings.
struct Server {
    row: Row,
    settings: HashMap<String, String>,
    /// The difference of its clock from the one of this machine, in milliseconds: positive if it is ahead.
    ahead_ms: i64,
}

impl Server {
    fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> i64 {
        self.setting(name).parse().unwrap_or_default()
    }

    fn is_off(&self, name: &str) -> bool {
        self.setting(name) == "off"
    }
}

impl Examination<'_> {
    /// Checks the server and this connection.
    pub(super) async fn server(&self) -> Vec<Finding> {
        let found = self.read_server().await.map(|server| {
            let mut findings = vec![reachable(&server)];
            findings.push(clock(&server));
            findings.extend(durability(&server));
            findings.push(self.encryption(&server));
            findings.push(connections(&server));
            findings.push(autovacuum(&server));
            findings
        });
        settled("reachable", found)
    }

    async fn read_server(&self) -> Result<Server, StatementError> {
        let before = now_ms();
        let mut rows = self.query(&READ_SERVER, &[]).await?;
        // The server read its clock between the two; half of the way is the best guess.
        let between = before + (now_ms() - before) / 2;
        let row = rows.remove(0);
        let ahead_ms = row.get::<_, i64>("now_ms") - between;
        let names: Vec<&str> = SETTINGS.to_vec();
        let rows = self.query(&LIST_SETTINGS, &[&names]).await?;
        let settings = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        Ok(Server { row, settings, ahead_ms })
    }

    fn encryption(&self, server: &Server) -> Finding {
        let is_local = self.endpoint.config().get_hosts().iter().all(|host| match host {
            Host::Tcp(name) => {
                name == "localhost"
                    || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            Host::Unix(_) => true,
        });
        let remedy = "add sslmode=verify-full&sslrootcert=FILE to the address of the store";
        match (server.row.get("is_encrypted"), is_local, self.endpoint.checks_certificate()) {
            (true, _, true) => {
                let version: String = server.row.get("tls_version");
                Finding::ok("tls", format!("connections use {version}, and the certificate is checked"))
            }
            (true, true, false) => Finding::ok("tls", "connections are encrypted, on this machine"),
            (true, false, false) => {
                let message = "connections are encrypted, but the certificate of the server is not checked";
                Finding::new("tls", Level::Notice, message, remedy)
            }
            (false, true, _) => Finding::ok("tls", "connections are not encrypted, and stay on this machine"),
            (false, false, _) => {
                let message = "connections to another machine are not encrypted";
                Finding::new("tls", Level::Warning, message, remedy)
            }
        }
    }
}

fn reachable(server: &Server) -> Finding {
    let version: String = server.row.get("version");
    if server.row.get("is_standby") {
        let message = format!("PostgreSQL {version} is a standby, which accepts no writes");
        return Finding::new(
            "reachable",
            Level::Error,
            message,
            "name the primary in the address of the store",
        );
    }
    if server.setting("default_transaction_read_only") == "on" {
        let message =
            format!("PostgreSQL {version} makes the transactions of this user or database read-only");
        let remedy = "set default_transaction_read_only to off for the user and the database";
        return Finding::new("reachable", Level::Error, message, remedy);
    }
    if server.row.get::<_, i32>("version_number") < OLDEST_VERSION {
        let message = format!("PostgreSQL {version} answers; versions before 15 are not tested");
        return Finding::new("reachable", Level::Warning, message, "upgrade PostgreSQL");
    }
    Finding::ok("reachable", format!("PostgreSQL {version} answers"))
}

fn clock(server: &Server) -> Finding {
    let (ms, direction) = (server.ahead_ms.abs(), if server.ahead_ms > 0 { "ahead of" } else { "behind" });
    let message =
        format!("the clock of the database is {}.{} s {direction} this machine", ms / 1000, ms % 1000 / 100);
    let level = match ms {
        ..CLOCK_NOTICE_MS => {
            return Finding::ok("clock", "the clock of the database agrees with this machine");
        }
        CLOCK_NOTICE_MS..CLOCK_WARNING_MS => Level::Notice,
        CLOCK_WARNING_MS.. => Level::Warning,
    };
    let message = format!("{message}; leases and schedules follow the database, only logs are affected");
    Finding::new("clock", level, message, "synchronise both clocks, for example with chrony")
}

fn durability(server: &Server) -> Vec<Finding> {
    let mut findings = Vec::new();
    if server.is_off("fsync") {
        let message = "fsync is off: a crash of the machine can lose commits and damage the database";
        let remedy = "alter system set fsync = on; select pg_reload_conf()";
        findings.push(Finding::new("durability", Level::Error, message, remedy));
    }
    if server.is_off("full_page_writes") {
        let message = "full_page_writes is off: a crash of the machine can damage pages";
        let remedy = "alter system set full_page_writes = on; select pg_reload_conf()";
        findings.push(Finding::new("durability", Level::Warning, message, remedy));
    }
    if server.is_off("synchronous_commit") {
        let message = "synchronous_commit is off; servers set it to on for themselves";
        let remedy = "alter system set synchronous_commit = on, for the sake of other programs";
        findings.push(Finding::new("durability", Level::Notice, message, remedy));
    }
    let (standbys, synchronous): (i64, i64) =
        (server.row.get("standbys"), server.row.get("synchronous_standbys"));
    let names = server.setting("synchronous_standby_names");
    if !names.is_empty() && server.setting("synchronous_commit") == "local" {
        let message =
            "synchronous_commit is local: commits do not wait for the standbys, and a failover may lose them";
        let remedy = "alter system set synchronous_commit = on; select pg_reload_conf()";
        findings.push(Finding::new("durability", Level::Warning, message, remedy));
    } else if !names.is_empty() && synchronous == 0 && standbys == 0 {
        let message =
            format!("synchronous_standby_names is {names:?}, and no standby is connected: commits wait");
        findings.push(Finding::new(
            "durability",
            Level::Error,
            message,
            "start the standby, or empty the setting",
        ));
    } else if names.is_empty() && standbys > 0 {
        let message =
            format!("{standbys} standbys replicate asynchronously: a failover may lose the last commits");
        let remedy = "set synchronous_standby_names if that must not happen";
        findings.push(Finding::new("durability", Level::Notice, message, remedy));
    }
    if findings.is_empty() {
        let message = match standbys {
            0 => "commits wait for the disk; there is no standby",
            _ => "commits wait for the disk and for a standby",
        };
        findings.push(Finding::ok("durability", message));
    }
    findings
}

fn connections(server: &Server) -> Finding {
    let most = server.number("max_connections")
        - server.number("superuser_reserved_connections")
        - server.number("reserved_connections");
    let used: i64 = server.row.get("connections");
    let message = format!("{used} of {most} connections are used");
    match most - used {
        ..CONNECTIONS_PER_SERVER => {
            let message = format!("{message}; a server needs up to {CONNECTIONS_PER_SERVER}");
            let remedy = "raise max_connections, or let other programs use fewer connections";
            Finding::new("connections", Level::Warning, message, remedy)
        }
        CONNECTIONS_PER_SERVER.. => Finding::ok("connections", message),
    }
}

fn autovacuum(server: &Server) -> Finding {
    match ["autovacuum", "track_counts"].into_iter().find(|name| server.is_off(name)) {
        Some(name) => {
            let message =
                format!("{name} is off: tables and indexes grow without bound, and claims become slow");
            let remedy = format!("alter system set {name} = on; select pg_reload_conf()");
            Finding::new("vacuum", Level::Warning, message, remedy)
        }
        None => Finding::ok("vacuum", "autovacuum is on"),
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
