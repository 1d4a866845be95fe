//! What stands in the address of a call: ids in its path, and its query, taken one by one like the fields of a body.

use crate::App;
use crate::fields::NO_TIME;
use crate::problem::{Code, Problem};
use crate::times;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use selvedge_core::{ExecutionId, FlowId, Refusal, Timestamp, WaitpointId};
use std::convert::Infallible;
use std::time::Duration;
use uuid::Uuid;

/// The longest wait of a call.
pub const WAIT_MAX_MS: i64 = 60_000;
/// How many items a page has when nothing is said.
const LIMIT_DEFAULT: u32 = 50;
/// How many items a page has at most.
const LIMIT_MAX: u32 = 500;

/// The execution in a path.
pub struct Id(pub ExecutionId);

impl FromRequestParts<App> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        path_id(parts, app, "execution").await.map(|id| Id(ExecutionId(id)))
    }
}

/// The flow in a path.
pub struct OfFlow(pub FlowId);

impl FromRequestParts<App> for OfFlow {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        path_id(parts, app, "flow").await.map(|id| OfFlow(FlowId(id)))
    }
}

/// The waitpoint in a path.
pub struct OfWaitpoint(pub WaitpointId);

impl FromRequestParts<App> for OfWaitpoint {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        path_id(parts, app, "waitpoint").await.map(|id| OfWaitpoint(WaitpointId(id)))
    }
}

async fn path_id(parts: &mut Parts, app: &App, what: &str) -> Result<Uuid, Problem> {
    let text = path_part(parts, app, "id").await?;
    Uuid::parse_str(&text).map_err(|_| {
        let detail = format!("there is no {what} {text:?}; ids of {what}s are UUIDs");
        Problem::new(Code::NotFound, detail)
    })
}

/// The worker's instance in a path.
pub struct Instance(pub String);

impl FromRequestParts<App> for Instance {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        path_part(parts, app, "instance").await.map(Instance)
    }
}

/// The name in a path.
pub struct WithName(pub String);

impl FromRequestParts<App> for WithName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        path_part(parts, app, "name").await.map(WithName)
    }
}

async fn path_part(parts: &mut Parts, app: &App, name: &str) -> Result<String, Problem> {
    let unreadable = || Problem::new(Code::NotFound, "the path is not UTF-8 text");
    let params = RawPathParams::from_request_parts(parts, app).await.map_err(|_| unreadable())?;
    let part = params.iter().find(|(other, _)| *other == name);
    part.map(|(_, value)| value.to_owned()).ok_or_else(unreadable)
}

/// The query of a call. An empty value counts as left out.
pub struct Query {
    left: Vec<(String, String)>,
    asked: Vec<&'static str>,
}

impl FromRequestParts<App> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, Infallible> {
        // Text that cannot be decoded is decoded as far as possible; nothing else can go wrong.
        let left = axum::extract::Query::try_from_uri(&parts.uri)
            .map_or_else(|_| Vec::new(), |axum::extract::Query(pairs)| pairs);
        let asked = Vec::new();
        Ok(Query { left, asked })
    }
}

impl Query {
    /// Takes text.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, Refusal> {
        self.asked.push(name);
        let (found, left): (Vec<_>, Vec<_>) = self.left.drain(..).partition(|(other, _)| other == name);
        self.left = left;
        if found.len() > 1 {
            return Err(refuse(name, "is given twice; give it once"));
        }
        let value = found.into_iter().next().map(|(_, value)| value);
        Ok(value.filter(|value| !value.is_empty()))
    }

    fn parsed<T>(
        &mut self,
        name: &'static str,
        wanted: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Refusal> {
        let text = self.text(name)?;
        text.map(|text| parse(&text).ok_or_else(|| refuse(name, wanted))).transpose()
    }

    /// Takes an id.
    pub fn id(&mut self, name: &'static str) -> Result<Option<Uuid>, Refusal> {
        self.parsed(name, "must be a UUID", |text| Uuid::parse_str(text).ok())
    }

    /// Takes a count: a whole number from 0 to 4294967295.
    pub fn count(&mut self, name: &'static str) -> Result<Option<u32>, Refusal> {
        self.parsed(name, "must be an integer between 0 and 4294967295", |text| text.parse().ok())
    }

    /// Takes `now`, `beginning` or a time; `word` turns the words into something.
    pub fn time_or<T>(
        &mut self,
        name: &'static str,
        word: impl FnOnce(&str) -> Option<T>,
        time: impl FnOnce(Timestamp) -> T,
    ) -> Result<Option<T>, Refusal> {
        let parse = |text: &str| word(text).or_else(|| times::parse(text).map(time));
        self.parsed(name, &format!("must be now, beginning, or {NO_TIME}"), parse)
    }

    /// Takes `wait_ms`.
    pub fn wait(&mut self) -> Result<Duration, Refusal> {
        let ms = self.parsed("wait_ms", "must be an integer", |text| text.parse().ok())?;
        wait(&pointer("wait_ms"), ms)
    }

    /// Takes `limit`.
    pub fn limit(&mut self) -> Result<u32, Refusal> {
        let in_range = |text: &str| text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
        let limit = self.parsed("limit", "must be an integer between 1 and 500", in_range)?;
        Ok(limit.unwrap_or(LIMIT_DEFAULT))
    }

    /// Nothing may be left.
    pub fn finish(self) -> Result<(), Refusal> {
        match self.left.first() {
            None => Ok(()),
            Some((name, _)) => Err(Refusal::UnknownField {
                pointer: pointer(name),
                detail: match self.asked.is_empty() {
                    true => "this call takes no query".into(),
                    false => format!("there is no such parameter; there are {}", self.asked.join(", ")),
                },
            }),
        }
    }
}

/// How long a call may wait: `ms`, or not at all.
pub fn wait(pointer: &str, ms: Option<i64>) -> Result<Duration, Refusal> {
    let ms = ms.unwrap_or(0);
    if !(0..=WAIT_MAX_MS).contains(&ms) {
        let detail = format!("is {ms}; it must lie between 0 and {WAIT_MAX_MS}");
        return Err(Refusal::field(pointer, detail));
    }
    Ok(Duration::from_millis(ms.unsigned_abs()))
}

fn pointer(name: &str) -> String {
    format!("/query/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn refuse(name: &str, detail: &str) -> Refusal {
    Refusal::field(&pointer(name), detail)
}
