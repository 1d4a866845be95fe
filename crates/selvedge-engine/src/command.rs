//! Commands as callers give them to the engine, and the replies they get.

use selvedge_core::flow::FlowState;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::rules::admit::lanes_open_at;
use selvedge_core::rules::budget::{Breach, Reset, Spend};
use selvedge_core::rules::claim::{Claim, Claimed};
use selvedge_core::rules::clock::{Tick, Ticked, What};
use selvedge_core::rules::dispatch::{Dispatch, Dispatched};
use selvedge_core::rules::flow::{CancelFlow, ForgetFlow, Settle};
use selvedge_core::rules::gate::{Configure, Configured};
use selvedge_core::rules::grow::Grow;
use selvedge_core::rules::heartbeat::{Beat, Heartbeat};
use selvedge_core::rules::operator::{Action, Operate};
use selvedge_core::rules::release::{LookAtGate, LookedAt};
use selvedge_core::rules::report::{Fence, Op, Report, Reported};
use selvedge_core::rules::signal::{Deliver, Delivered};
use selvedge_core::rules::submit::{Submit, Submitted};
use selvedge_core::rules::submit_flow::{FlowSubmitted, SubmitFlow};
use selvedge_core::rules::waitpoint::Rotate;
use selvedge_core::rules::worker::{Depart, Drain, Forget, PutBack};
use selvedge_core::token::TokenKey;
use selvedge_core::{ClassId, Execution, ExecutionId, Flow, FlowId, Needs, Refusal, Work};

/// A command of any kind.
#[derive(Clone, Debug)]
pub enum Command {
    /// Reports of a worker.
    Report(Vec<Report>),
    /// Something that seems due.
    Tick(Tick),
    /// A lease to put back.
    PutBack(PutBack),
    /// An operator's action.
    Operate(Operate),
    /// A signal.
    Deliver(Box<Deliver>),
    /// A new key for tokens.
    Rotate(Rotate),
    /// How a gate is configured.
    Configure(Box<Configure>),
    /// A gate that may be open and hold something.
    LookAtGate(LookAtGate),
    /// Something was spent of a budget.
    Spend(Spend),
    /// A budget's usage is set back.
    Reset(Reset),
    /// An execution whose budget is used up.
    Breach(Breach),
    /// Submissions; `again` says that this very call may have committed before.
    Submit {
        /// What.
        submit: Submit,
        /// Whether it may have committed before.
        again: bool,
    },
    /// A whole flow; `again` says that this very call may have committed before.
    SubmitFlow {
        /// What.
        submit: Box<SubmitFlow>,
        /// Whether it may have committed before.
        again: bool,
    },
    /// Nodes and edges for a flow; `again` says that this very call may have committed before.
    Grow {
        /// What.
        grow: Box<Grow>,
        /// Whether it may have committed before.
        again: bool,
    },
    /// Work that a commit left in the outbox.
    Dispatch(Dispatch),
    /// The cancel of a flow.
    CancelFlow(CancelFlow),
    /// The end of a flow.
    Settle(Settle),
    /// A flow to delete.
    ForgetFlow(ForgetFlow),
    /// A heartbeat.
    Heartbeat(Heartbeat),
    /// A worker is asked to drain.
    Drain(Drain),
    /// A worker has gone.
    Depart(Depart),
    /// Sessions to forget.
    Forget(Forget),
    /// A claim; `handed_only` says that it takes only what this transaction makes ready.
    Claim {
        /// What.
        claim: Claim,
        /// Whether to leave the store's ready ones alone.
        handed_only: bool,
    },
}

/// The reply to a command of the same name.
#[derive(Clone, Debug)]
pub enum Reply {
    /// To [`Command::Report`].
    Report(Vec<Result<Reported, Refusal>>),
    /// To [`Command::Tick`].
    Tick(Result<Ticked, Refusal>),
    /// To [`Command::PutBack`].
    PutBack(Result<bool, Refusal>),
    /// To [`Command::Operate`].
    Operate(Box<Result<Execution, Refusal>>),
    /// To [`Command::Deliver`].
    Deliver(Result<Delivered, Refusal>),
    /// To [`Command::Rotate`].
    Rotate(Result<TokenKey, Refusal>),
    /// To [`Command::Configure`].
    Configure(Box<Result<Configured, Refusal>>),
    /// To [`Command::LookAtGate`].
    LookAtGate(LookedAt),
    /// To [`Command::Spend`]: whether it was counted now, and not before.
    Spend(Result<bool, Refusal>),
    /// To [`Command::Reset`].
    Reset(Result<(), Refusal>),
    /// To [`Command::Breach`]: whether it was stopped.
    Breach(Result<bool, Refusal>),
    /// To [`Command::Submit`].
    Submit(Vec<Result<Submitted, Refusal>>),
    /// To [`Command::SubmitFlow`].
    SubmitFlow(Box<Result<FlowSubmitted, Refusal>>),
    /// To [`Command::Grow`] and [`Command::CancelFlow`].
    Flow(Box<Result<Flow, Refusal>>),
    /// To [`Command::Dispatch`].
    Dispatch(Result<Dispatched, Refusal>),
    /// To [`Command::Settle`].
    Settle(Option<FlowState>),
    /// To [`Command::ForgetFlow`].
    ForgetFlow(Option<(FlowId, bool)>),
    /// To [`Command::Heartbeat`].
    Heartbeat(Beat),
    /// To [`Command::Drain`].
    Drain(Result<(), Refusal>),
    /// To [`Command::Depart`].
    Depart(Result<Vec<Fence>, Refusal>),
    /// To [`Command::Forget`].
    Forget(usize),
    /// To [`Command::Claim`].
    Claim(Result<Vec<Claimed>, Refusal>),
    /// To [`Command::Claim`], if it got nothing and a lane that gives out nothing more for now will do so this many
    /// milliseconds later.
    OpensIn(i64),
    /// To a command that comes to an execution which somebody else has: it is yet to be decided.
    Later,
    /// To [`Command::Claim`], if it got nothing and would not, however much becomes ready.
    Shut {
        /// Because its worker drains, and not because the call was answered before.
        drains: bool,
    },
}

/// The phase of claims.
pub const LAST: u8 = 11;

impl Command {
    /// In which order the commands of one batch are decided: what makes ready comes before what claims.
    pub fn phase(&self) -> u8 {
        match self {
            Command::Report(_) => 0,
            Command::Tick(_) => 1,
            Command::PutBack(_) => 2,
            Command::Operate(_)
            | Command::Deliver(_)
            | Command::Rotate(_)
            | Command::Configure(_)
            | Command::LookAtGate(_)
            | Command::Spend(_)
            | Command::Reset(_)
            | Command::Breach(_)
            | Command::CancelFlow(_) => 3,
            Command::Submit { .. } | Command::SubmitFlow { .. } | Command::Grow { .. } => 4,
            Command::Dispatch(_) => 5,
            Command::Settle(_) | Command::ForgetFlow(_) => 6,
            Command::Heartbeat(_) => 7,
            Command::Drain(_) => 8,
            Command::Depart(_) => 9,
            Command::Forget(_) => 10,
            Command::Claim { .. } => LAST,
        }
    }

    /// How much of a batch it fills.
    pub fn weight(&self) -> usize {
        match self {
            // What was spent is counted in rows that the batch has anyway.
            Command::Report(reports) => {
                1 + reports.iter().filter(|report| !matches!(report.op, Op::Usage(_))).count()
            }
            Command::Submit { submit, .. } => submit.items.len(),
            // What it takes is not known; most claims that ask for many get few.
            Command::Claim { claim, .. } => claim.max.min(32) as usize / 4 + 1,
            Command::SubmitFlow { submit, .. } => submit.planned.ids.len(),
            Command::Grow { grow, .. } => grow.planned.ids.len(),
            Command::Dispatch(_) => 8,
            Command::ForgetFlow(_) => 64,
            Command::LookAtGate(_) | Command::Configure(_) | Command::Reset(_) => 32,
            Command::Heartbeat(heartbeat) => 1 + heartbeat.leases.len() / 4,
            Command::Tick(_)
            | Command::PutBack(_)
            | Command::Operate(_)
            | Command::Deliver(_)
            | Command::Rotate(_)
            | Command::Spend(_)
            | Command::Breach(_)
            | Command::CancelFlow(_)
            | Command::Settle(_)
            | Command::Drain(_)
            | Command::Depart(_)
            | Command::Forget(_) => 1,
        }
    }

    /// What it must see first.
    pub fn needs(&self, classes: &[ClassId], again: bool, needs: &mut Needs) {
        match self {
            Command::Report(reports) => reports.iter().for_each(|report| report.needs(needs)),
            Command::Tick(tick) => tick.needs(needs),
            Command::PutBack(put_back) => put_back.needs(needs),
            Command::Operate(operate) => operate.needs(needs),
            Command::Deliver(deliver) => deliver.needs(needs),
            Command::Rotate(rotate) => rotate.needs(needs),
            Command::Configure(configure) => configure.needs(needs),
            Command::LookAtGate(look) => look.needs(needs),
            Command::Spend(spend) => spend.needs(needs),
            Command::Reset(reset) => reset.needs(needs),
            Command::Breach(breach) => breach.needs(needs),
            Command::Submit { submit, again: before } => submit.needs(again || *before, needs),
            Command::SubmitFlow { submit, again: before } => submit.needs(again || *before, needs),
            Command::Grow { grow, .. } => grow.needs(needs),
            Command::Dispatch(dispatch) => dispatch.needs(needs),
            Command::CancelFlow(cancel) => cancel.needs(needs),
            Command::Settle(settle) => settle.needs(needs),
            Command::ForgetFlow(forget) => forget.needs(needs),
            Command::Heartbeat(heartbeat) => heartbeat.needs(needs),
            Command::Drain(drain) => drain.needs(needs),
            Command::Depart(depart) => depart.needs(needs),
            Command::Forget(forget) => forget.needs(needs),
            Command::Claim { claim, handed_only } => claim.needs(classes, *handed_only, needs),
        }
    }

    /// The lanes that it submits to. Only where lanes are configured is there anything to see of them.
    pub fn needs_lanes(&self, needs: &mut Needs) {
        match self {
            Command::Submit { submit, .. } => submit.needs_lanes(needs),
            Command::SubmitFlow { submit, .. } => submit.needs_lanes(needs),
            Command::Grow { grow, .. } => grow.needs_lanes(needs),
            Command::Report(reports) => {
                for report in reports {
                    if let Op::Spawn(spawn) = &report.op {
                        spawn.needs_lanes(report.namespace, needs);
                    }
                }
            }
            Command::Tick(_)
            | Command::PutBack(_)
            | Command::Operate(_)
            | Command::Deliver(_)
            | Command::Rotate(_)
            | Command::Configure(_)
            | Command::LookAtGate(_)
            | Command::Spend(_)
            | Command::Reset(_)
            | Command::Breach(_)
            | Command::Dispatch(_)
            | Command::CancelFlow(_)
            | Command::Settle(_)
            | Command::ForgetFlow(_)
            | Command::Heartbeat(_)
            | Command::Drain(_)
            | Command::Depart(_)
            | Command::Forget(_)
            | Command::Claim { .. } => {}
        }
    }

    /// The executions that it says have spent something.
    pub fn spenders(&self) -> Vec<ExecutionId> {
        let by = |report: &Report| match &report.op {
            Op::Usage(spend) => spend.execution,
            _ => None,
        };
        match self {
            Command::Spend(spend) => spend.execution.into_iter().collect(),
            Command::Report(reports) => reports.iter().filter_map(by).collect(),
            _ => Vec::new(),
        }
    }

    /// What it must see after that.
    pub fn needs_more(&self, classes: &[ClassId], work: &Work, needs: &mut Needs) {
        match self {
            Command::Tick(tick) => tick.needs_more(work, needs),
            Command::Operate(operate) => operate.needs_more(work, needs),
            Command::Deliver(deliver) => deliver.needs_more(work, needs),
            Command::Spend(spend) => spend.needs_more(work, needs),
            Command::LookAtGate(look) => look.needs_more(work, needs),
            Command::Submit { submit, .. } => submit.needs_more(work, needs),
            Command::Heartbeat(heartbeat) => heartbeat.needs_more(work, needs),
            Command::Claim { claim, .. } => claim.needs_more(classes, work, needs),
            Command::Report(reports) => reports.iter().for_each(|report| report.needs_more(work, needs)),
            Command::SubmitFlow { submit, .. } => submit.needs_more(work, needs),
            Command::Grow { grow, .. } => grow.needs_more(work, needs),
            Command::Dispatch(dispatch) => dispatch.needs_more(work, needs),
            Command::Settle(settle) => settle.needs_more(work, needs),
            Command::ForgetFlow(forget) => forget.needs_more(work, needs),
            Command::PutBack(_)
            | Command::Rotate(_)
            | Command::Configure(_)
            | Command::Reset(_)
            | Command::Breach(_)
            | Command::CancelFlow(_)
            | Command::Drain(_)
            | Command::Depart(_)
            | Command::Forget(_) => {}
        }
    }

    /// Whether it may lock further executions after it has seen the first ones.
    pub fn may_lock_more(&self) -> bool {
        match self {
            Command::Submit { submit, .. } => submit.has_keys(),
            Command::Operate(operate) => operate.action == Action::Replay,
            Command::Report(reports) => reports.iter().any(|report| matches!(report.op, Op::Spawn(_))),
            Command::Grow { .. } | Command::Dispatch(_) | Command::ForgetFlow(_) => true,
            Command::Tick(_)
            | Command::PutBack(_)
            | Command::Deliver(_)
            | Command::Rotate(_)
            | Command::Configure(_)
            | Command::LookAtGate(_)
            | Command::Spend(_)
            | Command::Reset(_)
            | Command::Breach(_)
            | Command::SubmitFlow { .. }
            | Command::CancelFlow(_)
            | Command::Settle(_)
            | Command::Heartbeat(_)
            | Command::Drain(_)
            | Command::Depart(_)
            | Command::Forget(_)
            | Command::Claim { .. } => false,
        }
    }

    /// Whether it locks flows that may have live members. They come after executions in the order of locks.
    pub fn locks_flows(&self) -> bool {
        match self {
            Command::Grow { .. } | Command::CancelFlow(_) | Command::ForgetFlow(_) => true,
            Command::Dispatch(dispatch) => dispatch.row.name.kind == OutboxKind::Flow,
            Command::Operate(operate) => operate.action == Action::Replay,
            Command::Report(reports) => reports.iter().any(|report| matches!(report.op, Op::Spawn(_))),
            Command::Tick(_)
            | Command::PutBack(_)
            | Command::Deliver(_)
            | Command::Rotate(_)
            | Command::Configure(_)
            | Command::LookAtGate(_)
            | Command::Spend(_)
            | Command::Reset(_)
            | Command::Breach(_)
            | Command::Submit { .. }
            | Command::SubmitFlow { .. }
            | Command::Settle(_)
            | Command::Heartbeat(_)
            | Command::Drain(_)
            | Command::Depart(_)
            | Command::Forget(_)
            | Command::Claim { .. } => false,
        }
    }

    /// The execution to which it comes from outside, in whatever state that is: a batch of several takes those that nobody
    /// else has, and the others wait each on its own.
    pub fn comes_to(&self) -> Option<ExecutionId> {
        match self {
            Command::Deliver(deliver) => Some(deliver.execution),
            Command::Operate(operate) => (operate.action != Action::Replay).then_some(operate.execution),
            Command::Report(_)
            | Command::Tick(_)
            | Command::PutBack(_)
            | Command::Rotate(_)
            | Command::Configure(_)
            | Command::LookAtGate(_)
            | Command::Spend(_)
            | Command::Reset(_)
            | Command::Breach(_)
            | Command::Submit { .. }
            | Command::SubmitFlow { .. }
            | Command::Grow { .. }
            | Command::Dispatch(_)
            | Command::CancelFlow(_)
            | Command::Settle(_)
            | Command::ForgetFlow(_)
            | Command::Heartbeat(_)
            | Command::Drain(_)
            | Command::Depart(_)
            | Command::Forget(_)
            | Command::Claim { .. } => None,
        }
    }

    /// Whether it learns only from rows that it has seen which executions to lock. Such commands go in batches of their own, so
    /// that a batch locks its executions all at once, in order.
    pub fn goes_apart(&self) -> bool {
        matches!(self, Command::Dispatch(_) | Command::Grow { .. } | Command::ForgetFlow(_))
    }

    /// Whether it locks sessions, which come after executions in the order of locks.
    pub fn locks_sessions(&self) -> bool {
        match self {
            Command::Heartbeat(_) | Command::Drain(_) | Command::Depart(_) | Command::Forget(_) => true,
            Command::Tick(tick) => tick.what == What::Lapse,
            Command::Report(_)
            | Command::PutBack(_)
            | Command::Operate(_)
            | Command::Deliver(_)
            | Command::Rotate(_)
            | Command::Configure(_)
            | Command::LookAtGate(_)
            | Command::Spend(_)
            | Command::Reset(_)
            | Command::Breach(_)
            | Command::Submit { .. }
            | Command::SubmitFlow { .. }
            | Command::Grow { .. }
            | Command::Dispatch(_)
            | Command::CancelFlow(_)
            | Command::Settle(_)
            | Command::ForgetFlow(_)
            | Command::Claim { .. } => false,
        }
    }

    /// Decides it.
    pub fn decide(&self, classes: &[ClassId], again: bool, work: &mut Work) -> Reply {
        match self {
            Command::Report(reports) => Reply::Report(Report::decide_all(reports, work)),
            Command::Tick(tick) => Reply::Tick(tick.decide(work)),
            Command::PutBack(put_back) => Reply::PutBack(put_back.decide(work)),
            Command::Operate(operate) => Reply::Operate(Box::new(operate.decide(work))),
            Command::Deliver(deliver) => Reply::Deliver(deliver.decide(work)),
            Command::Rotate(rotate) => Reply::Rotate(rotate.decide(work)),
            Command::Configure(configure) => Reply::Configure(Box::new(configure.decide(work))),
            Command::LookAtGate(look) => Reply::LookAtGate(look.decide(work)),
            Command::Spend(spend) => Reply::Spend(spend.decide(work)),
            Command::Reset(reset) => Reply::Reset(reset.decide(work)),
            Command::Breach(breach) => Reply::Breach(breach.decide(work)),
            Command::Submit { submit, again: before } => Reply::Submit(submit.decide(again || *before, work)),
            Command::SubmitFlow { submit, again: before } => {
                Reply::SubmitFlow(Box::new(submit.decide(again || *before, work)))
            }
            Command::Grow { grow, again: before } => {
                Reply::Flow(Box::new(grow.decide(again || *before, work)))
            }
            Command::Dispatch(dispatch) => Reply::Dispatch(dispatch.decide(work)),
            Command::CancelFlow(cancel) => Reply::Flow(Box::new(cancel.decide(work))),
            Command::Settle(settle) => Reply::Settle(settle.decide(work)),
            Command::ForgetFlow(forget) => {
                Reply::ForgetFlow(forget.decide(work).map(|more| (forget.flow, more)))
            }
            Command::Heartbeat(heartbeat) => Reply::Heartbeat(heartbeat.decide(work)),
            Command::Drain(drain) => Reply::Drain(drain.decide(work)),
            Command::Depart(depart) => Reply::Depart(depart.decide(work)),
            Command::Forget(forget) => Reply::Forget(forget.decide(work)),
            Command::Claim { claim, .. } => match claim.decide(classes, work) {
                Ok(claimed) if claimed.is_empty() && claim.is_shut(work) => {
                    Reply::Shut { drains: claim.drains(work) }
                }
                Ok(claimed) if claimed.is_empty() => {
                    match lanes_open_at(claim.scope.namespace, &claim.scope.lanes, work) {
                        Some(at) => Reply::OpensIn(at.ms_since(work.now())),
                        None => Reply::Claim(Ok(claimed)),
                    }
                }
                claimed => Reply::Claim(claimed),
            },
        }
    }
}
