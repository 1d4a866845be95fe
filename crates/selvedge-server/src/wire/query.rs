//! The query of a request.

use crate::AppState;
use crate::wire::views::Include;
use axum::extract::FromRequestParts;
use axum::http::Uri;
use axum::http::request::Parts;
use selvedge_api::Parameters;
use selvedge_api::fields::unknown_word;
use selvedge_api::parameters::refuse;
use selvedge_core::Refusal;
use std::convert::Infallible;
use std::ops::{Deref, DerefMut};

pub use selvedge_api::parameters::check_wait;

/// The query of a request, its parameters taken one by one.
pub struct Query(Parameters);

impl Deref for Query {
    type Target = Parameters;

    fn deref(&self) -> &Parameters {
        &self.0
    }
}

impl DerefMut for Query {
    fn deref_mut(&mut self) -> &mut Parameters {
        &mut self.0
    }
}

impl FromRequestParts<AppState> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &AppState) -> Result<Self, Infallible> {
        Ok(Query(read(&parts.uri)))
    }
}

/// Returns the parameters of an address. Bytes that are not UTF-8 are replaced while decoding, so reading cannot fail.
pub fn read(uri: &Uri) -> Parameters {
    let pairs = axum::extract::Query::try_from_uri(uri);
    Parameters::new(pairs.map_or_else(|_| Vec::new(), |axum::extract::Query(pairs)| pairs))
}

impl Query {
    /// Returns the fields of a form that a browser sent in a body. A body that is no form has none.
    pub fn of_form(body: &[u8]) -> Query {
        let address = std::str::from_utf8(body).ok().and_then(|body| format!("/?{body}").parse::<Uri>().ok());
        Query(address.map_or_else(Parameters::default, |address| read(&address)))
    }

    /// Takes `include`: the fields that items leave out unless it names them. Default: none.
    pub fn include(&mut self) -> Result<Include, Refusal> {
        let mut include = Include::NONE;
        for word in self.text("include")?.unwrap_or_default().split(',').filter(|word| !word.is_empty()) {
            match word {
                "input" => include.input = true,
                "result" => include.result = true,
                "progress" => include.progress = true,
                other => {
                    let known = ["input", "result", "progress"].into_iter();
                    return Err(refuse("include", &unknown_word(other, known)));
                }
            }
        }
        Ok(include)
    }

    /// Refuses any parameter that has not been taken.
    pub fn finish(self) -> Result<(), Refusal> {
        self.0.finish()
    }
}
