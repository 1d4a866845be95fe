//! The page `/about`: this server, its store, its background work, and for administrators the keys and namespaces.

use super::attention;
use super::layout::{Page, Viewer, heading};
use super::parts::{empty, labelled_state, maybe_ago, moment, user_text};
use crate::VERSION;
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::api_key::ApiKey;
use selvedge_core::state::StateName;
use selvedge_core::{Name, Permission, Timestamp};

/// The most keys that are listed.
const KEYS_MAX: u32 = 200;

/// `GET /about`
pub async fn page(caller: Caller, query: Query) -> HandlerResult {
    query.finish()?;
    let engine = caller.namespace.engine();
    let now = caller.namespace.now().await?;
    let may_administer = caller.may(Permission::Administer) && caller.namespaces().is_none();
    let keys = match may_administer {
        true => Some(engine.api_keys(None, KEYS_MAX).await?),
        false => None,
    };
    let namespaces: Vec<Name> = match (may_administer, caller.namespaces()) {
        (true, _) => engine.list_namespaces().await?.iter().map(|one| one.name().clone()).collect(),
        (false, own) => own.unwrap_or_default(),
    };
    let uncovered = engine.uncovered_namespaces().await?;
    let (batches, waiting_claims) = engine.activity();
    let content = html! {
        (heading(html! { "About this server" }, html! {}))
        section.card #facts data-live aria-label="Facts" {
            dl.facts {
                div { dt { "Version" } dd { (VERSION) } }
                div { dt { "Store" } dd { (engine.store_name()) } }
                div { dt { "Namespace" } dd { (user_text(caller.namespace.name())) } }
                div { dt { "You are" } dd { (user_text(&caller.actor)) ", " (caller.role().as_str()) } }
                div { dt { "Time of the store" } dd { (moment(now)) } }
                div { dt { "Committed batches of this server" } dd { (batches) } }
                div { dt { "Claims that wait on this server" } dd { (waiting_claims) } }
                div { dt { "Unreadable entries of the event log" } dd { (engine.unreadable_entries()) } }
                div { dt { "Namespaces without background work" } dd { (uncovered.len()) } }
            }
        }
        @if caller.has_key() && namespaces.len() > 1 { (namespace_form(&namespaces, caller.namespace.name())) }
        section #health data-live { h2 { "Background work of this server" } (attention::health(&engine.reconciler_status())) }
        @if let Some(keys) = keys { section #keys-list data-live { h2 { "API keys" } (key_table(&keys, now)) } }
    };
    Ok(Page::new("About", "/about").live("/live").response(Some(&Viewer::of(&caller)), content))
}

/// Shows a form that continues the session in another namespace.
fn namespace_form(namespaces: &[Name], current: &str) -> Markup {
    html! {
        section {
            h2 { "Namespace" }
            form.card.filters method="post" action="/login" {
                label { "Namespace of this session"
                    select name="namespace" data-submits {
                        @for name in namespaces { option value=(name) selected[name.as_str() == current] { (name) } }
                    }
                }
                input type="hidden" name="next" value="/";
                div.buttons { button.primary type="submit" { "Switch" } }
            }
        }
    }
}

fn key_table(keys: &[ApiKey], now: Timestamp) -> Markup {
    if keys.is_empty() {
        return empty("No API keys", html! { p { "Create one with " code { "POST /v1/admin/keys" } "." } });
    }
    html! {
        div.table {
            table {
                thead { tr { th { "Name" } th { "State" } th { "Role" } th { "Namespaces" } th { "Last used" } th { "Expires" } } }
                tbody {
                    @for key in keys {
                        @let (state, label) = if key.revoked_at.is_some() { (StateName::Cancelled, "revoked") } else if key.is_valid_at(now) { (StateName::Active, "valid") } else { (StateName::Expired, "expired") };
                        tr {
                            td { (user_text(&key.name)) }
                            td { (labelled_state(state, label)) }
                            td { (key.role.as_str()) }
                            td { (user_text(&key.namespaces.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", "))) }
                            td.nowrap { (maybe_ago(key.last_used_at, now)) }
                            td.nowrap { (maybe_ago(key.expires_at, now)) }
                        }
                    }
                }
            }
        }
    }
}
