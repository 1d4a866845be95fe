//! The Gantt view of a flow: when each execution waited and ran, drawn to scale, with the critical path.

use super::timeline::{Bar, ROWS_MAX, Row, Scale, draw as draw_rows};
use super::{duration, empty};
use maud::{Markup, html};
use selvedge_core::Timestamp;
use selvedge_core::flow::Flow;
use selvedge_core::state::StateName;
use selvedge_engine::{FlowMember, FlowRecord};
use std::collections::HashSet;

/// Draws the executions of a flow, in the order in which they started. `critical` has the indices of the members on the critical
/// path, which are always drawn.
pub fn draw(record: &FlowRecord, critical: &[usize], flow: &Flow, now: Timestamp) -> Markup {
    if record.members.is_empty() {
        return empty("No executions", html! {});
    }
    let end = flow.ended_at.unwrap_or(now).max(flow.submitted_at.plus_ms(1));
    let on_path: HashSet<usize> = critical.iter().copied().collect();
    let mut shown: Vec<usize> = (0..record.members.len()).collect();
    let begin = |index: &usize| {
        let row = &record.members[*index].row;
        (row.started_at.unwrap_or(end), row.submitted_at, row.id)
    };
    // If not all can be drawn, the critical path and the earliest are.
    shown.sort_by_key(|index| (!on_path.contains(index), begin(index)));
    shown.truncate(ROWS_MAX);
    shown.sort_by_key(begin);
    let rows: Vec<Row> =
        shown.iter().map(|index| row_of(&record.members[*index], on_path.contains(index), end)).collect();
    let scale = Scale { from: flow.submitted_at, to: end };
    html! {
        (draw_rows("Gantt view", &rows, scale, None))
        p.faint {
            "Pale: waited. Full: from the start of the first attempt to the end. In total " (duration(end.ms_since(flow.submitted_at))) "."
            @if on_path.len() > 1 { " Outlined, with ◆: the critical path, which determined the end." }
        }
        @if record.members.len() > rows.len() {
            p.faint { (rows.len()) " of " (record.members.len()) " executions are drawn: the critical path, and those that started first." }
        }
    }
}

fn row_of(member: &FlowMember, is_critical: bool, end: Timestamp) -> Row {
    let row = &member.row;
    let name = row.node().unwrap_or(&member.kind);
    let label = if is_critical { format!("◆ {name}") } else { name.to_owned() };
    let (state, ended) = (row.state.name(), row.ended_at.unwrap_or(end));
    let started = row.started_at.unwrap_or(ended);
    let waited = duration(started.ms_since(row.submitted_at));
    let mut bars = vec![Bar {
        from: row.submitted_at,
        to: Some(started),
        state: StateName::Waiting,
        label: String::new(),
        about: format!("{name} waited for {waited}"),
    }];
    if row.started_at.is_some() {
        let ran = duration(ended.ms_since(started));
        let word = super::words(state.as_str());
        let about = format!("{name}: {word}, {ran} since the start of its first attempt");
        bars.push(Bar { from: started, to: Some(ended), state, label: format!("{word} · {ran}"), about });
    }
    Row { label, link: Some(format!("/executions/{}", row.id)), bars, is_critical, ..Row::default() }
}
