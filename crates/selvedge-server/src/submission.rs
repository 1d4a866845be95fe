//! A submission on the wire, and what it means: a [`Draft`].

use crate::fields::Fields;
use selvedge_core::policy::DEFAULT_RETENTION_MS;
use selvedge_core::{Backoff, Draft, FailureClass, Policy, Refusal, Retry};

/// Fields that the API has and this version does not.
const NOT_YET: [&str; 4] = ["budgets", "quotas", "concurrency", "fairness_key"];

/// Reads a submission.
pub fn draft(mut fields: Fields<'_>) -> Result<Draft, Refusal> {
    let kind = fields.text("kind")?;
    let draft = Draft {
        kind: fields.require("kind", kind)?,
        input: fields.payload("input")?,
        lane: fields.text("lane")?.unwrap_or_else(|| "default".into()),
        id: fields.id("id")?,
        idempotency_key: fields.text("idempotency_key")?,
        idempotency_window_ms: fields.integer("idempotency_window_ms")?,
        unique_while_active: fields.text("unique_while_active")?,
        priority: fields.integer("priority")?.unwrap_or(0),
        capabilities: fields.texts("capabilities")?.unwrap_or_default(),
        tags: fields.text_map("tags")?.unwrap_or_default(),
        delay: fields.when("delay_until_at", "delay_ms")?,
        policy: Policy {
            start_by_ms: fields.integer("start_by_ms")?,
            retry: match fields.object("retry")? {
                Some(fields) => retry(fields)?,
                None => Retry::default(),
            },
            attempt_timeout_ms: fields.integer("attempt_timeout_ms")?,
            deadline_ms: fields.integer("deadline_ms")?,
            retention_ms: fields.integer("retention_ms")?.unwrap_or(DEFAULT_RETENTION_MS),
        },
    };
    fields.not_yet(&NOT_YET)?;
    fields.finish()?;
    Ok(draft)
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
