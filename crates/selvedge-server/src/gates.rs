//! What lanes, quotas and budgets have in common: they are configured, shown with their current use, listed and removed.

use crate::Answer;
use crate::auth::Caller;
use crate::fields::Fields;
use crate::json::{self, Object};
use crate::named::{ByName, hex};
use crate::problem::Problem;
use axum::http::StatusCode;
use selvedge_core::gate::{Config, GateKind, GateName, Rate};
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::{Gate, Name, Refusal, Timestamp};
use selvedge_engine::{Error, GateView};

/// A gate as it is shown.
pub struct Shown {
    /// The gate and its current use.
    pub view: GateView,
    /// The store's time.
    pub now: Timestamp,
}

impl Shown {
    /// The gate.
    pub fn gate(&self) -> &Gate {
        &self.view.gate
    }

    /// How it is configured, or its defaults.
    pub fn config(&self) -> Config {
        self.gate().config.clone().unwrap_or_default()
    }
}

/// Checks the name of a gate in a path.
pub fn check_name(name: &str) -> Result<Name, Refusal> {
    Name::parse("/name", name, NAME_LIMIT)
}

/// A gate, with the time.
pub async fn read(caller: &Caller, kind: GateKind, name: &str) -> Result<Shown, Problem> {
    let view = caller.namespace.gate(kind, name).await?;
    Ok(Shown { view, now: caller.namespace.now().await? })
}

/// A page of gates. One that a limit of the page cuts off is not looked at.
pub async fn list(
    caller: &Caller,
    kind: GateKind,
    page: ByName,
    write: impl Fn(&mut Object<'_>, &Shown),
) -> Answer {
    let after = page.after.as_deref().map(Name::trusted);
    let (views, more) = caller.namespace.gates(kind, after.as_ref(), page.limit).await?;
    let now = caller.namespace.now().await?;
    let last = views.last().filter(|_| more).map(|view| hex(&view.gate.name.name));
    Ok(json::answer(StatusCode::OK, |object| {
        object.array("items", views, |out, view| {
            json::object(out, |object| write(object, &Shown { view, now }));
        });
        object.value("next_cursor", &last);
    }))
}

/// Configures a gate: says how it stands then, and with which status to answer.
pub async fn put(
    caller: &Caller,
    kind: GateKind,
    name: &str,
    config: Config,
) -> Result<(StatusCode, Shown), Problem> {
    let done = caller.namespace.configure(kind, name, Some(config), &caller.actor).await?;
    let status = match done.created {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    let view = match caller.namespace.gate(kind, name).await {
        // Somebody has removed it since.
        Err(Error::Refused(Refusal::NotFound { .. })) => {
            GateView { active: done.gate.active.into(), waiting: 0, gate: done.gate }
        }
        view => view?,
    };
    Ok((status, Shown { view, now: caller.namespace.now().await? }))
}

/// Removes the configuration of a gate.
pub async fn remove(caller: &Caller, kind: GateKind, name: &str) -> Answer {
    caller.namespace.configure(kind, name, None, &caller.actor).await?;
    Ok(json::answer(StatusCode::OK, |object| {
        object.value("name", name);
        object.value("removed", &true);
    }))
}

/// Reads the field `rate`.
pub fn read_rate(fields: &mut Fields<'_>) -> Result<Option<Rate>, Refusal> {
    let Some(mut fields) = fields.object("rate")? else {
        return Ok(None);
    };
    let count = fields.count("count")?;
    let window_ms = fields.integer("window_ms")?;
    let rate =
        Rate { count: fields.require("count", count)?, window_ms: fields.require("window_ms", window_ms)? };
    fields.finish()?;
    Ok(Some(rate))
}

/// Writes the limits on starts, and when there is room again in a window that is full.
pub fn write_starts(object: &mut Object<'_>, shown: &Shown) {
    let config = shown.config();
    object.value("concurrency", &config.concurrency);
    object.value("rate", &config.rate);
    let opens_at = config.rate.and_then(|rate| shown.gate().state.starts.opens_at(rate, shown.now));
    // A rate of nothing never has room.
    let opens_at = opens_at.filter(|at| *at < Timestamp::from_micros(i64::MAX));
    object.value("retry_after_ms", &opens_at.map(|at| at.ms_since(shown.now).max(1)));
}

/// Writes the name of a gate.
pub fn write_name(object: &mut Object<'_>, gate: &GateName) {
    object.value("kind", gate.kind.as_str());
    object.value("name", &gate.name);
    object.value("part", &gate.part);
}
