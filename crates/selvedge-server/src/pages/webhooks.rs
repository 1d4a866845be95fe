//! The pages `/webhooks` and `/webhooks/{name}`: webhooks, and the deliveries of one.

use super::actions::simple;
use super::layout::{Page, Viewer, heading};
use super::parts::{
    address, ago, empty, execution_link, labelled_state, maybe_ago, number, pager, path_part, user_text,
};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::routes::webhooks::shown_url;
use crate::wire::paging::{invalid_cursor, name_cursor, parse_name_cursor};
use crate::wire::path::PathName;
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::state::StateName;
use selvedge_core::webhook::{Delivery, DeliveryState, Webhook};
use selvedge_core::{Name, Permission, Timestamp};

/// The number of webhooks or deliveries on a page.
const PAGE: u32 = 50;

/// `GET /webhooks`
pub async fn page(caller: Caller, mut query: Query) -> HandlerResult {
    let cursor = query.text("cursor")?;
    query.finish()?;
    let after = cursor.as_deref().map(parse_name_cursor).transpose()?.map(|name| Name::trusted(&name));
    let (webhooks, more) = caller.namespace.webhooks(after.as_ref(), PAGE).await?;
    let now = caller.namespace.now().await?;
    let next = webhooks.last().filter(|_| more);
    let next = next.map(|webhook| address("/webhooks", &[("cursor", &name_cursor(&webhook.name.name))]));
    let content = html! {
        (heading(html! { "Webhooks" }, html! { p.faint { "Events that are delivered to addresses." } }))
        section #list data-live aria-label="Webhooks" {
            @if webhooks.is_empty() {
                (empty("No webhooks", html! { p { "Configure one with " code { "PUT /v1/webhooks/{name}" } "." } }))
            } @else { (table(&webhooks, &caller, now)) }
            (pager(cursor.map(|_| "/webhooks".into()), next))
        }
    };
    Ok(Page::new("Webhooks", "/webhooks").live("/live").response(Some(&Viewer::of(&caller)), content))
}

fn table(webhooks: &[Webhook], caller: &Caller, now: Timestamp) -> Markup {
    html! {
        div.table {
            table {
                thead {
                    tr {
                        th { "Webhook" } th { "State" } th { "Address" } th.number { "Delivered" } th.number { "Pending" }
                        th.number { "Dead" } th.number { "Missed" } th { "Last success" }
                    }
                }
                tbody {
                    @for webhook in webhooks {
                        @let detail = &webhook.detail;
                        tr {
                            td { a href=(format!("/webhooks/{}", path_part(&webhook.name.name))) { (user_text(&webhook.name.name)) } }
                            td {
                                (webhook_state(webhook))
                                @if let Some(error) = &detail.last_error { span.more.user-text title=(error) { (error) } }
                            }
                            td { span.clip.user-text { (shown_url(&detail.config.url, caller)) } }
                            td.number { (number(detail.delivered)) } td.number { (number(detail.pending)) }
                            td.number { (number(detail.dead)) } td.number { (number(detail.missed)) }
                            td.nowrap { (maybe_ago(detail.delivered_at, now)) }
                        }
                    }
                }
            }
        }
    }
}

fn webhook_state(webhook: &Webhook) -> Markup {
    match (webhook.detail.paused, webhook.detail.failing_since) {
        (Some(reason), _) => {
            labelled_state(StateName::Held, &format!("paused: {}", super::parts::words(reason.as_str())))
        }
        (None, Some(_)) => labelled_state(StateName::Failed, "failing"),
        (None, None) => labelled_state(StateName::Active, "active"),
    }
}

/// `GET /webhooks/{name}`
pub async fn deliveries_page(caller: Caller, PathName(name): PathName, mut query: Query) -> HandlerResult {
    let states = DeliveryState::ALL.map(DeliveryState::as_str).join(", ");
    let state = query.parsed("state", &format!("must be one of {states}"), DeliveryState::parse)?;
    let cursor = query.text("cursor")?;
    query.finish()?;
    let before =
        cursor.as_ref().map(|cursor| cursor.parse::<u64>().map_err(|_| invalid_cursor())).transpose()?;
    let webhook = caller.namespace.webhook(&name).await?;
    let (deliveries, more) = caller.namespace.webhook_deliveries(&name, state, before, PAGE).await?;
    let now = caller.namespace.now().await?;
    let path = format!("/webhooks/{}", path_part(&name));
    let chosen = state.map_or("", DeliveryState::as_str);
    let kept: Vec<(&str, &str)> =
        [("state", chosen)].into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let last = deliveries.last().filter(|_| more).map(|last| last.number.to_string());
    let next = last.map(|last| address(&path, &[&kept[..], &[("cursor", &last)]].concat()));
    let content = html! {
        (heading(html! { (user_text(&name)) }, html! {
            p.crumbs { a href="/webhooks" { "Webhooks" } " / " (user_text(&name)) " · " (webhook_state(&webhook)) }
        }))
        nav.tabs aria-label="State of deliveries" {
            a href=(path) aria-current=[state.is_none().then_some("page")] { "All" }
            @for one in DeliveryState::ALL {
                a href=(address(&path, &[("state", one.as_str())])) aria-current=[(state == Some(one)).then_some("page")] { (one.as_str()) }
            }
        }
        section #list data-live aria-label="Deliveries" {
            @if deliveries.is_empty() { (empty("No deliveries", html! { p { "Deliveries appear when events match the webhook." } })) }
            @else { (delivery_table(&deliveries, &path, now, caller.may(Permission::Operate))) }
            (pager(cursor.map(|_| address(&path, &kept)), next))
        }
    };
    Ok(Page::new(&name, "/webhooks").live("/live").response(Some(&Viewer::of(&caller)), content))
}

fn delivery_table(deliveries: &[Delivery], path: &str, now: Timestamp, may_operate: bool) -> Markup {
    html! {
        div.table {
            table {
                thead { tr { th { "Event" } th { "State" } th { "Execution" } th { "When" } th.number { "Failures" } th { "Answer" } th { "Next try" } th { span.visually-hidden { "Actions" } } } }
                tbody {
                    @for delivery in deliveries {
                        @let detail = &delivery.detail;
                        tr {
                            td.nowrap { (user_text(&detail.kind)) }
                            td { (delivery_state(delivery.state)) }
                            td.id { @if let Some(id) = detail.execution { (execution_link(id)) } }
                            td.nowrap { (ago(detail.event_at, now)) }
                            td.number { (detail.attempts) }
                            td {
                                @if let Some(status) = detail.status { (status) " " }
                                @if let Some(error) = &detail.error { span.clip.user-text title=(error) { (error) } }
                            }
                            td.nowrap { (maybe_ago(detail.next_at, now)) }
                            td { @if may_operate { (simple(&format!("POST /v1{path}/deliveries/{}/replay", delivery.id), "Send again", "Sent again.")) } }
                        }
                    }
                }
            }
        }
    }
}

fn delivery_state(state: DeliveryState) -> Markup {
    let like = match state {
        DeliveryState::Pending => StateName::Waiting,
        DeliveryState::Delivered => StateName::Completed,
        DeliveryState::Dead => StateName::Failed,
    };
    labelled_state(like, state.as_str())
}
