//! One file per noun: its statements, its columns, how it is loaded and saved, and its reads.
//!
//! To add a noun, add a file and name it in the lists below.

pub mod api_keys;
pub mod bulk_jobs;
pub mod classes;
pub mod due;
pub mod executions;
pub mod flows;
pub mod gates;
pub mod inbox;
pub mod keys;
pub mod log;
pub mod namespaces;
pub mod outbox;
pub mod projection;
pub mod records;
pub mod rollups;
pub mod schedules;
pub mod secret;
pub mod sessions;
pub mod signals;
pub mod steps;
pub mod streams;
pub mod token_keys;
pub mod waitpoints;
pub mod webhooks;

use crate::load::Asking;
use crate::save::Saving;
use crate::sql::Statement;
use crate::{bounds, connection, coverage, diagnosis, settled, store_clock};

/// The requests of a load, in the global lock order: see [`Stage`](selvedge_core::driver::Stage).
pub const LOADS: &[fn(&mut Asking<'_>)] = &[
    api_keys::lock,
    bulk_jobs::lock,
    webhooks::lock,
    inbox::lock,
    schedules::load,
    flows::load_nodes,
    executions::lock,
    keys::read,
    outbox::lock,
    flows::read,
    gates::load_lanes,
    executions::lock_candidates,
    gates::lock,
    flows::lock,
    executions::read,
    streams::read,
    signals::read,
    steps::read,
    waitpoints::read,
    token_keys::read,
    webhooks::read_deliveries,
    sessions::load,
    classes::read,
];

/// The writes of a save. Rows that many transactions want at once are written late, so that no transaction holds them while it
/// waits for others: the counts of flows, sessions, gates, the ledger, token keys, API keys, webhooks, the pairs of class and
/// priority, and attempts of the projection. The counts of flows come before the sessions, as in the order of loads. The
/// number of the log is drawn last.
pub const SAVES: &[fn(&mut Saving<'_>)] = &[
    executions::delete,
    streams::delete,
    signals::delete,
    steps::delete,
    waitpoints::delete,
    executions::save,
    streams::save,
    signals::save,
    steps::save,
    waitpoints::save,
    executions::save_tags,
    keys::save,
    flows::save_nodes,
    outbox::save,
    flows::save,
    flows::add_counts,
    sessions::save,
    gates::save,
    token_keys::save,
    api_keys::save,
    bulk_jobs::save,
    webhooks::save,
    schedules::save,
    inbox::save,
    classes::save,
    projection::delete,
    log::append,
];

/// Returns every statement, in the order of their paths.
pub fn statements() -> Vec<&'static Statement> {
    let modules = [
        api_keys::STATEMENTS,
        bounds::STATEMENTS,
        bulk_jobs::STATEMENTS,
        classes::STATEMENTS,
        connection::STATEMENTS,
        coverage::STATEMENTS,
        diagnosis::STATEMENTS,
        due::STATEMENTS,
        executions::STATEMENTS,
        flows::STATEMENTS,
        gates::STATEMENTS,
        inbox::STATEMENTS,
        keys::STATEMENTS,
        log::STATEMENTS,
        namespaces::STATEMENTS,
        outbox::STATEMENTS,
        projection::STATEMENTS,
        rollups::STATEMENTS,
        schedules::STATEMENTS,
        sessions::STATEMENTS,
        settled::STATEMENTS,
        signals::STATEMENTS,
        steps::STATEMENTS,
        store_clock::STATEMENTS,
        streams::STATEMENTS,
        token_keys::STATEMENTS,
        waitpoints::STATEMENTS,
        webhooks::STATEMENTS,
    ];
    let mut all: Vec<&Statement> = modules.into_iter().flatten().copied().collect();
    all.sort_unstable_by_key(|statement| statement.path);
    all
}
