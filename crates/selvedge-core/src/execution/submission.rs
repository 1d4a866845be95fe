//! Submissions of executions. A [`Draft`] is an unchecked request; a [`Submission`] is a valid one.

use crate::digest::{Digest, policy_form, required_gates_form};
use crate::gate::{LIMIT_MAX, RequiredGates};
use crate::json::check_limits;
use crate::name::{KEY_LIMIT, LABEL_LIMIT, NAME_LIMIT, TAG_VALUE_LIMIT, check_text};
use crate::policy::DEFAULT_IDEMPOTENCY_WINDOW_MS;
use crate::schedule::Scheduled;
use crate::{Backoff, Class, ExecutionId, Name, NamespaceId, Policy, Refusal, Retry, Timestamp, TraceParent};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use uuid::Uuid;

/// The largest input or result, in bytes.
pub const PAYLOAD_LIMIT: usize = 1024 * 1024;
/// The longest accepted duration, in milliseconds: about 317 years.
pub const DURATION_LIMIT_MS: i64 = 10_000_000_000_000;
/// The priorities that callers may give.
pub const PRIORITIES: RangeInclusive<i16> = -100..=100;
/// The factors that an exponential back-off may have.
pub const MULTIPLIERS: RangeInclusive<f64> = 1.0..=1000.0;
/// The most tags of one execution or flow.
pub const TAGS_LIMIT: usize = 64;
/// The most capabilities of one execution or worker.
pub const CAPABILITIES_LIMIT: usize = 64;

/// A time, or a duration from now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum When {
    /// At this time.
    At(Timestamp),
    /// This many milliseconds after the decision.
    AfterMs(i64),
}

impl When {
    /// Returns the time, given the time of the decision.
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            When::At(at) => at,
            When::AfterMs(ms) => now.plus_ms(ms),
        }
    }

    /// Refuses a duration that is negative or beyond [`DURATION_LIMIT_MS`].
    pub fn check(self, pointer: &str) -> Result<When, Refusal> {
        if let When::AfterMs(ms) = self {
            check_duration(pointer, ms)?;
        }
        Ok(self)
    }
}

/// The debounce of a submission: while an execution with the key waits for quiet, a further submission replaces its input
/// and restarts its delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Debounce<Key = Name> {
    pub key: Key,
    /// The time without a further submission after which the execution may start, in milliseconds.
    pub delay_ms: i64,
    /// The time from the first submission after which it may start in any case, in milliseconds. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<i64>,
}

/// An unchecked submission of an execution. Stored in schedules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    /// An id chosen by the caller, which makes the submission safe to repeat. Default: a new id.
    pub id: Option<Uuid>,
    /// The name of the handler that runs the execution.
    pub kind: String,
    /// The lane (queue). Default: `default`.
    pub lane: String,
    /// The input: JSON, kept byte for byte. Default: `null`.
    #[serde(with = "crate::json::as_text")]
    pub input: Bytes,
    /// Submitting again with this key returns the existing execution. Default: none.
    pub idempotency_key: Option<String>,
    /// The time from submission during which the idempotency key applies, in milliseconds. Default: 24 hours.
    pub idempotency_window_ms: Option<i64>,
    /// Submitting again with this key returns the existing execution while it is not terminal. Default: none.
    pub unique_while_active: Option<String>,
    /// Waits until no further submission with the same key has come for a while. Default: none.
    pub debounce: Option<Debounce<String>>,
    /// The priority; higher first. Default: 0.
    pub priority: i64,
    /// The capabilities that a worker must have. Default: none.
    pub capabilities: Vec<String>,
    /// Tags to find the execution by. Default: none.
    pub tags: BTreeMap<String, String>,
    /// The earliest start. Default: at once.
    pub delay: Option<When>,
    /// Retries, timeouts, deadline and retention.
    pub policy: Policy,
    /// False if the retention of the policy is a default, which the namespace may replace. Default: true.
    pub gives_retention: bool,
    /// The retention of the namespace, which applies to a submission that gives none. Not part of the content: a repeat is
    /// the same after the namespace was configured. Default: none.
    #[serde(skip)]
    pub namespace_retention_ms: Option<i64>,
    /// False if the retry of the policy is a default, which the server may replace. Default: true.
    pub gives_retry: bool,
    /// The retry of the server, which applies to a submission that gives none. Not part of the content. Default: none.
    pub server_retry: Option<Arc<Retry>>,
    /// The window of the server, which applies to an idempotency key without one, in milliseconds. Not part of the content.
    /// Default: none.
    pub server_window_ms: Option<i64>,
    /// The gates that must admit the execution. Default: its lane only.
    pub required_gates: RequiredGates,
    /// The places of the names of budgets and quotas in the request. Default: in the lists of this submission.
    #[serde(skip)]
    pub gate_pointers: Option<Arc<GatePointers>>,
    /// The span that submits the execution. Not part of the content: a repeated submission may have another one. Default:
    /// none.
    #[serde(skip)]
    pub trace: Option<TraceParent>,
}

impl Draft {
    /// Creates a draft of this kind. All other fields have their defaults.
    pub fn new(kind: impl Into<String>) -> Self {
        Draft {
            id: None,
            kind: kind.into(),
            lane: "default".into(),
            input: Bytes::from_static(b"null"),
            idempotency_key: None,
            idempotency_window_ms: None,
            unique_while_active: None,
            debounce: None,
            priority: 0,
            capabilities: Vec::new(),
            tags: BTreeMap::new(),
            delay: None,
            policy: Policy::default(),
            gives_retention: true,
            namespace_retention_ms: None,
            gives_retry: true,
            server_retry: None,
            server_window_ms: None,
            required_gates: RequiredGates::default(),
            gate_pointers: None,
            trace: None,
        }
    }

    /// Checks every field. The refusal names the first invalid one.
    pub fn check(self) -> Result<Submission, Refusal> {
        let digest = self.digest();
        let kind = Name::parse("/kind", &self.kind, NAME_LIMIT)?;
        let lane = Name::parse("/lane", &self.lane, NAME_LIMIT)?;
        check_payload("/input", &self.input)?;
        let optional_key = |pointer: &str, key: &Option<String>| {
            key.as_deref().map(|key| Name::parse(pointer, key, KEY_LIMIT)).transpose()
        };
        let idempotency_key = optional_key("/idempotency_key", &self.idempotency_key)?;
        let unique_while_active = optional_key("/unique_while_active", &self.unique_while_active)?;
        if let Some(ms) = self.idempotency_window_ms {
            check_duration("/idempotency_window_ms", ms)?;
            if idempotency_key.is_none() {
                return Err(Refusal::field(
                    "/idempotency_window_ms",
                    "needs an idempotency_key; give one, or leave out the window",
                ));
            }
        }
        let debounce = self.check_debounce()?;
        let delay = debounce.as_ref().map(|debounce| When::AfterMs(debounce.delay_ms));
        check_policy(&self.policy)?;
        let of_namespace = self.namespace_retention_ms.filter(|_| !self.gives_retention);
        let retention_ms = of_namespace.unwrap_or(self.policy.retention_ms);
        let of_server = self.server_retry.as_deref().filter(|_| !self.gives_retry);
        let retry = of_server.map_or(self.policy.retry, Retry::clone);
        let default_window_ms = self.server_window_ms.unwrap_or(DEFAULT_IDEMPOTENCY_WINDOW_MS);
        check_required_gates(&self.required_gates)?;
        Ok(Submission {
            id: self.id.map(ExecutionId),
            kind,
            lane,
            capabilities: check_capabilities("/capabilities", &self.capabilities)?,
            priority: check_priority("/priority", self.priority)?,
            delay: self.delay.map(|delay| delay.check("/delay_ms")).transpose()?.or(delay),
            debounce,
            idempotency_window_ms: idempotency_key
                .is_some()
                .then(|| self.idempotency_window_ms.unwrap_or(default_window_ms)),
            idempotency_key,
            unique_while_active,
            tags: check_tags("/tags", self.tags)?,
            policy: Policy { retention_ms, retry, ..self.policy },
            required_gates: self.required_gates,
            gate_pointers: self.gate_pointers,
            trace: self.trace,
            scheduled: None,
            input: self.input,
            digest,
        })
    }

    fn check_debounce(&self) -> Result<Option<Debounce>, Refusal> {
        let Some(Debounce { key, delay_ms, max_ms }) = &self.debounce else { return Ok(None) };
        for (other, given) in [
            ("delay_ms or delay_until_at", self.delay.is_some()),
            ("unique_while_active", self.unique_while_active.is_some()),
        ] {
            if given {
                let detail = format!("cannot be combined with {other}; give only one of them");
                return Err(Refusal::field("/debounce", detail));
            }
        }
        let key = Name::parse("/debounce/key", key, KEY_LIMIT)?;
        if *delay_ms < 1 {
            return Err(Refusal::field(
                "/debounce/delay_ms",
                format!("is {delay_ms}; it must be at least 1"),
            ));
        }
        check_duration("/debounce/delay_ms", *delay_ms)?;
        if let Some(max_ms) = *max_ms {
            check_duration("/debounce/max_ms", max_ms)?;
            if max_ms < *delay_ms {
                let detail = format!("is {max_ms}; it must not be less than delay_ms, {delay_ms}");
                return Err(Refusal::field("/debounce/max_ms", detail));
            }
        }
        Ok(Some(Debounce { key, delay_ms: *delay_ms, max_ms: *max_ms }))
    }

    /// Returns the digest of everything but the id: two submissions with the same digest have the same content.
    pub(crate) fn digest(&self) -> u64 {
        let Draft {
            id: _,
            kind,
            lane,
            input,
            idempotency_key,
            idempotency_window_ms,
            unique_while_active,
            debounce,
            priority,
            capabilities,
            tags,
            delay,
            policy,
            gives_retention: _,
            namespace_retention_ms: _,
            gives_retry: _,
            server_retry: _,
            server_window_ms: _,
            required_gates,
            gate_pointers: _,
            trace: _,
        } = self;
        let mut digest = Digest::new();
        digest.text(kind);
        digest.text(lane);
        digest.optional(idempotency_key.as_deref(), Digest::text);
        digest.optional(*idempotency_window_ms, Digest::number);
        digest.optional(unique_while_active.as_deref(), Digest::text);
        digest.number(*priority);
        digest.list(capabilities, |digest, capability| digest.text(capability));
        digest.map(tags);
        let (form, delay) = match *delay {
            None => (0, 0),
            Some(When::At(at)) => (1, at.micros()),
            Some(When::AfterMs(ms)) => (2, ms),
        };
        digest.number(form);
        digest.number(delay);
        digest.text(&policy_form(policy));
        digest.text(&required_gates_form(required_gates));
        // Absent in submissions of earlier versions, whose digests are stored.
        if let Some(Debounce { key, delay_ms, max_ms }) = debounce {
            digest.text("debounce");
            digest.text(key);
            digest.number(*delay_ms);
            digest.optional(*max_ms, Digest::number);
        }
        digest.raw(input);
        digest.finish()
    }
}

/// The places at which a request names the budgets and quotas of a submission. A refusal points to them; they are not
/// part of the content.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct GatePointers {
    /// The JSON pointer of the name of each budget, in order.
    pub budgets: Vec<String>,
    /// The JSON pointer of the name of each quota, in order.
    pub quotas: Vec<String>,
}

/// A valid submission of an execution. Only [`Draft::check`] creates one.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    pub(crate) id: Option<ExecutionId>,
    pub(crate) kind: Name,
    pub(crate) lane: Name,
    pub(crate) capabilities: BTreeSet<Name>,
    pub(crate) priority: i16,
    pub(crate) delay: Option<When>,
    pub(crate) idempotency_key: Option<Name>,
    pub(crate) idempotency_window_ms: Option<i64>,
    pub(crate) unique_while_active: Option<Name>,
    pub(crate) debounce: Option<Debounce>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) policy: Policy,
    pub(crate) required_gates: RequiredGates,
    pub(crate) gate_pointers: Option<Arc<GatePointers>>,
    pub(crate) trace: Option<TraceParent>,
    /// The schedule and the time that submit it. Not part of the content.
    pub(crate) scheduled: Option<Scheduled>,
    pub(crate) input: Bytes,
    pub(crate) digest: u64,
}

impl Submission {
    /// Returns the id chosen by the caller, if there is one.
    pub fn id(&self) -> Option<ExecutionId> {
        self.id
    }

    /// Returns the JSON pointer of the name of a budget in the request that had this submission at `parent`.
    pub(crate) fn budget_pointer(&self, parent: &str, index: usize) -> String {
        let given = self.gate_pointers.as_ref().and_then(|pointers| pointers.budgets.get(index));
        given.cloned().unwrap_or_else(|| format!("{parent}/budgets/{index}"))
    }

    /// Returns the JSON pointer of the name of a quota in the request that had this submission at `parent`.
    pub(crate) fn quota_pointer(&self, parent: &str, index: usize) -> String {
        let given = self.gate_pointers.as_ref().and_then(|pointers| pointers.quotas.get(index));
        given.cloned().unwrap_or_else(|| format!("{parent}/quotas/{index}"))
    }

    /// Returns the claim class in `namespace`.
    pub fn class(&self, namespace: NamespaceId) -> Class {
        Class {
            namespace,
            lane: self.lane.clone(),
            kind: self.kind.clone(),
            capabilities: self.capabilities.clone(),
            pool: None,
        }
    }

    pub fn input(&self) -> &Bytes {
        &self.input
    }

    /// Returns the digest of the content, without the id.
    pub fn digest(&self) -> u64 {
        self.digest
    }
}

/// Refuses a payload that exceeds [`PAYLOAD_LIMIT`] or the [limits of values](crate::json), or is not valid JSON.
pub fn check_payload(pointer: &str, payload: &[u8]) -> Result<(), Refusal> {
    if payload.len() > PAYLOAD_LIMIT {
        return Err(Refusal::PayloadTooLarge {
            pointer: pointer.into(),
            limit: PAYLOAD_LIMIT as u64,
            actual: payload.len() as u64,
        });
    }
    check_limits(pointer, payload)?;
    match serde_json::from_slice::<&serde_json::value::RawValue>(payload) {
        Ok(_) => Ok(()),
        Err(error) => Err(Refusal::field(pointer, format!("is not valid JSON: {error}"))),
    }
}

/// Refuses a duration that is negative or beyond [`DURATION_LIMIT_MS`].
pub fn check_duration(pointer: &str, ms: i64) -> Result<(), Refusal> {
    if !(0..=DURATION_LIMIT_MS).contains(&ms) {
        return Err(Refusal::field(
            pointer,
            format!("is {ms}; it must be between 0 and {DURATION_LIMIT_MS}"),
        ));
    }
    Ok(())
}

/// Refuses a priority that is not in [`PRIORITIES`]. A stored execution may have another: earlier versions accepted
/// every number of 16 bits.
pub fn check_priority(pointer: &str, priority: i64) -> Result<i16, Refusal> {
    let (least, most) = (*PRIORITIES.start(), *PRIORITIES.end());
    i16::try_from(priority).ok().filter(|priority| PRIORITIES.contains(priority)).ok_or_else(|| {
        Refusal::field(pointer, format!("is {priority}; it must be between {least} and {most}"))
    })
}

pub fn check_capabilities(pointer: &str, capabilities: &[String]) -> Result<BTreeSet<Name>, Refusal> {
    if capabilities.len() > CAPABILITIES_LIMIT {
        let count = capabilities.len();
        return Err(Refusal::field(
            pointer,
            format!("has {count} entries; at most {CAPABILITIES_LIMIT} are allowed"),
        ));
    }
    capabilities
        .iter()
        .enumerate()
        .map(|(index, capability)| Name::parse(&format!("{pointer}/{index}"), capability, LABEL_LIMIT))
        .collect()
}

/// Checks tags. A tag's name must not contain a colon, because filters are written `name:value`.
pub fn check_tags(
    pointer: &str,
    tags: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Refusal> {
    if tags.len() > TAGS_LIMIT {
        let count = tags.len();
        return Err(Refusal::field(
            pointer,
            format!("has {count} entries; at most {TAGS_LIMIT} are allowed"),
        ));
    }
    for (name, value) in &tags {
        let at = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
        Name::parse(&at, name, LABEL_LIMIT)?;
        if name.contains(':') {
            return Err(Refusal::field(
                &at,
                "contains a colon; filters are written name:value, so choose a name without one",
            ));
        }
        check_text(&at, value, TAG_VALUE_LIMIT)?;
    }
    Ok(tags)
}

/// The most budgets, and the most quotas, of one execution.
pub const REQUIRED_GATES_LIMIT: usize = 16;

fn check_required_gates(required_gates: &RequiredGates) -> Result<(), Refusal> {
    for (pointer, count) in
        [("/quotas", required_gates.quotas.len()), ("/budgets", required_gates.budgets.len())]
    {
        if count > REQUIRED_GATES_LIMIT {
            let detail = format!("has {count} entries; at most {REQUIRED_GATES_LIMIT} are allowed");
            return Err(Refusal::field(pointer, detail));
        }
    }
    for (index, quota) in required_gates.quotas.iter().enumerate() {
        let pointer = format!("/quotas/{index}");
        Name::parse(&pointer, quota, NAME_LIMIT)?;
        if required_gates.quotas[..index].contains(quota) {
            return Err(Refusal::field(&pointer, format!("names {quota:?} twice; name each quota once")));
        }
    }
    for (index, (budget, reserve)) in required_gates.budgets.iter().enumerate() {
        let pointer = format!("/budgets/{index}");
        Name::parse(&pointer, budget, NAME_LIMIT)?;
        if required_gates.budgets[..index].iter().any(|(other, _)| other == budget) {
            return Err(Refusal::field(&pointer, format!("names {budget:?} twice; name each budget once")));
        }
        for dimension in reserve.keys() {
            Name::parse(&format!("{pointer}/reserve"), dimension, NAME_LIMIT)?;
        }
    }
    if let Some(key) = &required_gates.fairness_key {
        Name::parse("/fairness_key", key, KEY_LIMIT)?;
    }
    if let Some((key, limit)) = &required_gates.concurrency {
        Name::parse("/concurrency/key", key, KEY_LIMIT)?;
        if *limit == 0 || *limit > LIMIT_MAX {
            let detail = format!("is {limit}; it must be between 1 and {LIMIT_MAX}");
            return Err(Refusal::field("/concurrency/limit", detail));
        }
    }
    Ok(())
}

fn check_policy(policy: &Policy) -> Result<(), Refusal> {
    for (pointer, ms) in [
        ("/attempt_timeout_ms", policy.attempt_timeout_ms),
        ("/deadline_ms", policy.deadline_ms),
        ("/start_by_ms", policy.start_by_ms),
        ("/retention_ms", Some(policy.retention_ms)),
    ] {
        ms.map_or(Ok(()), |ms| check_duration(pointer, ms))?;
    }
    if policy.attempt_timeout_ms == Some(0) {
        return Err(Refusal::field(
            "/attempt_timeout_ms",
            "is 0, so no attempt could run; leave it out for no limit",
        ));
    }
    match policy.retry.backoff {
        Backoff::Fixed { delay_ms } => check_duration("/retry/backoff/delay_ms", delay_ms),
        Backoff::Exponential { initial_ms, multiplier, max_ms, .. } => {
            check_duration("/retry/backoff/initial_ms", initial_ms)?;
            check_duration("/retry/backoff/max_ms", max_ms)?;
            if !MULTIPLIERS.contains(&multiplier) {
                return Err(Refusal::field(
                    "/retry/backoff/multiplier",
                    format!(
                        "is {multiplier}; it must be between {} and {}",
                        MULTIPLIERS.start(),
                        MULTIPLIERS.end()
                    ),
                ));
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused_at(draft: Draft) -> String {
        let refusal = draft.check().expect_err("is refused");
        refusal.pointer().expect("names the field").to_owned()
    }

    #[test]
    fn bad_input_is_refused_with_the_field_named() {
        let draft = || Draft::new("k");
        assert_eq!(refused_at(Draft::new("")), "/kind");
        assert_eq!(refused_at(Draft::new("a\0b")), "/kind");
        assert_eq!(refused_at(Draft::new("k".repeat(201))), "/kind");
        assert_eq!(refused_at(Draft { lane: "".into(), ..draft() }), "/lane");
        assert_eq!(refused_at(Draft { delay: Some(When::AfterMs(-1)), ..draft() }), "/delay_ms");
        assert_eq!(refused_at(Draft { input: vec![b' '; PAYLOAD_LIMIT + 1].into(), ..draft() }), "/input");
        assert_eq!(refused_at(Draft { idempotency_key: Some("\0".into()), ..draft() }), "/idempotency_key");
        assert_eq!(refused_at(Draft { idempotency_window_ms: Some(5), ..draft() }), "/idempotency_window_ms");
        assert_eq!(refused_at(Draft { priority: 40_000, ..draft() }), "/priority");
        assert_eq!(
            refused_at(Draft { capabilities: vec!["ok".into(), "".into()], ..draft() }),
            "/capabilities/1"
        );
        let tags = [("a/b".to_string(), "\0".to_string())].into();
        assert_eq!(refused_at(Draft { tags, ..draft() }), "/tags/a~1b");
        let policy = Policy { deadline_ms: Some(-5), ..Policy::default() };
        assert_eq!(refused_at(Draft { policy, ..draft() }), "/deadline_ms");
    }

    #[test]
    fn a_nul_in_a_payload_is_kept() {
        let input = Bytes::from_static(b"\"\\u0000\"");
        let submission = Draft { input: input.clone(), ..Draft::new("k") }.check().expect("is valid");
        assert_eq!(submission.input(), &input);
    }

    #[test]
    fn the_digest_covers_everything_but_the_id() {
        let digest = |draft: Draft| draft.check().expect("is valid").digest();
        let base = digest(Draft::new("k"));
        assert_eq!(base, digest(Draft { id: Some(Uuid::from_u128(7)), ..Draft::new("k") }));
        let retry = Some(Arc::new(Retry { max_retries: 9, ..Retry::default() }));
        let on_another_server =
            Draft { gives_retry: false, server_retry: retry, server_window_ms: Some(1), ..Draft::new("k") };
        assert_eq!(base, digest(on_another_server));
        let policy = Policy { retention_ms: 5, ..Policy::default() };
        for other in [
            Draft::new("other"),
            Draft { lane: "l".into(), ..Draft::new("k") },
            Draft { input: Bytes::from_static(b"1"), ..Draft::new("k") },
            Draft { priority: 1, ..Draft::new("k") },
            Draft { capabilities: vec!["c".into()], ..Draft::new("k") },
            Draft { tags: [("a".into(), "b".into())].into(), ..Draft::new("k") },
            Draft { delay: Some(When::AfterMs(1)), ..Draft::new("k") },
            Draft { policy, ..Draft::new("k") },
        ] {
            assert_ne!(base, digest(other));
        }
    }
}
