//! Calls with an idempotency key: a repeated call changes nothing and gets the answer of the first one.
//!
//! The key is written by the transaction of the call's effect, so both are committed or neither is. Two concurrent calls
//! with the same key both try to insert it: the second one fails its guard, is decided again, and finds the answer.
//!
//! A call that takes several transactions first fixes its steps ([`FixPlan`]). Each step then has a key of its own
//! ([`CallKey::step`]), so a repeated call takes the same steps, skips those that were taken, and takes those that a crash
//! left out.

use super::CallKey;
use crate::rows::Needs;
use crate::rule::{Phase, Profile, Rule};
use crate::{NamespaceId, Refusal, Work};
use serde::{Serialize, de::DeserializeOwned};

/// A rule whose answer can be stored under the key of its call.
pub trait Repeatable: Rule<Reply = Result<<Self as Repeatable>::Done, Refusal>> {
    /// The accepted reply.
    type Done: Send + 'static;
    /// The part of the reply that is stored: ids, and no secrets.
    type Answer: Serialize + DeserializeOwned;

    /// Returns the namespace of the call.
    fn namespace(&self) -> NamespaceId;

    /// Returns the part of an accepted reply that is stored.
    fn answer(done: &Self::Done) -> Self::Answer;

    /// Returns the reply to a repeated call, from the stored answer and the rows as they are now.
    fn repeat(&self, answer: Self::Answer, work: &Work) -> Result<Self::Done, Refusal>;
}

/// A rule with the idempotency key of its call, if it has one.
#[derive(Clone, Debug)]
pub struct Keyed<R> {
    pub call_key: Option<CallKey>,
    pub rule: R,
    /// Stores refusals too, so that a repeated call is refused again whatever has changed since. For the steps of a call
    /// that takes several transactions; a call of one transaction that is refused has done nothing and may be repeated.
    pub keeps_refusals: bool,
}

/// A reply, and whether the same call was answered before.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered<T> {
    pub done: T,
    /// True if a call with the same key was answered before: this one changed nothing.
    pub duplicate: bool,
}

impl<R: Repeatable> Rule for Keyed<R> {
    type Reply = Result<Answered<R::Done>, Refusal>;
    const PHASE: Phase = R::PHASE;

    fn profile(&self) -> Profile {
        self.rule.profile()
    }

    fn needs(&self, work: &Work, needs: &mut Needs) {
        let namespace = self.rule.namespace();
        needs.keys.read(self.call_key.as_ref().map(|call_key| call_key.key_name(namespace)));
        self.rule.needs(work, needs);
    }

    /// Repeats the stored answer, or decides the rule and stores its answer.
    fn decide(&self, work: &mut Work) -> Self::Reply {
        let fresh = |done| Answered { done, duplicate: false };
        let Some(call_key) = &self.call_key else { return self.rule.decide(work).map(fresh) };
        let namespace = self.rule.namespace();
        let repeat = |answer, work: &Work| {
            let done = self.rule.repeat(answer, work)?;
            Ok(Answered { done, duplicate: true })
        };
        if self.keeps_refusals {
            if let Some(answer) = call_key.stored::<Result<R::Answer, Refusal>>(namespace, work)? {
                return repeat(answer?, work);
            }
            let reply = self.rule.decide(work);
            let answer = reply.as_ref().map(R::answer);
            call_key.store(namespace, &answer, work);
            return reply.map(fresh);
        }
        if let Some(answer) = call_key.stored::<R::Answer>(namespace, work)? {
            return repeat(answer, work);
        }
        let done = self.rule.decide(work)?;
        call_key.store(namespace, &R::answer(&done), work);
        Ok(fresh(done))
    }
}

/// The steps of a call that takes several transactions.
pub trait CallSteps: Clone + Serialize + DeserializeOwned + Send + 'static {}

impl<T: Clone + Serialize + DeserializeOwned + Send + 'static> CallSteps for T {}

/// Fixes the steps of a call that takes several transactions, under the key of the call.
#[derive(Clone, Debug)]
pub struct FixPlan<P> {
    pub namespace: NamespaceId,
    /// The steps, as this call would take them.
    pub plan: P,
}

impl<P: CallSteps> Rule for FixPlan<P> {
    type Reply = Result<P, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, _needs: &mut Needs) {}

    fn decide(&self, _work: &mut Work) -> Self::Reply {
        Ok(self.plan.clone())
    }
}

impl<P: CallSteps> Repeatable for FixPlan<P> {
    type Done = P;
    type Answer = P;

    fn namespace(&self) -> NamespaceId {
        self.namespace
    }

    fn answer(done: &P) -> P {
        done.clone()
    }

    fn repeat(&self, answer: P, _work: &Work) -> Result<P, Refusal> {
        Ok(answer)
    }
}
