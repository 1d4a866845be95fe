//! The page `/executions`: a list with filters that are part of its address.

use super::actions;
use super::layout::{Page, Viewer, heading};
use super::matches::{self, Matches};
use super::parts::{
    address, ago, bounded, clipped, duration, empty, execution_link, executions_link, flow_link, pager,
    state, tags, user_text,
};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::filter::RawFilter;
use crate::wire::paging::{format_cursor, parse_cursor};
use crate::wire::query::Query;
use crate::wire::times;
use maud::{Markup, html};
use selvedge_core::state::StateName;
use selvedge_core::{Permission, Refusal, Timestamp};
use selvedge_engine::View;

/// The number of executions on a page.
const PAGE: u32 = 50;
/// The most characters about a state in a row.
const ADDITION_MAX: usize = 160;
/// The spans of time that a person may choose: word, label and length in milliseconds.
const SPANS: [(&str, &str, i64); 4] = [
    ("15m", "the last 15 minutes", 900_000),
    ("1h", "the last hour", 3_600_000),
    ("24h", "the last 24 hours", 86_400_000),
    ("7d", "the last 7 days", 604_800_000),
];
/// The span in which errors are searched where none is chosen: no index serves a search in everything.
const SPAN_OF_ERRORS: &str = "24h";

/// The conditions in the address of the page.
struct Conditions {
    pairs: Vec<(&'static str, String)>,
}

impl Conditions {
    fn get(&self, name: &str) -> &str {
        self.pairs.iter().find(|(other, _)| *other == name).map_or("", |(_, value)| value)
    }

    fn address(&self, more: &[(&str, &str)]) -> String {
        let mut pairs: Vec<(&str, &str)> =
            self.pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        pairs.extend(more);
        address("/executions", &pairs)
    }
}

/// `GET /executions`
pub async fn page(caller: Caller, mut query: Query) -> HandlerResult {
    let now = caller.namespace.now().await?;
    let cursor = query.text("cursor")?;
    let span = query.text("since")?;
    let tag_list = query.texts("tag");
    let mut conditions = Conditions { pairs: Vec::new() };
    conditions.pairs.extend(tag_list.iter().map(|tag| ("tag", tag.clone())));
    let mut filter_text = Vec::new();
    let text = |name: &'static str| {
        let value = query.text(name)?;
        filter_text.extend(value.clone().map(|value| (name, value)));
        Ok::<_, Refusal>(value)
    };
    let raw = read_filter(text, tag_list, span.as_deref(), now)?;
    query.finish()?;
    conditions.pairs.extend(filter_text);
    conditions.pairs.extend(span.map(|span| ("since", span)));
    let filter = raw.resolve(&caller.namespace).await?;
    let after = cursor.as_deref().map(parse_cursor).transpose()?;
    let (views, next) = matches::search(&caller.namespace, &filter, after, PAGE).await?;
    let has_other_pages = cursor.is_some() || next.is_some();
    let total = Matches::count(&caller.namespace, &filter, views.len(), has_other_pages).await?;

    let may_operate = caller.may(Permission::Operate);
    let first = cursor.as_ref().map(|_| conditions.address(&[]));
    let next = next.map(|next| conditions.address(&[("cursor", &format_cursor(next))]));
    let content = html! {
        (heading(html! { "Executions" }, html! {
            p.faint #total data-live {
                @if total.count > 0 || !total.may_be_more { (bounded(total.count, total.may_be_more)) " match" @if total.count == 1 { "es" } }
            }
        }))
        (filters(&conditions))
        @if may_operate && !views.is_empty() { (actions::of_selection()) }
        section #list data-live aria-label="Executions" {
            @if let (true, Some(next)) = (views.is_empty(), &next) { (matches::nothing_so_far(next)) }
            @else if views.is_empty() { (nothing(&conditions)) }
            @else { (table(&views, now, may_operate)) }
            (pager(first, next))
        }
    };
    let page = Page::new("Executions", "/executions");
    // An older page does not change under the reader.
    let page = if cursor.is_none() { page.live("/live") } else { page };
    Ok(page.response(Some(&Viewer::of(&caller)), content))
}

/// Reads the filter. `since` stands for a time of submission.
fn read_filter(
    mut text: impl FnMut(&'static str) -> Result<Option<String>, Refusal>,
    tags: Vec<String>,
    span: Option<&str>,
    now: Timestamp,
) -> Result<RawFilter, Refusal> {
    let known = |word: &str| SPANS.iter().find(|(other, ..)| *other == word).map(|(_, _, ms)| *ms);
    let since = match span {
        None => None,
        Some(word) => {
            let ms = known(word);
            let ms = ms.ok_or_else(|| Refusal::field("/query/since", "must be one of 15m, 1h, 24h, 7d"))?;
            Some(times::text(now.minus_ms(ms)))
        }
    };
    let default_of_errors = known(SPAN_OF_ERRORS).map(|ms| times::text(now.minus_ms(ms)));
    let mut searches_errors = false;
    RawFilter::take("/query", tags, |name| {
        let value = text(name)?;
        searches_errors |= name == "error" && value.is_some();
        Ok(match name {
            "submitted_after" => {
                value.or(since.clone()).or(default_of_errors.clone().filter(|_| searches_errors))
            }
            _ => value,
        })
    })
}

fn filters(conditions: &Conditions) -> Markup {
    let chosen = conditions.get("state");
    html! {
        form.card.filters method="get" action="/executions" role="search" aria-label="Filter of executions" {
            label { "State"
                select name="state" data-submits {
                    option value="" { "any" }
                    @for name in StateName::ALL {
                        option value=(name.as_str()) selected[name.as_str() == chosen] { (name.as_str()) }
                    }
                    @if chosen.contains(',') { option value=(chosen) selected { (chosen) } }
                }
            }
            label { "Lane" input type="text" name="lane" value=(conditions.get("lane")) autocomplete="off" data-filter; }
            label { "Kind" input type="text" name="kind" value=(conditions.get("kind")) autocomplete="off"; }
            label { "Tag" input type="text" name="tag" value=(conditions.get("tag")) placeholder="name:value" autocomplete="off"; }
            label { "Error contains" input type="text" name="error" value=(conditions.get("error")) autocomplete="off"; }
            label { "Submitted in"
                select name="since" data-submits {
                    option value="" { "any time" }
                    @for (word, label, _) in SPANS { option value=(word) selected[word == conditions.get("since")] { (label) } }
                }
            }
            @for name in ["flow", "worker", "outcome"] {
                @if !conditions.get(name).is_empty() { label { (name) input type="text" name=(name) value=(conditions.get(name)); } }
            }
            div.buttons {
                button.primary type="submit" { "Filter" }
                @if !conditions.pairs.is_empty() { a.button href="/executions" { "Clear" } }
            }
        }
    }
}

fn nothing(conditions: &Conditions) -> Markup {
    match conditions.pairs.is_empty() {
        true => empty(
            "No executions yet",
            html! {
                p { "Submit one with " code { "POST /v1/executions" } "; the " a href="/" { "overview" } " has a command to copy." }
            },
        ),
        false => empty(
            "No execution matches",
            html! { p { "Widen or " a href="/executions" { "clear the filter" } "." } },
        ),
    }
}

fn table(views: &[View], now: Timestamp, may_operate: bool) -> Markup {
    html! {
        div.table {
            table {
                thead {
                    tr {
                        @if may_operate { th.needs-script { span.visually-hidden { "Select" } } }
                        th { "Execution" } th { "State" } th { "Kind" } th { "Lane" } th { "Flow" }
                        th.number { "Attempts" } th { "Submitted" } th.number { "Took" } th { "Tags" }
                    }
                }
                tbody {
                    @for view in views {
                        @let row = &view.stored.execution;
                        tr {
                            @if may_operate {
                                td.needs-script {
                                    input type="checkbox" name="ids" value=(row.id) form="selection" aria-label=(format!("Select {}", row.id));
                                }
                            }
                            td.id { (execution_link(row.id)) }
                            td { (state(view.state())) (addition(view)) }
                            td { (user_text(&view.class.kind)) }
                            td { a href=(executions_link(&[("lane", &view.class.lane)])) { (user_text(&view.class.lane)) } }
                            td.id { @if let Some(flow) = row.flow { (flow_link(flow)) } }
                            td.number { (row.epoch) }
                            td.nowrap { (ago(row.submitted_at, now)) }
                            td.number.nowrap { (took(view, now)) }
                            td { (tags(&row.tags)) }
                        }
                    }
                }
            }
        }
    }
}

/// Lists executions in few columns.
pub fn compact_table(views: &[View], now: Timestamp) -> Markup {
    if views.is_empty() {
        return empty("No executions yet", html! {});
    }
    html! {
        div.table {
            table {
                thead { tr { th { "Execution" } th { "State" } th { "Kind" } th { "Submitted" } th.number { "Took" } } }
                tbody {
                    @for view in views {
                        @let row = &view.stored.execution;
                        tr {
                            td.id { (execution_link(row.id)) }
                            td { (state(view.state())) (addition(view)) }
                            td { (user_text(&view.class.kind)) }
                            td.nowrap { (ago(row.submitted_at, now)) }
                            td.number.nowrap { (took(view, now)) }
                        }
                    }
                }
            }
        }
    }
}

/// Shows what belongs to the state: the worker, the gate, the condition or the error.
fn addition(view: &View) -> Markup {
    let row = &view.stored.execution;
    let text = match (row.state.lease(), row.state.suspension(), view.held_reason(), &row.detail.error) {
        (Some(lease), ..) => Some(format!("by {}", lease.worker)),
        (_, Some(suspension), ..) => {
            let waits: Vec<String> = suspension.waits.iter().map(|wait| wait.condition.describe()).collect();
            Some(format!("for {}", waits.join(" or ")))
        }
        (_, _, Some(held), _) => Some(format!("by {}", held.gate)),
        (.., Some(error)) => Some(error.message.clone()),
        (None, None, None, None) => None,
    };
    let text = text.map(|text| clipped(&text, ADDITION_MAX));
    html! { @if let Some(text) = text { span.more.user-text title=(text) { (text) } } }
}

fn took(view: &View, now: Timestamp) -> String {
    let row = &view.stored.execution;
    match row.started_at {
        Some(started) => duration(row.ended_at.unwrap_or(now).ms_since(started)),
        None => "–".into(),
    }
}
