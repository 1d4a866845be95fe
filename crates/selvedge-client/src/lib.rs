//! A client of Selvedge's HTTP API. The command line and the Rust SDK share it.
//!
//! [`Client`] sends [`Request`]s over pooled connections. It knows three things that a plain HTTP client does not:
//!
//! - **Repeats.** A request whose answer was lost is sent again, with the same `Idempotency-Key`, so that it takes effect once
//!   ([`Retries`]). 429 and 503 are repeated after the time that the server names.
//! - **Problems.** A refusal becomes [`Error::Problem`], with the stable code that a caller can match on.
//! - **Event streams** resume by themselves after the last event that was read ([`EventStream`]).
//!
//! An operation of `selvedge_api` is sent with [`Client::operation`], and its answer is a type as well. Other answers stay
//! JSON: a caller deserialises them into types of its choice, or keeps their bytes.
//!
//! ```no_run
//! # async fn example() -> Result<(), selvedge_client::Error> {
//! let client = selvedge_client::Client::new("http://127.0.0.1:7878")?;
//! let body = serde_json::json!({"kind": "echo", "input": 7});
//! let submitted: serde_json::Value = client.post(&["executions"]).json(&body).send().await?.json()?;
//! # Ok(())
//! # }
//! ```

mod address;
mod certificate;
mod client;
mod error;
mod event_stream;
mod message;
mod operation;
mod request;
mod response;
mod retries;
mod tls;

pub use certificate::CertificateFault;
pub use client::{Client, Options};
pub use error::{Error, Problem};
pub use event_stream::EventStream;
pub use message::Message;
pub use operation::{Item, OperationRequest, TypedResponse};
pub use request::Request;
pub use response::{Page, Response};
pub use retries::Retries;
