//! Handlers of typed operations: functions from a request of `selvedge_api` to its answer.

use crate::AppState;
use crate::auth::Caller;
use crate::routes::Routes;
use crate::wire::body::{RequestBody, SMALL_BODY};
use crate::wire::json;
use crate::wire::problem::Problem;
use crate::wire::query;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use selvedge_api::operation::{Body, Parts};
use selvedge_api::{Code, Operation, Shape};
use selvedge_core::rules::CallKey;
use std::future::Future;

/// The result of a handler.
pub type Typed<T> = Result<Reply<T>, Problem>;

/// A successful answer.
pub struct Reply<T> {
    body: T,
    /// None for the usual status of the operation.
    status: Option<StatusCode>,
    is_secret: bool,
}

impl<T> From<T> for Reply<T> {
    fn from(body: T) -> Reply<T> {
        Reply { body, status: None, is_secret: false }
    }
}

impl<T> Reply<T> {
    /// Returns an answer with the status 201 if something `is_new`, otherwise 200.
    pub fn created(body: T, is_new: bool) -> Reply<T> {
        let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
        Reply { body, status: Some(status), is_secret: false }
    }

    /// Forbids caches to keep the answer.
    pub fn secret(self) -> Reply<T> {
        Reply { is_secret: true, ..self }
    }
}

/// The request of an operation.
struct Call<O> {
    request: O,
    key: Option<CallKey>,
    /// Holds the room of the body, which counts until the request is handled.
    body: Option<RequestBody<SMALL_BODY>>,
}

impl<O: Operation> FromRequest<AppState> for Call<O> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let (mut head, body) = request.into_parts();
        let unreadable = |_| Problem::new(Code::NotFound, "the path is not UTF-8 text");
        let path = RawPathParams::from_request_parts(&mut head, state).await.map_err(unreadable)?;
        let query = query::read(&head.uri);
        let body = match O::BODY == Body::None && !O::IS_REPEATABLE {
            true => None,
            false => Some(RequestBody::from_request(Request::from_parts(head, body), state).await?),
        };
        let key = match &body {
            Some(body) if O::IS_REPEATABLE => body.call_key()?,
            Some(_) | None => None,
        };
        let bytes = body.as_ref().map_or(&b""[..], RequestBody::bytes);
        let bytes = if bytes.is_empty() && O::BODY == Body::Optional { b"{}" } else { bytes };
        let request = O::read(&mut Parts { path: path.iter().collect(), query, body: bytes })?;
        Ok(Call { request, key, body })
    }
}

impl Routes {
    /// Adds an operation.
    pub fn on<O, H, F>(self, handler: H) -> Routes
    where
        O: Operation,
        H: Fn(Caller, O) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Typed<O::Answer>> + Send,
    {
        const { assert!(!O::IS_REPEATABLE, "the handler lacks the key of the call") };
        self.typed::<O, _, _>(move |caller, request, _key| handler(caller, request))
    }

    /// Adds an operation that takes an `Idempotency-Key`.
    pub fn repeatable<O, H, F>(self, handler: H) -> Routes
    where
        O: Operation,
        H: Fn(Caller, O, Option<CallKey>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Typed<O::Answer>> + Send,
    {
        const { assert!(O::IS_REPEATABLE, "the operation takes no key") };
        self.typed::<O, _, _>(handler)
    }

    fn typed<O, H, F>(self, handler: H) -> Routes
    where
        O: Operation,
        H: Fn(Caller, O, Option<CallKey>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Typed<O::Answer>> + Send,
    {
        let method =
            Method::from_bytes(O::METHOD.as_str().as_bytes()).expect("the methods of the API are valid");
        let handle = move |caller: Caller, call: Call<O>| {
            let handler = handler.clone();
            async move {
                let Call { request, key, body } = call;
                let answer = handler(caller, request, key).await;
                drop(body);
                answer.map(|reply| respond(O::STATUS, reply))
            }
        };
        self.describe(O::describe()).add(method, O::PATH, O::PERMISSION, handle)
    }
}

fn respond<T: Shape>(status: u16, reply: Reply<T>) -> Response {
    let usual = StatusCode::from_u16(status).expect("the statuses of the API are valid");
    let mut out = Vec::with_capacity(512);
    reply.body.write(&mut out);
    let mut response = json::body(reply.status.unwrap_or(usual), out);
    if reply.is_secret {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}
