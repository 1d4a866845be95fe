//! Calls that carry the caller's idempotency key: a repeated call changes nothing, and its answer says so.

use super::{Bulk, BulkResult, FlowView, GateView, Namespace};
use crate::Error;
use selvedge_core::flow::CancelMode;
use selvedge_core::gate::GateKind;
use selvedge_core::gate::patch::ConfigPatch;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::CallKey;
use selvedge_core::rules::gates::configure::{Configured, Setting};
use selvedge_core::rules::keyed::{Answered, CallSteps, FixPlan, Keyed, Repeatable};
use selvedge_core::rules::operator::{Action, Operate};
use selvedge_core::rules::waitpoint::RotateTokenKeys;
use selvedge_core::rules::worker::Drain;
use selvedge_core::token::TokenKey;
use selvedge_core::{Execution, ExecutionId, FlowId, Name, Waitpoint, WaitpointId};
use std::time::Duration;

/// The calls of a namespace, with the idempotency key of one of them.
pub struct KeyedCalls<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) call_key: Option<CallKey>,
}

impl Namespace {
    /// Returns the calls that may carry an idempotency key. Use the key for one call only.
    pub fn keyed(&self, call_key: Option<CallKey>) -> KeyedCalls<'_> {
        KeyedCalls { namespace: self, call_key }
    }
}

impl KeyedCalls<'_> {
    /// Runs a rule under the key.
    pub(super) async fn run<R: Repeatable>(&self, rule: R) -> Result<Answered<R::Done>, Error> {
        let call_key = self.call_key.clone();
        Ok(self.namespace.run(Keyed { call_key, rule, keeps_refusals: false }).await??)
    }

    /// Fixes the steps of a call that takes several transactions: those of the first call with the key.
    pub(super) async fn fix_plan<P: CallSteps>(&self, plan: P) -> Result<Answered<P>, Error> {
        match self.call_key {
            Some(_) => self.run(FixPlan { namespace: self.namespace.id(), plan }).await,
            None => Ok(Answered { done: plan, duplicate: false }),
        }
    }

    /// Returns the key of one step.
    pub(super) fn step(&self, step: impl std::fmt::Display) -> Option<CallKey> {
        self.call_key.as_ref().map(|call_key| call_key.step(step))
    }

    /// Applies an action to one execution. See [`Namespace::operate`].
    pub async fn operate(
        &self,
        execution: ExecutionId,
        action: Action,
        if_version: Option<u32>,
        actor: &Name,
    ) -> Result<Answered<Execution>, Error> {
        let namespace = self.namespace.id();
        self.run(Operate { namespace, execution, actor: actor.clone(), if_version, action }).await
    }

    /// Applies an action to many executions. See [`Namespace::bulk`]. A repeated call acts on the executions of the first
    /// one, whatever matches now.
    pub async fn bulk(&self, bulk: Bulk, actor: &Name) -> Result<Answered<BulkResult>, Error> {
        self.namespace.bulk_keyed(self, bulk, actor).await
    }

    /// Cancels a flow and waits for its members to be cancelled. See [`Namespace::cancel_flow`].
    pub async fn cancel_flow(
        &self,
        id: FlowId,
        mode: CancelMode,
        reason: Option<String>,
        actor: &Name,
        wait: Duration,
    ) -> Result<Answered<(FlowView, bool)>, Error> {
        self.namespace.cancel_flow_keyed(self, id, (mode, reason, actor), wait).await
    }

    /// Asks a worker to drain. See [`Namespace::drain_worker`].
    pub async fn drain_worker(&self, instance: &str, actor: &Name) -> Result<Answered<()>, Error> {
        let instance = Name::parse("/instance", instance, NAME_LIMIT)?;
        self.run(Drain { namespace: self.namespace.id(), instance, actor: actor.clone() }).await
    }

    /// Changes some fields of the configuration of a gate. See [`Namespace::patch_gate`].
    pub async fn patch_gate(
        &self,
        kind: GateKind,
        name: &str,
        patch: ConfigPatch,
        actor: &Name,
    ) -> Result<Answered<Configured>, Error> {
        let setting = Setting::Patch(Box::new(patch));
        self.namespace.set_gate(self, (kind, name), setting, actor).await
    }

    /// Resets the usage of a budget and of all its parts to zero. See [`Namespace::reset_budget`].
    pub async fn reset_budget(&self, name: &str, actor: &Name) -> Result<Answered<GateView>, Error> {
        self.namespace.reset_budget_keyed(self, name, actor).await
    }

    /// Revokes the token of a waitpoint. See [`Namespace::revoke_waitpoint`].
    pub async fn revoke_waitpoint(
        &self,
        id: WaitpointId,
        actor: &Name,
    ) -> Result<Answered<Waitpoint>, Error> {
        self.namespace.revoke_waitpoint_keyed(self, id, actor).await
    }

    /// Issues a new token of a waitpoint. See [`Namespace::reissue_waitpoint`]. Only the first call may sign it: a later
    /// call may have replaced the token since.
    pub async fn reissue_waitpoint(
        &self,
        id: WaitpointId,
        expires_ms: Option<i64>,
        actor: &Name,
    ) -> Result<Answered<Waitpoint>, Error> {
        self.namespace.reissue_waitpoint_keyed(self, id, expires_ms, actor).await
    }

    /// Rotates the key that signs tokens. See [`Namespace::rotate_token_keys`].
    pub async fn rotate_token_keys(&self, grace_ms: i64, actor: &Name) -> Result<Answered<TokenKey>, Error> {
        let (namespace, actor) = (self.namespace.id(), actor.clone());
        let fingerprint = self.namespace.inner().secret.fingerprint();
        self.run(RotateTokenKeys { namespace, grace_ms, fingerprint, actor }).await
    }
}
