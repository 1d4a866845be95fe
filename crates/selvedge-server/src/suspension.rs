//! What a worker suspends its execution for, on the wire: waits, their conditions, and waitpoints.

use crate::fields::{Fields, wrong_type};
use crate::graph::word;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::step::StepKind;
use selvedge_core::submission::When;
use selvedge_core::suspension::{
    Condition, DEPTH_MAX, Distinct, LEAVES_MAX, NAMES_MAX, OnTimeout, WAITS_MAX, WaitDraft,
};
use selvedge_core::waitpoint::WAITPOINTS_MAX;
use selvedge_core::{Name, Refusal};
use serde_json::value::RawValue;

/// What a condition may be.
const CONDITIONS: [&str; 8] =
    ["signal", "any", "all", "count", "until_at", "delay_ms", "operator", "children"];
/// What a step that is waited for may be.
const WAIT_KINDS: [StepKind; 3] = [StepKind::Wait, StepKind::Sleep, StepKind::Join];

/// Reads the fields of a suspension: one wait, or `waits`; and the waitpoints to make with it.
pub fn read_suspend(fields: &mut Fields<'_>) -> Result<(Vec<WaitDraft>, Vec<WaitpointDraft>), Refusal> {
    let waits = match fields.list("waits", WAITS_MAX)? {
        None => vec![read_wait(fields, "is missing; give condition or waits")?],
        Some(waits) => {
            if fields.object("condition")?.is_some() {
                return Err(fields.refuse("condition", "excludes waits; give only one of them"));
            }
            waits
                .into_iter()
                .map(|(at, raw)| read_one_wait(Fields::of(raw, at)?))
                .collect::<Result<_, _>>()?
        }
    };
    let waitpoints = fields.list("waitpoints", WAITPOINTS_MAX as usize)?.unwrap_or_default();
    let waitpoints = waitpoints.into_iter().map(|(at, raw)| read_named_waitpoint(at, raw));
    Ok((waits, waitpoints.collect::<Result<_, _>>()?))
}

fn read_one_wait(mut fields: Fields<'_>) -> Result<WaitDraft, Refusal> {
    let wait = read_wait(&mut fields, "is missing")?;
    fields.finish()?;
    Ok(wait)
}

fn read_wait(fields: &mut Fields<'_>, missing: &str) -> Result<WaitDraft, Refusal> {
    let step = fields.name("step")?;
    let kind = |word: &str| WAIT_KINDS.into_iter().find(|kind| kind.as_str() == word);
    let kind = word(fields, "kind", kind, WAIT_KINDS.map(StepKind::as_str))?;
    let step = match (step, kind) {
        (Some(name), kind) => Some((name, kind.unwrap_or(StepKind::Wait))),
        (None, None) => None,
        (None, Some(_)) => return Err(fields.refuse("kind", "is the kind of a step; give step as well")),
    };
    let condition = fields.object("condition")?;
    let condition = condition.ok_or_else(|| fields.refuse("condition", missing))?;
    let wait = WaitDraft {
        step,
        condition: read_condition(condition, 0)?,
        timeout_ms: fields.integer("timeout_ms")?,
        on_timeout: word(fields, "on_timeout", OnTimeout::parse, OnTimeout::ALL.map(OnTimeout::as_str))?
            .unwrap_or_default(),
    };
    wait.check(fields.pointer_here())?;
    Ok(wait)
}

fn read_condition(mut fields: Fields<'_>, depth: usize) -> Result<Condition, Refusal> {
    let word = fields.only(&CONDITIONS)?;
    let condition = match word {
        "signal" => {
            let name = fields.name(word)?;
            Condition::signal(fields.require(word, name)?)
        }
        "any" => Condition::Any(read_parts(&mut fields, word, depth)?),
        "all" => Condition::All(read_parts(&mut fields, word, depth)?),
        "count" => {
            let count = fields.object(word)?;
            read_count(fields.require(word, count)?)?
        }
        "until_at" | "delay_ms" => {
            let at: Option<When> = fields.when("until_at", "delay_ms")?;
            Condition::until(fields.require(word, at)?)
        }
        "operator" => read_true(&mut fields, word, Condition::operator())?,
        _ => read_true(&mut fields, word, Condition::children())?,
    };
    fields.finish()?;
    Ok(condition)
}

/// Reads the parts of `any` and `all`. What is nested too deep is not looked into.
fn read_parts(fields: &mut Fields<'_>, word: &'static str, depth: usize) -> Result<Vec<Condition>, Refusal> {
    if depth == DEPTH_MAX {
        return Err(fields.refuse(word, format!("is nested too deep; at most {DEPTH_MAX} of any and all")));
    }
    let parts = fields.list(word, LEAVES_MAX)?.unwrap_or_default();
    parts.into_iter().map(|(at, raw)| read_condition(Fields::of(raw, at)?, depth + 1)).collect()
}

fn read_count(mut fields: Fields<'_>) -> Result<Condition, Refusal> {
    let n = fields.count("n")?;
    let of = fields.list("of", NAMES_MAX)?;
    let distinct = word(&mut fields, "distinct", Distinct::parse, Distinct::ALL.map(Distinct::as_str))?;
    let n = fields.require("n", n)?;
    let of = fields.require("of", of)?;
    let distinct = fields.require("distinct", distinct)?;
    let of = of.into_iter().map(|(at, raw)| read_name(&at, raw)).collect::<Result<_, _>>()?;
    fields.finish()?;
    Ok(Condition::count(n, of, distinct))
}

fn read_true(
    fields: &mut Fields<'_>,
    word: &'static str,
    condition: Condition,
) -> Result<Condition, Refusal> {
    match fields.flag(word)? {
        Some(true) => Ok(condition),
        Some(false) | None => {
            Err(fields.refuse(word, "must be true; leave it out where it should not count"))
        }
    }
}

/// Reads a waitpoint that is given by its name, or whole.
fn read_named_waitpoint(at: String, raw: &RawValue) -> Result<WaitpointDraft, Refusal> {
    match raw.get().as_bytes().first() {
        Some(b'"') => read_name(&at, raw).map(WaitpointDraft::new),
        Some(b'{') => {
            let mut fields = Fields::of(raw, at)?;
            let waitpoint = read_waitpoint(&mut fields)?;
            fields.finish()?;
            Ok(waitpoint)
        }
        Some(_) | None => Err(wrong_type(&at, "a name, or an object with one", raw.get())),
    }
}

/// Reads the fields of a waitpoint.
pub fn read_waitpoint(fields: &mut Fields<'_>) -> Result<WaitpointDraft, Refusal> {
    let name = fields.name("name")?;
    let source = fields.name("source")?;
    let expires_ms = fields.integer("expires_ms")?;
    let waitpoint = WaitpointDraft { name: fields.require("name", name)?, source, expires_ms };
    waitpoint.check(fields.pointer_here())?;
    Ok(waitpoint)
}

fn read_name(at: &str, raw: &RawValue) -> Result<Name, Refusal> {
    let text: String = serde_json::from_str(raw.get()).map_err(|_| wrong_type(at, "a string", raw.get()))?;
    Name::parse(at, &text, NAME_LIMIT)
}
