//! Export of traces by OTLP over HTTP, in its JSON form.
//!
//! Spans arrive through a bounded queue. They are sent in batches, and a batch that cannot be sent is dropped: a collector that
//! is slow or away never slows the engine down. Only `http://` endpoints, such as a collector on the same machine, which passes
//! the spans on.

use crate::failure::Failure;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Uri, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use selvedge::{Span, SpanSink};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The maximum number of spans that wait to be sent.
const QUEUE: usize = 8192;
/// The maximum number of spans in a request.
const BATCH: usize = 512;
/// The longest time that a span waits for others.
const INTERVAL: Duration = Duration::from_secs(1);
/// The longest time for a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The standard variables, in the order in which they count after the flag: the endpoint of traces, and that of everything.
const TRACES_VARIABLE: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const BASE_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS_VARIABLE: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const SERVICE_VARIABLE: &str = "OTEL_SERVICE_NAME";

/// A running exporter.
pub struct Exporter {
    /// The place to which the engine sends its spans.
    pub sink: SpanSink,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Starts an exporter for the endpoint of the flag, or of the standard variables. Returns none if there is none.
    pub fn start(flag: Option<&str>) -> Result<Option<Exporter>, Failure> {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let base = |text: String| format!("{}/v1/traces", text.trim_end_matches('/'));
        let endpoint = flag.map(|text| base(text.to_owned()));
        let endpoint =
            endpoint.or_else(|| variable(TRACES_VARIABLE)).or_else(|| variable(BASE_VARIABLE).map(base));
        let Some(endpoint) = endpoint else { return Ok(None) };
        let collector = Collector {
            uri: parse_endpoint(&endpoint)?,
            headers: parse_headers(&variable(HEADERS_VARIABLE).unwrap_or_default()),
            service: variable(SERVICE_VARIABLE).unwrap_or_else(|| "selvedge".into()),
            client: Client::builder(TokioExecutor::new()).build_http(),
        };
        let (sink, spans) = SpanSink::new(QUEUE);
        let (stop, stopped) = oneshot::channel();
        Ok(Some(Exporter { sink, stop, task: tokio::spawn(collector.run(spans, stopped)) }))
    }

    /// Sends the spans that are left, after the engine has stopped, within a time limit.
    pub async fn finish(self, limit: Duration) {
        let Exporter { sink, stop, mut task } = self;
        let dropped = sink.dropped();
        drop(stop);
        if tokio::time::timeout(limit, &mut task).await.is_err() {
            task.abort();
        }
        if dropped > 0 {
            tracing::warn!(dropped, "spans were dropped because the collector is too slow");
        }
    }
}

/// The receiver of traces.
struct Collector {
    uri: Uri,
    headers: Vec<(String, String)>,
    service: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Collector {
    /// Sends spans until `stopped` completes and those that have arrived by then are sent.
    async fn run(self, mut spans: Receiver<Span>, mut stopped: oneshot::Receiver<()>) {
        let (mut failing, mut stopping) = (false, false);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let first = tokio::select! {
                first = spans.recv() => first,
                _ = &mut stopped, if !stopping => {
                    stopping = true;
                    spans.close();
                    continue;
                }
            };
            let Some(first) = first else { return };
            batch.push(first);
            let fill = async {
                while batch.len() < BATCH
                    && let Some(span) = spans.recv().await
                {
                    batch.push(span);
                }
            };
            let _ = tokio::time::timeout(INTERVAL, fill).await;
            match self.send(&batch).await {
                Ok(()) => failing = false,
                Err(error) if !failing => {
                    failing = true;
                    tracing::warn!(error, spans = batch.len(), "spans cannot be sent; they are dropped");
                }
                Err(_already_logged) => {}
            }
            batch.clear();
        }
    }

    async fn send(&self, spans: &[Span]) -> Result<(), String> {
        let mut request = Request::post(self.uri.clone()).header(header::CONTENT_TYPE, "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = Full::new(Bytes::from(document(&self.service, spans).to_string()));
        let request = request.body(body).map_err(|error| error.to_string())?;
        let response = tokio::time::timeout(TIMEOUT, self.client.request(request)).await;
        let response = response.map_err(|_elapsed| format!("no answer within {} s", TIMEOUT.as_secs()))?;
        match response.map_err(|error| error.to_string())?.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("the collector answered {status}")),
        }
    }
}

fn parse_endpoint(text: &str) -> Result<Uri, Failure> {
    let uri = text.parse::<Uri>().ok().filter(|uri| uri.scheme_str() == Some("http") && uri.host().is_some());
    uri.ok_or_else(|| {
        Failure::Usage(format!(
            "the endpoint of traces {text:?} (of --otlp-endpoint, {TRACES_VARIABLE} or {BASE_VARIABLE}) is not an http:// address; \
             write for example http://127.0.0.1:4318"
        ))
    })
}

/// Parses headers such as `name=value,other=value`. Parts that are no headers are ignored.
fn parse_headers(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

/// Returns spans in the JSON form of OTLP.
fn document(service: &str, spans: &[Span]) -> Value {
    let attribute = |name: &str, value: &str| json!({"key": name, "value": {"stringValue": value}});
    let write = |span: &Span| {
        let attributes: Vec<Value> =
            span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
        let links = span.links.iter().map(|link| {
            json!({"traceId": format!("{:032x}", link.trace), "spanId": format!("{:016x}", link.span)})
        });
        let mut written = json!({
            "traceId": format!("{:032x}", span.place.trace),
            "spanId": format!("{:016x}", span.place.span),
            "name": span.name,
            "kind": 1,
            "startTimeUnixNano": (span.begun_at.micros() * 1000).to_string(),
            "endTimeUnixNano": (span.ended_at.micros() * 1000).to_string(),
            "attributes": attributes,
            "links": links.collect::<Vec<Value>>(),
        });
        if let Some(parent) = span.parent {
            written["parentSpanId"] = json!(format!("{parent:016x}"));
        }
        written["status"] = match &span.error {
            Some(message) => json!({"code": 2, "message": message}),
            None => json!({"code": 1}),
        };
        written
    };
    let scope = json!({"name": "selvedge", "version": env!("CARGO_PKG_VERSION")});
    let spans: Vec<Value> = spans.iter().map(write).collect();
    let resource = json!({"attributes": [attribute("service.name", service)]});
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_is_not_http_is_refused() {
        assert!(parse_endpoint("http://127.0.0.1:4318/v1/traces").is_ok());
        for text in ["https://collector.example/v1/traces", "127.0.0.1:4318", "http://", ""] {
            assert!(matches!(parse_endpoint(text), Err(Failure::Usage(_))), "{text}");
        }
    }

    #[test]
    fn headers_are_read_from_pairs() {
        let headers = parse_headers("authorization=Basic abc=, x-team = a ,broken");
        let expected = [("authorization", "Basic abc="), ("x-team", "a")];
        assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
