//! Faults on purpose, so that users can test their own workers and clients: `selvedge dev --chaos`.
//!
//! A disturbed call is delayed, handled twice, or loses its answer after it was handled. Leases of active executions are lost.
//! All of this happens in real networks, so a correct client survives it: nothing is lost and nothing happens twice.

use crate::AppState;
use crate::shutdown::ShutdownWatch;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Limited};
use selvedge_core::Name;
use selvedge_core::filter::Filter;
use selvedge_core::rules::operator::Action;
use selvedge_core::state::StateName;
use selvedge_engine::{Engine, Error};
use std::io;
use std::time::Duration;
use tokio::time::sleep;

/// The longest delay of an answer.
const LONGEST_DELAY: Duration = Duration::from_secs(2);
/// The interval at which leases are lost.
const LAPSE_INTERVAL: Duration = Duration::from_secs(1);
/// The most active executions that one look considers.
const LAPSES: u32 = 100;
/// The largest body that is kept for a second handling.
const BODY_BYTES: usize = 32 * 1024 * 1024;
/// The namespace of a server without keys.
const NAMESPACE: &str = "default";
/// The actor of a lost lease.
const ACTOR: &str = "chaos";

/// The share of calls that are disturbed, and of active executions that lose their lease in a second, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chaos(f64);

impl Chaos {
    /// Returns the faults of this rate. None if it does not lie between 0 and 1.
    pub fn new(rate: f64) -> Option<Chaos> {
        (0.0..=1.0).contains(&rate).then_some(Chaos(rate))
    }

    fn strikes(self) -> bool {
        self.0 > 0.0 && fastrand::f64() < self.0
    }
}

/// A fault of one call.
enum Fault {
    Delay,
    Repeat,
    LoseAnswer,
}

/// Disturbs calls of the API at the rate of the server's options.
pub async fn disturb(State(state): State<AppState>, request: Request, next: Next) -> Response {
    if !request.uri().path().starts_with("/v1/") || !state.shared.chaos.strikes() {
        return next.run(request).await;
    }
    match fastrand::choice([Fault::Delay, Fault::Repeat, Fault::LoseAnswer]) {
        Some(Fault::Repeat) => repeat(request, next).await,
        Some(Fault::LoseAnswer) => {
            tracing::info!(method = %request.method(), path = request.uri().path(), "chaos: the answer is lost");
            drop(next.run(request).await);
            broken()
        }
        Some(Fault::Delay) | None => {
            let delay = LONGEST_DELAY.mul_f64(fastrand::f64());
            tracing::info!(?delay, path = request.uri().path(), "chaos: the answer is delayed");
            let response = next.run(request).await;
            sleep(delay).await;
            response
        }
    }
}

/// Handles a call twice, as if the network had repeated it. Returns the second answer.
async fn repeat(request: Request, next: Next) -> Response {
    tracing::info!(method = %request.method(), path = request.uri().path(), "chaos: the call is repeated");
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_BYTES).collect().await else { return broken() };
    let body = body.to_bytes();
    let first = Request::from_parts(head.clone(), Body::from(body.clone()));
    drop(next.clone().run(first).await);
    next.run(Request::from_parts(head, Body::from(body))).await
}

/// Returns an answer that breaks its connection.
fn broken() -> Response {
    let cause = io::Error::new(io::ErrorKind::ConnectionReset, "lost on purpose");
    Response::new(Body::from_stream(stream::once(async move { Err::<Bytes, io::Error>(cause) })))
}

/// Takes leases away at the rate of `chaos`, until the shutdown begins.
pub async fn lose_leases(engine: Engine, chaos: Chaos, shutdown: ShutdownWatch) {
    if chaos == Chaos::default() {
        return;
    }
    while shutdown.race(sleep(LAPSE_INTERVAL)).await.is_some() {
        if let Err(error) = lose_some(&engine, chaos).await {
            tracing::warn!(%error, "chaos: leases cannot be taken away");
        }
    }
}

async fn lose_some(engine: &Engine, chaos: Chaos) -> Result<(), Error> {
    let namespace = engine.namespace(NAMESPACE).await?;
    let filter = Filter { states: vec![StateName::Active], ..Filter::all(namespace.id()) };
    let (active, _) = namespace.list(&filter, None, LAPSES, Default::default()).await?;
    for view in active.iter().filter(|_| chaos.strikes()) {
        let execution = view.stored.execution.id;
        let action = Action::Revoke { reason: Some("chaos".into()) };
        // It may have ended meanwhile.
        if namespace.operate(execution, action, None, &Name::trusted(ACTOR)).await.is_ok() {
            tracing::info!(%execution, "chaos: the lease is lost");
        }
    }
    Ok(())
}
