//! The page that an outside approver opens from a link, `/approve/{id}#TOKEN`: the question of one waitpoint and its choices, and
//! nothing else.
//!
//! The token is in the fragment of the address, which browsers do not send, so no log of a server or proxy has it. The script of the
//! pages moves it into the form and submits that; without a script a person pastes the token. From then on the token is in the
//! bodies of forms only, and it alone authorises the answer, as in `/v1/waitpoints/{id}/signal`.

use super::layout::{self, mark};
use super::parts::{moment, user_text};
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
use selvedge_core::Waitpoint;
use selvedge_core::rules::signal::SignalDraft;
use selvedge_core::waitpoint::WaitpointStateName;

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
    let Some(signal) = signal else {
        let looked = holder.call(token, state.engine.look_at_waitpoint(id, token)).await?;
        let (waitpoint, state) = looked?;
        return Ok(frame(question(&waitpoint, state, token)));
    };
    let payload = serde_json::json!({ "comment": comment }).to_string().into();
    let draft = SignalDraft { name: Some(signal.clone()), payload, key: None };
    holder.call(token, state.engine.deliver(id, token, draft)).await??;
    Ok(frame(html! {
        h1 { "Answered" }
        p role="status" { "Your answer “" (user_text(&signal)) "” was delivered. You can close this page." }
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

fn question(waitpoint: &Waitpoint, state: WaitpointStateName, token: &str) -> Markup {
    html! {
        h1 { (user_text(waitpoint.prompt.as_deref().unwrap_or(&waitpoint.name))) }
        @match state {
            WaitpointStateName::Open => {
                @if let Some(expires) = waitpoint.expires_at { p.faint { "Open until " (moment(expires)) " UTC." } }
                form.stack method="post" action=(format!("/approve/{}", waitpoint.id)) {
                    input type="hidden" name="token" value=(token);
                    label { "Comment" textarea name="comment" rows="3" {} }
                    div.actions {
                        @for choice in waitpoint.choices() {
                            button type="submit" name="signal" value=(choice) class=[(choice == &waitpoint.name).then_some("primary")] { (user_text(choice)) }
                        }
                    }
                }
            }
            WaitpointStateName::Delivered => p { "It has been answered already." },
            WaitpointStateName::Expired => p { "It has expired." },
            WaitpointStateName::Revoked => p { "It was revoked." },
        }
    }
}
