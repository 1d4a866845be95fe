//! Elements that pages share: states, times, counts, links, tables without rows, and links to further pages.

pub mod actions;
pub mod again;
pub mod answer;
pub mod api_keys;
pub mod attention;
mod bulk_jobs;
pub mod chart;
pub mod forms;
pub mod gantt;
pub mod matches;
pub mod minutes;
pub mod overview_data;
pub mod payload;
pub mod scrubber;
pub mod selection;
pub mod table;
pub mod terminal;
pub mod timeline;

pub use bulk_jobs::progress as job_progress;

use jiff::tz::TimeZone;
use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use selvedge_api::times;
use selvedge_core::flow::FlowState;
use selvedge_core::state::StateName;
use selvedge_core::{ExecutionId, FlowId, Timestamp};
use selvedge_drawing::state_sign;
use std::collections::BTreeMap;
use std::fmt::Display;

/// The bound up to which pages count executions.
pub const COUNT_MAX: u64 = 10_000;
/// The most tags that a row shows.
const TAGS_SHOWN: usize = 6;
/// The characters that are escaped in a query and in a part of a path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');

/// Shows a state: icon, word and colour.
pub fn state(state: StateName) -> Markup {
    labelled_state(state, &words(state.as_str()))
}

/// Shows a state with another label.
pub fn labelled_state(state: StateName, label: &str) -> Markup {
    html! {
        span class=(format!("state state-{}", state.as_str())) { (icon(state)) span { (label) } }
    }
}

/// Shows the state of a flow.
pub fn flow_state(flow: FlowState) -> Markup {
    let like = match flow {
        FlowState::Running => StateName::Active,
        FlowState::Completed => StateName::Completed,
        FlowState::Failed => StateName::Failed,
        FlowState::Cancelled => StateName::Cancelled,
    };
    labelled_state(like, flow.as_str())
}

/// Shows the icon of a state.
pub fn icon(state: StateName) -> Markup {
    html! {
        svg viewBox="-10 -10 20 20" aria-hidden="true" {
            circle r="9.5" {}
            path d=(state_sign(state)) {}
        }
    }
}

/// Replaces underscores of a public word with spaces.
pub fn words(word: &str) -> String {
    word.replace('_', " ")
}

/// Shows a time relative to now, with the full time as its tooltip.
pub fn ago(at: Timestamp, now: Timestamp) -> Markup {
    let text = times::text(at);
    let ms = now.millis() - at.millis();
    html! {
        time datetime=(text) title=(text) {
            @if ms.abs() < 1000 { "now" }
            @else if ms > 0 { (coarse(ms)) " ago" }
            @else { "in " (coarse(-ms)) }
        }
    }
}

/// Shows a time relative to now, or a dash.
pub fn maybe_ago(at: Option<Timestamp>, now: Timestamp) -> Markup {
    html! { @match at { Some(at) => (ago(at, now)), None => span.faint { "–" } } }
}

/// Shows a full time.
pub fn moment(at: Timestamp) -> Markup {
    let text = times::text(at);
    let shown = text.replace('T', " ").replace('Z', "");
    html! { time datetime=(text) title=(text) { (shown) } }
}

/// Shows until when something that has ended is kept: the day, and the time left.
pub fn kept_until(at: Timestamp, now: Timestamp) -> Markup {
    let text = times::text(at);
    let day = jiff::Timestamp::from_millisecond(at.millis());
    let day = day
        .map_or_else(|_| text.clone(), |day| day.to_zoned(TimeZone::UTC).strftime("%-d %b %Y").to_string());
    html! {
        time datetime=(text) title=(text) { (day) @if at > now { " (" (coarse(at.ms_since(now))) ")" } }
    }
}

/// Returns a duration with one unit.
fn coarse(ms: i64) -> String {
    match ms / 1000 {
        0 => format!("{ms} ms"),
        seconds @ 1..=99 => format!("{seconds} s"),
        seconds @ 100..=5999 => format!("{} min", seconds / 60),
        seconds @ 6000..=172_799 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// Returns a duration with at most two units.
pub fn duration(ms: i64) -> String {
    let ms = ms.max(0);
    let (seconds, minutes, hours, days) = (ms / 1000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    let two = |count, unit, rest, small| match rest {
        0 => format!("{count} {unit}"),
        _ => format!("{count} {unit} {rest} {small}"),
    };
    match ms {
        0..=999 => format!("{ms} ms"),
        1000..=59_999 if ms % 1000 < 100 => format!("{seconds} s"),
        1000..=59_999 => format!("{seconds}.{} s", ms % 1000 / 100),
        60_000..=3_599_999 => two(minutes, "min", seconds % 60, "s"),
        3_600_000..=86_399_999 => two(hours, "h", minutes % 60, "min"),
        _ => two(days, "d", hours % 24, "h"),
    }
}

/// Returns a number with thin spaces between thousands.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Returns a count that stops at a bound.
pub fn bounded(count: u64, may_be_more: bool) -> String {
    match may_be_more {
        true => format!("≥\u{202f}{}", number(count)),
        false => number(count),
    }
}

/// Returns the end of an id, where ids differ.
pub fn short(id: &impl Display) -> String {
    let text = id.to_string();
    format!("…{}", &text[text.len().saturating_sub(12)..])
}

pub fn execution_link(id: ExecutionId) -> Markup {
    html! { a.id href=(format!("/executions/{id}")) title=(id) { (short(&id)) } }
}

pub fn flow_link(id: FlowId) -> Markup {
    html! { a.id href=(format!("/flows/{id}")) title=(id) { (short(&id)) } }
}

/// Links to the executions with some conditions.
pub fn executions_link(conditions: &[(&str, &str)]) -> String {
    address("/executions", conditions)
}

/// Returns an address with a query.
pub fn address(path: &str, query: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        query.iter().map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, PLAIN))).collect();
    match pairs.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", pairs.join("&")),
    }
}

/// Returns a part of a path, escaped.
pub fn path_part(part: &str) -> String {
    utf8_percent_encode(part, PLAIN).to_string()
}

/// Shows text of users, isolated from the direction of the text around it.
pub fn user_text(text: &str) -> Markup {
    html! { span.user-text { (text) } }
}

/// Removes controls of the direction of text from a sentence of ours that quotes users, so that they cannot reorder its words.
pub fn sentence(text: &str) -> String {
    text.chars().filter(|one| !matches!(one, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')).collect()
}

/// Shortens text of users for a row or a tooltip.
pub fn clipped(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Shows tags, each as a link to the executions that have it.
pub fn tags(tags: &BTreeMap<String, String>) -> Markup {
    html! {
        @if !tags.is_empty() {
            ul.tags {
                @for (name, value) in tags.iter().take(TAGS_SHOWN) {
                    @let tag = format!("{name}:{value}");
                    li { a.tag.user-text href=(executions_link(&[("tag", &tag)])) title=(tag) { (tag) } }
                }
                @if tags.len() > TAGS_SHOWN { li.tag { "and " (tags.len() - TAGS_SHOWN) " more" } }
            }
        }
    }
}

/// Shows that there is nothing, and what to do next.
pub fn empty(title: &str, next: Markup) -> Markup {
    html! { div.empty { b { (title) } (next) } }
}

/// Links to the first and the next page of a list.
pub fn pager(first: Option<String>, next: Option<String>) -> Markup {
    html! {
        @if first.is_some() || next.is_some() {
            nav.pages aria-label="Pages of the list" {
                @if let Some(first) = first { a.button href=(first) { "Newest" } }
                @if let Some(next) = next { a.button href=(next) rel="next" { "Older" } }
            }
        }
    }
}

/// Shows the conditions of a filter, each with a link that removes it; `all` is the address without any.
pub fn chips(conditions: &[(String, String)], all: &str) -> Markup {
    html! {
        @if !conditions.is_empty() {
            ul.chips aria-label="Conditions" {
                @for (label, without) in conditions {
                    li.chip { span.user-text { (label) } a href=(without) aria-label=(format!("Remove the condition {label}")) { "×" } }
                }
                @if conditions.len() > 1 { li { a href=(all) { "Remove all" } } }
            }
        }
    }
}

/// Links to the first and the next page of a list that is ordered by name.
pub fn name_pager(first: Option<String>, next: Option<String>) -> Markup {
    html! {
        @if first.is_some() || next.is_some() {
            nav.pages aria-label="Pages of the list" {
                @if let Some(first) = first { a.button href=(first) { "First" } }
                @if let Some(next) = next { a.button href=(next) rel="next" { "Next" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_cannot_reorder_a_sentence() {
        assert_eq!(sentence("lane \u{202e}a\u{2066}b\u{200f} is paused"), "lane ab\u{200f} is paused");
    }

    #[test]
    fn durations_have_at_most_two_units() {
        let texts = [
            (0, "0 ms"),
            (999, "999 ms"),
            (1250, "1.2 s"),
            (2000, "2 s"),
            (60_000, "1 min"),
            (61_000, "1 min 1 s"),
            (3_660_000, "1 h 1 min"),
            (90_000_000, "1 d 1 h"),
        ];
        for (ms, text) in texts {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn counts_have_thin_spaces_and_say_that_they_stop() {
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(number(12), "12");
        assert_eq!(bounded(10_000, true), "≥\u{202f}10\u{202f}000");
    }

    #[test]
    fn addresses_escape_what_users_wrote() {
        assert_eq!(address("/executions", &[("tag", "a&b:c d")]), "/executions?tag=a%26b:c%20d");
        assert_eq!(path_part("a/b?"), "a%2Fb%3F");
    }
}
