//! Checks of a server, over its API: its answer, its version, its store, encryption, the key, the clock, and keys that expire.

use super::work;
use crate::remote::remedy_of;
use crate::terminal::{duration_ms, items, since, text};
use hyper::Method;
use selvedge_client::{Client, Error, Retries};
use selvedge_store::{Finding, Level};
use serde_json::Value;
use std::time::Instant;

/// The differences of clocks, in milliseconds, from which on there is a notice or a warning.
const CLOCK_NOTICE_MS: i64 = 1_000;
const CLOCK_WARNING_MS: i64 = 10_000;
/// The step back of the store's clock from which on its time does not go on, in milliseconds.
const CLOCK_BRIDGED_MAX_MS: i64 = 24 * 3_600_000;
/// The time before the end of a key at which there is a warning: 14 days.
const EXPIRES_SOON_MS: i64 = 14 * 24 * 3_600_000;
/// The most items of a list that are read.
const MOST: usize = 10_000;

/// Examines a server. Without an answer there is one finding.
pub async fn examine(client: &Client) -> Vec<Finding> {
    let health = match get(client, "/healthz").await {
        Ok(health) => health,
        Err(error) => {
            let remedy = match &error {
                Error::Certificate { fault, .. } => remedy_of(*fault),
                _ => {
                    "start one with selvedge serve, or name another with --server, SELVEDGE_SERVER or a profile; name a store \
                     with --store to examine it without a server"
                }
            };
            return vec![Finding::new("reachable", Level::Error, error.to_string(), remedy)];
        }
    };
    let mut findings = vec![version(text(&health, "/version")), ready(client).await, tls(client)];
    let key = key(client).await;
    let may_read = key.level == Level::Ok;
    findings.push(key);
    if may_read {
        findings.push(clock(client).await);
        findings.extend(expiring_keys(client).await);
        findings.extend(work::examine(client).await);
    }
    findings
}

/// Reads the answer of a path. It is not repeated, so that the doctor says at once what is wrong.
pub async fn get(client: &Client, path: &str) -> Result<Value, Error> {
    client.request(Method::GET, path).retries(Retries::NONE).send().await?.json()
}

/// Reads all items of a list.
pub async fn list(client: &Client, segments: &[&str]) -> Result<Vec<Value>, Error> {
    let found = client.get(segments).retries(Retries::NONE).items(MOST).await?;
    Ok(found.iter().filter_map(|item| serde_json::from_str(item.get()).ok()).collect())
}

fn version(server: &str) -> Finding {
    let own = env!("CARGO_PKG_VERSION");
    match server == own {
        true => Finding::ok("reachable", format!("the server answers, with version {server}")),
        false => {
            let message =
                format!("the server answers, with version {server}; this program has version {own}");
            Finding::new("reachable", Level::Notice, message, "use the same version on both sides")
        }
    }
}

async fn ready(client: &Client) -> Finding {
    let readiness = match get(client, "/readyz").await {
        Ok(readiness) => readiness,
        Err(error) => {
            let remedy = "repair its store; selvedge doctor --store ADDRESS examines it";
            return Finding::new("ready", Level::Error, format!("the server is not ready: {error}"), remedy);
        }
    };
    let store = text(&readiness, "/store");
    if let Some(behind) = readiness["clock_behind_ms"].as_i64().filter(|behind| *behind > 0) {
        let message = format!(
            "the clock of the {store} store stepped back and is {} behind; {}",
            duration_ms(behind),
            match behind {
                ..CLOCK_BRIDGED_MAX_MS =>
                    "leases, delays and schedules go on, a tenth slower until it has caught up",
                CLOCK_BRIDGED_MAX_MS.. =>
                    "leases, delays and schedules from before stand still until it has caught up",
            }
        );
        return Finding::new(
            "ready",
            Level::Warning,
            message,
            "synchronise the clocks of the database servers",
        );
    }
    match readiness["uncovered_namespaces"].as_u64() {
        Some(count) if count > 0 => {
            let message = format!("no server does the background work of {count} namespaces");
            let remedy = "start a server without --reconciler-namespace, or one for each of them";
            Finding::new("ready", Level::Warning, message, remedy)
        }
        _ => Finding::ok("ready", format!("the {store} store accepts writes")),
    }
}

fn tls(client: &Client) -> Finding {
    match (client.server().starts_with("https://"), client.is_loopback()) {
        (true, _) => Finding::ok("tls", "requests are encrypted, and the certificate is valid"),
        (false, true) => Finding::ok("tls", "requests are not encrypted, and stay on this machine"),
        (false, false) => {
            let message = "requests to another machine, with their key, are not encrypted";
            let remedy = "serve with --tls-cert and --tls-key, or behind a proxy with TLS, and use https://";
            Finding::new("tls", Level::Warning, message, remedy)
        }
    }
}

async fn key(client: &Client) -> Finding {
    match client.get(&["lanes"]).query("limit", 1).retries(Retries::NONE).send().await {
        Ok(_) => Finding::ok("key", "the server accepts the requests of this caller"),
        Err(error) => {
            let remedy = "give a valid key of one of its namespaces with SELVEDGE_KEY or --key; selvedge keys create makes one";
            Finding::new("key", Level::Error, error.to_string(), remedy)
        }
    }
}

async fn clock(client: &Client) -> Finding {
    let began = Instant::now();
    let clock = match get(client, "/v1/clock").await {
        Ok(clock) => clock,
        Err(error) => return Finding::unknown("clock", error),
    };
    if clock["manual"] == true {
        return Finding::ok("clock", "the clock of the server moves only when it is advanced");
    }
    let Some(ago) = since(text(&clock, "/now_at")) else {
        return Finding::unknown("clock", "the answer has no time");
    };
    // The server read its clock while the request was under way; half of the way is the best guess.
    let behind = ago - began.elapsed().as_millis() as i64 / 2;
    let level = match behind.abs() {
        ..CLOCK_NOTICE_MS => {
            return Finding::ok("clock", "the clock of the server's store agrees with this machine");
        }
        CLOCK_NOTICE_MS..CLOCK_WARNING_MS => Level::Notice,
        CLOCK_WARNING_MS.. => Level::Warning,
    };
    let direction = if behind > 0 { "behind" } else { "ahead of" };
    let message = format!(
        "the clock of the server's store is {} {direction} this machine; only times that this machine shows or sends are \
         affected",
        duration_ms(behind.abs())
    );
    Finding::new("clock", level, message, "synchronise both clocks, for example with chrony")
}

async fn expiring_keys(client: &Client) -> Vec<Finding> {
    let keys = match list(client, &["admin", "keys"]).await {
        Ok(keys) => keys,
        Err(Error::Problem(problem)) if problem.status == 403 => {
            let message = "keys that expire soon could not be looked for: only a key of the role admin may";
            let remedy = "repeat the command with a key of the role admin";
            return vec![Finding::new("keys", Level::Notice, message, remedy)];
        }
        Err(error) => return vec![Finding::unknown("keys", error)],
    };
    let soon: Vec<Finding> = keys
        .iter()
        .filter(|key| key["revoked_at"].is_null())
        .filter_map(|key| Some((key, -since(text(key, "/expires_at"))?)))
        .filter(|(_, left)| (0..EXPIRES_SOON_MS).contains(left))
        .map(|(key, left)| {
            let (name, role) = (text(key, "/name"), text(key, "/role"));
            let namespaces: Vec<&str> = items(key, "/namespaces").iter().filter_map(Value::as_str).collect();
            let message = format!("the key {name:?} of the role {role} expires in {}", duration_ms(left));
            let remedy =
                format!("selvedge keys create {name} --role {role} --for {}", namespaces.join(" --for "));
            Finding::new("keys", Level::Warning, message, remedy)
        })
        .collect();
    match soon.is_empty() {
        true => vec![Finding::ok("keys", format!("none of {} keys expires within 14 days", keys.len()))],
        false => soon,
    }
}
