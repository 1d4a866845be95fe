//! The Gantt view of a flow: when each execution waited and ran, drawn to scale.

use super::parts::{duration, empty};
use super::timeline::{ROWS_MAX, Row, Scale, Span, draw as draw_rows};
use maud::{Markup, html};
use selvedge_core::Timestamp;
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::flow::Flow;
use selvedge_core::state::StateName;
use selvedge_engine::{Error, Namespace, View};

/// Draws the executions of a flow, in the order in which they started.
pub async fn draw(namespace: &Namespace, flow: &Flow, now: Timestamp) -> Result<Markup, Error> {
    let filter = Filter { flow: Some(flow.id), ..Filter::all(namespace.id()) };
    let (mut views, more) = namespace.list(&filter, None, ROWS_MAX as u32, Payloads::NONE).await?;
    if views.is_empty() {
        return Ok(empty("No executions", html! {}));
    }
    let end = flow.ended_at.unwrap_or(now).max(flow.submitted_at.plus_ms(1));
    let begin = |view: &View| {
        let row = &view.stored.execution;
        (row.started_at.unwrap_or(end), row.submitted_at, row.id)
    };
    views.sort_by_key(begin);
    let rows: Vec<Row> = views.iter().map(|view| row_of(view, end)).collect();
    let scale = Scale { from: flow.submitted_at, to: end };
    Ok(html! {
        (draw_rows("Gantt view", &rows, scale, None))
        p.faint { "Pale: waited. Full: from the start of the first attempt to the end. In total " (duration(end.ms_since(flow.submitted_at))) "." }
        @if more.is_some() { p.faint { "Only the newest " (ROWS_MAX) " executions of the flow are drawn." } }
    })
}

fn row_of(view: &View, end: Timestamp) -> Row {
    let row = &view.stored.execution;
    let label = row.node().map_or_else(|| view.class.kind.to_string(), str::to_owned);
    let (state, ended) = (view.state(), row.ended_at.unwrap_or(end));
    let started = row.started_at.unwrap_or(ended);
    let waited = duration(started.ms_since(row.submitted_at));
    let mut spans = vec![Span {
        from: row.submitted_at,
        to: Some(started),
        state: StateName::Waiting,
        label: String::new(),
        about: format!("{label} waited for {waited}"),
    }];
    if row.started_at.is_some() {
        let ran = duration(ended.ms_since(started));
        let word = super::parts::words(state.as_str());
        let about = format!("{label}: {word}, {ran} since the start of its first attempt");
        spans.push(Span { from: started, to: Some(ended), state, label: format!("{word} · {ran}"), about });
    }
    Row { label, link: Some(format!("/executions/{}", row.id)), spans, marks: Vec::new() }
}
