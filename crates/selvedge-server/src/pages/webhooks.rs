//! The page `/webhooks`: webhooks with their counts, and the form that creates and changes them.

use super::frame::layout::{Page, Viewer, heading_with};
use super::parts::forms::{Dialog, change_button, create_button, field, name_field};
use super::parts::table::{actions_column, table_of};
use super::parts::{
    address, empty, labelled_state, maybe_ago, name_pager, number, path_part, user_text, words,
};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::routes::webhooks::shown_url;
use crate::wire::paging::{name_cursor, parse_name_cursor};
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::fact::EVENT_TYPES;
use selvedge_core::state::StateName;
use selvedge_core::webhook::{EVERY_TYPE, Webhook};
use selvedge_core::{Name, Permission, Timestamp};
use serde_json::json;

/// The number of webhooks on a page.
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
    let may_operate = caller.may(Permission::Operate);
    let content = html! {
        (heading_with(
            html! { "Webhooks" },
            html! { p.faint { "Events that are delivered to addresses." } },
            html! { @if may_operate { (create_button("webhook-dialog", "New webhook")) } },
        ))
        section #list data-live aria-label="Webhooks" {
            @if webhooks.is_empty() {
                (empty("No webhooks", html! { p { "Create one here or with " code { "PUT /v1/webhooks/{name}" } "." } }))
            } @else { (table(&webhooks, &caller, now)) }
            (name_pager(cursor.map(|_| "/webhooks".into()), next))
        }
        @if may_operate { (dialog()) }
    };
    Ok(Page::new("Webhooks", "/webhooks").live("/live").response(Some(&Viewer::of(&caller)), content))
}

fn table(webhooks: &[Webhook], caller: &Caller, now: Timestamp) -> Markup {
    let may_operate = caller.may(Permission::Operate);
    let columns = html! {
        th { "Webhook" } th { "State" } th { "Address" } th.number { "Delivered" } th.number { "Pending" }
        th.number { "Dead" } th.number { "Missed" } th { "Last success" }
        @if may_operate { (actions_column()) }
    };
    let rows = html! {
        @for webhook in webhooks {
            @let detail = &webhook.detail;
            @let path = format!("/webhooks/{}", path_part(&webhook.name.name));
            tr {
                td { a href=(path) { (user_text(&webhook.name.name)) } }
                td {
                    (webhook_state(webhook))
                    @if let Some(error) = &detail.last_error { span.more.user-text title=(error) { (error) } }
                }
                td { span.clip.user-text { (shown_url(&detail.config.url, caller)) } }
                td.number { (number(detail.delivered)) }
                td.number { (number(detail.pending)) }
                td.number {
                    @if detail.dead > 0 { a href=(address(&path, &[("state", "dead")])) { (number(detail.dead)) } } @else { "0" }
                }
                td.number { (number(detail.missed)) }
                td.nowrap { (maybe_ago(detail.delivered_at, now)) }
                @if may_operate { td { div.row-actions { (change(webhook, false)) } } }
            }
        }
    };
    table_of(columns, rows)
}

/// Shows the state of a webhook.
pub fn webhook_state(webhook: &Webhook) -> Markup {
    match (webhook.detail.paused, webhook.detail.failing_since) {
        (Some(reason), _) => labelled_state(StateName::Held, &format!("paused: {}", words(reason.as_str()))),
        (None, Some(_)) => labelled_state(StateName::Failed, "failing"),
        (None, None) => labelled_state(StateName::Active, "active"),
    }
}

/// Shows the button that opens the form of a webhook. `is_own_page` leads back to the list when the webhook is deleted.
pub fn change(webhook: &Webhook, is_own_page: bool) -> Markup {
    let (name, config) = (&webhook.name.name, &webhook.detail.config);
    let api = format!("/v1/webhooks/{}", path_part(name));
    let types = if config.types.is_empty() { vec![EVERY_TYPE.to_owned()] } else { config.types.clone() };
    let tag = config.filter.tag.as_ref().map(|(name, value)| format!("{name}:{value}"));
    let confirm = format!("Delete the webhook {name} with its deliveries? Events are no longer sent.");
    let after = is_own_page.then_some("/webhooks");
    let fill = json!({
        "call": format!("PATCH {api}"),
        "title": format!("Change the webhook {name}"),
        "values": {
            "name": name, "url": config.url, "types": types.join("\n"), "filter.tag": tag,
            "filter.execution": config.filter.execution, "filter.flow": config.filter.flow,
        },
        "calls": { "remove": { "call": format!("DELETE {api}"), "confirm": confirm, "after": after } },
    });
    change_button("webhook-dialog", "Change", name, &fill)
}

/// Shows the dialog that creates and changes webhooks.
pub fn dialog() -> Markup {
    let dialog = Dialog::new("webhook-dialog", "New webhook", "PUT /v1/webhooks/{name}");
    let reveals = Some(("secret", "Secret of the webhook"));
    let hint = "Event types, separated by spaces or lines. “*” alone stands for all.";
    Dialog { creates: true, reveals, remove: Some("Delete"), ..dialog }.with(html! {
        (name_field(""))
        (field("Address", "Events are sent there, signed with a secret that is shown once.", html! {
            input type="url" name="url" required placeholder="https://example.com/hook" autocomplete="off";
        }))
        (field("Types", hint, html! {
            textarea.code name="types" data-type="list" rows="3" required spellcheck="false" placeholder="execution.failed flow.completed" {}
        }))
        details { summary { "All types" } p.hint { (EVENT_TYPES.join(", ")) } }
        (field("Only with the tag", "", html! { input type="text" name="filter.tag" data-empty="null" placeholder="name:value" autocomplete="off"; }))
        div.pair {
            (field("Only of the execution", "", html! { input type="text" name="filter.execution" data-empty="null" placeholder="id" autocomplete="off"; }))
            (field("Only of the flow", "", html! { input type="text" name="filter.flow" data-empty="null" placeholder="id" autocomplete="off"; }))
        }
    })
}
