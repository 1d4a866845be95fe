//! The page `/webhooks/{name}`: a webhook, what is done with it, and its deliveries.

use super::frame::layout::{Page, Viewer, heading};
use super::parts::actions::simple;
use super::parts::forms::{Dialog, call_button, period_field};
use super::parts::table::{actions_column, table_of};
use super::parts::{
    address, ago, empty, execution_link, labelled_state, maybe_ago, number, pager, path_part, user_text,
};
use super::webhooks::{change, dialog, webhook_state};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::routes::webhooks::shown_url;
use crate::wire::paging::invalid_cursor;
use crate::wire::path::PathName;
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::state::StateName;
use selvedge_core::webhook::{Delivery, DeliveryState, EVERY_TYPE, Webhook};
use selvedge_core::{Permission, Timestamp};

/// The number of deliveries on a page.
const PAGE: u32 = 50;

/// `GET /webhooks/{name}`
pub async fn page(caller: Caller, PathName(name): PathName, mut query: Query) -> HandlerResult {
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
    let may_operate = caller.may(Permission::Operate);
    let content = html! {
        (heading(html! { (user_text(&name)) }, html! { p.crumbs { a href="/webhooks" { "Webhooks" } " / " (user_text(&name)) } }))
        section.card #facts data-live aria-label="Facts" { (facts(&webhook, &caller, now)) }
        @if may_operate { div.actions.needs-script #actions data-live { (actions(&webhook)) } (rotation(&path)) (dialog()) }
        section {
            h2 { "Deliveries" }
            nav.tabs aria-label="State of deliveries" {
                a href=(path) aria-current=[state.is_none().then_some("page")] { "All" }
                @for one in DeliveryState::ALL {
                    a href=(address(&path, &[("state", one.as_str())])) aria-current=[(state == Some(one)).then_some("page")] { (one.as_str()) }
                }
            }
            div #list data-live {
                @if deliveries.is_empty() { (nothing(state)) }
                @else { (delivery_table(&deliveries, &path, now, may_operate)) }
                (pager(cursor.map(|_| address(&path, &kept)), next))
            }
        }
    };
    Ok(Page::new(&name, "/webhooks").live("/live").response(Some(&Viewer::of(&caller)), content))
}

fn nothing(state: Option<DeliveryState>) -> Markup {
    match state {
        None => empty("No deliveries", html! { p { "Deliveries appear when events match the webhook." } }),
        Some(DeliveryState::Pending) => empty("Nothing is pending", html! {}),
        Some(DeliveryState::Delivered) => empty("Nothing was delivered yet", html! {}),
        Some(DeliveryState::Dead) => empty(
            "No dead delivery",
            html! { p { "A delivery is dead when every try of several days has failed." } },
        ),
    }
}

fn facts(webhook: &Webhook, caller: &Caller, now: Timestamp) -> Markup {
    let detail = &webhook.detail;
    let types =
        if detail.config.types.is_empty() { EVERY_TYPE.to_owned() } else { detail.config.types.join(", ") };
    let filter = &detail.config.filter;
    let old_secret = detail.keys.iter().filter_map(|key| key.expires_at).max();
    html! {
        dl.facts {
            div { dt { "State" } dd { (webhook_state(webhook)) } }
            div.wide { dt { "Address" } dd { (user_text(&shown_url(&detail.config.url, caller))) } }
            div.wide { dt { "Types" } dd { (types) } }
            @if let Some((name, value)) = &filter.tag { div { dt { "Only with the tag" } dd { (user_text(&format!("{name}:{value}"))) } } }
            @if let Some(id) = filter.execution { div { dt { "Only of the execution" } dd { (execution_link(id)) } } }
            @if let Some(id) = filter.flow { div { dt { "Only of the flow" } dd { (super::parts::flow_link(id)) } } }
            div { dt { "Delivered" } dd { (number(detail.delivered)) } }
            div { dt { "Pending" } dd { (number(detail.pending)) } }
            div { dt { "Dead" } dd { (number(detail.dead)) } }
            div { dt { "Missed" } dd { (number(detail.missed)) } }
            div { dt { "Last success" } dd { (maybe_ago(detail.delivered_at, now)) } }
            @if detail.failing_since.is_some() { div { dt { "Failing since" } dd { (maybe_ago(detail.failing_since, now)) } } }
            @if let Some(error) = &detail.last_error { div.wide { dt { "Last failure" } dd { (user_text(error)) } } }
            @if old_secret.is_some() { div { dt { "Old secret valid until" } dd { (maybe_ago(old_secret, now)) } } }
        }
    }
}

fn actions(webhook: &Webhook) -> Markup {
    let api = format!("/v1/webhooks/{}", path_part(&webhook.name.name));
    let patch = format!("PATCH {api}");
    html! {
        (simple(&format!("POST {api}/test"), "Send a test", "Sent."))
        @if webhook.detail.paused.is_some() { (call_button(&patch, "Resume", "Resumed.", None, &[("paused", "false")])) }
        @else { (call_button(&patch, "Pause", "Paused.", None, &[("paused", "true")])) }
        (change(webhook, true))
        button type="button" data-opens="rotate-dialog" data-key="rotate" { "Rotate the secret" }
    }
}

fn rotation(path: &str) -> Markup {
    let call = format!("POST /v1{path}/rotate-secret");
    let dialog = Dialog::new("rotate-dialog", "Rotate the secret", &call);
    let reveals = Some(("secret", "New secret of the webhook"));
    Dialog { submit: "Rotate", done: "Rotated.", reveals, ..dialog }.with(html! {
        p { "Deliveries are signed with a new secret. For a while they are signed with the old one, too, so that the receiver can change over." }
        (period_field("Old secret valid for", "grace_ms", "1d"))
    })
}

fn delivery_table(deliveries: &[Delivery], path: &str, now: Timestamp, may_operate: bool) -> Markup {
    let columns = html! {
        th { "Event" } th { "State" } th { "Execution" } th { "When" } th.number { "Failures" }
        th { "Answer" } th { "Next try" } @if may_operate { (actions_column()) }
    };
    let rows = html! {
        @for delivery in deliveries {
            @let detail = &delivery.detail;
            tr {
                td.nowrap { (user_text(&detail.kind)) }
                td { (delivery_state(delivery.state)) }
                td.id { @if let Some(id) = detail.execution { (execution_link(id)) } }
                td.nowrap { (ago(detail.event_at, now)) }
                td.number { (detail.attempts) }
                td {
                    @if let Some(status) = detail.status { "status " (status) " " }
                    @if let Some(error) = &detail.error { span.clip.user-text title=(error) { (error) } }
                }
                td.nowrap { (maybe_ago(detail.next_at, now)) }
                @if may_operate { td { (simple(&format!("POST /v1{path}/deliveries/{}/replay", delivery.id), "Send again", "Sent again.")) } }
            }
        }
    };
    table_of(columns, rows)
}

fn delivery_state(state: DeliveryState) -> Markup {
    let like = match state {
        DeliveryState::Pending => StateName::Waiting,
        DeliveryState::Delivered => StateName::Completed,
        DeliveryState::Dead => StateName::Failed,
    };
    labelled_state(like, state.as_str())
}
