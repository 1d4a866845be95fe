//! The page that an outside approver opens from a link, `/approve/{id}#TOKEN`: the question of one waitpoint and its choices, and
//! nothing else.
//!
//! The token is in the fragment of the address, which browsers do not send, so no log of a server or proxy has it. The script of the
//! pages moves it into the form and submits that; without a script a person pastes the token. From then on the token is in the
//! bodies of forms only, and it alone authorises the answer, as in `/v1/waitpoints/{id}/signal`.

use super::frame::layout::{self, mark};
use super::parts::answer::{self, confirmation, further_lines, headline};
use super::parts::{ago, moment, user_text};
use crate::AppState;
use crate::auth::TokenHolder;
use crate::routes::HandlerResult;
use crate::routes::waitpoints::no_token;
use crate::wire::body::RequestBody;
use crate::wire::path::PathWaitpoint;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use maud::{Markup, html};
use selvedge_core::Name;
use selvedge_core::rules::signal::SignalDraft;
use selvedge_core::waitpoint::WaitpointStateName;
use selvedge_engine::WaitpointLook;

/// `GET /approve/{id}`: the same page for every id.
pub async fn page(PathWaitpoint(id): PathWaitpoint) -> HandlerResult {
    Ok(frame(html! {
        h1 { "Approval" }
        p.faint { "The link that you were sent has a token. If it is not filled in, paste it here." }
        form method="post" action=(format!("/approve/{id}")) {
            label { "Token" input type="password" name="token" data-token autocomplete="off" required; }
            button.primary type="submit" { "Show the question" }
        }
    }))
}

/// `POST /approve/{id}`: a form with the `token` shows the question, one with a `signal` as well answers it.
pub async fn answer(
    State(state): State<AppState>,
    holder: TokenHolder,
    PathWaitpoint(id): PathWaitpoint,
    body: RequestBody,
) -> HandlerResult {
    let mut fields = body.form();
    let (token, signal, comment) = (fields.text("token")?, fields.text("signal")?, fields.text("comment")?);
    let token = token.ok_or_else(no_token)?;
    let token = token.trim();
    let look = holder.call(token, state.engine.look_at_waitpoint(id, token)).await??;
    let Some(signal) = signal else {
        return Ok(frame(question(&look, token)));
    };
    let label = answer::label(&look.waitpoint, &signal);
    let payload = serde_json::json!({ "comment": comment }).to_string().into();
    let draft = SignalDraft { name: Some(signal), payload, key: None };
    if let Err(error) = holder.call(token, state.engine.deliver(id, token, draft)).await? {
        // Somebody else may have decided since the question was shown.
        let look = state.engine.look_at_waitpoint(id, token).await?;
        return match look.state {
            WaitpointStateName::Open => Err(error.into()),
            WaitpointStateName::Delivered | WaitpointStateName::Expired | WaitpointStateName::Revoked => {
                Ok(frame(question(&look, token)))
            }
        };
    }
    Ok(frame(html! {
        h1 { "Answered" }
        p role="status" { "Your answer “" (user_text(&label)) "” was delivered. You can close this page." }
    }))
}

fn frame(content: Markup) -> Response {
    let content = html! {
        div.sign-in { span.brand { (mark()) "Selvedge" } section.card.stack { (content) } }
    };
    let mut response = layout::bare(StatusCode::OK, "Approval", content);
    response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

fn question(look: &WaitpointLook, token: &str) -> Markup {
    let WaitpointLook { waitpoint, state, .. } = look;
    html! {
        h1 { (user_text(&headline(waitpoint))) }
        (further_lines(waitpoint))
        @match state {
            WaitpointStateName::Open => {
                @if let Some(expires) = waitpoint.expires_at { p.faint { "Open until " (moment(expires)) " UTC." } }
                form.stack method="post" action=(format!("/approve/{}", waitpoint.id)) {
                    input type="hidden" name="token" value=(token);
                    label { "Comment" textarea name="comment" rows="3" {} }
                    div.actions {
                        @for (signal, label) in answer::answers(waitpoint) {
                            button type="submit" name="signal" value=(signal) data-confirm=(confirmation(waitpoint, &label)) data-keep="Back" { (user_text(&label)) }
                        }
                    }
                }
            }
            WaitpointStateName::Delivered => p { "You have answered this already. There is nothing to do." },
            WaitpointStateName::Expired => (closed(look)),
            WaitpointStateName::Revoked => p { "This link was revoked. If you should still answer, ask for a new one." },
        }
    }
}

/// Says why nobody needs an answer any more: who has decided and when, or that the work has ended or the time is over.
fn closed(look: &WaitpointLook) -> Markup {
    let is_over = look.waitpoint.expires_at.is_some_and(|at| at <= look.now);
    html! {
        @if let Some(decision) = &look.decision {
            p {
                (user_text(&people(&decision.by))) @if decision.by.len() == 1 { " has" } @else { " have" }
                " already "
                @match (answer::is_approval(&look.waitpoint), decision.declines) {
                    (true, true) => "rejected this",
                    (true, false) => "approved this",
                    (false, _) => { "answered “" (user_text(&answer::label(&look.waitpoint, &decision.signal))) "”" }
                }
                ", " (ago(decision.at, look.now)) ". There is nothing to do."
            }
        } @else if is_over {
            p { "The time for an answer ended " (ago(look.waitpoint.expires_at.unwrap_or(look.now), look.now)) "." }
        } @else if let Some(outcome) = look.outcome {
            p { "The work that asked this has ended without an answer (" (outcome.as_str()) "). There is nothing to do." }
        } @else {
            p { "This question is not open any more. There is nothing to do." }
        }
    }
}

/// Lists people as the beginning of a sentence.
fn people(names: &[Name]) -> String {
    let listed = match names {
        [] => "somebody".to_owned(),
        [one] => one.to_string(),
        [first @ .., last] => {
            format!("{} and {last}", first.iter().map(Name::as_str).collect::<Vec<_>>().join(", "))
        }
    };
    let mut letters = listed.chars();
    // A name that is a word, not an address of mail, begins the sentence with a capital letter.
    match letters.next().filter(|_| names.first().is_none_or(|name| name.chars().all(char::is_alphabetic))) {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => listed,
    }
}
