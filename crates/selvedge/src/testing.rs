//! Tests of days in milliseconds: an engine whose clock moves only when the test advances it.
//!
//! ```
//! use selvedge::testing::TestEngine;
//! use selvedge::{Context, Failure, Submission, Worker};
//! use std::time::Duration;
//!
//! const DAY: Duration = Duration::from_secs(24 * 3600);
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), selvedge::Error> {
//! let test = TestEngine::start().await?;
//! let worker = Worker::new(test.namespace().clone(), "reminders")
//!     .handler("remind", |ctx: Context| async move {
//!         ctx.sleep("three days", 3 * DAY).await?;
//!         Ok::<_, Failure>("pay the invoice")
//!     })
//!     .start()?;
//! let id = Submission::new("remind").submit(test.namespace()).await?.execution.id;
//! test.advance(2 * DAY).await?;
//! assert!(test.namespace().result(id, Duration::ZERO).await?.is_none());
//! test.advance(DAY).await?;
//! let ended = test.namespace().result(id, Duration::from_secs(10)).await?.expect("the execution ends");
//! assert_eq!(ended.json::<String>()?, "pay the invoice");
//! # worker.drain().await;
//! test.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! Over HTTP, [`advance`] moves the clock of a server that was started with `selvedge dev --store memory: --manual-clock`.

use crate::submission::millis;
use crate::{Address, Connection, Engine, Error, Namespace, Options};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// The longest time that an advance waits, at each step, for handlers to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// An engine in memory with a manual clock.
#[derive(Clone, Debug)]
pub struct TestEngine {
    engine: Engine,
    namespace: Namespace,
}

impl TestEngine {
    /// Starts the engine. Its clock stands at the current time.
    pub async fn start() -> Result<TestEngine, Error> {
        let store = Address::Memory.open_with_manual_clock()?.store();
        let engine = Engine::start(store, Options::default()).await?;
        let namespace = engine.namespace("default").await?;
        Ok(TestEngine { engine, namespace })
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the namespace `default`.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Advances the clock. Everything that becomes due on the way happens at its time, and handlers that it starts end before
    /// the clock goes on.
    pub async fn advance(&self, by: Duration) -> Result<(), Error> {
        advance(&Connection::Embedded(self.engine.clone()), by).await
    }

    /// Shuts the engine down.
    pub async fn shutdown(self) {
        self.engine.shutdown().await;
    }
}

#[derive(Deserialize)]
struct Advanced {
    now_at: String,
    reached: bool,
}

/// Advances the manual clock of an embedded engine or of a server.
pub async fn advance(connection: &Connection, by: Duration) -> Result<(), Error> {
    match connection {
        Connection::Embedded(engine) => {
            let engine = engine.clone().into_inner();
            let (began, _) = engine.clock().await?;
            let goal = began.plus_ms(millis(by));
            let mut left = millis(by);
            loop {
                let advanced = engine.advance(left, PATIENCE, None).await?;
                left = (goal.millis() - advanced.now.millis()).max(0);
                if advanced.reached || left == 0 {
                    return Ok(());
                }
            }
        }
        Connection::Remote(client) => {
            let body = json!({ "by_ms": millis(by) });
            let request = client.http().post(&["clock", "advance"]).json(&body);
            let advanced: Advanced = request.waits(Duration::from_secs(60)).send().await?.json()?;
            match advanced.reached {
                true => Ok(()),
                false => Err(Error::Unavailable(format!(
                    "the clock has only reached {}; advance it by the rest",
                    advanced.now_at
                ))),
            }
        }
    }
}
