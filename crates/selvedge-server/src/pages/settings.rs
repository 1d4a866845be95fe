//! The page `/settings`: this server and its background work; for administrators the keys of callers and of waitpoints, the namespaces and
//! the configuration with the source of each value.

use super::frame::layout::{Page, Viewer, heading};
use super::parts::forms::{
    Dialog, change_button, create_button, duration_field, duration_text, name_field, period_field,
    weight_field,
};
use super::parts::table::{actions_column, table_of};
use super::parts::{address, ago, duration, empty, labelled_state, maybe_ago, moment, path_part, user_text};
use super::parts::{api_keys, attention};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::problem::{Code, Problem};
use crate::wire::query::Query;
use crate::{AppState, Setting, VERSION};
use axum::extract::State;
use maud::{Markup, html};
use selvedge_core::state::StateName;
use selvedge_core::{Name, Permission, Timestamp};
use selvedge_engine::store::{Deletion, NamespaceSettings};
use serde_json::json;

/// The most keys, and the most namespaces, that the page lists.
const LIST_MAX: usize = 200;

/// A part of the page.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    About,
    Keys,
    WaitpointKeys,
    Namespaces,
    Configuration,
}

impl Part {
    const ALL: [Part; 5] =
        [Part::About, Part::Keys, Part::WaitpointKeys, Part::Namespaces, Part::Configuration];

    fn as_str(self) -> &'static str {
        match self {
            Part::About => "about",
            Part::Keys => "keys",
            Part::WaitpointKeys => "waitpoint-keys",
            Part::Namespaces => "namespaces",
            Part::Configuration => "configuration",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Part::About => "About",
            Part::Keys => api_keys::TITLE,
            Part::WaitpointKeys => "Waitpoint keys",
            Part::Namespaces => "Namespaces",
            Part::Configuration => "Configuration",
        }
    }

    /// Reports whether a caller may see it. The configuration and the keys of waitpoints are those of all namespaces.
    fn is_shown_to(self, caller: &Caller) -> bool {
        match self {
            Part::About => true,
            Part::Keys | Part::Namespaces => caller.may(Permission::Administer),
            Part::WaitpointKeys | Part::Configuration => caller.may(Permission::AdministerServer),
        }
    }
}

/// `GET /settings`
pub async fn page(State(state): State<AppState>, caller: Caller, mut query: Query) -> HandlerResult {
    let parse = |word: &str| Part::ALL.into_iter().find(|part| part.as_str() == word);
    let words = Part::ALL.map(Part::as_str).join(", ");
    let part = query.parsed("show", &format!("must be one of {words}"), parse)?.unwrap_or(Part::About);
    query.finish()?;
    if !part.is_shown_to(&caller) {
        let detail = match caller.may(Permission::Administer) {
            true => "only administrators of every namespace may see this".to_owned(),
            false => format!("the role {} does not have the permission to see this", caller.role().as_str()),
        };
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let now = caller.namespace.now().await?;
    let shown = match part {
        Part::About => about(&state, &caller, now).await?,
        Part::Keys => api_keys::section(&caller, now).await?,
        Part::WaitpointKeys => waitpoint_keys(&caller, now).await?,
        Part::Namespaces => namespaces(&caller).await?,
        Part::Configuration => configuration(&state.shared.configuration),
    };
    let content = html! {
        (heading(html! { "Settings" }, html! {}))
        @if caller.may(Permission::Administer) {
            nav.tabs aria-label="Parts of the settings" {
                @for one in Part::ALL.into_iter().filter(|one| one.is_shown_to(&caller)) {
                    @let show = [("show", one.as_str())];
                    @let target = address("/settings", if one == Part::About { &[] } else { &show });
                    a href=(target) aria-current=[(one == part).then_some("page")] { (one.label()) }
                }
            }
        }
        (shown)
    };
    Ok(Page::new("Settings", "/settings").live("/live").response(Some(&Viewer::of(&caller)), content))
}

async fn about(state: &AppState, caller: &Caller, now: Timestamp) -> Result<Markup, Problem> {
    let engine = caller.namespace.engine();
    let names: Vec<Name> = match caller.namespaces() {
        Some(own) => own,
        None => {
            let mut names = Vec::new();
            for one in engine.list_namespaces().await? {
                if !one.is_deleted().await? {
                    names.push(one.name().clone());
                }
            }
            names
        }
    };
    let uncovered = engine.uncovered_namespaces().await?;
    let (batches, waiting_claims) = engine.activity();
    let uptime = state.shared.started.elapsed().as_millis() as i64;
    Ok(html! {
        section.card #facts data-live aria-label="Facts" {
            dl.facts {
                div { dt { "Version" } dd { (VERSION) } }
                div { dt { "Up since" } dd { (ago(now.minus_ms(uptime), now)) } }
                div { dt { "Store" } dd { (engine.store_name()) } }
                div.wide { dt { "Durability" } dd { (engine.store_durability()) } }
                div { dt { "Namespace" } dd { (user_text(caller.namespace.name())) } }
                div { dt { "You are" } dd { (user_text(&caller.actor)) ", role " (caller.role().as_str()) } }
                div { dt { "Time of the store" } dd { (moment(now)) } }
                div { dt { "Committed batches" } dd { (batches) } }
                div { dt { "Claims that wait" } dd { (waiting_claims) } }
                div { dt { "Unreadable log entries" } dd { (engine.unreadable_entries()) } }
                div { dt { "Namespaces without background work" } dd { (uncovered.len()) } }
            }
        }
        @if caller.has_key() && names.len() > 1 { (namespace_form(&names, caller.namespace.name())) }
        section #health data-live { h2 { "Background work of this server" } (attention::health(&engine.reconciler_status())) }
    })
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

async fn waitpoint_keys(caller: &Caller, now: Timestamp) -> Result<Markup, Problem> {
    let keys = caller.namespace.engine().token_keys().await?;
    let dialog =
        Dialog::new("rotate-dialog", "Rotate the waitpoint keys", "POST /v1/admin/waitpoint-keys/rotate");
    let columns = html! { th { "Key" } th { "State" } th { "Created" } th { "Valid until" } };
    let rows = html! {
        @for key in &keys {
            @let (state, label) = match key.retires_at {
                None => (StateName::Active, "signs new tokens"),
                Some(at) if at > now => (StateName::Delayed, "still accepted"),
                Some(_) => (StateName::Expired, "no longer accepted"),
            };
            tr {
                td.id { (key.id) }
                td { (labelled_state(state, label)) }
                td.nowrap { (ago(key.created_at, now)) }
                td.nowrap { (maybe_ago(key.retires_at, now)) }
            }
        }
    };
    Ok(html! {
        section aria-labelledby="waitpoint-keys-title" {
            div.heading { h2 #waitpoint-keys-title { "Waitpoint keys" } (create_button("rotate-dialog", "Rotate")) }
            p.faint { "They sign the tokens with which people answer waitpoints. Keys of all namespaces, derived from the secret of the server." }
            div #keys-list data-live {
                @if keys.is_empty() { (empty("No key yet", html! { p { "The first one is made with the first waitpoint." } })) }
                @else {
                    (table_of(columns, rows))
                }
            }
        }
        (Dialog { submit: "Rotate", done: "Rotated.", ..dialog }.with(html! {
            p { "A new key signs new tokens. Tokens of the old keys are accepted for a while, so that links that were sent still work." }
            (period_field("Old keys accepted for", "grace_ms", "7d"))
        }))
    })
}

async fn namespaces(caller: &Caller) -> Result<Markup, Problem> {
    let engine = caller.namespace.engine();
    let mut found = Vec::new();
    let mut is_cut = false;
    for namespace in engine.list_namespaces().await? {
        if caller.check_namespace(namespace.name()).is_err() {
            continue;
        }
        if found.len() == LIST_MAX {
            is_cut = true;
            break;
        }
        let settings = namespace.settings().await?;
        if settings.deletion != Some(Deletion::Done) {
            found.push((namespace.name().clone(), settings));
        }
    }
    let may_create = caller.namespaces().is_none();
    let dialog = Dialog::new("namespace-dialog", "New namespace", "PUT /v1/admin/namespaces/{name}");
    Ok(html! {
        section aria-labelledby="namespaces-title" {
            div.heading { h2 #namespaces-title { "Namespaces" } @if may_create { (create_button("namespace-dialog", "New namespace")) } }
            div #list data-live {
                (namespace_table(&found))
                @if is_cut { p.faint { "The first " (LIST_MAX) " are shown; " a href="/v1/admin/namespaces" { "the API" } " lists all." } }
            }
        }
        (Dialog { creates: true, remove: Some("Delete"), ..dialog }.with(html! {
            (name_field(""))
            (duration_field("Retention", "Ended executions are deleted after this time. Empty: as the server is set.", "retention_ms"))
            (duration_field("Timeout of suspensions", "For those that give none. Empty: none.", "suspension_timeout_ms"))
            (weight_field("The share of claims of keys with several namespaces."))
        }))
    })
}

fn namespace_table(found: &[(Name, NamespaceSettings)]) -> Markup {
    let maybe = |ms: Option<i64>, none: &str| ms.map_or_else(|| none.to_owned(), duration);
    let columns = html! {
        th { "Namespace" } th { "State" } th { "Retention" } th { "Timeout of suspensions" }
        th.number { "Weight" } (actions_column())
    };
    let rows = html! {
        @for (name, settings) in found {
            tr {
                td { (user_text(name)) }
                td {
                    @if settings.deletion.is_some() { (labelled_state(StateName::Cancelled, "being deleted")) }
                    @else { (labelled_state(StateName::Active, "active")) }
                }
                td.nowrap { (maybe(settings.retention_ms, "as the server")) }
                td.nowrap { (maybe(settings.suspension_timeout_ms, "none")) }
                td.number { (settings.weight.unwrap_or(1)) }
                td { @if settings.deletion.is_none() { (change_namespace(name, settings)) } }
            }
        }
    };
    table_of(columns, rows)
}

fn change_namespace(name: &Name, settings: &NamespaceSettings) -> Markup {
    let api = format!("/v1/admin/namespaces/{}", path_part(name));
    let confirm = format!(
        "Delete the namespace {name} with all executions, flows, limits, schedules and events in it? Nothing brings them back."
    );
    let remove = json!({ "call": format!("DELETE {api}"), "confirm": confirm, "expect": name });
    let is_default = name.as_str() == crate::auth::DEFAULT_NAMESPACE;
    let fill = json!({
        "call": format!("PUT {api}"),
        "title": format!("Change the namespace {name}"),
        "values": {
            "name": name, "weight": settings.weight, "retention_ms": settings.retention_ms.map(duration_text),
            "suspension_timeout_ms": settings.suspension_timeout_ms.map(duration_text),
        },
        "calls": { "remove": if is_default { serde_json::Value::Null } else { remove } },
    });
    change_button("namespace-dialog", "Change", name, &fill)
}

fn configuration(settings: &[Setting]) -> Markup {
    if settings.is_empty() {
        return empty(
            "No configuration",
            html! { p { "The program in which this server runs has not said how it is set." } },
        );
    }
    html! {
        section aria-labelledby="configuration-title" {
            h2 #configuration-title { "Configuration" }
            p.faint { "How this server was started. A flag comes before a variable, a variable before the file. " code { "selvedge serve --print-config" } " prints the same." }
            @for group in settings.chunk_by(|one, other| one.group == other.group) {
                h3 { @if let Some(first) = group.first() { @if first.group.is_empty() { "General" } @else { (first.group) } } }
                div.table {
                    table.settings {
                        thead { tr { th { "Setting" } th { "Value" } th { "Source" } } }
                        tbody {
                            @for setting in group {
                                tr {
                                    td { code { (setting.name) } }
                                    td { @match &setting.value { Some(value) => code { (user_text(value)) }, None => span.faint { "not set" } } }
                                    td { @if setting.source == "default" { span.faint { "default" } } @else { (user_text(&setting.source)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
