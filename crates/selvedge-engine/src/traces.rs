//! Spans of executions and attempts, for an exporter of traces.
//!
//! A span is made when its execution or attempt has ended and the end is committed. Its ids are derived from the rows, so any
//! server can make it. An exporter that is too slow never blocks the engine: spans that do not fit into its queue are dropped
//! and counted.

use crate::Engine;
use selvedge_core::driver::Summary;
use selvedge_core::history::{attempt_end, attempt_outcome, outcome};
use selvedge_core::{Changes, Classes, Execution, Outcome, Timestamp, TraceParent};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::mpsc;

/// A span that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The trace, and the id of the span.
    pub place: TraceParent,
    /// The id of the parent span, which is in the same trace; none for the first span of a trace.
    pub parent: Option<u64>,
    /// The spans that it follows: the attempt before, or the upstreams of an execution.
    pub links: Vec<TraceParent>,
    pub name: String,
    pub begun_at: Timestamp,
    pub ended_at: Timestamp,
    /// The error, if it failed.
    pub error: Option<String>,
    /// Further data, by name.
    pub attributes: Vec<(&'static str, String)>,
}

/// The place to which an engine sends spans. Clones share it.
#[derive(Clone, Debug)]
pub struct SpanSink {
    spans: mpsc::Sender<Span>,
    dropped: Arc<AtomicU64>,
}

impl SpanSink {
    /// Returns a sink for `capacity` spans that have not been received, and its receiver.
    pub fn new(capacity: usize) -> (SpanSink, mpsc::Receiver<Span>) {
        let (spans, receiver) = mpsc::channel(capacity);
        (SpanSink { spans, dropped: Arc::default() }, receiver)
    }

    /// Returns the number of spans that were dropped: because the receiver is too slow, or by [`SpanSink::count_dropped`].
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Counts spans that were received but could not be exported.
    pub fn count_dropped(&self, spans: usize) {
        self.dropped.fetch_add(spans as u64, Relaxed);
    }

    /// Sends spans, as far as there is room for them.
    pub(crate) fn send(&self, spans: Vec<Span>) {
        for span in spans {
            if self.spans.try_send(span).is_err() {
                self.count_dropped(1);
            }
        }
    }
}

impl Engine {
    /// Returns the parent of the spans of a handler: the span of the attempt if this engine publishes spans, else the span
    /// that submitted the execution.
    pub fn handler_trace(&self, row: &Execution) -> Option<TraceParent> {
        match &self.inner.options.spans {
            Some(_) => Some(TraceParent::of_attempt(row, row.epoch)),
            None => row.spec.trace,
        }
    }
}

/// Returns the spans that end with the changes of a decided batch. Traces that are not sampled have none.
pub(crate) fn ended_spans(changes: &Changes, summary: &Summary, classes: &Classes) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut ended_leases = summary.ended_leases.iter().peekable();
    for event in &changes.events {
        let Some(id) = event.execution.filter(|_| event.version.is_some()) else { continue };
        let attempt = attempt_end(&event.fact).map(|(attempt, _)| attempt);
        let lease = ended_leases.next_if(|(of, _)| *of == id && attempt.is_some());
        let Some(row) = changes.row(id).filter(|row| TraceParent::of_execution(row).is_sampled()) else {
            continue;
        };
        let kind = classes.get(row.class).map_or("execution", |class| class.kind.as_str());
        if let (Some(attempt), Some((_, since))) = (attempt, lease) {
            spans.push(attempt_span(row, attempt, (*since, event.at), attempt_outcome(&event.fact)));
        }
        if let Some(outcome) = outcome(&event.fact) {
            spans.push(execution_span(row, kind, event.at, outcome));
        }
    }
    spans
}

fn attempt_span(row: &Execution, attempt: u32, times: (Timestamp, Timestamp), outcome: &str) -> Span {
    let epoch = attempt + 1;
    let failed = !matches!(outcome, "completed" | "suspended" | "delayed" | "released");
    Span {
        place: TraceParent::of_attempt(row, epoch),
        parent: Some(TraceParent::of_execution(row).span),
        links: (1..epoch)
            .next_back()
            .map(|before| TraceParent::of_attempt(row, before))
            .into_iter()
            .collect(),
        name: format!("attempt {attempt}"),
        begun_at: times.0,
        ended_at: times.1,
        error: failed.then(|| outcome.to_owned()),
        attributes: vec![
            ("selvedge.execution", row.id.to_string()),
            ("selvedge.attempt", attempt.to_string()),
            ("selvedge.outcome", outcome.to_owned()),
        ],
    }
}

fn execution_span(row: &Execution, kind: &str, ended_at: Timestamp, outcome: Outcome) -> Span {
    let generations = row.join.iter().flat_map(|join| &join.edges).map(|edge| edge.generation);
    let upstreams = row.wiring().upstreams.iter().zip(generations);
    let message = row.detail.error.as_ref().map_or(outcome.as_str(), |error| &error.message);
    let mut attributes = vec![
        ("selvedge.execution", row.id.to_string()),
        ("selvedge.kind", kind.to_owned()),
        ("selvedge.outcome", outcome.to_string()),
    ];
    attributes.extend(row.flow.map(|flow| ("selvedge.flow", flow.to_string())));
    attributes.extend(row.node().map(|node| ("selvedge.node", node.to_owned())));
    Span {
        place: TraceParent::of_execution(row),
        parent: row.spec.trace.map(|submitter| submitter.span),
        links: upstreams
            .map(|(upstream, generation)| TraceParent::of_member(row, upstream.execution, generation))
            .collect(),
        name: kind.to_owned(),
        begun_at: row.opened_at(),
        ended_at,
        error: (outcome != Outcome::Completed).then(|| message.to_owned()),
        attributes,
    }
}
