//! Code shared by lanes, quotas and budgets: configuration, current use, lists and removal.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::json::{self, Object};
use crate::wire::paging::{NamePage, name_cursor};
use crate::wire::problem::Problem;
use axum::http::StatusCode;
use selvedge_api::fields::Fields;
use selvedge_core::gate::patch::{Change, ConfigPatch, RatePatch};
use selvedge_core::gate::{Config, GateKind, Rate};
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::CallKey;
use selvedge_core::rules::gates::configure::Configured;
use selvedge_core::rules::keyed::Answered;
use selvedge_core::{Gate, Name, Refusal, Timestamp};
use selvedge_engine::{Error, GateView};

/// A gate and its use at a point in time.
pub struct GateSnapshot {
    /// The gate and its current use.
    pub view: GateView,
    /// The store's time of the snapshot.
    pub now: Timestamp,
}

impl GateSnapshot {
    /// Returns the gate.
    pub fn gate(&self) -> &Gate {
        &self.view.gate
    }

    /// Returns the gate's configuration, or the defaults if it is not configured.
    pub fn config(&self) -> Config {
        self.gate().config.clone().unwrap_or_default()
    }
}

/// Checks the name of a gate in a path.
pub fn check_name(name: &str) -> Result<Name, Refusal> {
    Name::parse("/name", name, NAME_LIMIT)
}

pub async fn read(caller: &Caller, kind: GateKind, name: &str) -> Result<GateSnapshot, Problem> {
    let view = caller.namespace.gate(kind, name).await?;
    Ok(GateSnapshot { view, now: caller.namespace.now().await? })
}

/// Returns a page of the gates of one kind.
pub async fn list(
    caller: &Caller,
    kind: GateKind,
    page: NamePage,
    write: impl Fn(&mut Object<'_>, &GateSnapshot),
) -> HandlerResult {
    let after = page.after.as_deref().map(Name::trusted);
    let (views, more) = caller.namespace.gates(kind, after.as_ref(), page.limit).await?;
    let now = caller.namespace.now().await?;
    let next_cursor = views.last().filter(|_| more).map(|view| name_cursor(&view.gate.name.name));
    Ok(json::response(StatusCode::OK, |object| {
        object.array("items", views, |out, view| {
            json::object(out, |object| write(object, &GateSnapshot { view, now }));
        });
        object.value("next_cursor", &next_cursor);
    }))
}

/// Configures a gate. Returns the status of the response and the configured gate.
pub async fn put(
    caller: &Caller,
    kind: GateKind,
    name: &str,
    config: Config,
) -> Result<(StatusCode, GateSnapshot), Problem> {
    let configured = caller.namespace.configure(kind, name, Some(config), &caller.actor).await?;
    let status = match configured.created {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok((status, read_configured(caller, kind, name, configured).await?))
}

/// Changes the configuration of a gate as a JSON merge patch says. Returns the configured gate.
pub async fn patch(
    caller: &Caller,
    kind: GateKind,
    name: &str,
    patch: ConfigPatch,
) -> Result<GateSnapshot, Problem> {
    Ok(patch_once(caller, (kind, name), patch, None).await?.done)
}

/// Changes a gate, unless a call with the same key did that before.
pub async fn patch_once(
    caller: &Caller,
    (kind, name): (GateKind, &str),
    patch: ConfigPatch,
    call_key: Option<CallKey>,
) -> Result<Answered<GateSnapshot>, Problem> {
    let calls = caller.namespace.keyed(call_key);
    let Answered { done, duplicate } = calls.patch_gate(kind, name, patch, &caller.actor).await?;
    let done = read_configured(caller, kind, name, done).await?;
    Ok(Answered { done, duplicate })
}

/// Reads a gate that was just configured.
async fn read_configured(
    caller: &Caller,
    kind: GateKind,
    name: &str,
    configured: Configured,
) -> Result<GateSnapshot, Problem> {
    let view = match caller.namespace.gate(kind, name).await {
        // Another request has removed the gate since.
        Err(Error::Refused(Refusal::NotFound { .. })) => {
            GateView { active: configured.gate.active.into(), waiting: 0, gate: configured.gate }
        }
        view => view?,
    };
    Ok(GateSnapshot { view, now: caller.namespace.now().await? })
}

/// Removes the configuration of a gate.
pub async fn remove(caller: &Caller, kind: GateKind, name: &str) -> HandlerResult {
    caller.namespace.configure(kind, name, None, &caller.actor).await?;
    Ok(json::response(StatusCode::OK, |object| {
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

/// Reads the change of a field in a JSON merge patch: `read` takes the field, and returns none if it is null or absent.
pub fn read_change<'a, T>(
    fields: &mut Fields<'a>,
    name: &'static str,
    read: impl FnOnce(&mut Fields<'a>, &'static str) -> Result<Option<T>, Refusal>,
) -> Result<Change<T>, Refusal> {
    let cleared = fields.is_null(name);
    Ok(match read(fields, name)? {
        Some(value) => Change::Set(value),
        None if cleared => Change::Clear,
        None => Change::Keep,
    })
}

/// Reads the change of the field `rate` in a JSON merge patch.
pub fn read_rate_change(fields: &mut Fields<'_>) -> Result<Change<RatePatch>, Refusal> {
    read_change(fields, "rate", |fields, name| {
        let Some(mut fields) = fields.object(name)? else { return Ok(None) };
        let patch = RatePatch {
            count: read_change(&mut fields, "count", Fields::count)?,
            window_ms: read_change(&mut fields, "window_ms", Fields::integer)?,
        };
        fields.finish()?;
        Ok(Some(patch))
    })
}

/// Writes the limits on starts, and the delay until a full rate window admits the next start.
pub fn write_start_limits(object: &mut Object<'_>, gate: &GateSnapshot) {
    let config = gate.config();
    object.value("concurrency", &config.concurrency);
    object.value("rate", &config.rate);
    let opens_at = config.rate.and_then(|rate| gate.gate().state.starts.opens_at(rate, gate.now));
    // A rate of 0 never admits a start.
    let opens_at = opens_at.filter(|at| *at < Timestamp::from_micros(i64::MAX));
    object.value("retry_after_ms", &opens_at.map(|at| at.ms_since(gate.now).max(1)));
}
