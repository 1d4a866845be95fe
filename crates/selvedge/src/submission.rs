//! The builder of a submission.

use crate::{Amount, Backoff, Error, Namespace, Retry, Submitted, Timestamp, TraceParent, When};
use bytes::Bytes;
use selvedge_core::submission::Debounce;
use selvedge_core::{Draft, Name};
use serde::Serialize;
use std::time::Duration;
use uuid::Uuid;

/// Builds one execution: its kind, its input, and every setting that differs from the defaults. Nothing is validated
/// before [`submit`](Submission::submit), which refuses an invalid field and names it.
///
/// ```
/// use selvedge::{Engine, Submission};
/// use std::time::Duration;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), selvedge::Error> {
/// # let engine = Engine::open("memory:").await?;
/// # let namespace = engine.namespace("default").await?;
/// let submission = Submission::new("send_mail")
///     .input(&serde_json::json!({"to": "ada@example.org"}))?
///     .lane("mail")
///     .idempotency_key("welcome-ada")
///     .tag("customer", "42")
///     .max_retries(5)
///     .deadline(Duration::from_secs(3600));
///
/// let first = submission.clone().submit(&namespace).await?;
/// let again = submission.submit(&namespace).await?;
/// assert!(again.duplicate);
/// assert_eq!(again.execution.id, first.execution.id);
/// # Ok(())
/// # }
/// ```
///
/// To submit many executions in one call, use [`Namespace::submit_many`].
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    draft: Draft,
    explicit: ExplicitFields,
}

/// Marks the fields that were set explicitly, for those whose value alone does not show it. See
/// [`Submission::with_defaults`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ExplicitFields {
    input: bool,
    lane: bool,
    priority: bool,
    retry: bool,
    retention: bool,
}

impl Submission {
    /// Creates a submission of this kind with default settings.
    pub fn new(kind: impl Into<String>) -> Self {
        Submission { draft: Draft::new(kind), explicit: ExplicitFields::default() }
    }

    /// Sets the input, serialised as JSON. Default: `null`. Fails if the value cannot be serialised.
    pub fn input<T: Serialize + ?Sized>(self, input: &T) -> Result<Self, Error> {
        let json = serde_json::to_vec(input)
            .map_err(|error| Error::field("/input", format!("cannot be serialised as JSON: {error}")))?;
        Ok(self.input_json(json))
    }

    /// Sets the input to this JSON text, which is stored byte for byte. Default: `null`.
    pub fn input_json(mut self, json: impl Into<Bytes>) -> Self {
        self.draft.input = json.into();
        self.explicit.input = true;
        self
    }

    /// Sets the lane. Default: `default`.
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.draft.lane = lane.into();
        self.explicit.lane = true;
        self
    }

    /// Sets the id of the execution, so that the submission is safe to repeat. Default: a new id.
    pub fn id(mut self, id: Uuid) -> Self {
        self.draft.id = Some(id);
        self
    }

    /// Sets the idempotency key. Default: none. Submitting again with this key returns the existing execution for 24
    /// hours, or for the [window](Submission::idempotency_window) if one is set.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.draft.idempotency_key = Some(key.into());
        self
    }

    /// Sets the time for which the idempotency key refers to this execution. Default: 24 hours.
    pub fn idempotency_window(mut self, window: Duration) -> Self {
        self.draft.idempotency_window_ms = Some(millis(window));
        self
    }

    /// Sets a uniqueness key. Default: none. Submitting again with this key returns the existing execution while it is
    /// not terminal.
    pub fn unique_while_active(mut self, key: impl Into<String>) -> Self {
        self.draft.unique_while_active = Some(key.into());
        self
    }

    /// Waits until no further submission with this key has come for `delay`. Default: none. While the execution waits, a
    /// further submission with the key replaces its input, restarts its delay, and returns it.
    pub fn debounce(mut self, key: impl Into<String>, delay: Duration) -> Self {
        let (key, delay_ms) = (key.into(), millis(delay));
        let max_ms = self.draft.debounce.take().and_then(|debounce| debounce.max_ms);
        self.draft.debounce = Some(Debounce { key, delay_ms, max_ms });
        self
    }

    /// Sets the longest time by which further submissions can delay the start of a debounced execution. Default: no limit.
    pub fn debounce_at_most(mut self, max: Duration) -> Self {
        if let Some(debounce) = &mut self.draft.debounce {
            debounce.max_ms = Some(millis(max));
        }
        self
    }

    /// Sets the priority; executions of higher priority are claimed first. Default: 0.
    pub fn priority(mut self, priority: i16) -> Self {
        self.draft.priority = priority.into();
        self.explicit.priority = true;
        self
    }

    /// Sets the fairness key. Default: none. Waiting executions of a lane with different fairness keys take turns.
    pub fn fairness_key(mut self, key: impl AsRef<str>) -> Self {
        self.draft.required_gates.fairness_key = Some(Name::trusted(key.as_ref()));
        self
    }

    /// Adds a budget that the execution spends from, without reserving anything. Default: none. A submission that names
    /// a budget which does not exist is refused.
    pub fn budget(self, name: impl AsRef<str>) -> Self {
        self.budget_reserving(name, [] as [(&str, Amount); 0])
    }

    /// Adds a budget that the execution spends from, with an estimate of its highest cost. Default: none. The claim
    /// reserves the estimate, so the execution starts only when the budget has that much left.
    ///
    /// ```
    /// use selvedge::{Amount, Submission};
    ///
    /// let summarise = Submission::new("summarise").budget_reserving("month", [("tokens", Amount::whole(2000))]);
    /// # drop(summarise);
    /// ```
    pub fn budget_reserving<D: Into<String>>(
        mut self,
        name: impl AsRef<str>,
        reserve: impl IntoIterator<Item = (D, Amount)>,
    ) -> Self {
        let reserve = reserve.into_iter().map(|(dimension, amount)| (dimension.into(), amount)).collect();
        self.draft.required_gates.budgets.push((Name::trusted(name.as_ref()), reserve));
        self
    }

    /// Adds a quota, which limits how often executions start and how many are active at once. Default: none. A
    /// submission that names a quota which does not exist is refused.
    pub fn quota(mut self, name: impl AsRef<str>) -> Self {
        self.draft.required_gates.quotas.push(Name::trusted(name.as_ref()));
        self
    }

    /// Sets the concurrency key and its limit. Default: none. At most `limit` executions with this key are active at
    /// once; the others are held until one of those ends.
    pub fn concurrency(mut self, key: impl AsRef<str>, limit: u32) -> Self {
        self.draft.required_gates.concurrency = Some((Name::trusted(key.as_ref()), limit));
        self
    }

    /// Adds a capability that the worker must offer. Default: none.
    pub fn capability(mut self, capability: impl Into<String>) -> Self {
        self.draft.capabilities.push(capability.into());
        self
    }

    /// Adds a tag by which the execution can be found. Default: none.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.draft.tags.insert(name.into(), value.into());
        self
    }

    /// Sets the span that submits the execution, whose trace the execution belongs to. Default: none.
    pub fn trace(mut self, trace: TraceParent) -> Self {
        self.draft.trace = Some(trace);
        self
    }

    /// Delays the first attempt until this much time has passed since the submission. Default: no delay.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.draft.delay = Some(When::AfterMs(millis(delay)));
        self
    }

    /// Delays the first attempt until this time. Default: no delay.
    pub fn not_before(mut self, time: Timestamp) -> Self {
        self.draft.delay = Some(When::At(time));
        self
    }

    /// Sets how many failed attempts are retried. Default: 3.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.draft.policy.retry.max_retries = retries;
        self.explicit.retry = true;
        self
    }

    /// Sets the delay between attempts. Default: 1 second, doubling up to 60 seconds, with jitter.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.draft.policy.retry.backoff = backoff;
        self.explicit.retry = true;
        self
    }

    /// Sets the whole retry policy, including [`max_retries`](Submission::max_retries) and
    /// [`backoff`](Submission::backoff).
    pub fn retry(mut self, retry: Retry) -> Self {
        self.draft.policy.retry = retry;
        self.explicit.retry = true;
        self
    }

    /// Sets the longest time that one attempt may run. Default: no limit.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.draft.policy.attempt_timeout_ms = Some(millis(timeout));
        self
    }

    /// Sets the longest time from the submission to the end, including all attempts and waits. Default: no limit.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.draft.policy.deadline_ms = Some(millis(deadline));
        self
    }

    /// Sets the longest time from the submission to the first attempt. Default: no limit.
    pub fn start_by(mut self, start_by: Duration) -> Self {
        self.draft.policy.start_by_ms = Some(millis(start_by));
        self
    }

    /// Sets how long the execution and its history are kept after its end. Default: 7 days.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.draft.policy.retention_ms = millis(retention);
        self.explicit.retention = true;
        self
    }

    /// Takes every field that this submission does not set from `defaults`. A field that it sets replaces the default
    /// entirely: lists and maps are not merged.
    pub(crate) fn with_defaults(mut self, defaults: &Submission) -> Self {
        let (own, explicit, fallback) = (&mut self.draft, self.explicit, &defaults.draft);
        if !explicit.input {
            own.input = fallback.input.clone();
        }
        if !explicit.lane {
            own.lane.clone_from(&fallback.lane);
        }
        if !explicit.priority {
            own.priority = fallback.priority;
        }
        if own.capabilities.is_empty() {
            own.capabilities.clone_from(&fallback.capabilities);
        }
        if own.tags.is_empty() {
            own.tags.clone_from(&fallback.tags);
        }
        own.delay = own.delay.or(fallback.delay);
        let (required_gates, fallback_draws) = (&mut own.required_gates, &fallback.required_gates);
        if required_gates.budgets.is_empty() {
            required_gates.budgets.clone_from(&fallback_draws.budgets);
        }
        if required_gates.quotas.is_empty() {
            required_gates.quotas.clone_from(&fallback_draws.quotas);
        }
        required_gates.concurrency =
            required_gates.concurrency.take().or_else(|| fallback_draws.concurrency.clone());
        required_gates.fairness_key =
            required_gates.fairness_key.take().or_else(|| fallback_draws.fairness_key.clone());
        self.explicit.retry |= defaults.explicit.retry;
        self.explicit.retention |= defaults.explicit.retention;
        let (own, fallback) = (&mut own.policy, &fallback.policy);
        if !explicit.retry {
            own.retry = fallback.retry.clone();
        }
        if !explicit.retention {
            own.retention_ms = fallback.retention_ms;
        }
        own.attempt_timeout_ms = own.attempt_timeout_ms.or(fallback.attempt_timeout_ms);
        own.deadline_ms = own.deadline_ms.or(fallback.deadline_ms);
        own.start_by_ms = own.start_by_ms.or(fallback.start_by_ms);
        self
    }

    /// Submits the execution.
    pub async fn submit(self, namespace: &Namespace) -> Result<Submitted, Error> {
        namespace.submit(self).await
    }
}

/// Creates a submission of this kind with default settings.
impl From<&str> for Submission {
    fn from(kind: &str) -> Submission {
        Submission::new(kind)
    }
}

impl From<Submission> for Draft {
    fn from(submission: Submission) -> Draft {
        let ExplicitFields { retry, retention, .. } = submission.explicit;
        Draft { gives_retry: retry, gives_retention: retention, ..submission.draft }
    }
}

/// Converts to whole milliseconds. A duration that does not fit becomes `i64::MAX`, which the engine refuses.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explicit_field_wins_over_the_defaults_even_if_it_equals_the_built_in_value() {
        let defaults = Submission::new("")
            .lane("slow")
            .priority(5)
            .max_retries(9)
            .tag("team", "data")
            .deadline(Duration::from_secs(60))
            .retention(Duration::from_secs(1));
        let own = Submission::new("k").lane("default").priority(0).tag("colour", "red");
        let draft = Draft::from(own.with_defaults(&defaults));
        assert_eq!((draft.kind.as_str(), draft.lane.as_str(), draft.priority), ("k", "default", 0));
        assert_eq!(draft.tags.into_keys().collect::<Vec<_>>(), ["colour"]);
        let policy = draft.policy;
        assert_eq!(
            (policy.retry.max_retries, policy.deadline_ms, policy.retention_ms),
            (9, Some(60_000), 1000)
        );
    }

    #[test]
    fn each_kind_of_gate_comes_entirely_from_the_submission_or_from_the_defaults() {
        let reserve = [("tokens", Amount::whole(5))];
        let defaults = Submission::new("")
            .fairness_key("tenant")
            .budget("month")
            .budget_reserving("day", reserve)
            .quota("calls")
            .concurrency("tenant", 2);
        let own = Submission::new("k").budget("own").concurrency("other", 1);
        let required_gates = Draft::from(own.with_defaults(&defaults)).required_gates;
        assert_eq!(required_gates.budgets, [(Name::trusted("own"), Default::default())]);
        assert_eq!(required_gates.concurrency, Some((Name::trusted("other"), 1)));
        assert_eq!(
            (required_gates.quotas, required_gates.fairness_key),
            (vec![Name::trusted("calls")], Some(Name::trusted("tenant")))
        );
        let inherited = Draft::from(Submission::new("k").with_defaults(&defaults)).required_gates;
        assert_eq!(inherited, Draft::from(defaults).required_gates);
        assert_eq!(inherited.budgets[1].1["tokens"], Amount::whole(5));
    }

    #[test]
    fn gates_are_validated_when_the_execution_is_submitted() {
        for (submission, pointer) in [
            (Submission::new("k").fairness_key(""), "/fairness_key"),
            (Submission::new("k").quota("q").quota("q"), "/quotas/1"),
            (Submission::new("k").budget("\0"), "/budgets/0"),
            (Submission::new("k").concurrency("key", 0), "/concurrency/limit"),
        ] {
            let refusal = Draft::from(submission).check().expect_err("the submission is refused");
            assert_eq!(refusal.pointer(), Some(pointer));
        }
    }
}
