//! Takes rows of the inbox in, and lets operators repeat refused ones or delete them.
//!
//! The row is locked, skipping one that another transaction has locked, and is deleted by the transaction that submits:
//! so each row is taken in once, whichever servers try and whenever they crash.

use super::flows::submit::SubmitFlow;
use super::submit::Submit;
use crate::fact::{self, Fact};
use crate::inbox::{InboxNumber, InboxProblem, InboxRow};
use crate::rows::Needs;
use crate::rule::{Phase, Profile, Rule};
use crate::{Name, NamespaceId, Refusal, Work};
use uuid::Uuid;

/// Takes a row of the inbox in.
#[derive(Clone, Debug)]
pub struct TakeIn {
    pub number: InboxNumber,
    pub namespace: NamespaceId,
    /// The id that the caller got.
    pub id: Uuid,
    /// The caller, as events name it.
    pub actor: Option<Name>,
    pub request: InboxRequest,
}

/// The request of a row.
#[derive(Clone, Debug)]
pub enum InboxRequest {
    Execution(Submit),
    Flow(Box<SubmitFlow>),
    Invalid(Refusal),
}

/// The reply to [`TakeIn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenIn {
    /// The row was submitted and deleted.
    Submitted,
    /// The row was refused and stays with its problem.
    Refused,
    /// Another server has the row, had it before, or an operator deleted it.
    Superseded,
}

impl Rule for TakeIn {
    type Reply = TakenIn;
    const PHASE: Phase = Phase::Submissions;

    fn profile(&self) -> Profile {
        match &self.request {
            InboxRequest::Execution(submit) => submit.profile(),
            InboxRequest::Flow(submit) => submit.profile(),
            InboxRequest::Invalid(_) => Profile::weighing(1),
        }
    }

    fn needs(&self, work: &Work, needs: &mut Needs) {
        needs.inbox.lock_if_free([self.number]);
        match &self.request {
            InboxRequest::Execution(submit) => submit.needs(work, needs),
            InboxRequest::Flow(submit) => submit.needs(work, needs),
            InboxRequest::Invalid(_) => {}
        }
    }

    fn decide(&self, work: &mut Work) -> TakenIn {
        let waiting = work.row::<InboxRow>(&self.number).filter(|row| row.refused.is_none());
        let Some(row) = waiting.cloned() else { return TakenIn::Superseded };
        let submitted = match &self.request {
            InboxRequest::Execution(submit) => {
                submit.decide(work).into_iter().try_for_each(|one| one.map(drop))
            }
            InboxRequest::Flow(submit) => submit.decide(work).map(drop),
            InboxRequest::Invalid(refusal) => Err(refusal.clone()),
        };
        match submitted {
            Ok(()) => {
                work.remove::<InboxRow>(&self.number);
                TakenIn::Submitted
            }
            Err(refusal) => {
                self.refuse(row, &refusal, work);
                TakenIn::Refused
            }
        }
    }
}

impl TakeIn {
    fn refuse(&self, row: InboxRow, refusal: &Refusal, work: &mut Work) {
        let problem = InboxProblem::from(refusal);
        let InboxProblem { code, detail, pointer } = problem.clone();
        let fact = Fact::InboxRefused(fact::InboxRefused {
            number: self.number.0,
            id: self.id,
            code,
            detail,
            pointer,
        });
        work.put(InboxRow { refused: Some((work.now(), problem)), ..row });
        work.emit(self.namespace, fact, self.actor.clone());
    }
}

/// An operator's change of a refused row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxChange {
    /// Takes it in again, for example once a missing budget exists.
    Retry,
    Delete,
}

/// Changes a refused row.
#[derive(Clone, Debug)]
pub struct ChangeInboxRow {
    pub namespace: Name,
    pub number: InboxNumber,
    pub change: InboxChange,
}

impl Rule for ChangeInboxRow {
    type Reply = Result<(), Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.inbox.lock_if_free([self.number]);
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        // A repeated retry finds a row that waits.
        let is_known = |row: &InboxRow| row.refused.is_some() || self.change == InboxChange::Retry;
        let own = |row: &&InboxRow| row.namespace == self.namespace && is_known(row);
        let Some(row) = work.row::<InboxRow>(&self.number).filter(own).cloned() else {
            return Err(Refusal::NotFound { what: "refused submission".into(), id: self.number.to_string() });
        };
        match self.change {
            InboxChange::Retry => work.put(InboxRow { refused: None, ..row }),
            InboxChange::Delete => work.remove::<InboxRow>(&self.number),
        }
        Ok(())
    }
}
