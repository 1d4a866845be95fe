//! The page of an execution: its explanation, its timeline, its attempts, its payloads, its events and the log of its newest attempt.

use super::frame::assets::EXECUTION_SCRIPT;
use super::frame::layout::{Page, Viewer, heading};
use super::parts::payload::payload;
use super::parts::table::table_of;
use super::parts::terminal::without_codes;
use super::parts::timeline::{Life, state_of_attempt};
use super::parts::{
    ago, clipped, duration, executions_link, flow_link, kept_until, labelled_state, maybe_ago, moment,
    path_part, sentence, short, state, tags, user_text, words,
};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::path::PathExecution;
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::explain::{Code, Explanation, Reference, deaths};
use selvedge_core::fact::Failure;
use selvedge_core::gate::RequiredGates;
use selvedge_core::headline::headline;
use selvedge_core::history::{Attempt, attempts};
use selvedge_core::stream::Frame;
use selvedge_core::{Outcome, Permission, Timestamp};
use selvedge_engine::{ExecutionRecord, Frames, PublicEvent};

/// The most events, steps and signals that are read.
const RECORDS_MAX: u32 = 200;
/// The most frames that are shown: those of the end.
const FRAMES_MAX: u32 = 200;
/// The most attempts that the table shows.
const ATTEMPTS_MAX: usize = 50;
/// The most characters of an event's data, and of a frame.
const DATA_MAX: usize = 400;
const FRAME_MAX: usize = 4000;
/// The most characters of the headline of an error.
const HEADLINE_MAX: usize = 500;

/// `GET /executions/{id}`
pub async fn page(caller: Caller, PathExecution(id): PathExecution, query: Query) -> HandlerResult {
    query.finish()?;
    let record = caller.namespace.record(id, RECORDS_MAX, FRAMES_MAX).await?;
    let title = format!("{} {}", record.view.class.kind, short(&id));
    let attempts = attempts(&record.lines, record.view.stored.execution.detail.error.as_ref());
    let content =
        Content { record, attempts }.render(caller.may(Permission::Operate), caller.may(Permission::Submit));
    let page =
        Page::new(&title, "/executions").script(&EXECUTION_SCRIPT).live(format!("/live?execution={id}"));
    Ok(page.response(Some(&Viewer::of(&caller)), content))
}

/// The content of the page.
struct Content {
    record: ExecutionRecord,
    attempts: Vec<Attempt>,
}

impl Content {
    fn render(&self, may_operate: bool, may_submit: bool) -> Markup {
        let row = &self.record.view.stored.execution;
        let (id, api) = (row.id, format!("/v1/executions/{}", row.id));
        let above = html! {
            p.crumbs {
                a href="/executions" { "Executions" } " / " span.id { (id) } " · "
                a href=(api) { "JSON" }
            }
        };
        html! {
            (heading(html! { (user_text(&self.record.view.class.kind)) }, above))
            section.card #facts data-live aria-label="Facts" { (self.facts()) }
            div.action-bar {
                @if may_operate { div #actions data-live { (super::parts::actions::of_execution(&self.record.view)) } }
                @if may_submit { (super::parts::again::show(&self.record.view, self.record.now)) }
            }
            section #error data-live { @if let Some(error) = &row.detail.error { (error_card(error, matches!(row.state.outcome(), Some(Outcome::Failed | Outcome::Expired)))) } }
            section #explain data-live { h2 { (self.question()) } (explain(&self.record.explanation, self.record.now)) }
            section #waitpoints data-live {
                @if row.ended_at.is_none() && self.record.waitpoints.iter().any(|waitpoint| waitpoint.is_open(self.record.now)) {
                    h2 { "Waits for an answer" }
                    (super::approvals::cards(&self.record.waitpoints, self.record.now, may_operate))
                }
            }
            section #timeline data-live {
                h2 { "Timeline" }
                (self.life().draw(self.record.now))
            }
            section #attempts data-live {
                @if !self.attempts.is_empty() { h2 { "Attempts" } (attempt_table(&self.attempts, self.record.now)) }
            }
            div.columns #payloads data-live { (self.payloads(&api)) }
            @if let Some(frames) = &self.record.frames { (self.log(frames, &api)) }
            section #events data-live {
                div.heading { h2 { "Events" } a href=(format!("{api}/events")) { "All events as JSON" } }
                (event_table(&self.record.events, self.record.now))
            }
        }
    }

    fn life(&self) -> Life<'_> {
        Life {
            row: &self.record.view.stored.execution,
            lines: &self.record.lines,
            attempts: &self.attempts,
            steps: &self.record.steps,
            waitpoints: &self.record.waitpoints,
            signals: &self.record.signals,
            lease_until: self.record.view.lease_until(),
        }
    }

    /// Shows the log of the newest attempt. While it runs, the script appends further frames, and the region is not replaced.
    fn log(&self, frames: &Frames, api: &str) -> Markup {
        let is_running = self.record.view.stored.execution.state.lease().is_some() && !frames.closed;
        if frames.frames.is_empty() && !is_running {
            return html! { section #frames data-live {} };
        }
        let last = frames.frames.last().map(|frame| frame.number);
        let tail = format!("{api}/stream/tail?attempt={}", frames.attempt);
        html! {
            section #frames data-live=[(!is_running).then_some("")] data-attempt=(frames.attempt) {
                div.heading {
                    h2 { "Log of attempt " (frames.attempt) }
                    a href=(format!("{api}/stream?attempt={}", frames.attempt)) { "All frames as JSON" }
                }
                div.table.log data-scroll tabindex="0" role="log" aria-label=(format!("Log of attempt {}", frames.attempt))
                    data-frames=[is_running.then_some(tail)] data-after=[last] data-limit=(FRAMES_MAX) {
                    (frame_table(&frames.frames))
                }
                div.actions {
                    @if is_running { p.faint.tail-state { "The last " (FRAMES_MAX) " frames. The attempt runs." } }
                    button.needs-script type="button" data-log-end hidden { "↓ Go to the end" }
                }
            }
        }
    }

    fn question(&self) -> &'static str {
        match self.record.view.stored.execution.state.outcome() {
            Some(_) => "How it ended",
            None if self.record.view.stored.execution.state.lease().is_some() => "What it does",
            None => "Why it does not run",
        }
    }

    fn facts(&self) -> Markup {
        let (row, class) = (&self.record.view.stored.execution, &self.record.view.class);
        let (spec, detail) = (&row.spec, &row.detail);
        html! {
            dl.facts {
                div { dt { "State" } dd { (state(self.record.view.state())) } }
                div { dt { "Lane" } dd { a href=(executions_link(&[("lane", &class.lane)])) { (user_text(&class.lane)) } } }
                div { dt { "Attempts" } dd { (row.epoch) @if detail.retries > 0 { " (" (detail.retries) " retried)" } } }
                @if detail.interruptions > 0 { div.wide { dt { "Interruptions" } dd { (deaths(detail.interruptions)) } } }
                div { dt { "Priority" } dd { (row.priority) } }
                div.wide { dt { "Submitted" } dd { (moment(row.submitted_at)) } }
                div { dt { "Started" } dd { (maybe_ago(row.started_at, self.record.now)) } }
                div { dt { "Ended" } dd { (maybe_ago(row.ended_at, self.record.now)) } }
                @if row.ended_at.is_some() {
                    div { dt { "Kept until" } dd { @match row.delete_at() { Some(at) => (kept_until(at, self.record.now)), None => "its flow is deleted" } } }
                }
                @if let Some(flow) = row.flow {
                    div { dt { "Flow" } dd { (flow_link(flow)) @if let Some(node) = row.node() { " as " (user_text(node)) } } }
                }
                @if let Some(lease) = row.state.lease() {
                    div { dt { "Worker" } dd { (user_text(&lease.worker)) " (" (user_text(&lease.instance)) ")" } }
                    div { dt { "Lease ends" } dd { (maybe_ago(self.record.view.lease_until(), self.record.now)) } }
                }
                @if let Some(deadline) = row.deadline_at() { div { dt { "Deadline" } dd { (ago(deadline, self.record.now)) } } }
                @if let Some(key) = &spec.idempotency_key { div { dt { "Idempotency key" } dd { (user_text(key)) } } }
                @if let Some(scheduled) = &spec.scheduled { div { dt { "Schedule" } dd { (user_text(&scheduled.schedule)) } } }
                @if detail.generation > 0 { div { dt { "Replayed" } dd { (detail.generation) " times" } } }
                @if let Some(progress) = &detail.progress {
                    div { dt { "Progress" } dd {
                        @if let Some(percent) = progress.percent { (format!("{percent:.0} % ")) }
                        @if let Some(message) = &progress.message { (user_text(message)) }
                    } }
                }
                @if spec.required_gates.takes() { div { dt { "Limits" } dd { (limits(&spec.required_gates)) } } }
                @if !row.tags.is_empty() { div { dt { "Tags" } dd { (tags(&row.tags)) } } }
            }
        }
    }

    fn payloads(&self, api: &str) -> Markup {
        let stored = &self.record.view.stored;
        html! {
            section { h2 { "Input" } (payload(&stored.input, api)) }
            @if let Some(result) = &stored.result { section { h2 { "Result" } (payload(result, &format!("{api}/result"))) } }
        }
    }
}

/// Shows an error: its headline with its class, and the whole message folded. It may be that of an earlier attempt.
fn error_card(error: &Failure, is_cause: bool) -> Markup {
    let message = error.message.trim_matches(['\r', '\n']).trim_end();
    let (line, lines) = (headline(message), message.lines().count());
    html! {
        h2 { @if is_cause { "Error" } @else { "Last error" } }
        div.error-card {
            p { strong.user-text { @if line.is_empty() { "No message" } @else { (clipped(line, HEADLINE_MAX)) } } }
            p.faint { "Class " (error.class.as_str()) }
            @if line != message || line.chars().count() > HEADLINE_MAX {
                details {
                    summary { "Whole message, " (lines) @if lines == 1 { " line" } @else { " lines" } }
                    pre.user-text data-scroll tabindex="0" { (message) }
                }
            }
        }
    }
}

/// Lists the limits that an execution draws on besides its lane.
fn limits(gates: &RequiredGates) -> Markup {
    html! {
        ul.plain-list {
            @for (name, _) in &gates.budgets { li { a href="/budgets" { "budget " (user_text(name)) } } }
            @for name in &gates.quotas { li { a href="/lanes" { "quota " (user_text(name)) } } }
            @if let Some((key, most)) = &gates.concurrency { li { "at most " (most) " with key " (user_text(key)) } }
        }
    }
}

/// Shows an explanation in sentences.
///
/// After an end, the only time in an explanation is that of the deletion, which the facts of the page show.
pub fn explain(explanation: &Explanation, now: Timestamp) -> Markup {
    let has_ended = explanation.reasons.iter().any(|reason| reason.code == Code::Ended);
    html! {
        ul class=(format!("explain state-{}", explanation.state)) {
            @for reason in &explanation.reasons {
                li {
                    span.user-text { (sentence(&reason.message)) }
                    @if let Some(link) = reason.reference.as_ref().and_then(reference_link) { " " a href=(link) { "Show" } }
                    @if let Some(until) = reason.until.filter(|_| !has_ended) { span.faint { " (" (ago(until, now)) ")" } }
                }
            }
        }
        @if let Some(next) = explanation.next_change.filter(|_| !has_ended) { p.faint { "Something changes by itself " (ago(next, now)) "." } }
    }
}

fn reference_link(reference: &Reference) -> Option<String> {
    match reference.kind.as_str() {
        "execution" => Some(format!("/executions/{}", path_part(&reference.id))),
        "lane" | "quota" => Some("/lanes".into()),
        "budget" => Some("/budgets".into()),
        _ => None,
    }
}

fn frame_table(frames: &[Frame]) -> Markup {
    html! {
            table {
                thead.visually-hidden { tr { th { "Frame" } th { "Time" } th { "Kind" } th { "Data" } } }
                tbody {
                    @for frame in frames {
                        tr {
                            td.number.faint { (frame.number) }
                            td.nowrap.faint { (time_of_day(frame.at)) }
                            td.faint { (frame.kind.as_str()) }
                            td { pre.user-text { (frame_text(&frame.data)) } }
                        }
                    }
                }
            }
    }
}

fn attempt_table(attempts: &[Attempt], now: Timestamp) -> Markup {
    let shown = attempts.iter().rev().take(ATTEMPTS_MAX);
    let columns = html! {
        th.number { "Attempt" } th { "Outcome" } th { "Worker" } th { "Started" } th.number { "Took" }
        th { "Error" }
    };
    let rows = html! {
        @for attempt in shown {
            @let outcome = attempt.outcome.unwrap_or("running");
            @let ended = attempt.ended_at.unwrap_or(now);
            tr {
                td.number { (attempt.lease.attempt()) }
                td { (labelled_state(state_of_attempt(outcome), &words(outcome))) }
                td { (user_text(&attempt.lease.worker)) span.more.user-text { (attempt.lease.instance) } }
                td.nowrap { (ago(attempt.started_at, now)) }
                td.number.nowrap { (duration(ended.ms_since(attempt.started_at))) }
                td { @if let Some(error) = &attempt.error { span.clip.wide.user-text title=(clipped(&error.message, DATA_MAX)) { (clipped(headline(&error.message), DATA_MAX)) } } }
            }
        }
    };
    html! {
        (table_of(columns, rows))
        @if attempts.len() > ATTEMPTS_MAX { p.faint { "The newest " (ATTEMPTS_MAX) " of " (attempts.len()) " attempts." } }
    }
}

/// Returns the text of a frame: that of a JSON string, or else the JSON.
fn frame_text(data: &[u8]) -> String {
    let text =
        serde_json::from_slice::<String>(data).unwrap_or_else(|_| String::from_utf8_lossy(data).into_owned());
    clipped(without_codes(&text).trim_end_matches('\n'), FRAME_MAX)
}

fn time_of_day(at: Timestamp) -> String {
    selvedge_api::times::text(at)[11..23].to_owned()
}

fn event_table(events: &[PublicEvent], now: Timestamp) -> Markup {
    let shown = events.iter().rev().take(RECORDS_MAX as usize);
    let columns = html! { th { "When" } th { "Event" } th { "Actor" } th { "Data" } };
    let rows = html! {
        @for event in shown {
            tr {
                td.nowrap { (ago(event.at, now)) }
                td.nowrap { (words(event.kind)) }
                td { @if let Some(actor) = &event.actor { (user_text(actor)) } }
                td { (event_data(event)) }
            }
        }
    };
    table_of(columns, rows)
}

/// Shows the data of an event in one line.
pub fn event_data(event: &PublicEvent) -> Markup {
    let text = match event.data.as_object().is_none_or(|fields| fields.is_empty()) {
        true => String::new(),
        false => clipped(&event.data.to_string(), DATA_MAX),
    };
    html! { code.clip.wide.user-text title=(text) { (text) } }
}
