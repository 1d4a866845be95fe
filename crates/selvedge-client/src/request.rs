//! A request: its parts, and the loop that sends it until it is answered.

use crate::certificate::NoConnection;
use crate::{Client, Error, EventStream, Page, Problem, Response, Retries};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, StatusCode};
use serde::Serialize;
use serde_json::value::RawValue;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

/// The header that makes a `POST` safe to repeat.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A request that was not sent yet.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) client: Client,
    method: Method,
    path: String,
    pub(crate) query: Vec<(String, String)>,
    body: Option<Result<Bytes, String>>,
    idempotency_key: Option<String>,
    headers: Vec<(&'static str, String)>,
    wait: Duration,
    retries: Retries,
}

impl Request {
    pub(crate) fn new(client: Client, method: Method, path: String) -> Request {
        let retries = client.0.retries;
        // Every POST takes a key, so a repeat is harmless; reports and heartbeats ignore it.
        let idempotency_key = (method == Method::POST).then(|| Uuid::new_v4().to_string());
        Request {
            client,
            method,
            path,
            query: Vec::new(),
            body: None,
            idempotency_key,
            headers: Vec::new(),
            wait: Duration::ZERO,
            retries,
        }
    }

    /// Adds a parameter.
    pub fn query(mut self, name: &str, value: impl ToString) -> Request {
        self.query.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds a parameter if it has a value.
    pub fn query_optional(self, name: &str, value: Option<impl ToString>) -> Request {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// Sets the body.
    pub fn json(mut self, body: &impl Serialize) -> Request {
        self.body = Some(serde_json::to_vec(body).map(Bytes::from).map_err(|error| error.to_string()));
        self
    }

    /// Sets the body to JSON text, which is sent byte for byte.
    pub fn json_text(mut self, body: impl Into<Bytes>) -> Request {
        self.body = Some(Ok(body.into()));
        self
    }

    /// Sets the idempotency key. Default: a new one for each `POST`.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Request {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Sets a header if it has a value.
    pub fn header_optional(mut self, name: &'static str, value: Option<impl ToString>) -> Request {
        self.headers.extend(value.map(|value| (name, value.to_string())));
        self
    }

    /// Says how long the request asks the server to wait, so that the client waits longer.
    pub fn waits(mut self, wait: Duration) -> Request {
        self.wait = wait;
        self
    }

    /// Sets the rule for repeating this request. Default: that of the client.
    pub fn retries(mut self, retries: Retries) -> Request {
        self.retries = retries;
        self
    }

    /// Sends the request, again if necessary, until it is answered. A refusal is an error.
    pub async fn send(self) -> Result<Response, Error> {
        let began = Instant::now();
        let mut tries = 0;
        loop {
            let error = match self.try_once().await {
                Ok(response) => return Ok(Response { tries: tries + 1, ..response }),
                Err(error) => error,
            };
            let Some(delay) = self.retries.delay(&error, began.elapsed(), tries) else { return Err(error) };
            tracing::debug!(%error, ?delay, path = self.path, "a request is repeated");
            tries += 1;
            sleep(delay).await;
        }
    }

    /// Sends the request of a list again and again until its end, or until it has `limit` items.
    pub async fn items(self, limit: usize) -> Result<Vec<Box<RawValue>>, Error> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let size = (limit - items.len()).min(500);
            let request = self.clone().query("limit", size).query_optional("cursor", cursor.take());
            let Page { items: found, next_cursor } = request.send().await?.page()?;
            items.extend(found);
            match next_cursor {
                Some(next) if items.len() < limit => cursor = Some(next),
                _ => return Ok(items),
            }
        }
    }

    /// Opens the event stream at this path. It resumes by itself when its connection breaks.
    pub fn events(self) -> EventStream {
        EventStream::new(self)
    }

    async fn try_once(&self) -> Result<Response, Error> {
        let no_answer = |detail: String| Error::NoAnswer { server: self.client.server().to_owned(), detail };
        let limit = self.client.0.answer_timeout + self.wait;
        let read = async {
            let (status, body) = self.open(None).await?;
            let body = body.collect().await.map_err(|error| no_answer(error.to_string()))?.to_bytes();
            Ok(Response { status: status.as_u16(), body, tries: 1, server: self.client.server().to_owned() })
        };
        match timeout(limit, read).await {
            Ok(answered) => answered,
            Err(_elapsed) => Err(no_answer(format!("none came within {} s", limit.as_secs()))),
        }
    }

    /// Sends the request once. Returns the status and the body of a successful answer. `resume_after` asks for an event stream
    /// from after this id; an empty one from its beginning.
    pub(crate) async fn open(&self, resume_after: Option<&str>) -> Result<(StatusCode, Incoming), Error> {
        let server = || self.client.server().to_owned();
        let request = self.build(resume_after)?;
        let answer = self.client.0.connections.request(request).await.map_err(|error| {
            let (server, is_connect) = (server(), error.is_connect());
            match NoConnection::of(&error) {
                NoConnection::Certificate(fault) => Error::Certificate { server, fault },
                NoConnection::Other(detail) if is_connect => Error::Unreachable { server, detail },
                NoConnection::Other(detail) => Error::NoAnswer { server, detail },
            }
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok((status, answer.into_body()));
        }
        let seconds = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after_ms = seconds.and_then(|text| text.parse::<u64>().ok()).map(|seconds| seconds * 1000);
        let body = answer.into_body().collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        let problem = Problem::parse(&body).unwrap_or_else(|| Problem::of_status(status, retry_after_ms));
        Err(Error::Problem(Box::new(problem)))
    }

    fn build(&self, resume_after: Option<&str>) -> Result<hyper::Request<Full<Bytes>>, Error> {
        let client = &self.client.0;
        let body = self.body.clone().transpose().map_err(Error::Request)?;
        let mut builder = hyper::Request::builder()
            .method(self.method.clone())
            .uri(client.address.uri(&self.path, &self.query)?)
            .header(header::USER_AGENT, client.user_agent.clone());
        if let Some(authorization) = &client.authorization {
            builder = builder.header(header::AUTHORIZATION, authorization.clone());
        }
        if let Some(namespace) = &client.namespace {
            builder = builder.header("selvedge-namespace", namespace.clone());
        }
        if body.is_some() {
            builder = builder.header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = &self.idempotency_key {
            builder = builder.header(IDEMPOTENCY_KEY, key);
        }
        for (name, value) in &self.headers {
            builder = builder.header(*name, value);
        }
        if let Some(id) = resume_after {
            builder = builder.header(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
            if !id.is_empty() {
                builder = builder.header("last-event-id", id);
            }
        }
        builder.body(Full::new(body.unwrap_or_default())).map_err(|error| Error::Request(error.to_string()))
    }
}
