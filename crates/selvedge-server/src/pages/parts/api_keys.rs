//! The API keys of the settings: their list, and the form that creates one.

use super::forms::{Dialog, call_button, choice, create_button, field};
use super::table::{actions_column, table_of};
use super::{ago, empty, labelled_state, maybe_ago, user_text};
use crate::auth::Caller;
use crate::routes::keys::visible;
use crate::wire::problem::Problem;
use maud::{Markup, html};
use selvedge_core::api_key::ApiKey;
use selvedge_core::state::StateName;
use selvedge_core::{Role, Timestamp};

pub const TITLE: &str = "API keys";
/// The most keys that are listed.
const LIST_MAX: usize = 200;

pub async fn section(caller: &Caller, now: Timestamp) -> Result<Markup, Problem> {
    let (keys, is_cut) = visible(caller, None, LIST_MAX as u32).await?;
    let roles = Role::ALL.map(|role| match role {
        Role::Reader => (role.as_str(), "reader: sees everything"),
        Role::Submitter => (role.as_str(), "submitter: also submits and signals"),
        Role::Worker => (role.as_str(), "worker: also claims and reports"),
        Role::Operator => (role.as_str(), "operator: also changes and cancels"),
        Role::Admin => (role.as_str(), "admin: also keys and namespaces"),
    });
    let dialog = Dialog::new("key-dialog", "New API key", "POST /v1/admin/keys");
    let dialog = Dialog { submit: "Create", done: "Created.", reveals: Some(("key", "API key")), ..dialog };
    let namespaces = "Separated by spaces. “*” stands for every namespace, in keys of administrators.";
    Ok(html! {
        section aria-labelledby="keys-title" {
            div.heading { h2 #keys-title { "API keys" } (create_button("key-dialog", "New API key")) }
            @if !caller.has_key() {
                p.message { "This server asks nobody for a key. Start it with " code { "SELVEDGE_ADMIN_KEY" } " to turn keys on." }
            }
            div #keys-list data-live {
                (key_table(&keys, now))
                @if is_cut { p.faint { "The newest " (LIST_MAX) " are shown; " a href="/v1/admin/keys" { "the API" } " lists all." } }
            }
        }
        (dialog.with(html! {
            (field("Name", "Events show it as the actor.", html! { input type="text" name="name" required autocomplete="off"; }))
            (choice("Role", "", "role", &roles))
            (field("Namespaces", namespaces, html! {
                input type="text" name="namespaces" data-type="list" required value=(caller.namespace.name()) autocomplete="off" spellcheck="false";
            }))
            (field("Expires", "In your time zone. Empty: never.", html! { input type="datetime-local" name="expires_at" data-type="time"; }))
        }))
    })
}

fn key_table(keys: &[ApiKey], now: Timestamp) -> Markup {
    if keys.is_empty() {
        return empty(
            "No API keys",
            html! { p { "Create one here or with " code { "POST /v1/admin/keys" } "." } },
        );
    }
    let columns = html! {
        th { "Name" } th { "State" } th { "Role" } th { "Namespaces" } th { "Created" } th { "Last used" }
        th { "Expires" } (actions_column())
    };
    let rows = html! {
        @for key in keys {
            @let is_valid = key.is_valid_at(now);
            @let (state, label) = if key.revoked_at.is_some() { (StateName::Cancelled, "revoked") } else if is_valid { (StateName::Active, "valid") } else { (StateName::Expired, "expired") };
            @let confirm = format!("Delete the key {}? Requests with it, and sessions that it began, are refused from now on.", key.name);
            tr {
                td { (user_text(&key.name)) }
                td { (labelled_state(state, label)) }
                td { (key.role.as_str()) }
                td { (user_text(&key.namespaces.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", "))) }
                td.nowrap { (ago(key.created_at, now)) }
                td.nowrap { (maybe_ago(key.last_used_at, now)) }
                td.nowrap { (maybe_ago(key.expires_at, now)) }
                td { @if key.revoked_at.is_none() { (call_button(&format!("DELETE /v1/admin/keys/{}", key.id), "Delete", "Deleted.", Some(&confirm), &[])) } }
            }
        }
    };
    table_of(columns, rows)
}
