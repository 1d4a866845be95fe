//! Requests whose parts and answers are types of the API.

use crate::address::api_path;
use crate::{Client, Error, Request, Response};
use hyper::Method;
use selvedge_api::{Input, Operation, Page, Shape};
use serde_json::value::RawValue;
use std::marker::PhantomData;

/// The request of an operation, not sent yet.
#[derive(Clone, Debug)]
pub struct OperationRequest<T> {
    request: Request,
    answer: PhantomData<fn() -> T>,
}

/// The answer of an operation: its value, and its bytes, which may have fields of a later server.
#[derive(Clone, Debug)]
pub struct TypedResponse<T> {
    pub value: T,
    pub response: Response,
}

/// An item of a list, with its JSON as the server wrote it.
#[derive(Clone, Debug)]
pub struct Item<T> {
    pub value: T,
    pub raw: Box<RawValue>,
}

impl Client {
    /// Begins the request of an operation. A `POST` is safe to repeat.
    pub fn operation<O: Operation>(&self, operation: &O) -> OperationRequest<O::Answer> {
        let method = Method::from_bytes(O::METHOD.as_str().as_bytes()).unwrap_or_default();
        let path = operation.path();
        // Every operation is below /v1, which `api_path` adds.
        let segments: Vec<&str> = path.iter().skip(1).map(String::as_str).collect();
        let mut request = self.request(method, api_path(&segments));
        request.query = operation.query();
        if let Some(body) = operation.body() {
            request = request.json_text(body);
        }
        OperationRequest { request, answer: PhantomData }
    }
}

impl<T: Shape> OperationRequest<T> {
    /// Sets the idempotency key. Default: a new one for each `POST`.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.request = self.request.idempotency_key(key);
        self
    }

    /// Sends the request, again if necessary, until it is answered. A refusal is an error.
    pub async fn send(self) -> Result<TypedResponse<T>, Error> {
        let response = self.request.send().await?;
        Ok(TypedResponse { value: response.read()?, response })
    }
}

impl<T: Shape> OperationRequest<Page<T>> {
    /// Sends the request of a list again and again from its first page until its end, or until it has `limit` items.
    pub async fn items(mut self, limit: usize) -> Result<Vec<Item<T>>, Error> {
        let server = self.request.client.server().to_owned();
        self.request.query.retain(|(name, _)| name != "limit" && name != "cursor");
        let raws = self.request.items(limit).await?;
        let item = |raw: Box<RawValue>| Ok(Item { value: read(&raw, &server)?, raw });
        raws.into_iter().map(item).collect()
    }
}

impl Response {
    /// Reads the body as a type of the API.
    pub fn read<T: Shape>(&self) -> Result<T, Error> {
        let raw: &RawValue = serde_json::from_slice(&self.body)
            .map_err(|error| Error::Answer { server: self.server.clone(), detail: error.to_string() })?;
        read(raw, &self.server)
    }
}

fn read<T: Shape>(raw: &RawValue, server: &str) -> Result<T, Error> {
    T::read(&Input::root(raw)).map_err(|refusal| {
        let pointer = refusal.pointer().unwrap_or_default().to_owned();
        Error::Answer { server: server.to_owned(), detail: format!("{pointer} {refusal}") }
    })
}
