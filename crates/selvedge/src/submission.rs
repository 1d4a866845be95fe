//! What is submitted, put together step by step.

use crate::{Amount, Backoff, Draft, Error, Name, Namespace, Refusal, Retry, Submitted, Timestamp, When};
use bytes::Bytes;
use serde::Serialize;
use std::time::Duration;
use uuid::Uuid;

/// A submission: a kind, its input, and whatever differs from the defaults. Nothing is checked before it is submitted;
/// a field that is wrong is then refused by name.
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
/// Many at once: [`Namespace::submit_many`] takes the [`Draft`]s that these turn into.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    draft: Draft,
    given: Given,
}

/// Which fields were given whose value alone does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Given {
    input: bool,
    lane: bool,
    priority: bool,
    retry: bool,
    retention: bool,
}

impl Submission {
    /// An execution of this kind: input `null`, lane `default`, everything else by default.
    pub fn new(kind: impl Into<String>) -> Self {
        Submission { draft: Draft::new(kind), given: Given::default() }
    }

    /// Its input, as JSON. A value that cannot be written as JSON is refused.
    pub fn input<T: Serialize + ?Sized>(self, input: &T) -> Result<Self, Error> {
        let json = serde_json::to_vec(input)
            .map_err(|error| Refusal::field("/input", format!("cannot be written as JSON: {error}")))?;
        Ok(self.input_json(json))
    }

    /// Its input, JSON already; kept byte for byte.
    pub fn input_json(mut self, json: impl Into<Bytes>) -> Self {
        self.draft.input = json.into();
        self.given.input = true;
        self
    }

    /// Its queue; `default`.
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.draft.lane = lane.into();
        self.given.lane = true;
        self
    }

    /// Its id, for a submission that is safe to repeat; minted where none is given.
    pub fn id(mut self, id: Uuid) -> Self {
        self.draft.id = Some(id);
        self
    }

    /// A second submission with this key is the first, for 24 hours or the given window.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.draft.idempotency_key = Some(key.into());
        self
    }

    /// How long the idempotency key stands for this execution; 24 hours.
    pub fn idempotency_window(mut self, window: Duration) -> Self {
        self.draft.idempotency_window_ms = Some(millis(window));
        self
    }

    /// A second submission with this key is the first while that has not ended.
    pub fn unique_while_active(mut self, key: impl Into<String>) -> Self {
        self.draft.unique_while_active = Some(key.into());
        self
    }

    /// Higher first; 0.
    pub fn priority(mut self, priority: i16) -> Self {
        self.draft.priority = priority.into();
        self.given.priority = true;
        self
    }

    /// Whose turn it takes: of those that wait in a lane, executions with different keys take turns.
    pub fn fairness_key(mut self, key: impl AsRef<str>) -> Self {
        self.draft.draws.fairness_key = Some(Name::trusted(key.as_ref()));
        self
    }

    /// One more budget that it draws on, without an estimate of what it costs.
    pub fn budget(self, name: impl AsRef<str>) -> Self {
        self.budget_reserving(name, [] as [(&str, Amount); 0])
    }

    /// One more budget that it draws on, and what it may cost at most by estimate: its claim reserves that, and it starts
    /// only while the budget has so much left.
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
        self.draft.draws.budgets.push((Name::trusted(name.as_ref()), reserve));
        self
    }

    /// One more quota that limits how often, and how many at once, may start.
    pub fn quota(mut self, name: impl AsRef<str>) -> Self {
        self.draft.draws.quotas.push(Name::trusted(name.as_ref()));
        self
    }

    /// At most `limit` executions with this key run at once; the others are held until one of them ends.
    pub fn concurrency(mut self, key: impl AsRef<str>, limit: u32) -> Self {
        self.draft.draws.concurrency = Some((Name::trusted(key.as_ref()), limit));
        self
    }

    /// One more thing its worker must be capable of.
    pub fn capability(mut self, capability: impl Into<String>) -> Self {
        self.draft.capabilities.push(capability.into());
        self
    }

    /// A name and value to find it by.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.draft.tags.insert(name.into(), value.into());
        self
    }

    /// Not before this long from now.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.draft.delay = Some(When::AfterMs(millis(delay)));
        self
    }

    /// Not before this time.
    pub fn not_before(mut self, time: Timestamp) -> Self {
        self.draft.delay = Some(When::At(time));
        self
    }

    /// How many failed attempts are followed by another; 3.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.draft.policy.retry.max_retries = retries;
        self.given.retry = true;
        self
    }

    /// How long to wait between attempts; 1 s doubling to 60 s, with jitter.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.draft.policy.retry.backoff = backoff;
        self.given.retry = true;
        self
    }

    /// Everything about its retries at once.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.draft.policy.retry = retry;
        self.given.retry = true;
        self
    }

    /// The longest one attempt may run; no limit.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.draft.policy.attempt_timeout_ms = Some(millis(timeout));
        self
    }

    /// The longest it may live from its submission, all attempts and waits included; no limit.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.draft.policy.deadline_ms = Some(millis(deadline));
        self
    }

    /// The longest it may wait for its first start; no limit.
    pub fn start_by(mut self, start_by: Duration) -> Self {
        self.draft.policy.start_by_ms = Some(millis(start_by));
        self
    }

    /// How long it and its history stay after its end; 7 days.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.draft.policy.retention_ms = millis(retention);
        self.given.retention = true;
        self
    }

    /// The same, with what `defaults` has where this says nothing itself. A field of its own wins whole.
    pub(crate) fn with_defaults(mut self, defaults: &Submission) -> Self {
        let (own, given, usual) = (&mut self.draft, self.given, &defaults.draft);
        if !given.input {
            own.input = usual.input.clone();
        }
        if !given.lane {
            own.lane.clone_from(&usual.lane);
        }
        if !given.priority {
            own.priority = usual.priority;
        }
        if own.capabilities.is_empty() {
            own.capabilities.clone_from(&usual.capabilities);
        }
        if own.tags.is_empty() {
            own.tags.clone_from(&usual.tags);
        }
        own.delay = own.delay.or(usual.delay);
        let (draws, usual_draws) = (&mut own.draws, &usual.draws);
        if draws.budgets.is_empty() {
            draws.budgets.clone_from(&usual_draws.budgets);
        }
        if draws.quotas.is_empty() {
            draws.quotas.clone_from(&usual_draws.quotas);
        }
        draws.concurrency = draws.concurrency.take().or_else(|| usual_draws.concurrency.clone());
        draws.fairness_key = draws.fairness_key.take().or_else(|| usual_draws.fairness_key.clone());
        let (own, usual) = (&mut own.policy, &usual.policy);
        if !given.retry {
            own.retry = usual.retry.clone();
        }
        if !given.retention {
            own.retention_ms = usual.retention_ms;
        }
        own.attempt_timeout_ms = own.attempt_timeout_ms.or(usual.attempt_timeout_ms);
        own.deadline_ms = own.deadline_ms.or(usual.deadline_ms);
        own.start_by_ms = own.start_by_ms.or(usual.start_by_ms);
        self
    }

    /// Submits it.
    pub async fn submit(self, namespace: &Namespace) -> Result<Submitted, Error> {
        namespace.submit(self.draft).await
    }
}

/// An execution of this kind, everything else by default.
impl From<&str> for Submission {
    fn from(kind: &str) -> Submission {
        Submission::new(kind)
    }
}

impl From<Submission> for Draft {
    fn from(submission: Submission) -> Draft {
        submission.draft
    }
}

/// Whole milliseconds; a duration beyond all bounds stays one that is refused.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_wins_over_the_defaults_even_where_it_is_the_usual_value() {
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
    fn what_it_draws_on_is_its_own_or_that_of_the_defaults_each_whole() {
        let reserve = [("tokens", Amount::whole(5))];
        let defaults = Submission::new("")
            .fairness_key("tenant")
            .budget("month")
            .budget_reserving("day", reserve)
            .quota("calls")
            .concurrency("tenant", 2);
        let own = Submission::new("k").budget("own").concurrency("other", 1);
        let draws = Draft::from(own.with_defaults(&defaults)).draws;
        assert_eq!(draws.budgets, [(Name::trusted("own"), Default::default())]);
        assert_eq!(draws.concurrency, Some((Name::trusted("other"), 1)));
        assert_eq!(
            (draws.quotas, draws.fairness_key),
            (vec![Name::trusted("calls")], Some(Name::trusted("tenant")))
        );
        let usual = Draft::from(Submission::new("k").with_defaults(&defaults)).draws;
        assert_eq!(usual, Draft::from(defaults).draws);
        assert_eq!(usual.budgets[1].1["tokens"], Amount::whole(5));
    }

    #[test]
    fn what_it_draws_on_is_checked_when_it_is_submitted() {
        for (submission, pointer) in [
            (Submission::new("k").fairness_key(""), "/fairness_key"),
            (Submission::new("k").quota("q").quota("q"), "/quotas/1"),
            (Submission::new("k").budget("\0"), "/budgets/0"),
            (Submission::new("k").concurrency("key", 0), "/concurrency/limit"),
        ] {
            let refusal = Draft::from(submission).check().expect_err("is refused");
            assert_eq!(refusal.pointer(), Some(pointer));
        }
    }
}
