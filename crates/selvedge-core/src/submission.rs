//! What a caller submits: a [`Draft`] is what was asked for, a [`Submission`] is one that was found valid.

use crate::gate::{LIMIT_MAX, RequiredGates};
use crate::name::{KEY_LIMIT, LABEL_LIMIT, NAME_LIMIT, TAG_VALUE_LIMIT, check_text};
use crate::policy::DEFAULT_IDEMPOTENCY_WINDOW_MS;
use crate::{Backoff, Class, ExecutionId, Name, NamespaceId, Policy, Refusal, Timestamp};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3;

/// The largest input or result, in bytes.
pub const PAYLOAD_LIMIT: usize = 1024 * 1024;
/// The longest duration that is accepted: about 317 years.
pub const DURATION_LIMIT_MS: i64 = 10_000_000_000_000;
/// The most tags of one execution.
pub const TAGS_LIMIT: usize = 64;
/// The most capabilities of one execution or worker.
pub const CAPABILITIES_LIMIT: usize = 64;

/// When: at a time, or after a duration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum When {
    /// At this time.
    At(Timestamp),
    /// This many milliseconds from the moment the command is decided.
    AfterMs(i64),
}

impl When {
    /// The time it means, decided at `now`.
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            When::At(at) => at,
            When::AfterMs(ms) => now.plus_ms(ms),
        }
    }

    /// Refuses a negative or absurd duration.
    pub fn check(self, pointer: &str) -> Result<When, Refusal> {
        if let When::AfterMs(ms) = self {
            check_duration(pointer, ms)?;
        }
        Ok(self)
    }
}

/// A submission as a caller asked for it, not yet checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The caller's id, for a submission that is safe to repeat.
    pub id: Option<Uuid>,
    /// Which handler runs it.
    pub kind: String,
    /// Its queue; "default".
    pub lane: String,
    /// JSON, kept byte for byte; `null`.
    pub input: Bytes,
    /// A second submission with it is the first.
    pub idempotency_key: Option<String>,
    /// For how long; 24 hours.
    pub idempotency_window_ms: Option<i64>,
    /// A second submission with it is the first while that is not terminal.
    pub unique_while_active: Option<String>,
    /// Higher first; 0.
    pub priority: i64,
    /// What its worker must be capable of.
    pub capabilities: Vec<String>,
    /// Names and values to find it by.
    pub tags: BTreeMap<String, String>,
    /// Not before.
    pub delay: Option<When>,
    /// Retries, timeouts, deadline, retention.
    pub policy: Policy,
    /// The gates that it goes through.
    pub required_gates: RequiredGates,
}

impl Draft {
    /// A draft of this kind, everything else by default.
    pub fn new(kind: impl Into<String>) -> Self {
        Draft {
            id: None,
            kind: kind.into(),
            lane: "default".into(),
            input: Bytes::from_static(b"null"),
            idempotency_key: None,
            idempotency_window_ms: None,
            unique_while_active: None,
            priority: 0,
            capabilities: Vec::new(),
            tags: BTreeMap::new(),
            delay: None,
            policy: Policy::default(),
            required_gates: RequiredGates::default(),
        }
    }

    /// Checks every field; the first wrong one is named.
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
                    "needs an idempotency_key; give one or leave the window out",
                ));
            }
        }
        check_policy(&self.policy)?;
        check_draws(&self.required_gates)?;
        Ok(Submission {
            id: self.id.map(ExecutionId),
            kind,
            lane,
            capabilities: check_capabilities("/capabilities", &self.capabilities)?,
            priority: check_priority(self.priority)?,
            delay: self.delay.map(|delay| delay.check("/delay_ms")).transpose()?,
            idempotency_window_ms: idempotency_key
                .is_some()
                .then(|| self.idempotency_window_ms.unwrap_or(DEFAULT_IDEMPOTENCY_WINDOW_MS)),
            idempotency_key,
            unique_while_active,
            tags: check_tags("/tags", self.tags)?,
            policy: self.policy,
            required_gates: self.required_gates,
            input: self.input,
            digest,
        })
    }

    /// A digest of everything but the id: what "the same content" means.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = Xxh3::new();
        let rest = (
            (&self.kind, &self.lane, &self.idempotency_key, self.idempotency_window_ms),
            (&self.unique_while_active, self.priority, &self.capabilities, &self.tags),
            match self.delay {
                None => (0, 0),
                Some(When::At(at)) => (1, at.micros()),
                Some(When::AfterMs(ms)) => (2, ms),
            },
            serde_json::to_string(&self.policy).unwrap_or_default(),
            serde_json::to_string(&self.required_gates).unwrap_or_default(),
        );
        hasher.update(&postcard::to_stdvec(&rest).unwrap_or_default());
        hasher.update(&self.input);
        hasher.digest()
    }
}

/// A submission that was found valid. Only [`Draft::check`] makes one.
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
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) policy: Policy,
    pub(crate) required_gates: RequiredGates,
    pub(crate) input: Bytes,
    pub(crate) digest: u64,
}

impl Submission {
    /// The caller's id, if it gave one.
    pub fn id(&self) -> Option<ExecutionId> {
        self.id
    }

    /// Its claim class in `namespace`.
    pub fn class(&self, namespace: NamespaceId) -> Class {
        Class {
            namespace,
            lane: self.lane.clone(),
            kind: self.kind.clone(),
            capabilities: self.capabilities.clone(),
        }
    }

    /// Its input.
    pub fn input(&self) -> &Bytes {
        &self.input
    }

    /// Digest of its content, the id left out.
    pub fn digest(&self) -> u64 {
        self.digest
    }
}

/// Refuses a payload beyond the limit, or one that is not JSON.
pub fn check_payload(pointer: &str, payload: &[u8]) -> Result<(), Refusal> {
    if payload.len() > PAYLOAD_LIMIT {
        return Err(Refusal::PayloadTooLarge {
            pointer: pointer.into(),
            limit: PAYLOAD_LIMIT as u64,
            actual: payload.len() as u64,
        });
    }
    match serde_json::from_slice::<&serde_json::value::RawValue>(payload) {
        Ok(_) => Ok(()),
        Err(error) => Err(Refusal::field(pointer, format!("is not JSON: {error}"))),
    }
}

/// Refuses a negative or absurd duration.
pub fn check_duration(pointer: &str, ms: i64) -> Result<(), Refusal> {
    if !(0..=DURATION_LIMIT_MS).contains(&ms) {
        return Err(Refusal::field(
            pointer,
            format!("is {ms}; it must lie between 0 and {DURATION_LIMIT_MS}"),
        ));
    }
    Ok(())
}

/// Refuses a priority that no index can hold.
pub fn check_priority(priority: i64) -> Result<i16, Refusal> {
    i16::try_from(priority).map_err(|_| {
        Refusal::field("/priority", format!("is {priority}; it must lie between -32768 and 32767"))
    })
}

/// Checks a set of capabilities.
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

/// Checks tags; a name holds no colon, because filters are written `name:value`.
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
            return Err(Refusal::field(&at, "has a colon in its name; filters are written name:value"));
        }
        check_text(&at, value, TAG_VALUE_LIMIT)?;
    }
    Ok(tags)
}

/// The most budgets or quotas of one execution.
pub const DRAWS_LIMIT: usize = 16;

fn check_draws(required_gates: &RequiredGates) -> Result<(), Refusal> {
    for (pointer, count) in
        [("/quotas", required_gates.quotas.len()), ("/budgets", required_gates.budgets.len())]
    {
        if count > DRAWS_LIMIT {
            let detail = format!("has {count} entries; at most {DRAWS_LIMIT} are allowed");
            return Err(Refusal::field(pointer, detail));
        }
    }
    for (index, quota) in required_gates.quotas.iter().enumerate() {
        let pointer = format!("/quotas/{index}");
        Name::parse(&pointer, quota, NAME_LIMIT)?;
        if required_gates.quotas[..index].contains(quota) {
            return Err(Refusal::field(&pointer, format!("is {quota:?} for the second time")));
        }
    }
    for (index, (budget, reserve)) in required_gates.budgets.iter().enumerate() {
        let pointer = format!("/budgets/{index}");
        Name::parse(&pointer, budget, NAME_LIMIT)?;
        if required_gates.budgets[..index].iter().any(|(other, _)| other == budget) {
            return Err(Refusal::field(&pointer, format!("is {budget:?} for the second time")));
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
            let detail = format!("is {limit}; it must lie between 1 and {LIMIT_MAX}");
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
            "is 0; no attempt could run; leave it out for no limit",
        ));
    }
    match policy.retry.backoff {
        Backoff::Fixed { delay_ms } => check_duration("/retry/backoff/delay_ms", delay_ms),
        Backoff::Exponential { initial_ms, multiplier, max_ms, .. } => {
            check_duration("/retry/backoff/initial_ms", initial_ms)?;
            check_duration("/retry/backoff/max_ms", max_ms)?;
            if !(1.0..=1000.0).contains(&multiplier) {
                return Err(Refusal::field(
                    "/retry/backoff/multiplier",
                    format!("is {multiplier}; it must lie between 1 and 1000"),
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
