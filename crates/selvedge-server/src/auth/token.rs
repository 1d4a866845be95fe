//! Callers that have the token of a waitpoint instead of a key: slowed down like callers with wrong keys.
//!
//! A text that has not the form of a token is refused without the store. A wrong token, and one for a waitpoint that does not exist,
//! count as failures of their address. The token is checked first and only a failure is counted, so a valid token works
//! whatever others at its address do.

use super::{Auth, Connection};
use crate::AppState;
use crate::auth::throttle::client_address;
use crate::wire::problem::{Code, Problem};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use selvedge_core::refusal::TokenReason;
use selvedge_core::{Refusal, token};
use selvedge_engine::Error;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

pub struct TokenHolder {
    address: IpAddr,
    auth: Arc<Auth>,
}

impl FromRequestParts<AppState> for TokenHolder {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Infallible> {
        let peer = parts.extensions.get::<Arc<Connection>>().map(|connection| connection.peer);
        let address = client_address(peer, &parts.headers, &state.auth.options.trusted_proxies);
        Ok(TokenHolder { address, auth: state.auth.clone() })
    }
}

impl TokenHolder {
    /// Makes a call that checks this token. The problem is that of a text that is no token, or of too many failures.
    pub async fn call<T>(
        &self,
        token: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<Result<T, Error>, Problem> {
        if !token::is_well_formed(token) {
            let detail = "this is no token; send the token that came with the waitpoint, unchanged";
            return Err(self.count_failure().unwrap_or(Problem::new(Code::InvalidToken, detail)));
        }
        let _turn = self.auth.turn(self.address).await;
        let result = call.await;
        if let Err(Error::Refused(refusal)) = &result
            && is_failure(refusal)
            && let Some(problem) = self.count_failure()
        {
            return Err(problem);
        }
        Ok(result)
    }

    /// Counts a failure. Returns a problem if the address has failed too often.
    fn count_failure(&self) -> Option<Problem> {
        self.auth
            .too_many_failures(self.address, "too many requests with wrong tokens came from this address")
    }
}

fn is_failure(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Token { reason: TokenReason::Invalid, .. } | Refusal::NotFound { .. })
}
