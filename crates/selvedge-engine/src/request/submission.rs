//! A submission, read into a [`Draft`].

use crate::request::draws::read_draws;
use bytes::Bytes;
use selvedge_api::fields::{Fields, unknown_word};
use selvedge_core::submission::Debounce;
use selvedge_core::{Backoff, Draft, FailureClass, Policy, Refusal, Retry, TraceParent};

/// Reads a submission without defaults. `trace` is the span that submits it.
pub fn read_submission(fields: Fields<'_>, trace: Option<TraceParent>) -> Result<Draft, Refusal> {
    Defaults::default().with_trace(trace).read_submission(fields)
}

/// The values of fields that the submissions of one request leave out. A submission's own field replaces the default
/// entirely; objects are not merged.
pub struct Defaults {
    kind: Option<String>,
    /// The other fields; its `kind` is empty.
    draft: Draft,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults { kind: None, draft: Draft { gives_retention: false, gives_retry: false, ..Draft::new("") } }
    }
}

impl Defaults {
    /// Reads the defaults and checks them like a submission, so that a wrong default is refused with its own pointer
    /// and not with that of a submission that takes it.
    pub fn read(mut fields: Fields<'_>) -> Result<Self, Refusal> {
        let (kind, draft) = read_fields(&mut fields, &Defaults::default().draft)?;
        for (name, given) in [
            ("id", draft.id.is_some()),
            ("idempotency_key", draft.idempotency_key.is_some()),
            ("idempotency_window_ms", draft.idempotency_window_ms.is_some()),
            ("unique_while_active", draft.unique_while_active.is_some()),
            ("debounce", draft.debounce.is_some()),
        ] {
            if given {
                return Err(fields.refuse(name, "is for one execution and cannot be a default; leave it out"));
            }
        }
        let pointer = fields.own_pointer().to_owned();
        fields.finish()?;
        let checked = Draft { kind: kind.clone().unwrap_or_else(|| "any".into()), ..draft.clone() };
        checked.check().map_err(|refusal| refusal.with_pointer_prefix(&pointer))?;
        Ok(Defaults { kind, draft })
    }

    /// Returns the defaults with the span that submits.
    pub fn with_trace(mut self, trace: Option<TraceParent>) -> Self {
        self.draft.trace = trace;
        self
    }

    /// Reads a submission with these defaults.
    pub fn read_submission(&self, mut fields: Fields<'_>) -> Result<Draft, Refusal> {
        let (kind, draft) = read_fields(&mut fields, &self.draft)?;
        let kind = kind.or_else(|| self.kind.clone());
        let kind = fields.require("kind", kind)?;
        fields.finish()?;
        Ok(Draft { kind, ..draft })
    }

    /// Returns the default input.
    pub fn input(&self) -> &Bytes {
        &self.draft.input
    }
}

/// Reads the fields of a submission, with the kind apart. An absent field has its value in `base`.
fn read_fields(fields: &mut Fields<'_>, base: &Draft) -> Result<(Option<String>, Draft), Refusal> {
    let policy = &base.policy;
    let kind = fields.text("kind")?;
    let (required_gates, gate_pointers) = read_draws(fields, base)?;
    let retention_ms = fields.integer("retention_ms")?;
    let retry = fields.object("retry")?.map(read_retry).transpose()?;
    let gives_retry = retry.is_some() || base.gives_retry;
    let draft = Draft {
        kind: String::new(),
        input: fields.payload("input")?.unwrap_or_else(|| base.input.clone()),
        lane: fields.text("lane")?.unwrap_or_else(|| base.lane.clone()),
        id: fields.id("id")?,
        idempotency_key: fields.text("idempotency_key")?,
        idempotency_window_ms: fields.integer("idempotency_window_ms")?,
        unique_while_active: fields.text("unique_while_active")?,
        debounce: fields.object("debounce")?.map(read_debounce).transpose()?,
        priority: fields.integer("priority")?.unwrap_or(base.priority),
        capabilities: fields.texts("capabilities")?.unwrap_or_else(|| base.capabilities.clone()),
        tags: fields.text_map("tags")?.unwrap_or_else(|| base.tags.clone()),
        delay: fields.time_or_delay("delay_until_at", "delay_ms")?.or(base.delay),
        policy: Policy {
            start_by_ms: fields.integer("start_by_ms")?.or(policy.start_by_ms),
            retry: retry.unwrap_or_else(|| policy.retry.clone()),
            attempt_timeout_ms: fields.integer("attempt_timeout_ms")?.or(policy.attempt_timeout_ms),
            deadline_ms: fields.integer("deadline_ms")?.or(policy.deadline_ms),
            retention_ms: retention_ms.unwrap_or(policy.retention_ms),
        },
        gives_retention: retention_ms.is_some() || base.gives_retention,
        namespace_retention_ms: None,
        gives_retry,
        server_retry: None,
        server_window_ms: None,
        required_gates,
        gate_pointers,
        trace: base.trace,
    };
    Ok((kind, draft))
}

fn read_debounce(mut fields: Fields<'_>) -> Result<Debounce<String>, Refusal> {
    let key = fields.text("key")?;
    let delay_ms = fields.integer("delay_ms")?;
    let debounce = Debounce {
        key: fields.require("key", key)?,
        delay_ms: fields.require("delay_ms", delay_ms)?,
        max_ms: fields.integer("max_ms")?,
    };
    fields.finish()?;
    Ok(debounce)
}

fn read_retry(mut fields: Fields<'_>) -> Result<Retry, Refusal> {
    let default = Retry::default();
    let retry = Retry {
        max_retries: fields.count("max_retries")?.unwrap_or(default.max_retries),
        max_interruptions: fields.count("max_interruptions")?.unwrap_or(default.max_interruptions),
        retry_on: match fields.texts("retry_on")? {
            Some(words) => parse_failure_classes(&fields.pointer("retry_on"), &words)?,
            None => default.retry_on,
        },
        backoff: match fields.object("backoff")? {
            Some(fields) => read_backoff(fields)?,
            None => default.backoff,
        },
    };
    fields.finish()?;
    Ok(retry)
}

fn parse_failure_classes(pointer: &str, words: &[String]) -> Result<Vec<FailureClass>, Refusal> {
    let class = |(index, word): (usize, &String)| {
        FailureClass::parse(word).ok_or_else(|| {
            let known = FailureClass::ALL.into_iter().map(FailureClass::as_str);
            Refusal::field(&format!("{pointer}/{index}"), unknown_word(word, known))
        })
    };
    words.iter().enumerate().map(class).collect()
}

fn read_backoff(mut fields: Fields<'_>) -> Result<Backoff, Refusal> {
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
