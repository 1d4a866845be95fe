//! Counts requests by route template, method and class of the status, and their time by route and method.
//!
//! Looking up the counters of a route takes no lock, and counting is a few relaxed additions. A request that names no route
//! counts for the route `(none)`, so callers cannot create series.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use selvedge_engine::{Family, Histogram, OTHER, Slots};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// More than the number of routes and methods of the API.
const ROUTES_MAX: usize = 512;
/// The route of requests that name none.
const NO_ROUTE: &str = "(none)";
/// The classes of statuses. The last one counts requests whose client left before the answer.
const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "gone"];

/// The counters of requests. Clones share them.
#[derive(Clone, Debug)]
pub struct HttpMetrics(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    routes: Slots<Route>,
    in_progress: AtomicI64,
    sending: Arc<SendingCounters>,
}

/// The counters of responses that are being sent.
#[derive(Debug, Default)]
pub struct SendingCounters {
    /// The bytes of these responses.
    pub held: AtomicUsize,
    /// The requests that were refused because there was no room for their responses.
    pub refused: AtomicU64,
    /// The responses that ended because their clients took nothing of them.
    pub stalled: AtomicU64,
}

#[derive(Debug)]
struct Route {
    requests: [AtomicU64; CLASSES.len()],
    time: Histogram,
}

impl Default for Route {
    fn default() -> Self {
        Route { requests: Default::default(), time: Histogram::of_durations() }
    }
}

impl Default for HttpMetrics {
    fn default() -> Self {
        let sending = Arc::default();
        let routes = Slots::new(ROUTES_MAX);
        HttpMetrics(Arc::new(Counters { routes, in_progress: AtomicI64::new(0), sending }))
    }
}

/// A request in progress. Counted when it is dropped, so also if its client leaves.
struct Observed<'a> {
    counters: &'a Counters,
    route: Option<MatchedPath>,
    method: &'static str,
    begun: Instant,
    status: Option<StatusCode>,
}

impl Drop for Observed<'_> {
    fn drop(&mut self) {
        let route = self.route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
        let class = self.status.map_or(CLASSES.len() - 1, |status| usize::from(status.as_u16() / 100) - 1);
        let counts = self.counters.routes.get(self.method, route);
        counts.requests[class.min(CLASSES.len() - 1)].fetch_add(1, Relaxed);
        counts.time.add_time(self.begun.elapsed());
        self.counters.in_progress.fetch_sub(1, Relaxed);
    }
}

/// Middleware that counts a request.
pub async fn observe(State(metrics): State<HttpMetrics>, request: Request, next: Next) -> Response {
    let mut observed = metrics.begin(&request);
    let response = next.run(request).await;
    observed.status = Some(response.status());
    response
}

impl HttpMetrics {
    fn begin(&self, request: &Request) -> Observed<'_> {
        self.0.in_progress.fetch_add(1, Relaxed);
        Observed {
            counters: &self.0,
            route: request.extensions().get::<MatchedPath>().cloned(),
            method: method_name(request.method()),
            begun: Instant::now(),
            status: None,
        }
    }

    /// Returns the counters of responses that are being sent.
    pub(crate) fn sending(&self) -> Arc<SendingCounters> {
        self.0.sending.clone()
    }

    /// Returns the counters as families.
    pub fn families(&self) -> Vec<Family> {
        let mut requests =
            Family::counter("http_requests_total", "Requests that were answered, by class of the status.");
        let mut time = Family::histogram(
            "http_request_seconds",
            "Time until the head of the response, with the time that a request waits for work or an event.",
        );
        let (mut routes, other) = self.0.routes.read();
        routes.sort_by_key(|(method, route, _)| (*route, *method));
        let used = |route: &Route| route.requests.iter().any(|count| count.load(Relaxed) > 0);
        let rest = [(OTHER, OTHER, other)].into_iter().filter(|(.., route)| used(route));
        for (method, route, counts) in routes.into_iter().chain(rest) {
            for (class, count) in CLASSES.iter().zip(&counts.requests) {
                let count = count.load(Relaxed);
                if count > 0 {
                    requests.add(&[("route", route), ("method", method), ("status", class)], count as f64);
                }
            }
            time.add_histogram(&[("route", route), ("method", method)], &counts.time);
        }
        let in_progress = self.0.in_progress.load(Relaxed).max(0);
        let in_progress =
            Family::gauge("http_requests_in_progress", "Requests that have not been answered yet.")
                .with(in_progress as f64);
        let sending = &self.0.sending;
        let held = Family::gauge(
            "http_response_bytes",
            "Bytes of responses that are being sent, until their clients have taken all of them.",
        );
        let refused = Family::counter(
            "http_responses_refused_total",
            "Requests that were refused because too many bytes of responses waited for their clients.",
        );
        let stalled = Family::counter(
            "http_responses_stalled_total",
            "Responses that ended because their clients took nothing of them for too long.",
        );
        vec![
            requests,
            time,
            in_progress,
            held.with(sending.held.load(Relaxed) as f64),
            refused.with(sending.refused.load(Relaxed) as f64),
            stalled.with(sending.stalled.load(Relaxed) as f64),
        ]
    }
}

/// Returns the name of a method, or one name for all that the API does not use.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
