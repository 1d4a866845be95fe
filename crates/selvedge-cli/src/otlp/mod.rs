//! Export of traces by OTLP over HTTP, in its JSON form.
//!
//! Spans arrive through a bounded queue and are sent in batches. A batch that cannot be sent is dropped and counted: a collector
//! that is slow or unreachable never slows the engine down.

mod endpoint;

use crate::failure::Failure;
use bytes::Bytes;
use endpoint::{Client, Endpoint};
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
/// The standard variables with the file of trusted certificates, in the same order.
const CERTIFICATE_VARIABLES: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"];
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
        let roots = CERTIFICATE_VARIABLES.into_iter().find_map(variable);
        let headers = parse_headers(&variable(HEADERS_VARIABLE).unwrap_or_default());
        let collector = Collector {
            client: Client::new(parse_endpoint(&endpoint, roots.as_deref())?, headers),
            service: variable(SERVICE_VARIABLE).unwrap_or_else(|| "selvedge".into()),
        };
        let (sink, spans) = SpanSink::new(QUEUE);
        let (stop, stopped) = oneshot::channel();
        let queue = Queue { spans, batch: Vec::with_capacity(BATCH), sink: sink.clone() };
        Ok(Some(Exporter { sink, stop, task: tokio::spawn(collector.run(queue, stopped)) }))
    }

    /// Sends the spans that are left, after the engine has stopped, within a time limit.
    pub async fn finish(self, limit: Duration) {
        let Exporter { sink, stop, mut task } = self;
        drop(stop);
        if tokio::time::timeout(limit, &mut task).await.is_err() {
            task.abort();
            // The queue is dropped with the task, which counts the spans in it.
            let _ = task.await;
        }
        let dropped = sink.dropped();
        if dropped > 0 {
            tracing::warn!(
                dropped,
                "spans were dropped because the collector is too slow or did not accept them"
            );
        }
    }
}

/// The spans that have not been sent. Those that are left when it is dropped count as dropped.
struct Queue {
    spans: Receiver<Span>,
    batch: Vec<Span>,
    sink: SpanSink,
}

impl Queue {
    /// Drops the batch and counts its spans.
    fn drop_batch(&mut self) {
        self.sink.count_dropped(self.batch.len());
        self.batch.clear();
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.drop_batch();
        self.sink.count_dropped(self.spans.len());
    }
}

/// The receiver of traces.
struct Collector {
    client: Client,
    service: String,
}

impl Collector {
    /// Sends spans until `stopped` completes and those that have arrived by then are sent.
    async fn run(mut self, mut queue: Queue, mut stopped: oneshot::Receiver<()>) {
        let (mut failing, mut stopping) = (false, false);
        loop {
            let first = tokio::select! {
                first = queue.spans.recv() => first,
                _ = &mut stopped, if !stopping => {
                    stopping = true;
                    queue.spans.close();
                    continue;
                }
            };
            let Some(first) = first else { return };
            queue.batch.push(first);
            let fill = async {
                while queue.batch.len() < BATCH
                    && let Some(span) = queue.spans.recv().await
                {
                    queue.batch.push(span);
                }
            };
            let _ = tokio::time::timeout(INTERVAL, fill).await;
            match self.send(&queue.batch).await {
                Ok(()) => {
                    queue.batch.clear();
                    if std::mem::take(&mut failing) {
                        tracing::info!(dropped = queue.sink.dropped(), "spans are sent again");
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(
                            error,
                            spans = queue.batch.len(),
                            "spans cannot be sent; they are dropped"
                        );
                    }
                    queue.drop_batch();
                }
            }
        }
    }

    async fn send(&mut self, spans: &[Span]) -> Result<(), String> {
        let document = Bytes::from(document(&self.service, spans).to_string());
        let sent = tokio::time::timeout(TIMEOUT, self.client.post(document)).await;
        sent.map_err(|_elapsed| format!("no answer within {} s", TIMEOUT.as_secs()))?
    }
}

fn parse_endpoint(text: &str, roots: Option<&str>) -> Result<Endpoint, Failure> {
    Endpoint::parse(text, roots).map_err(|cause| {
        Failure::Usage(format!(
            "the endpoint of traces (of --otlp-endpoint, {TRACES_VARIABLE} or {BASE_VARIABLE}) {cause}; write for example \
             http://127.0.0.1:4318 or https://collector.example.org"
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
    fn headers_are_read_from_pairs() {
        let headers = parse_headers("authorization=Basic abc=, x-team = a ,broken");
        let expected = [("authorization", "Basic abc="), ("x-team", "a")];
        assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
