//! The page `/executions`: a list with filters that are part of its address, a selection, and the jobs that run.

use super::frame::layout::{Page, Viewer, heading};
use super::parts::matches::{self, Matches};
use super::parts::selection;
use super::parts::table::table_of;
use super::parts::{
    address, ago, bounded, chips, clipped, duration, empty, execution_link, executions_link, flow_link, icon,
    job_progress, short, state, tags, user_text, words,
};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::filter::resolve;
use crate::wire::paging::{format_cursor, parse_cursor};
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_api::filter::ExecutionFilter;
use selvedge_api::times;
use selvedge_core::headline::headline;
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

/// The conditions that a form of its own shows; the others are behind “More”.
const RARE: [(&str, &str); 7] = [
    ("submitted_after", "Submitted after, UTC"),
    ("submitted_before", "Submitted before, UTC"),
    ("ended_after", "Ended after, UTC"),
    ("ended_before", "Ended before, UTC"),
    ("worker", "Worker or instance"),
    ("flow", "Flow"),
    ("outcome", "Outcome"),
];
/// The most earlier pages that the address of a page remembers.
const TRAIL_MAX: usize = 40;

/// The conditions in the address of the page.
struct Conditions {
    pairs: Vec<(&'static str, String)>,
}

impl Conditions {
    fn get(&self, name: &str) -> &str {
        self.pairs.iter().find(|(other, _)| *other == name).map_or("", |(_, value)| value)
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.pairs.iter().filter(move |(other, _)| *other == name).map(|(_, value)| value.as_str())
    }

    fn address(&self, more: &[(&str, &str)]) -> String {
        let mut pairs: Vec<(&str, &str)> =
            self.pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        pairs.extend(more.iter().filter(|(_, value)| !value.is_empty()));
        address("/executions", &pairs)
    }

    /// Returns a label for each condition, and the address without it.
    fn removable(&self) -> Vec<(String, String)> {
        let mut chips = Vec::new();
        for (index, (name, value)) in self.pairs.iter().enumerate() {
            let rest: Vec<(&str, &str)> = (self.pairs.iter().enumerate())
                .filter(|(other, _)| *other != index)
                .map(|(_, (name, value))| (*name, value.as_str()))
                .collect();
            let without = |more: &[(&str, &str)]| address("/executions", &[&rest[..], more].concat());
            match *name {
                "state" => {
                    let states: Vec<&str> = value.split(',').collect();
                    for one in &states {
                        let others: Vec<&str> =
                            states.iter().filter(|other| *other != one).copied().collect();
                        let others = others.join(",");
                        let kept: &[(&str, &str)] =
                            if others.is_empty() { &[] } else { &[("state", &others)] };
                        chips.push((words(one), without(kept)));
                    }
                }
                "since" => {
                    let label =
                        SPANS.iter().find(|(word, ..)| word == value).map_or("", |(_, label, _)| label);
                    chips.push((format!("submitted in {label}"), without(&[])));
                }
                "flow" => chips.push((format!("flow {}", short(value)), without(&[]))),
                "error" => chips.push((format!("error contains “{value}”"), without(&[]))),
                name => chips.push((format!("{} {}", words(name), value.replace('T', " ")), without(&[]))),
            }
        }
        chips
    }

    /// Reports whether errors are searched in the span that nobody chose.
    fn has_span_of_errors(&self) -> bool {
        let has_time =
            ["since", "submitted_after", "ended_after"].iter().any(|name| !self.get(name).is_empty());
        !self.get("error").is_empty() && !has_time
    }
}

/// `GET /executions`
pub async fn page(caller: Caller, mut query: Query) -> HandlerResult {
    let now = caller.namespace.now().await?;
    let (cursor, trail) = (query.text("cursor")?, query.text("trail")?.unwrap_or_default());
    let span = query.text("since")?;
    let tag_list = query.texts("tag");
    query.join("state");
    let mut conditions = Conditions { pairs: Vec::new() };
    let mut filter_text = Vec::new();
    let text = |name: &'static str| {
        let value = query.text(name)?;
        filter_text.extend(value.clone().map(|value| (name, value)));
        Ok::<_, Refusal>(value.map(|value| as_time(name, value)))
    };
    let raw = read_filter(text, tag_list.clone(), span.as_deref(), now)?;
    query.finish()?;
    conditions.pairs.extend(filter_text);
    conditions.pairs.extend(tag_list.into_iter().map(|tag| ("tag", tag)));
    conditions.pairs.extend(span.map(|span| ("since", span)));
    let asked = raw.asked();
    let filter = resolve(raw, &caller.namespace).await?;
    let after = cursor.as_deref().map(parse_cursor).transpose()?;
    let (views, next) = matches::search(&caller.namespace, &filter, after, PAGE).await?;
    let has_other_pages = cursor.is_some() || next.is_some();
    let total = Matches::count(&caller.namespace, &filter, views.len(), has_other_pages).await?;
    let jobs = job_progress(&caller, now).await?;

    let may_operate = caller.may(Permission::Operate);
    let next = next.map(format_cursor);
    let count = bounded(total.count, total.may_be_more);
    let content = html! {
        (heading(html! { "Executions" }, html! {
            p.faint #total data-live data-held-with="list" data-matching=(selection::matching(&asked, &total, now)) {
                @if total.count > 0 || !total.may_be_more { (count) " match" @if total.count == 1 { "es" } }
            }
        }))
        (filters(&conditions))
        (chips(&conditions.removable(), "/executions"))
        @if conditions.has_span_of_errors() { p.faint { "Errors are searched in the last 24 hours, unless a time is chosen." } }
        div #jobs data-live { (jobs) }
        section #list data-live aria-label="Executions" {
            @if !views.is_empty() { (table(&views, now, may_operate)) }
            @else if let Some(next) = &next { (matches::nothing_so_far(&conditions.address(&[("cursor", next)]))) }
            @else { (nothing(&conditions, cursor.is_some())) }
            (pages(&conditions, cursor.as_deref(), &trail, next.as_deref()))
        }
        @if may_operate { (selection::bar()) }
    };
    let page = Page::new("Executions", "/executions");
    // An older page does not change under the reader.
    let page = if cursor.is_none() { page.live("/live") } else { page };
    Ok(page.response(Some(&Viewer::of(&caller)), content))
}

/// Completes a time as the field of a form sends it, without seconds or time zone, to one in UTC.
fn as_time(name: &str, value: String) -> String {
    match (name.ends_with("_after") || name.ends_with("_before"), value.len()) {
        (true, 16) => format!("{value}:00Z"),
        (true, 19) => format!("{value}Z"),
        (true | false, _) => value,
    }
}

/// Reads the filter. `since` stands for a time of submission.
fn read_filter(
    mut text: impl FnMut(&'static str) -> Result<Option<String>, Refusal>,
    tags: Vec<String>,
    span: Option<&str>,
    now: Timestamp,
) -> Result<ExecutionFilter, Refusal> {
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
    ExecutionFilter::take("/query", tags, |name| {
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

/// Links to the newest, the earlier and the next page. The address has the cursors of the earlier pages, because a cursor leads
/// forward only.
fn pages(conditions: &Conditions, cursor: Option<&str>, trail: &str, next: Option<&str>) -> Markup {
    let mut earlier: Vec<&str> = trail.split(',').filter(|one| !one.is_empty()).collect();
    let back = cursor.map(|_| {
        let last = earlier.last().copied().unwrap_or_default();
        let rest = earlier[..earlier.len().saturating_sub(1)].join(",");
        conditions.address(&[("cursor", last), ("trail", &rest)])
    });
    // The first page has no cursor, so a trail that was cut leads there.
    let forward = next.map(|next| {
        earlier.extend(cursor);
        let kept = earlier[earlier.len().saturating_sub(TRAIL_MAX)..].join(",");
        conditions.address(&[("cursor", next), ("trail", &kept)])
    });
    html! {
        @if back.is_some() || forward.is_some() {
            nav.pages aria-label="Pages of the list" {
                @if cursor.is_some() { a.button href=(conditions.address(&[])) { "Newest" } }
                @if let Some(back) = back { a.button href=(back) rel="prev" { "Newer" } }
                @if let Some(forward) = forward { a.button href=(forward) rel="next" { "Older" } }
            }
        }
    }
}

fn filters(conditions: &Conditions) -> Markup {
    let chosen: Vec<&str> = conditions.get("state").split(',').collect();
    let has_rare = RARE.iter().any(|(name, _)| !conditions.get(name).is_empty());
    html! {
        form.card.stack method="get" action="/executions" role="search" aria-label="Filter of executions" {
            fieldset.pills {
                legend.visually-hidden { "States" }
                @for name in StateName::ALL {
                    label class=(format!("pill state-{}", name.as_str())) {
                        input type="checkbox" name="state" value=(name.as_str()) checked[chosen.contains(&name.as_str())] data-submits;
                        span.state { (icon(name)) span { (words(name.as_str())) } }
                    }
                }
            }
            div.filters {
                label { "Lane" input type="text" name="lane" value=(conditions.get("lane")) autocomplete="off" data-filter; }
                label { "Kind" input type="text" name="kind" value=(conditions.get("kind")) autocomplete="off"; }
                label { @if conditions.get("tag").is_empty() { "Tag" } @else { "And the tag" } input type="text" name="tag" placeholder="name:value" autocomplete="off"; }
                label { "Error contains" input type="text" name="error" value=(conditions.get("error")) autocomplete="off"; }
                label { "Submitted in"
                    select name="since" data-submits {
                        option value="" { "any time" }
                        @for (word, label, _) in SPANS { option value=(word) selected[word == conditions.get("since")] { (label) } }
                    }
                }
                div.buttons {
                    button.primary type="submit" { "Filter" }
                    @if !conditions.pairs.is_empty() { a.button href="/executions" { "Clear" } }
                }
            }
            @for tag in conditions.all("tag") { input type="hidden" name="tag" value=(tag); }
            details open[has_rare] {
                summary { "More conditions" }
                div.filters {
                    @for (name, label) in RARE {
                        @let value = conditions.get(name);
                        label { (label)
                            @if name.ends_with("_after") || name.ends_with("_before") {
                                input type="datetime-local" name=(name) value=(value.trim_end_matches('Z'));
                            } @else {
                                input type="text" name=(name) value=(value) autocomplete="off";
                            }
                        }
                    }
                }
            }
        }
    }
}

fn nothing(conditions: &Conditions, is_later_page: bool) -> Markup {
    match (conditions.pairs.is_empty(), is_later_page) {
        (_, true) => empty(
            "Nothing older",
            html! { p { "The list ends here, or what was here has been deleted. Go to the " a href=(conditions.address(&[])) { "newest" } "." } },
        ),
        (true, false) => empty(
            "No executions yet",
            html! {
                p { "Submit one with " code { "POST /v1/executions" } "; the " a href="/" { "overview" } " has a command to copy." }
            },
        ),
        (false, false) => empty(
            "No execution matches",
            html! { p { "There are executions that the filter leaves out, or none at all. Widen or " a href="/executions" { "clear the filter" } "." } },
        ),
    }
}

fn table(views: &[View], now: Timestamp, may_operate: bool) -> Markup {
    let columns = html! {
        @if may_operate { th.needs-script { input type="checkbox" data-every aria-label="Select all of this page"; } }
        th { "Execution" } th { "State" } th { "Kind" } th { "Lane" } th { "Flow" } th.number { "Attempts" }
        th { "Submitted" } th.number { "Took" } th { "Tags" }
    };
    let rows = html! {
        @for view in views {
            @let row = &view.stored.execution;
            tr {
                @if may_operate {
                    td.needs-script {
                        input type="checkbox" name="ids" value=(row.id) aria-label=(format!("Select {}", row.id));
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
    };
    table_of(columns, rows)
}

/// Lists executions in few columns.
pub fn compact_table(views: &[View], now: Timestamp) -> Markup {
    if views.is_empty() {
        return empty("No executions yet", html! {});
    }
    let columns =
        html! { th { "Execution" } th { "State" } th { "Kind" } th { "Submitted" } th.number { "Took" } };
    let rows = html! {
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
    };
    table_of(columns, rows)
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
    let shown = text.as_deref().map(|text| clipped(headline(text), ADDITION_MAX));
    let whole = text.map(|text| clipped(&text, ADDITION_MAX));
    html! { @if let Some(shown) = shown { span.more.user-text title=[whole] { (shown) } } }
}

fn took(view: &View, now: Timestamp) -> String {
    let row = &view.stored.execution;
    match row.started_at {
        Some(started) => duration(row.ended_at.unwrap_or(now).ms_since(started)),
        None => "–".into(),
    }
}
