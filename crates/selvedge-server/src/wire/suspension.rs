//! A suspension: its waits, their resume conditions, and its waitpoints.

use selvedge_api::fields::{Fields, wrong_type};
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::step::StepKind;
use selvedge_core::submission::When;
use selvedge_core::suspension::{
    Condition, DEPTH_MAX, Distinct, LEAVES_MAX, NAMES_MAX, OnTimeout, WAITS_MAX, WaitDraft,
};
use selvedge_core::waitpoint::{CHOICES_MAX, WAITPOINTS_MAX};
use selvedge_core::{Name, Refusal};
use serde_json::value::RawValue;

/// The fields of a resume condition, of which exactly one must be given.
const CONDITIONS: [&str; 8] =
    ["signal", "any", "all", "count", "until_at", "delay_ms", "operator", "children"];
/// The kinds of steps that a wait can be recorded as.
const WAIT_KINDS: [StepKind; 3] = [StepKind::Wait, StepKind::Sleep, StepKind::Join];

/// Reads the fields of a suspension: the fields of a single wait, or `waits`; and the waitpoints to create with it.
pub fn read_suspend(fields: &mut Fields<'_>) -> Result<(Vec<WaitDraft>, Vec<WaitpointDraft>), Refusal> {
    let waits = match fields.bounded_array("waits", WAITS_MAX)? {
        None => vec![read_wait(fields, "is missing; give condition or waits")?],
        Some(waits) => {
            if fields.object("condition")?.is_some() {
                return Err(
                    fields.refuse("condition", "cannot be combined with waits; give only one of them")
                );
            }
            waits
                .into_iter()
                .map(|(pointer, raw)| read_wait_item(Fields::from_value(raw, pointer)?))
                .collect::<Result<_, _>>()?
        }
    };
    let waitpoints = fields.bounded_array("waitpoints", WAITPOINTS_MAX as usize)?.unwrap_or_default();
    let waitpoints = waitpoints.into_iter().map(|(pointer, raw)| read_waitpoint_item(pointer, raw));
    Ok((waits, waitpoints.collect::<Result<_, _>>()?))
}

fn read_wait_item(mut fields: Fields<'_>) -> Result<WaitDraft, Refusal> {
    let wait = read_wait(&mut fields, "is missing")?;
    fields.finish()?;
    Ok(wait)
}

/// Reads the fields of a wait; `missing` is the detail of a refusal if there is no condition.
fn read_wait(fields: &mut Fields<'_>, missing: &str) -> Result<WaitDraft, Refusal> {
    let step = fields.name("step")?;
    let kind = |word: &str| WAIT_KINDS.into_iter().find(|kind| kind.as_str() == word);
    let kind = fields.word("kind", kind, WAIT_KINDS.map(StepKind::as_str))?;
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
        on_timeout: fields
            .word("on_timeout", OnTimeout::parse, OnTimeout::ALL.map(OnTimeout::as_str))?
            .unwrap_or_default(),
    };
    wait.check(fields.own_pointer())?;
    Ok(wait)
}

fn read_condition(mut fields: Fields<'_>, depth: usize) -> Result<Condition, Refusal> {
    let word = fields.exactly_one(&CONDITIONS)?;
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
            let at: Option<When> = fields.time_or_delay("until_at", "delay_ms")?;
            Condition::until(fields.require(word, at)?)
        }
        "operator" => read_true(&mut fields, word, Condition::operator())?,
        _ => read_true(&mut fields, word, Condition::children())?,
    };
    fields.finish()?;
    Ok(condition)
}

/// Reads the parts of `any` and `all`. Conditions that are nested too deep are not parsed.
fn read_parts(fields: &mut Fields<'_>, word: &'static str, depth: usize) -> Result<Vec<Condition>, Refusal> {
    if depth == DEPTH_MAX {
        return Err(fields
            .refuse(word, format!("is nested too deep; any and all may be nested {DEPTH_MAX} levels deep")));
    }
    let parts = fields.bounded_array(word, LEAVES_MAX)?.unwrap_or_default();
    parts
        .into_iter()
        .map(|(pointer, raw)| read_condition(Fields::from_value(raw, pointer)?, depth + 1))
        .collect()
}

fn read_count(mut fields: Fields<'_>) -> Result<Condition, Refusal> {
    let n = fields.count("n")?;
    let of = fields.bounded_array("of", NAMES_MAX)?;
    let distinct = fields.word("distinct", Distinct::parse, Distinct::ALL.map(Distinct::as_str))?;
    let n = fields.require("n", n)?;
    let of = fields.require("of", of)?;
    let distinct = fields.require("distinct", distinct)?;
    let of = of.into_iter().map(|(pointer, raw)| read_name(&pointer, raw)).collect::<Result<_, _>>()?;
    fields.finish()?;
    Ok(Condition::count(n, of, distinct))
}

/// Reads a condition that has no fields and is given as `true`.
fn read_true(
    fields: &mut Fields<'_>,
    word: &'static str,
    condition: Condition,
) -> Result<Condition, Refusal> {
    match fields.flag(word)? {
        Some(true) => Ok(condition),
        Some(false) | None => Err(fields.refuse(word, "must be true; leave out the field otherwise")),
    }
}

/// Reads a waitpoint that is given as its name or as an object.
fn read_waitpoint_item(pointer: String, raw: &RawValue) -> Result<WaitpointDraft, Refusal> {
    match raw.get().as_bytes().first() {
        Some(b'"') => read_name(&pointer, raw).map(WaitpointDraft::new),
        Some(b'{') => {
            let mut fields = Fields::from_value(raw, pointer)?;
            let waitpoint = read_waitpoint(&mut fields)?;
            fields.finish()?;
            Ok(waitpoint)
        }
        Some(_) | None => Err(wrong_type(&pointer, "a name or an object with a name", raw.get())),
    }
}

pub fn read_waitpoint(fields: &mut Fields<'_>) -> Result<WaitpointDraft, Refusal> {
    let name = fields.name("name")?;
    let source = fields.name("source")?;
    let expires_ms = fields.integer("expires_ms")?;
    let signals = fields.bounded_array("signals", CHOICES_MAX)?;
    let signals = signals.map(|names| names.iter().map(|(pointer, raw)| read_name(pointer, raw)).collect());
    let waitpoint = WaitpointDraft {
        name: fields.require("name", name)?,
        source,
        expires_ms,
        signals: signals.transpose()?,
        prompt: fields.text("prompt")?,
    };
    waitpoint.check(fields.own_pointer())?;
    Ok(waitpoint)
}

fn read_name(pointer: &str, raw: &RawValue) -> Result<Name, Refusal> {
    let text: String =
        serde_json::from_str(raw.get()).map_err(|_| wrong_type(pointer, "a string", raw.get()))?;
    Name::parse(pointer, &text, NAME_LIMIT)
}
