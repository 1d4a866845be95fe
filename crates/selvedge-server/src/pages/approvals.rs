//! The page `/approvals`: waitpoints that wait for an answer of a person, and those that were answered or have expired.

use super::frame::layout::{Page, Viewer, heading};
use super::parts::answer::{self, confirmation, further_lines, headline};
use super::parts::forms::call_button;
use super::parts::table::table_of;
use super::parts::{address, ago, empty, execution_link, labelled_state, maybe_ago, pager, user_text};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::paging::{format_cursor, parse_cursor};
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::filter::ListPosition;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::state::StateName;
use selvedge_core::waitpoint::{WaitpointFilter, WaitpointPosition, WaitpointStateName};
use selvedge_core::{ExecutionId, Name, Permission, Timestamp, Waitpoint, WaitpointId};

/// The number of waitpoints on a page.
const PAGE: u32 = 50;

/// `GET /approvals`
pub async fn page(caller: Caller, mut query: Query) -> HandlerResult {
    let cursor = query.text("cursor")?;
    let words = WaitpointStateName::ALL.map(WaitpointStateName::as_str).join(", ");
    let state = query.parsed("state", &format!("must be one of {words}"), WaitpointStateName::parse)?;
    let source = query.text("source")?;
    query.finish()?;
    let state = state.unwrap_or(WaitpointStateName::Open);
    let source_name =
        source.as_deref().map(|text| Name::parse("/query/source", text, NAME_LIMIT)).transpose()?;
    let after = cursor.as_deref().map(parse_cursor).transpose()?;
    let after =
        after.map(|place| WaitpointPosition { created_at: place.submitted_at, id: WaitpointId(place.id.0) });
    let namespace = &caller.namespace;
    let filter = WaitpointFilter { namespace: namespace.id(), state: Some(state), source: source_name };
    let (waitpoints, next) = namespace.list_waitpoints(&filter, None, after, PAGE).await?;
    let now = namespace.now().await?;
    let source = source.unwrap_or_default();
    let next = next.map(|place| ListPosition { submitted_at: place.created_at, id: ExecutionId(place.id.0) });
    let next = next.map(|next| here(state, &source, Some(&format_cursor(next))));
    let content = html! {
        (heading(html! { "Approvals" }, html! { p.faint { "Executions that wait for an answer of a person." } }))
        (filters(state, &source))
        section #list data-live aria-label="Approvals" {
            @if waitpoints.is_empty() { (nothing(state, &source)) }
            @else if state == WaitpointStateName::Open { (cards(&waitpoints, now, caller.may(Permission::Operate))) }
            @else { (table(&waitpoints, now)) }
            (pager(cursor.map(|_| here(state, &source, None)), next))
        }
    };
    Ok(Page::new("Approvals", "/approvals").live("/live").response(Some(&Viewer::of(&caller)), content))
}

/// Returns the address of a page of waitpoints.
fn here(state: WaitpointStateName, source: &str, cursor: Option<&str>) -> String {
    let state = if state == WaitpointStateName::Open { "" } else { state.as_str() };
    let pairs = [("state", state), ("source", source), ("cursor", cursor.unwrap_or_default())];
    let given: Vec<(&str, &str)> = pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    address("/approvals", &given)
}

fn filters(state: WaitpointStateName, source: &str) -> Markup {
    html! {
        div.heading.filter-line {
            nav.tabs aria-label="State of approvals" {
                @for one in WaitpointStateName::ALL {
                    a href=(here(one, source, None)) aria-current=[(one == state).then_some("page")] { (label(one)) }
                }
            }
            form.inline method="get" action="/approvals" role="search" aria-label="Filter of approvals" {
                @if state != WaitpointStateName::Open { input type="hidden" name="state" value=(state.as_str()); }
                label { span.visually-hidden { "Who is asked" } input type="text" name="source" value=(source) placeholder="who is asked" autocomplete="off" data-filter; }
                button type="submit" { "Filter" }
                @if !source.is_empty() { a.button href=(here(state, "", None)) { "Clear" } }
            }
        }
    }
}

fn label(state: WaitpointStateName) -> &'static str {
    match state {
        WaitpointStateName::Open => "Open",
        WaitpointStateName::Delivered => "Answered",
        WaitpointStateName::Expired => "Expired",
        WaitpointStateName::Revoked => "Revoked",
    }
}

fn nothing(state: WaitpointStateName, source: &str) -> Markup {
    if !source.is_empty() {
        return empty(
            "No approval matches",
            html! { p { "Nobody of this name is asked. " a href=(here(state, "", None)) { "Show all" } "." } },
        );
    }
    match state {
        WaitpointStateName::Open => empty(
            "Nothing waits for an answer",
            html! { p { "A handler asks with " code { "ctx.request_approval" } " or a report with " code { "suspend" } "; the question appears here." } },
        ),
        WaitpointStateName::Delivered => empty("Nothing was answered yet", html! {}),
        WaitpointStateName::Expired => empty("Nothing has expired", html! {}),
        WaitpointStateName::Revoked => empty("Nothing was revoked", html! {}),
    }
}

/// Shows open waitpoints, with a button for each choice if the person may answer.
pub fn cards(waitpoints: &[Waitpoint], now: Timestamp, may_answer: bool) -> Markup {
    html! {
        div.cards {
            @for waitpoint in waitpoints.iter().filter(|waitpoint| waitpoint.is_open(now)) {
                article.card.stack {
                    h2.question { (user_text(&headline(waitpoint))) }
                    (further_lines(waitpoint))
                    dl.facts {
                        div { dt { "Asked" } dd { (user_text(&waitpoint.source)) } }
                        div { dt { "Since" } dd { (ago(waitpoint.created_at, now)) } }
                        div { dt { "Expires" } dd { (maybe_ago(waitpoint.expires_at, now)) } }
                        div { dt { "Execution" } dd { (execution_link(waitpoint.execution)) } }
                    }
                    @if may_answer { (answers(waitpoint)) }
                }
            }
        }
    }
}

/// Shows the form that answers a waitpoint: a comment, and a button for each answer, which asks once more.
fn answers(waitpoint: &Waitpoint) -> Markup {
    let api = format!("/v1/waitpoints/{}", waitpoint.id);
    let renew = "Make a new link? The old one no longer works.";
    let revoke =
        "Take the question back? Its link no longer works, and the execution waits for something else.";
    html! {
        form.fields.needs-script data-call=(format!("POST {api}/answer")) data-once method="post" {
            label { "Comment" textarea name="payload.comment" rows="2" {} }
            div.actions {
                @for (signal, label) in answer::answers(waitpoint) {
                    button type="submit" name="name" value=(signal) data-confirm=(confirmation(waitpoint, &label)) data-keep="Back"
                        data-done=(format!("Answered: {label}.")) { (user_text(&label)) }
                }
            }
        }
        details.needs-script {
            summary { "The link of the person who is asked" }
            div.actions {
                form data-call=(format!("POST {api}/reissue")) data-done="The new link is valid." data-confirm=(renew) data-reveals="token"
                    data-reveal-title="Link of the approver" data-reveal-prefix=(format!("/approve/{}#", waitpoint.id)) method="post" {
                    button type="submit" { "New link" }
                }
                (call_button(&format!("POST {api}/revoke"), "Revoke", "Revoked.", Some(revoke), &[]))
            }
        }
    }
}

fn table(waitpoints: &[Waitpoint], now: Timestamp) -> Markup {
    let columns = html! { th { "Question" } th { "State" } th { "Asked" } th { "Execution" } th { "Since" } th { "Expires" } };
    let rows = html! {
        @for waitpoint in waitpoints {
            @let state = match waitpoint.state_at(now) {
                WaitpointStateName::Open => (StateName::Waiting, "open"),
                WaitpointStateName::Delivered => (StateName::Completed, "answered"),
                WaitpointStateName::Expired => (StateName::Expired, "expired"),
                WaitpointStateName::Revoked => (StateName::Cancelled, "revoked"),
            };
            tr {
                td { (user_text(&headline(waitpoint))) }
                td { (labelled_state(state.0, state.1)) }
                td { (user_text(&waitpoint.source)) }
                td.id { (execution_link(waitpoint.execution)) }
                td.nowrap { (ago(waitpoint.created_at, now)) }
                td.nowrap { (maybe_ago(waitpoint.expires_at, now)) }
            }
        }
    };
    table_of(columns, rows)
}
