//! Cancellation of flows.

use super::{lone_flow, no_flow};
use crate::Error;
use crate::namespace::{FlowView, KeyedCalls, Namespace, WAIT_MAX};
use selvedge_core::flow::CancelMode;
use selvedge_core::rules::flows::whole::CancelFlow;
use selvedge_core::rules::keyed::Answered;
use selvedge_core::rules::operator::Action;
use selvedge_core::{ExecutionId, FlowId, Name, Refusal};
use std::time::Duration;
use tokio::time::Instant;

/// The maximum time between two reads of a cancel that waits for the members.
const READ_INTERVAL: Duration = Duration::from_millis(20);

impl Namespace {
    /// Cancels a flow and waits for its members to be cancelled. Returns false if that takes longer than `wait`.
    pub async fn cancel_flow(
        &self,
        id: FlowId,
        mode: CancelMode,
        reason: Option<String>,
        actor: &Name,
        wait: Duration,
    ) -> Result<(FlowView, bool), Error> {
        Ok(self.keyed(None).cancel_flow(id, mode, reason, actor, wait).await?.done)
    }

    pub(in crate::namespace) async fn cancel_flow_keyed(
        &self,
        calls: &KeyedCalls<'_>,
        id: FlowId,
        (mode, reason, actor): (CancelMode, Option<String>, &Name),
        wait: Duration,
    ) -> Result<Answered<(FlowView, bool)>, Error> {
        while self.stored_flow(id).await?.is_none() {
            let lone = self.cancel_lone(calls, id, (mode, reason.clone(), actor)).await?;
            if let Some(Answered { done, duplicate }) = lone {
                return Ok(Answered { done: (done, true), duplicate });
            }
        }
        let deadline = Instant::now() + wait.min(WAIT_MAX);
        let cancel = CancelFlow { namespace: self.id(), flow: id, mode, reason, actor: actor.clone() };
        let Answered { duplicate, .. } = calls.run(cancel).await?;
        let waiter = self.inner().waiters.register_end(ExecutionId(id.0));
        loop {
            let woken = waiter.woken();
            tokio::pin!(woken);
            woken.as_mut().enable();
            let view = self.flow(id).await?;
            let draining = view.flow.detail.cancel.as_ref().is_some_and(|cancel| cancel.draining);
            if !draining || Instant::now() >= deadline || self.inner().committer.is_closed() {
                return Ok(Answered { done: (view, !draining), duplicate });
            }
            tokio::select! {
                () = &mut woken => {}
                () = tokio::time::sleep_until(deadline.min(Instant::now() + READ_INTERVAL)) => {}
            }
        }
    }

    /// Cancels a lone execution as the flow that it is. None if it has changed since it was read: it may have become a
    /// flow, so the caller starts over.
    async fn cancel_lone(
        &self,
        calls: &KeyedCalls<'_>,
        id: FlowId,
        (mode, reason, actor): (CancelMode, Option<String>, &Name),
    ) -> Result<Option<Answered<FlowView>>, Error> {
        let lone = self.same_id_execution(id).await?;
        if lone.flow.is_some() {
            return if self.stored_flow(id).await?.is_some() { Ok(None) } else { Err(no_flow(id)) };
        }
        let mut duplicate = false;
        if mode == CancelMode::All || lone.started_at.is_none() {
            let action = Action::Cancel { reason, grace_ms: 0 };
            match calls.operate(lone.id, action, Some(lone.version), actor).await {
                Err(Error::Refused(Refusal::VersionMismatch { .. })) => return Ok(None),
                Err(Error::Refused(Refusal::AlreadyTerminal { .. })) => {
                    let state = lone_flow(&lone).state.as_str().into();
                    return Err(Refusal::FlowEnded { flow: id, state }.into());
                }
                done => duplicate = done?.duplicate,
            }
        }
        Ok(Some(Answered { done: self.flow(id).await?, duplicate }))
    }
}
