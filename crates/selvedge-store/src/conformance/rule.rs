//! Decisions for tests: the real rules of core, run the way an engine runs them, and decisions made by hand.

use crate::{Decision, Error, Step, Store, Transaction};
use selvedge_core::flow::FlowState;
use selvedge_core::rules::admit;
use selvedge_core::rules::budget::{Breach, Reset, Spend};
use selvedge_core::rules::claim::{Claim, Claimed};
use selvedge_core::rules::clock::{Tick, Ticked};
use selvedge_core::rules::dispatch::{Dispatch, Dispatched};
use selvedge_core::rules::flow::{CancelFlow, ForgetFlow, Settle};
use selvedge_core::rules::gate::{Configure, Configured};
use selvedge_core::rules::grow::Grow;
use selvedge_core::rules::heartbeat::{Beat, Heartbeat};
use selvedge_core::rules::join::hop;
use selvedge_core::rules::operator::Operate;
use selvedge_core::rules::release::{self, LookAtGate, LookedAt};
use selvedge_core::rules::report::{Fence, Report, Reported};
use selvedge_core::rules::signal::{Deliver, Delivered};
use selvedge_core::rules::submit::{Submit, Submitted};
use selvedge_core::rules::submit_flow::{FlowSubmitted, SubmitFlow};
use selvedge_core::rules::waitpoint::Rotate;
use selvedge_core::rules::worker::{Depart, Drain, Forget, PutBack};
use selvedge_core::token::TokenKey;
use selvedge_core::{
    ClassId, Entropy, Execution, ExecutionId, Flow, Loading, Name, Needs, Refusal, Rows, Work,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A command of core with its rule. Several share a transaction as a tuple or a vector of them.
pub trait Rule: Send + 'static {
    /// What it answers.
    type Reply: Send;
    /// What to see first.
    fn needs(&self, again: bool, needs: &mut Needs);
    /// What to see after that.
    fn needs_more(&self, _work: &Work, _needs: &mut Needs) {}
    /// Says which lanes its classes are of.
    fn name_lanes(&self, _work: &mut Work) {}
    /// Does it.
    fn decide(&self, again: bool, work: &mut Work) -> Self::Reply;
}

/// A claim and the classes that its scope covers, with their lanes.
#[derive(Debug)]
pub struct ClaimOf {
    /// The claim.
    pub claim: Claim,
    /// The classes.
    pub classes: Vec<(ClassId, Name)>,
    /// Whether candidates were asked for.
    asked: AtomicBool,
}

impl Clone for ClaimOf {
    fn clone(&self) -> Self {
        ClaimOf::new(self.claim.clone(), self.classes.clone())
    }
}

impl ClaimOf {
    /// A claim of what is of these classes.
    pub fn new(claim: Claim, classes: Vec<(ClassId, Name)>) -> Self {
        ClaimOf { claim, classes, asked: AtomicBool::new(false) }
    }

    fn ids(&self) -> Vec<ClassId> {
        self.classes.iter().map(|(class, _)| *class).collect()
    }
}

impl Rule for Submit {
    type Reply = Vec<Result<Submitted, Refusal>>;
    fn needs(&self, again: bool, needs: &mut Needs) {
        self.needs(again, needs);
    }
    fn needs_more(&self, work: &Work, needs: &mut Needs) {
        self.needs_more(work, needs);
    }
    fn decide(&self, again: bool, work: &mut Work) -> Self::Reply {
        self.decide(again, work)
    }
}

impl Rule for SubmitFlow {
    type Reply = Result<FlowSubmitted, Refusal>;
    fn needs(&self, again: bool, needs: &mut Needs) {
        self.needs(again, needs);
    }
    fn needs_more(&self, work: &Work, needs: &mut Needs) {
        self.needs_more(work, needs);
    }
    fn decide(&self, again: bool, work: &mut Work) -> Self::Reply {
        self.decide(again, work)
    }
}

impl Rule for Grow {
    type Reply = Result<Flow, Refusal>;
    fn needs(&self, _again: bool, needs: &mut Needs) {
        self.needs(needs);
    }
    fn needs_more(&self, work: &Work, needs: &mut Needs) {
        self.needs_more(work, needs);
    }
    fn decide(&self, again: bool, work: &mut Work) -> Self::Reply {
        self.decide(again, work)
    }
}

/// Candidates are asked for once the lanes are here, and what others of its transaction have opened goes on before it claims.
impl Rule for ClaimOf {
    type Reply = Result<Vec<Claimed>, Refusal>;
    fn needs(&self, _again: bool, needs: &mut Needs) {
        self.asked.store(false, Ordering::Relaxed);
        self.claim.needs(&[], true, needs);
    }
    fn needs_more(&self, work: &Work, needs: &mut Needs) {
        if self.claim.knows_lanes(work) && !self.asked.swap(true, Ordering::Relaxed) {
            self.claim.candidates(&self.ids(), work, needs);
        }
        self.claim.needs_more(&self.ids(), work, needs);
    }
    fn name_lanes(&self, work: &mut Work) {
        work.name_lanes(self.classes.iter().cloned());
    }
    fn decide(&self, _again: bool, work: &mut Work) -> Self::Reply {
        release::open(work);
        self.claim.decide(&self.ids(), work)
    }
}

/// The commands that need the same whether they are begun again or not.
macro_rules! plain_rules {
    ($($command:ty => $reply:ty $(, $more:ident)?;)*) => {
        $(impl Rule for $command {
            type Reply = $reply;
            fn needs(&self, _again: bool, needs: &mut Needs) {
                self.needs(needs);
            }
            $(fn needs_more(&self, work: &Work, needs: &mut Needs) {
                self.$more(work, needs);
            })?
            fn decide(&self, _again: bool, work: &mut Work) -> Self::Reply {
                self.decide(work)
            }
        })*
    };
}

plain_rules! {
    Report => Result<Reported, Refusal>, needs_more;
    Dispatch => Result<Dispatched, Refusal>, needs_more;
    CancelFlow => Result<Flow, Refusal>;
    Settle => Option<FlowState>, needs_more;
    ForgetFlow => Option<bool>, needs_more;
    Heartbeat => Beat, needs_more;
    Operate => Result<Execution, Refusal>, needs_more;
    Deliver => Result<Delivered, Refusal>, needs_more;
    Rotate => Result<TokenKey, Refusal>;
    Tick => Result<Ticked, Refusal>, needs_more;
    PutBack => Result<bool, Refusal>;
    Drain => Result<(), Refusal>;
    Depart => Result<Vec<Fence>, Refusal>;
    Forget => usize;
    Configure => Result<Configured, Refusal>;
    LookAtGate => LookedAt, needs_more;
    Spend => Result<bool, Refusal>, needs_more;
    Reset => Result<(), Refusal>;
    Breach => Result<bool, Refusal>;
}

impl<R: Rule> Rule for Vec<R> {
    type Reply = Vec<R::Reply>;
    fn needs(&self, again: bool, needs: &mut Needs) {
        self.iter().for_each(|rule| rule.needs(again, needs));
    }
    fn needs_more(&self, work: &Work, needs: &mut Needs) {
        self.iter().for_each(|rule| rule.needs_more(work, needs));
    }
    fn name_lanes(&self, work: &mut Work) {
        self.iter().for_each(|rule| rule.name_lanes(work));
    }
    fn decide(&self, again: bool, work: &mut Work) -> Self::Reply {
        self.iter().map(|rule| rule.decide(again, work)).collect()
    }
}

impl<A: Rule, B: Rule> Rule for (A, B) {
    type Reply = (A::Reply, B::Reply);
    fn needs(&self, again: bool, needs: &mut Needs) {
        self.0.needs(again, needs);
        self.1.needs(again, needs);
    }
    fn needs_more(&self, work: &Work, needs: &mut Needs) {
        self.0.needs_more(work, needs);
        self.1.needs_more(work, needs);
    }
    fn name_lanes(&self, work: &mut Work) {
        self.0.name_lanes(work);
        self.1.name_lanes(work);
    }
    fn decide(&self, again: bool, work: &mut Work) -> Self::Reply {
        (self.0.decide(again, work), self.1.decide(again, work))
    }
}

/// A rule that ends an execution or opens it again, run with the execution's downstreams at hand: they are told in the
/// same transaction.
pub struct Hopping<R> {
    /// The rule.
    pub rule: R,
    /// The execution.
    pub of: ExecutionId,
}

impl<R: Rule> Rule for Hopping<R> {
    type Reply = R::Reply;
    fn needs(&self, again: bool, needs: &mut Needs) {
        self.rule.needs(again, needs);
        needs.executions.push(self.of);
    }
    fn needs_more(&self, work: &Work, needs: &mut Needs) {
        self.rule.needs_more(work, needs);
        if let Ok(Some(row)) = work.find(self.of) {
            needs.executions.extend(row.wiring().downstreams.iter().map(|one| one.execution));
        }
    }
    fn decide(&self, again: bool, work: &mut Work) -> Self::Reply {
        self.rule.decide(again, work)
    }
}

/// Where a decision leaves its reply.
type Reply<T> = Arc<Mutex<Option<T>>>;

/// The decision that runs a rule, with the gates of everything that it touches: as an engine runs it.
pub struct Run<R: Rule> {
    rule: R,
    /// Rows that are known from before, believed at the first try only.
    remembered: Vec<Execution>,
    again: bool,
    loading: Loading,
    work: Work,
    reply: Reply<R::Reply>,
}

fn work() -> Work {
    static SEED: AtomicU64 = AtomicU64::new(1);
    Work::new(Entropy::seeded(SEED.fetch_add(1, Ordering::Relaxed)))
}

impl<R: Rule> Run<R> {
    /// Runs `rule`, believing the `remembered` rows at first instead of asking for them.
    pub fn new(rule: R, remembered: Vec<Execution>) -> Self {
        let (again, loading) = (false, Loading::default());
        Run { rule, remembered, again, loading, work: work(), reply: Arc::default() }
    }
}

impl<R: Rule> Decision for Run<R> {
    fn begin(&mut self, again: u32) -> Needs {
        self.again = again > 0;
        self.loading = Loading::default();
        self.loading.expect_gates();
        self.work = work();
        self.rule.name_lanes(&mut self.work);
        let mut needs = Needs::default();
        self.rule.needs(self.again, &mut needs);
        if !needs.gates.is_empty() {
            // A budget may count each lane on its own.
            needs.classes_after = Some(ClassId(0));
        }
        if !self.again {
            let known = |id| self.remembered.iter().any(|row| row.id == id);
            needs.executions.retain(|id| !known(*id));
        }
        self.loading.first(needs, true)
    }

    fn next(&mut self, mut rows: Rows) -> Step {
        let classes = std::mem::take(&mut rows.classes);
        self.work.name_lanes(classes.into_iter().map(|(id, class)| (id, class.lane)));
        self.work.load(rows);
        if !self.again {
            self.remembered.drain(..).for_each(|row| self.work.remember(row));
        }
        let mut needs = Needs::default();
        admit::needs(&self.work, &mut needs);
        self.rule.needs_more(&self.work, &mut needs);
        if let Some(needs) = self.loading.next(needs) {
            return Step::Load(needs);
        }
        let reply = self.rule.decide(self.again, &mut self.work);
        hop(&mut self.work, |id| self.loading.locks(id));
        release::open(&mut self.work);
        *self.reply.lock().expect("nobody panics with a reply") = Some(reply);
        Step::Save(Box::new(std::mem::replace(&mut self.work, work()).finish()))
    }
}

/// Runs a rule in one transaction.
pub async fn run_rule<R: Rule>(store: &dyn Store, rule: R) -> Result<(R::Reply, Transaction), Error> {
    run(store, Run::new(rule, Vec::new())).await
}

/// Runs a decision that runs a rule.
pub async fn run<R: Rule>(store: &dyn Store, run: Run<R>) -> Result<(R::Reply, Transaction), Error> {
    let reply = run.reply.clone();
    let transaction = store.transact(Box::new(run)).await?;
    let reply = reply.lock().expect("nobody panics with a reply").take();
    Ok((reply.expect("a saved decision has decided"), transaction))
}

/// A decision made by hand.
struct ByHand<B, N> {
    begin: B,
    next: N,
}

impl<B, N> Decision for ByHand<B, N>
where
    B: FnMut(u32) -> Needs + Send,
    N: FnMut(Rows) -> Step + Send,
{
    fn begin(&mut self, again: u32) -> Needs {
        (self.begin)(again)
    }

    fn next(&mut self, rows: Rows) -> Step {
        (self.next)(rows)
    }
}

/// A decision made by hand: what it does when it is begun, and when it is shown rows.
pub fn decision(
    begin: impl FnMut(u32) -> Needs + Send + 'static,
    next: impl FnMut(Rows) -> Step + Send + 'static,
) -> Box<dyn Decision> {
    Box::new(ByHand { begin, next })
}
