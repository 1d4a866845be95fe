//! Writes a fixture: one SQLite file and one Postgres schema with every kind of row, and what this build reads from them.
//!
//! The rows are what the engine writes: every scene is played over HTTP. It takes about two minutes, because the answers
//! must not depend on which workers are live, so they are read when no worker is any more. To write one:
//!
//!     SELVEDGE_REGENERATE=stores scripts/postgres run cargo test -p selvedge-server --test stores generate

mod executions;
pub mod flows;
mod gates;
mod suspensions;
mod undone;

use crate::answers;
use crate::database::Database;
use crate::directory::Directory;
use crate::driver::{Driver, FOR_EVER_MS, fixed};
use crate::notes::Notes;
use crate::server::{Server, quiet, within};
use selvedge_conformance::fixtures::create_next;
use selvedge_core::{Draft, Policy};
use selvedge_engine::Options;
use selvedge_engine::store::Store;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// The namespace that HTTP does not show.
pub const OTHER: &str = "other";

/// Longer than a worker counts as live.
const UNTIL_NOBODY_IS_LIVE: Duration = Duration::from_secs(180);

#[tokio::test]
async fn generate_writes_a_new_fixture_where_that_is_asked_for() {
    if std::env::var("SELVEDGE_REGENERATE").is_ok_and(|what| what == "stores") {
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

/// Plays all scenes on a store and returns the text of what is read from it afterwards.
async fn write(open: impl AsyncFn() -> Arc<dyn Store>) -> String {
    // Without a secret of its own the first engine makes the store keep one.
    let server = Server::start(open().await, Options { secret: None, ..quiet() }).await;
    let mut driver = Driver { server, notes: Notes::default() };
    under_the_kept_secret(&mut driver).await;
    in_another_namespace(&driver).await;
    driver = again(driver, &open, Options { dispatch: true, ..quiet() }).await;
    executions::play(&mut driver).await;
    suspensions::play(&mut driver).await;
    flows::play(&mut driver).await;
    gates::play(&driver).await;
    driver = again(driver, &open, quiet()).await;
    undone::play(&mut driver).await;
    driver = again(driver, &open, quiet()).await;
    within(UNTIL_NOBODY_IS_LIVE, "no worker is live", &mut async || {
        driver.server.get("/v1/workers").await["items"] == json!([])
    })
    .await;
    let text = answers::write(&driver.notes, &answers::read(&driver.server).await);
    driver.server.stop().await;
    text
}

/// Stops the engine and starts another one on the same store.
async fn again(driver: Driver, open: &impl AsyncFn() -> Arc<dyn Store>, options: Options) -> Driver {
    driver.server.stop().await;
    Driver { server: Server::start(open().await, options).await, notes: driver.notes }
}

/// A waitpoint whose token is signed under the secret that the store keeps.
async fn under_the_kept_secret(driver: &mut Driver) {
    driver.submit(501, "kept-secret", json!({})).await;
    let claim = driver.claim_one("kept-secret").await;
    let wait = json!({ "condition": { "signal": "approval" }, "waitpoints": ["approval"] });
    let suspended = driver.report("suspend", &claim, wait).await;
    driver.notes.keep("kept_secret_waitpoint", suspended["waitpoints"][0].clone());
}

/// Executions of a second namespace; one has an id and a key that the first has too.
async fn in_another_namespace(driver: &Driver) {
    let other = driver.server.engine.namespace(OTHER).await.expect("a namespace");
    for (number, key) in [(502, Some("order-1")), (503, None)] {
        let draft = Draft {
            id: fixed(number).parse().ok(),
            idempotency_key: key.map(str::to_owned),
            idempotency_window_ms: key.map(|_| FOR_EVER_MS),
            policy: Policy { retention_ms: FOR_EVER_MS, ..Policy::default() },
            ..Draft::new("work")
        };
        other.submit(draft).await.expect("it is submitted");
    }
}
