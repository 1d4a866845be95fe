//! The table of routes. A route is registered with its permission, and there is no other way to register one: its handler
//! runs only after [`auth::authorize`](crate::auth::authorize) has found that the caller has it.

use crate::sending::ConnectionRoom;
use crate::wire::problem::Problem;
use crate::{AppState, auth};
use axum::Router;
use axum::body::HttpBody;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use futures_util::future::{Either, Ready, ready};
use selvedge_api::Description;
use selvedge_core::Permission;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A route of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub method: Method,
    /// The path, with its parameters in braces.
    pub path: &'static str,
    /// The permission that a caller needs.
    pub permission: Permission,
}

/// Routes with their handlers.
#[derive(Default)]
pub struct Routes {
    router: Router<AppState>,
    table: Vec<Route>,
    operations: Vec<Description>,
}

impl Routes {
    /// Returns no routes.
    pub fn new() -> Routes {
        Routes::default()
    }

    /// Adds a route with the method `GET`.
    pub fn get<H, T>(self, path: &'static str, permission: Permission, handler: H) -> Routes
    where
        H: Handler<T, AppState> + Sync,
        T: 'static,
    {
        self.add(Method::GET, path, permission, handler)
    }

    /// Adds a route with the method `POST`.
    pub fn post<H, T>(self, path: &'static str, permission: Permission, handler: H) -> Routes
    where
        H: Handler<T, AppState> + Sync,
        T: 'static,
    {
        self.add(Method::POST, path, permission, handler)
    }

    /// Adds a route with the method `PUT`.
    pub fn put<H, T>(self, path: &'static str, permission: Permission, handler: H) -> Routes
    where
        H: Handler<T, AppState> + Sync,
        T: 'static,
    {
        self.add(Method::PUT, path, permission, handler)
    }

    /// Adds a route with the method `PATCH`.
    pub fn patch<H, T>(self, path: &'static str, permission: Permission, handler: H) -> Routes
    where
        H: Handler<T, AppState> + Sync,
        T: 'static,
    {
        self.add(Method::PATCH, path, permission, handler)
    }

    /// Adds a route with the method `DELETE`.
    pub fn delete<H, T>(self, path: &'static str, permission: Permission, handler: H) -> Routes
    where
        H: Handler<T, AppState> + Sync,
        T: 'static,
    {
        self.add(Method::DELETE, path, permission, handler)
    }

    /// Adds the description of an operation.
    pub fn describe(mut self, operation: Description) -> Routes {
        self.operations.push(operation);
        self
    }

    /// Adds a route.
    pub fn add<H, T>(
        mut self,
        method: Method,
        path: &'static str,
        permission: Permission,
        handler: H,
    ) -> Routes
    where
        H: Handler<T, AppState> + Sync,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("the methods above have filters");
        self.router = self.router.route(path, on(filter, Guarded { handler, permission }));
        self.table.push(Route { method, path, permission });
        self
    }

    /// Adds the routes of `other`.
    pub fn merge(mut self, other: Routes) -> Routes {
        self.router = self.router.merge(other.router);
        self.table.extend(other.table);
        self.operations.extend(other.operations);
        self
    }

    /// Returns the routes in the order in which they were added.
    pub fn table(&self) -> &[Route] {
        &self.table
    }

    /// Returns the descriptions of the typed operations, in the order in which they were added.
    pub fn operations(&self) -> &[Description] {
        &self.operations
    }

    /// Returns the router of these routes.
    pub fn into_router(self) -> Router<AppState> {
        self.router
    }
}

/// A handler that runs only for callers with a permission.
#[derive(Clone)]
struct Guarded<H> {
    handler: H,
    permission: Permission,
}

type Slow = Pin<Box<dyn Future<Output = Response> + Send>>;

impl<H, T> Handler<T, AppState> for Guarded<H>
where
    H: Handler<T, AppState> + Sync,
    T: 'static,
{
    type Future = Either<H::Future, Either<Ready<Response>, Slow>>;

    fn call(self, mut request: Request, state: AppState) -> Self::Future {
        match auth::authorize(&mut request, self.permission, &state) {
            auth::Access::Granted if self.permission == Permission::Open => {
                Either::Right(Either::Right(Box::pin(in_open_place(self.handler, request, state))))
            }
            auth::Access::Granted if self.permission == Permission::Read && !may_wait(&request) => {
                Either::Right(Either::Right(Box::pin(in_turn(self.handler, request, state))))
            }
            auth::Access::Granted => Either::Left(self.handler.call(request, state)),
            auth::Access::Refused(problem) => Either::Right(Either::Left(ready(refusal(&request, problem)))),
            auth::Access::Unknown(lookup) => Either::Right(Either::Right(Box::pin(async move {
                match lookup.run(&mut request, self.permission, &state).await {
                    Ok(()) if self.permission == Permission::Read && !may_wait(&request) => {
                        in_turn(self.handler, request, state).await
                    }
                    Ok(()) => self.handler.call(request, state).await,
                    Err(problem) => refusal(&request, problem),
                }
            }))),
        }
    }
}

/// Calls the handler of a route that needs no key, once the connection has a place for its response.
async fn in_open_place<H, T>(handler: H, request: Request, state: AppState) -> Response
where
    H: Handler<T, AppState>,
{
    let Some(room) = request.extensions().get::<Arc<ConnectionRoom>>().cloned() else {
        return handler.call(request, state).await;
    };
    let place = room.open_place().await;
    let mut response = handler.call(request, state).await;
    response.extensions_mut().insert(place);
    response
}

/// Calls the handler of a route that reads, when it is the turn of the request on its connection.
async fn in_turn<H, T>(handler: H, request: Request, state: AppState) -> Response
where
    H: Handler<T, AppState>,
{
    let Some(room) = request.extensions().get::<Arc<ConnectionRoom>>().cloned() else {
        return handler.call(request, state).await;
    };
    match room.read_turn().await {
        Ok(_turn) => handler.call(request, state).await,
        Err(problem) => refusal(&request, problem),
    }
}

/// Reports whether a request may wait for a result. An event stream does not: its response is ready at once.
fn may_wait(request: &Request) -> bool {
    request.uri().query().is_some_and(|query| query.contains("wait_ms"))
}

/// Returns the response to a refused request. The connection is closed if the request has a body, which is not read.
fn refusal(request: &Request, problem: Problem) -> Response {
    match request.body().is_end_stream() {
        true => problem.into_response(),
        false => problem.closing_connection().into_response(),
    }
}
