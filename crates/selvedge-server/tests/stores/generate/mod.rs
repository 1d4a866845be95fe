//! Writes a fixture: one SQLite file and one Postgres schema with every kind of row, and the snapshots that this build
//! reads.
//!
//! The engine itself writes the rows: every scene is played over HTTP. It takes about two minutes, because a snapshot
//! must not depend on live workers and is read only when all have expired. To write a fixture:
//!
//!     SELVEDGE_REGENERATE=stores scripts/postgres run cargo test -p selvedge-server --test stores generate

mod executions;
pub mod flows;
mod gates;
mod pending;
mod schedules;
mod suspensions;
mod webhooks;

use crate::directory::Directory;
use crate::driver::{Driver, FOREVER_MS, fixed_id};
use crate::notes::Notes;
use crate::server::{Server, passive_options, wait_until_within};
use crate::snapshot;
use selvedge_conformance::fixtures::create_next;
use selvedge_core::{Draft, Policy};
use selvedge_engine::Options;
use selvedge_engine::store::Store;
use selvedge_system_tests::database::Database;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// The name of the second namespace, which HTTP does not show.
pub const OTHER: &str = "other";

/// Longer than a worker counts as live after its last request.
const WORKERS_EXPIRE: Duration = Duration::from_secs(180);

#[tokio::test]
async fn generate_writes_a_new_fixture_if_requested() {
    if std::env::var("SELVEDGE_REGENERATE").is_ok_and(|value| value == "stores") {
        let (directory, database) = (Directory::new(), Database::create().await);
        let (sqlite, postgres) = tokio::join!(
            write(async || directory.store().await as Arc<dyn Store>),
            write(async || database.store().await as Arc<dyn Store>),
        );
        let fixture = create_next();
        std::fs::copy(directory.database(), fixture.path("sqlite.db")).expect("the file is copied");
        for (file, text) in
            [("sqlite.json", sqlite), ("postgres.json", postgres), ("postgres.sql", database.dump())]
        {
            std::fs::write(fixture.path(file), text).expect("the file is written");
        }
    }
}

/// Plays all scenes on a store. Returns the text of its notes and snapshot.
async fn write(open: impl AsyncFn() -> Arc<dyn Store>) -> String {
    // An engine without a secret makes the store generate and keep one.
    let server = Server::start(open().await, Options { secret: None, ..passive_options() }).await;
    let mut driver = Driver { server, notes: Notes::default() };
    create_waitpoint_with_stored_secret(&mut driver).await;
    submit_to_other_namespace(&driver).await;
    driver = restart(driver, &open, Options { dispatch: true, ..passive_options() }).await;
    executions::play(&mut driver).await;
    suspensions::play(&mut driver).await;
    flows::play(&mut driver).await;
    gates::play(&driver).await;
    webhooks::play(&driver).await;
    schedules::play(&driver).await;
    driver = restart(driver, &open, passive_options()).await;
    pending::play(&mut driver).await;
    driver = restart(driver, &open, passive_options()).await;
    wait_until_within(WORKERS_EXPIRE, "no worker is live", &mut async || {
        let workers = driver.server.get("/v1/workers").await;
        workers["items"].as_array().is_some_and(|items| items.iter().all(|worker| worker["live"] == false))
    })
    .await;
    let text = snapshot::write(&driver.notes, &snapshot::read(&driver.server).await);
    driver.server.stop().await;
    text
}

/// Stops the engine and starts another one on the same store.
async fn restart(driver: Driver, open: &impl AsyncFn() -> Arc<dyn Store>, options: Options) -> Driver {
    driver.server.stop().await;
    Driver { server: Server::start(open().await, options).await, notes: driver.notes }
}

/// Creates a waitpoint whose token is signed with the secret that the store keeps.
async fn create_waitpoint_with_stored_secret(driver: &mut Driver) {
    driver.submit(501, "kept-secret", json!({})).await;
    let claim = driver.claim_one("kept-secret").await;
    let wait = json!({ "condition": { "signal": "approval" }, "waitpoints": ["approval"] });
    let suspended = driver.report("suspend", &claim, wait).await;
    driver.notes.add("kept_secret_waitpoint", suspended["waitpoints"][0].clone());
}

/// Submits executions to a second namespace; one has an idempotency key that the first namespace uses too.
async fn submit_to_other_namespace(driver: &Driver) {
    let other = driver.server.engine.namespace(OTHER).await.expect("the namespace exists");
    for (number, key) in [(502, Some("order-1")), (503, None)] {
        let draft = Draft {
            id: fixed_id(number).parse().ok(),
            idempotency_key: key.map(str::to_owned),
            idempotency_window_ms: key.map(|_| FOREVER_MS),
            policy: Policy { retention_ms: FOREVER_MS, ..Policy::default() },
            ..Draft::new("work")
        };
        other.submit(draft).await.expect("the execution is submitted");
    }
}
