//! A submission on the wire, and what it means: a [`Draft`].

use crate::draws::read_draws;
use crate::fields::Fields;
use bytes::Bytes;
use selvedge_core::{Backoff, Draft, FailureClass, Policy, Refusal, Retry};

/// Reads a submission.
pub fn draft(fields: Fields<'_>) -> Result<Draft, Refusal> {
    Defaults::default().draft(fields)
}

/// What the submissions of one call have where they say nothing themselves. A field of their own wins whole.
pub struct Defaults {
    kind: Option<String>,
    rest: Draft,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults { kind: None, rest: Draft::new("") }
    }
}

impl Defaults {
    /// Reads them. They are checked like a submission, so that whatever is wrong with them is refused here, where they
    /// stand, and not at a submission that has it from them.
    pub fn read(mut fields: Fields<'_>) -> Result<Self, Refusal> {
        let (kind, rest) = read(&mut fields, &Defaults::default().rest)?;
        for (name, given) in [
            ("id", rest.id.is_some()),
            ("idempotency_key", rest.idempotency_key.is_some()),
            ("idempotency_window_ms", rest.idempotency_window_ms.is_some()),
            ("unique_while_active", rest.unique_while_active.is_some()),
        ] {
            if given {
                return Err(fields.refuse(name, "is for one execution and cannot be a default; leave it out"));
            }
        }
        let at = fields.pointer_here().to_owned();
        fields.finish()?;
        let checked = Draft { kind: kind.clone().unwrap_or_else(|| "any".into()), ..rest.clone() };
        checked.check().map_err(|refusal| refusal.under(&at))?;
        Ok(Defaults { kind, rest })
    }

    /// Reads a submission that has them.
    pub fn draft(&self, mut fields: Fields<'_>) -> Result<Draft, Refusal> {
        let (kind, rest) = read(&mut fields, &self.rest)?;
        let kind = kind.or_else(|| self.kind.clone());
        let kind = fields.require("kind", kind)?;
        fields.finish()?;
        Ok(Draft { kind, ..rest })
    }

    /// The input of whoever has none of its own.
    pub fn input(&self) -> &Bytes {
        &self.rest.input
    }
}

/// Reads the fields of a submission, its kind apart: what is not given is as in `base`.
fn read(fields: &mut Fields<'_>, base: &Draft) -> Result<(Option<String>, Draft), Refusal> {
    let policy = &base.policy;
    let kind = fields.text("kind")?;
    let draft = Draft {
        kind: String::new(),
        input: fields.payload("input")?.unwrap_or_else(|| base.input.clone()),
        lane: fields.text("lane")?.unwrap_or_else(|| base.lane.clone()),
        id: fields.id("id")?,
        idempotency_key: fields.text("idempotency_key")?,
        idempotency_window_ms: fields.integer("idempotency_window_ms")?,
        unique_while_active: fields.text("unique_while_active")?,
        priority: fields.integer("priority")?.unwrap_or(base.priority),
        capabilities: fields.texts("capabilities")?.unwrap_or_else(|| base.capabilities.clone()),
        tags: fields.text_map("tags")?.unwrap_or_else(|| base.tags.clone()),
        delay: fields.when("delay_until_at", "delay_ms")?.or(base.delay),
        policy: Policy {
            start_by_ms: fields.integer("start_by_ms")?.or(policy.start_by_ms),
            retry: match fields.object("retry")? {
                Some(fields) => retry(fields)?,
                None => policy.retry.clone(),
            },
            attempt_timeout_ms: fields.integer("attempt_timeout_ms")?.or(policy.attempt_timeout_ms),
            deadline_ms: fields.integer("deadline_ms")?.or(policy.deadline_ms),
            retention_ms: fields.integer("retention_ms")?.unwrap_or(policy.retention_ms),
        },
        draws: read_draws(fields, &base.draws)?,
    };
    Ok((kind, draft))
}

fn retry(mut fields: Fields<'_>) -> Result<Retry, Refusal> {
    let default = Retry::default();
    let retry = Retry {
        max_retries: fields.count("max_retries")?.unwrap_or(default.max_retries),
        max_interruptions: fields.count("max_interruptions")?.unwrap_or(default.max_interruptions),
        retry_on: match fields.texts("retry_on")? {
            Some(words) => classes(&fields, &words)?,
            None => default.retry_on,
        },
        backoff: match fields.object("backoff")? {
            Some(fields) => backoff(fields)?,
            None => default.backoff,
        },
    };
    fields.finish()?;
    Ok(retry)
}

fn classes(fields: &Fields<'_>, words: &[String]) -> Result<Vec<FailureClass>, Refusal> {
    let class =
        |(index, word): (usize, &String)| failure_class(&fields.pointer("retry_on"), Some(index), word);
    words.iter().enumerate().map(class).collect()
}

/// The failure class with this word, which stands at `pointer`, or at `index` in the list there.
pub fn failure_class(pointer: &str, index: Option<usize>, word: &str) -> Result<FailureClass, Refusal> {
    FailureClass::parse(word).ok_or_else(|| {
        let at = index.map_or_else(|| pointer.to_owned(), |index| format!("{pointer}/{index}"));
        let known = FailureClass::ALL.map(FailureClass::as_str).join(", ");
        Refusal::field(&at, format!("is {word:?}; it must be one of {known}"))
    })
}

fn backoff(mut fields: Fields<'_>) -> Result<Backoff, Refusal> {
    let word = fields.text("type")?;
    let backoff = match fields.require("type", word)?.as_str() {
        "fixed" => {
            let delay_ms = fields.integer("delay_ms")?;
            Backoff::Fixed { delay_ms: fields.require("delay_ms", delay_ms)? }
        }
        "exponential" => Backoff::Exponential {
            initial_ms: fields.integer("initial_ms")?.unwrap_or(1000),
            multiplier: fields.number("multiplier")?.unwrap_or(2.0),
            max_ms: fields.integer("max_ms")?.unwrap_or(60_000),
            jitter: fields.flag("jitter")?.unwrap_or(true),
        },
        other => {
            let detail = format!("is {other:?}; it must be fixed or exponential");
            return Err(fields.refuse("type", detail));
        }
    };
    fields.finish()?;
    Ok(backoff)
}
