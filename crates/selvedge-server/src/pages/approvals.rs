//! The page `/approvals`: waitpoints that wait for an answer of a person.

use super::layout::{Page, Viewer, heading};
use super::parts::{address, ago, empty, execution_link, pager, user_text};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::paging::{format_cursor, parse_cursor};
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::filter::ListPosition;
use selvedge_core::waitpoint::{WaitpointFilter, WaitpointPosition, WaitpointStateName};
use selvedge_core::{ExecutionId, Permission, Timestamp, Waitpoint, WaitpointId};

/// The number of waitpoints on a page.
const PAGE: u32 = 50;

/// `GET /approvals`
pub async fn page(caller: Caller, mut query: Query) -> HandlerResult {
    let cursor = query.text("cursor")?;
    query.finish()?;
    let after = cursor.as_deref().map(parse_cursor).transpose()?;
    let after =
        after.map(|place| WaitpointPosition { created_at: place.submitted_at, id: WaitpointId(place.id.0) });
    let namespace = &caller.namespace;
    let filter =
        WaitpointFilter { state: Some(WaitpointStateName::Open), ..WaitpointFilter::all(namespace.id()) };
    let (waitpoints, next) = namespace.list_waitpoints(&filter, None, after, PAGE).await?;
    let now = namespace.now().await?;
    let next = next.map(|place| ListPosition { submitted_at: place.created_at, id: ExecutionId(place.id.0) });
    let next = next.map(|next| address("/approvals", &[("cursor", &format_cursor(next))]));
    let content = html! {
        (heading(html! { "Approvals" }, html! { p.faint { "Executions that wait for an answer of a person." } }))
        section #list data-live aria-label="Open approvals" {
            @if waitpoints.is_empty() {
                (empty("Nothing waits for an answer", html! {
                    p { "A handler asks with " code { "ctx.request_approval" } " or a report with " code { "suspend" } "; the question appears here." }
                }))
            } @else {
                (cards(&waitpoints, now, caller.may(Permission::Operate)))
            }
            (pager(cursor.map(|_| "/approvals".into()), next))
        }
    };
    Ok(Page::new("Approvals", "/approvals").live("/live").response(Some(&Viewer::of(&caller)), content))
}

/// Shows open waitpoints, with a button for each choice if the person may answer.
pub fn cards(waitpoints: &[Waitpoint], now: Timestamp, may_answer: bool) -> Markup {
    html! {
        div.cards {
            @for waitpoint in waitpoints.iter().filter(|waitpoint| waitpoint.is_open(now)) {
                article.card.stack {
                    h2.question { (user_text(waitpoint.prompt.as_deref().unwrap_or(&waitpoint.name))) }
                    p.faint {
                        (user_text(&waitpoint.name)) " · " (execution_link(waitpoint.execution)) " · asked "
                        (ago(waitpoint.created_at, now))
                        @if let Some(expires) = waitpoint.expires_at { " · expires " (ago(expires, now)) }
                    }
                    @if may_answer { (answers(waitpoint)) }
                }
            }
        }
    }
}

/// Shows a form for each signal that answers a waitpoint.
fn answers(waitpoint: &Waitpoint) -> Markup {
    let call = format!("POST /v1/waitpoints/{}/answer", waitpoint.id);
    html! {
        div.actions.needs-script {
            @for choice in waitpoint.choices() {
                form data-call=(call) data-done="Answered." method="post" {
                    input type="hidden" name="name" value=(choice);
                    button type="submit" class=[(choice == &waitpoint.name).then_some("primary")] { (user_text(choice)) }
                }
            }
        }
    }
}
