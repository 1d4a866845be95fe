//! The page `/events`: the live tail of the event log.

use super::execution::event_data;
use super::frame::layout::{Page, Viewer, heading};
use super::parts::{address, chips, empty, execution_link, flow_link, short, user_text};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::routes::events::read_filter;
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_api::times;
use selvedge_core::fact::EVENT_TYPES;
use selvedge_core::log::UNREADABLE;
use selvedge_engine::{EventFilter, PublicEvent};
use std::time::Duration;

/// The most events that the page shows.
const EVENTS_MAX: usize = 200;
/// The time for which the newest events are looked for.
const LOOKING: Duration = Duration::from_millis(5);

/// `GET /events`
pub async fn page(caller: Caller, mut query: Query) -> HandlerResult {
    query.join("types");
    let filter = read_filter(&mut query)?;
    query.finish()?;
    let namespace = &caller.namespace;
    let page = namespace.newest_events(&filter, EVENTS_MAX, LOOKING).await?;
    let conditions = conditions(&filter);
    let conditions: Vec<(&str, &str)> =
        conditions.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut followed = conditions.clone();
    followed.extend(page.next.as_deref().map(|after| ("after", after)));
    let tail = address("/v1/events", &followed);
    let shown: Vec<&PublicEvent> = page.items.iter().rev().collect();
    let content = html! {
        (heading(html! { "Events" }, html! { p.faint { "The newest events first, as they happen." } }))
        (form(&filter))
        (chips(&removable(&filter), "/events"))
        section aria-label="Events" {
            div.actions.needs-script { button type="button" data-pause aria-pressed="false" { "Pause" } }
            div.table {
                table.events {
                    thead { tr { th { "Time, UTC" } th { "Event" } th { "Execution" } th { "Flow" } th { "Actor" } th { "Data" } } }
                    tbody data-tail=(tail) data-limit=(EVENTS_MAX) data-types=(known_types()) { @for event in &shown { (row(event)) } }
                }
            }
            @if shown.is_empty() {
                div data-no-events {
                    @match conditions.is_empty() {
                        true => { (empty("No events yet", html! { p { "Events appear here as they happen." } })) }
                        false => { (empty("No match among the newest events", html! { p { "Events that match the filter appear here as they happen." } })) }
                    }
                }
            }
        }
        p.faint { a href=(address("/v1/events", &conditions)) { "The whole log as JSON" } }
    };
    Ok(Page::new("Events", "/events").response(Some(&Viewer::of(&caller)), content))
}

fn known_types() -> String {
    let types: Vec<&str> = EVENT_TYPES.iter().copied().chain([UNREADABLE]).collect();
    types.join(" ")
}

/// Returns the conditions of a filter as they stand in an address.
fn conditions(filter: &EventFilter) -> Vec<(&'static str, String)> {
    let mut conditions = Vec::new();
    if !filter.types.is_empty() {
        conditions.push(("types", filter.types.join(",")));
    }
    conditions.extend(filter.execution.map(|id| ("execution", id.to_string())));
    conditions.extend(filter.flow.map(|id| ("flow", id.to_string())));
    conditions.extend(filter.tag.as_ref().map(|(name, value)| ("tag", format!("{name}:{value}"))));
    conditions
}

/// Returns a label for each condition, and the address without it.
fn removable(filter: &EventFilter) -> Vec<(String, String)> {
    let without = |filter: EventFilter| {
        let conditions = conditions(&filter);
        let pairs: Vec<(&str, &str)> =
            conditions.iter().map(|(name, value)| (*name, value.as_str())).collect();
        address("/events", &pairs)
    };
    let mut chips = Vec::new();
    for kind in &filter.types {
        let types = filter.types.iter().filter(|other| *other != kind).cloned().collect();
        chips.push((kind.clone(), without(EventFilter { types, ..filter.clone() })));
    }
    if let Some(id) = filter.execution {
        let rest = EventFilter { execution: None, ..filter.clone() };
        chips.push((format!("execution {}", short(&id)), without(rest)));
    }
    if let Some(id) = filter.flow {
        chips.push((format!("flow {}", short(&id)), without(EventFilter { flow: None, ..filter.clone() })));
    }
    if let Some((name, value)) = &filter.tag {
        chips.push((format!("tag {name}:{value}"), without(EventFilter { tag: None, ..filter.clone() })));
    }
    chips
}

/// Returns the event types by the word before the dot.
fn groups() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for kind in EVENT_TYPES.iter().copied() {
        let subject = kind.split('.').next().unwrap_or(kind);
        match groups.iter_mut().find(|(name, _)| *name == subject) {
            Some((_, kinds)) => kinds.push(kind),
            None => groups.push((subject, vec![kind])),
        }
    }
    groups
}

fn form(filter: &EventFilter) -> Markup {
    let tag = filter.tag.as_ref().map(|(name, value)| format!("{name}:{value}"));
    let id = |id: Option<String>| id.unwrap_or_default();
    html! {
        form.card.stack method="get" action="/events" role="search" aria-label="Filter of events" {
            div.filters {
                label { "Execution" input type="text" name="execution" value=(id(filter.execution.map(|id| id.to_string()))) placeholder="id" autocomplete="off" data-filter; }
                label { "Flow" input type="text" name="flow" value=(id(filter.flow.map(|id| id.to_string()))) placeholder="id" autocomplete="off"; }
                label { "Tag" input type="text" name="tag" value=(tag.unwrap_or_default()) placeholder="name:value" autocomplete="off"; }
                div.buttons { button.primary type="submit" { "Filter" } a.button href="/events" { "Clear" } }
            }
            details {
                summary { "Types" @if !filter.types.is_empty() { ": " (filter.types.len()) " chosen" } @else { ": all" } }
                div.choices {
                    @for (subject, kinds) in groups() {
                        fieldset {
                            legend { (subject) }
                            @for kind in kinds {
                                label.check {
                                    input type="checkbox" name="types" value=(kind) checked[filter.types.iter().any(|one| one == kind)];
                                    span { (kind.split_once('.').map_or(kind, |(_, word)| word).replace('_', " ")) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn row(event: &PublicEvent) -> Markup {
    let at = times::text(event.at);
    html! {
        tr {
            td.nowrap { time datetime=(at) title=(at) { (at[11..23].to_owned()) } }
            td.nowrap { a href=(address("/events", &[("types", event.kind)])) { (event.kind) } }
            td.id { @if let Some(id) = event.execution { (execution_link(id)) } }
            // An execution that was submitted alone is its own flow.
            td.id { @if let Some(id) = event.flow.filter(|flow| event.execution.is_none_or(|id| id.0 != flow.0)) { (flow_link(id)) } }
            td { @if let Some(actor) = &event.actor { (user_text(actor)) } }
            td { (event_data(event)) }
        }
    }
}
