//! One batch: commands of any kind decided in one transaction.
//!
//! The batch asks for the rows that its commands name, shows them to the rules in the order of their phases, and says
//! what to save. It may be begun again when the store finds that a row has moved; then nothing is remembered and every
//! row is read.

use crate::Error;
use crate::behind::Behind;
use crate::command::{Command, LAST, Reply};
use crate::committer::Pending;
use crate::expected::expected;
use crate::memory::Memory;
use crate::parked::Parked;
use crate::registry::Registry;
use selvedge_core::fact::Fact;
use selvedge_core::gate::GateKind;
use selvedge_core::history::ending;
use selvedge_core::log::Event;
use selvedge_core::outbox::OutboxRow;
use selvedge_core::rows::Candidates;
use selvedge_core::rules::admit;
use selvedge_core::rules::claim::carried;
use selvedge_core::rules::join::{CHUNK, hop};
use selvedge_core::rules::release;
use selvedge_core::rules::report::Op;
use selvedge_core::{
    Changes, ClassId, Entropy, Execution, ExecutionId, Loading, Needs, Rows, SessionId, State, Timestamp,
    Work,
};
use selvedge_store::{Decision, News as Told, Step};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// How many more than it wants a claim is asked for at most because others may take from the same classes.
const SHARE_LIMIT: u32 = 256;

/// What a batch leaves behind once it is saved.
#[derive(Default)]
pub struct Outcome {
    /// One reply per command, in the order of the commands.
    pub replies: Vec<Reply>,
    /// What others may want to know.
    pub news: Told,
    /// Rows under lease, to be remembered.
    pub leased: Vec<Execution>,
    /// What was left to be done.
    pub left: Vec<OutboxRow>,
    /// Where the replies of the claims go that were taken along: theirs come after those of the commands.
    pub taken: Vec<oneshot::Sender<Result<Reply, Error>>>,
    /// The earliest thing that time will do to a row of this batch, and the time of the batch.
    pub next_due: Option<(Timestamp, Timestamp)>,
}

/// A batch under way.
pub struct Batch {
    commands: Arc<Vec<Command>>,
    outcome: Arc<Mutex<Outcome>>,
    registry: Arc<Registry>,
    memory: Arc<Memory>,
    parked: Arc<Parked>,
    work: Work,
    classes: Vec<Vec<ClassId>>,
    again: bool,
    loading: Loading,
    behind: Behind,
    /// Downstreams of what is reported, as far as that was remembered: to be locked together with it.
    hints: Vec<ExecutionId>,
    /// Executions that are taken only if nobody else has them.
    if_free: HashSet<ExecutionId>,
    /// Claims of others that wait for what this batch makes ready, and how much they were promised.
    handed: Vec<Command>,
    promised: HashMap<ClassId, usize>,
    /// Whether candidates are still to be asked for, once the lanes are here.
    lanes_first: bool,
}

impl Batch {
    /// A batch of these commands; its outcome appears in `outcome`.
    pub fn new(
        commands: Arc<Vec<Command>>,
        outcome: Arc<Mutex<Outcome>>,
        registry: Arc<Registry>,
        memory: Arc<Memory>,
        parked: Arc<Parked>,
    ) -> Self {
        let work = Work::new(Entropy::seeded(0));
        Batch {
            commands,
            outcome,
            registry,
            memory,
            parked,
            work,
            classes: Vec::new(),
            again: false,
            loading: Loading::default(),
            behind: Behind::default(),
            hints: Vec::new(),
            if_free: HashSet::new(),
            handed: Vec::new(),
            promised: HashMap::new(),
            lanes_first: false,
        }
    }

    fn cover(&self) -> Vec<Vec<ClassId>> {
        let cover = |command: &Command| match command {
            Command::Claim { claim, .. } => self.registry.covered(&claim.scope),
            _ => Vec::new(),
        };
        self.all().map(cover).collect()
    }

    /// The commands, and the claims that were taken along.
    fn all(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter().chain(&self.handed)
    }

    /// Reports come back for leases that this process handed out: those rows need no read. Only a report that is certain
    /// to end the remembered lease may rely on it, because only then is the row saved, and with it the guess checked. Of a
    /// member of a flow only its downstreams are remembered: it is locked together with them, in order.
    fn remember(&mut self, trust: bool, needs: &mut Needs) {
        let mut trusted: HashMap<ExecutionId, Option<Execution>> = HashMap::new();
        let mut ending: HashSet<ExecutionId> = HashSet::new();
        for command in self.commands.iter() {
            match command {
                Command::Report(reports) => {
                    for report in reports {
                        let fence = &report.fence;
                        let row =
                            trusted.entry(fence.execution).or_insert_with_key(|id| self.memory.take(*id));
                        if let Some(row) = row.as_ref().filter(|_| may_end(&report.op)) {
                            let downstreams = &row.wiring().downstreams;
                            let few = downstreams.iter().take_while(|_| downstreams.len() <= CHUNK);
                            self.hints.extend(few.map(|one| one.execution));
                        }
                        let holds = |row: &Execution| row.flow.is_none() && fence.holds(row);
                        let certain = report.ends() && !may_be_refused(&report.op);
                        // What was spent changes no execution.
                        let beside = certain || matches!(report.op, Op::Usage(_));
                        if !trust || !beside || !row.as_ref().is_some_and(holds) {
                            *row = None;
                        }
                        if certain {
                            ending.insert(fence.execution);
                        }
                    }
                }
                Command::PutBack(other) => drop(trusted.insert(other.fence.execution, None)),
                Command::Operate(other) => drop(trusted.insert(other.execution, None)),
                Command::Deliver(other) => drop(trusted.insert(other.execution, None)),
                Command::Breach(other) => drop(trusted.insert(other.execution, None)),
                Command::Tick(other) => drop(trusted.insert(other.execution, None)),
                Command::Submit { .. }
                | Command::SubmitFlow { .. }
                | Command::Grow { .. }
                | Command::Dispatch(_)
                | Command::Rotate(_)
                | Command::Configure(_)
                | Command::LookAtGate(_)
                | Command::Spend(_)
                | Command::Reset(_)
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
        trusted.retain(|id, row| row.is_some() && ending.contains(id));
        if self.registry.has_gates() {
            // Gates are locked before the rows are saved, and after executions: so those are locked as well, in order with all
            // others. Where some have to be read all are, by the same statement.
            if needs.executions.iter().all(|id| trusted.contains_key(id)) {
                needs.executions_known.append(&mut needs.executions);
            }
        } else {
            needs.executions.retain(|id| !trusted.contains_key(id));
        }
        needs.look.retain(|id| !trusted.contains_key(id));
        trusted.into_values().flatten().for_each(|row| self.work.remember(row));
    }

    /// Signals and operators come to executions in any state. One that waits for what a claim has in hand, and holds what
    /// the transaction of that claim is about to save from memory, would wait in a circle. So of several executions they take
    /// only those that nobody else has, and wait for none.
    fn leave_taken(&mut self, needs: &mut Needs) {
        self.if_free = self.commands.iter().filter_map(Command::comes_to).collect();
        if self.if_free.is_empty() {
            return;
        }
        let mut others = Needs::default();
        for (command, classes) in self.all().zip(&self.classes) {
            if command.comes_to().is_none() {
                command.needs(classes, self.again, &mut others);
            }
        }
        for id in &others.executions {
            self.if_free.remove(id);
        }
        if self.if_free.len() + others.executions.len() < 2 {
            self.if_free.clear();
        }
        needs.executions.retain(|id| !self.if_free.contains(id));
        needs.executions_if_free.extend(&self.if_free);
    }

    fn needs_more(&mut self) -> Needs {
        let mut needs = Needs::default();
        let stay = self.stay_leased();
        admit::needs_but(&self.work, |id| self.loading.only_looks(id) || stay.contains(&id), &mut needs);
        self.expect(&mut needs);
        let covered = self.cover();
        for (index, command) in self.all().enumerate() {
            command.needs_more(&covered[index], &self.work, &mut needs);
        }
        for (index, command) in self.commands.iter().enumerate() {
            if let Command::Claim { claim, handed_only: false } = command
                && covered[index] != self.classes[index]
            {
                let new: Vec<ClassId> =
                    covered[index].iter().filter(|id| !self.classes[index].contains(id)).copied().collect();
                claim.needs(&new, false, &mut needs);
            }
        }
        self.classes = covered;
        self.ask_lanes(&mut needs);
        needs
    }

    /// Executions whose leases nothing in this batch ends: they give nothing back, and their gates need not be seen.
    fn stay_leased(&self) -> HashSet<ExecutionId> {
        let mut stay = HashSet::new();
        let mut ending = Vec::new();
        for command in self.all() {
            match command {
                Command::Report(reports) => {
                    for report in reports {
                        if report.ends() {
                            ending.push(report.fence.execution);
                        } else {
                            stay.insert(report.fence.execution);
                        }
                    }
                }
                Command::Claim { .. } | Command::Submit { .. } => {}
                // Whatever it does, and to whom.
                _ => return HashSet::new(),
            }
        }
        for id in ending {
            stay.remove(&id);
        }
        stay
    }

    /// Names the lanes of those that spent something: a budget may count each lane on its own.
    fn name_spenders(&mut self) {
        let spenders = self.commands.iter().flat_map(Command::spenders);
        let class = |id: ExecutionId| Some(self.work.find(id).ok().flatten()?.class);
        let classes: Vec<ClassId> = spenders.filter_map(class).collect();
        self.work.name_lanes(self.registry.lanes(classes.iter()));
    }

    /// Where lanes are configured, candidates are asked for once the lanes are here: as many as these have room for.
    fn ask_lanes(&mut self, needs: &mut Needs) {
        let asking = |command: &Command| matches!(command, Command::Claim { handed_only: false, .. });
        let known = |command: &Command| match command {
            Command::Claim { claim, handed_only: false } => claim.knows_lanes(&self.work),
            _ => true,
        };
        if !self.lanes_first || !self.commands.iter().all(known) {
            return;
        }
        self.lanes_first = false;
        needs.candidates.clear();
        self.work.name_lanes(self.registry.lanes(self.classes.iter().flatten()));
        for (command, classes) in
            self.commands.iter().zip(&self.classes).filter(|(command, _)| asking(command))
        {
            if let Command::Claim { claim, .. } = command {
                claim.candidates(classes, &self.work, needs);
            }
        }
        share_out(&mut needs.candidates);
        self.behind = Behind::of(&needs.candidates);
    }

    /// How many executions the claims want that look for them.
    fn wanted(&self) -> usize {
        let wanted = |command: &Command| match command {
            Command::Claim { claim, handed_only: false } => claim.max as usize,
            _ => 0,
        };
        self.commands.iter().map(wanted).sum()
    }

    fn look_behind(&mut self) -> Option<Needs> {
        let unreadable = self.behind.look();
        let wanted = if self.registry.has_gates() { self.wanted() } else { 0 };
        unreadable.or_else(|| self.behind.look_past_refused(wanted, &self.work))
    }

    /// What of the executions at hand will be ready once the commands are decided: claims that wait for it are taken along, and
    /// what they carry is asked for.
    fn expect(&mut self, needs: &mut Needs) {
        let mut expected = expected(&self.commands, &self.work);
        // Lanes are locked before gates. Where they limit something, what gates let go on is left to the next transaction.
        if !self.registry.has_limits() {
            expected.extend(admit::expected(&self.work));
        }
        if expected.is_empty() {
            return;
        }
        let mut offered: HashMap<ClassId, usize> = HashMap::new();
        for (_, class) in &expected {
            *offered.entry(*class).or_default() += 1;
        }
        for (class, count) in &mut offered {
            let promised = self.promised.entry(*class).or_default();
            let more = count.saturating_sub(*promised);
            *promised = (*promised).max(*count);
            *count = more;
        }
        let taken = self.parked.take_offered(offered);
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        for (command, reply) in taken.into_iter().map(Pending::into_parts) {
            if let Command::Claim { claim, handed_only } = &command {
                claim.needs(&[], *handed_only, needs);
            }
            self.handed.push(command);
            outcome.taken.push(reply);
        }
        drop(outcome);
        let wanted: HashSet<ClassId> = self.cover().into_iter().flatten().collect();
        for (id, _) in expected.into_iter().filter(|(_, class)| wanted.contains(class)) {
            if self.work.input(id).is_none() {
                needs.inputs.push(id);
            }
            carried(id, &self.work, needs);
        }
    }

    /// Rows that cannot be read are passed over, and said aloud once.
    fn complain(&mut self, rows: &Rows) {
        for (execution, detail) in &rows.unreadable {
            if self.memory.is_newly_damaged(*execution) {
                tracing::error!(%execution, detail, "an execution cannot be read; it is left as it is");
            }
        }
    }

    fn decide(&mut self) -> Changes {
        let commands: Vec<&Command> = self.commands.iter().chain(&self.handed).collect();
        let mut order: Vec<usize> = (0..commands.len()).collect();
        order.sort_by_key(|index| commands[*index].phase());
        let mut replies: Vec<Option<Reply>> = commands.iter().map(|_| None).collect();
        let mut hopped = false;
        for index in order {
            if commands[index].phase() == LAST && !hopped {
                hop(&mut self.work, |id| self.loading.locks(id));
                release::open(&mut self.work);
                hopped = true;
            }
            let taken = |id: ExecutionId| self.if_free.contains(&id) && !self.work.knows(id);
            replies[index] = Some(match commands[index].comes_to() {
                Some(id) if taken(id) => Reply::Later,
                Some(_) | None => commands[index].decide(&self.classes[index], self.again, &mut self.work),
            });
        }
        if !hopped {
            hop(&mut self.work, |id| self.loading.locks(id));
            release::open(&mut self.work);
        }
        self.registry.keep_shares(self.work.shares());
        let now = self.work.now();
        let mut ready = self.work.left_ready();
        for lane in self.work.opened_lanes() {
            ready.extend(self.registry.of(lane.namespace, Some(&lane.name), None));
        }
        let changes = std::mem::replace(&mut self.work, Work::new(Entropy::seeded(0))).finish();
        let rows = || {
            let inserted = changes.inserted.iter().map(|row| &row.execution);
            inserted.chain(changes.updated.iter().map(|row| &row.execution))
        };
        if self.registry.has_gates() {
            self.registry.see_drawn(rows());
        }
        // A claim that was refused something may have gone short of what is behind that.
        ready.extend(
            changes
                .updated
                .iter()
                .map(|row| &row.execution)
                .filter(|row| is_refused(row))
                .map(|row| row.class),
        );
        let logged = !changes.events.is_empty();
        let mut news = Told { ready, logged, ..Told::default() };
        news.streamed = changes.streams.iter().map(|stream| stream.name.execution).collect();
        changes.events.iter().for_each(|event| tell(event, &mut news));
        let asked = rows()
            .filter(|row| row.detail.cancel.is_some())
            .filter_map(|row| row.state.lease().map(|lease| instance_key(row.namespace, &lease.instance)));
        news.sessions.extend(asked);
        let live_due = rows().filter(|row| row.state.outcome().is_none()).filter_map(|row| row.due());
        let gates_due = changes.gates.iter().filter_map(|(gate, _)| gate.due_at);
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        *outcome = Outcome {
            left: changes.outbox_put.clone(),
            taken: std::mem::take(&mut outcome.taken),
            replies: replies.into_iter().flatten().collect(),
            news,
            leased: rows().filter(|row| matches!(row.state, State::Leased(_))).cloned().collect(),
            next_due: live_due.map(|due| due.at).chain(gates_due).min().map(|at| (at, now)),
        };
        drop(outcome);
        changes
    }
}

impl Decision for Batch {
    fn begin(&mut self, again: u32) -> Needs {
        self.again = again > 0;
        self.loading = Loading::default();
        if self.registry.has_gates() {
            self.loading.expect_gates();
        }
        self.work = Work::new(Entropy::seeded(fastrand::u64(..)));
        self.work.share_lanes(self.registry.shares());
        self.classes = self.cover();
        self.work.name_lanes(self.registry.lanes(self.classes.iter().flatten()));
        let mut needs = Needs::default();
        for (command, classes) in self.all().zip(&self.classes) {
            command.needs(classes, self.again, &mut needs);
        }
        self.leave_taken(&mut needs);
        if self.registry.has_lanes() {
            self.commands.iter().for_each(|command| command.needs_lanes(&mut needs));
        }
        let names_classes = |command: &Command| {
            matches!(command, Command::Claim { handed_only: false, .. }) || !command.spenders().is_empty()
        };
        if self.commands.iter().any(names_classes) {
            needs.classes_after = Some(self.registry.newest());
        }
        if !self.again {
            // A remembered row is locked only when it is saved: too late where sessions, flows or gates are locked before
            // that, or executions that others may come to as well.
            let locks = |command: &Command| {
                let comes = command.comes_to().is_some() || matches!(command, Command::Tick(_));
                comes || command.locks_sessions() || command.locks_flows()
            };
            let trust = !self.commands.iter().any(locks);
            self.remember(trust, &mut needs);
        }
        needs.executions.extend(&self.hints);
        self.lanes_first = self.registry.has_lanes() && !needs.candidates.is_empty();
        if self.lanes_first {
            needs.candidates.clear();
        }
        share_out(&mut needs.candidates);
        self.behind = Behind::of(&needs.candidates);
        // Where lanes are limited, all of them are locked at once: those of claims together with those that reports open. They
        // are known already where no execution has to be read.
        let reads = !needs.executions.is_empty() || !needs.executions_if_free.is_empty();
        if !reads {
            let stay = self.stay_leased();
            admit::needs_but(&self.work, |id| stay.contains(&id), &mut needs);
        }
        let may_lock_more =
            (self.registry.has_limits() && reads) || self.commands.iter().any(Command::may_lock_more);
        self.loading.first(needs, may_lock_more)
    }

    fn next(&mut self, mut rows: Rows) -> Step {
        self.registry.add(std::mem::take(&mut rows.classes));
        self.complain(&rows);
        self.registry.see_gates(&rows.gates);
        let late = self.behind.find(&rows);
        self.work.load(rows);
        for id in late {
            // Its line was read before it came: it is left to the next claim.
            if matches!(self.work.find(id), Ok(Some(row)) if row.spec.draws.fairness_key.is_some()) {
                self.work.withhold(id);
            }
        }
        if self.work.gated().next().is_some() {
            self.registry.expect_gates();
            self.loading.expect_gates();
        }
        self.name_spenders();
        let more = self.needs_more();
        self.work.name_lanes(self.registry.lanes(self.classes.iter().flatten()));
        if let Some(more) = self.loading.next(more) {
            return Step::Load(more);
        }
        if let Some(behind) = self.look_behind() {
            return Step::Load(behind);
        }
        Step::Save(Box::new(self.decide()))
    }
}

/// Claims whose classes overlap take from each other: each is asked for as many as all of these want together.
fn share_out(candidates: &mut [Candidates]) {
    if candidates.len() < 2 {
        return;
    }
    let overlap =
        |a: &Candidates, b: &Candidates| a.classes.iter().any(|id| b.classes.binary_search(id).is_ok());
    let wanted = |one: &Candidates| {
        candidates.iter().filter(|other| overlap(one, other)).map(|other| other.limit).sum::<u32>()
    };
    let limits: Vec<u32> = candidates.iter().map(|one| wanted(one).min(one.limit + SHARE_LIMIT)).collect();
    candidates.iter_mut().zip(limits).for_each(|(one, limit)| one.limit = limit);
}

/// Whether a gate refuses it. A line only says whose turn it is.
fn is_refused(row: &Execution) -> bool {
    matches!(&row.state, State::Held(gate) if gate.kind != GateKind::Fair)
}

/// Whether a report may be refused for what is recorded of its execution, although its lease is the current one.
fn may_be_refused(op: &Op) -> bool {
    let Op::Suspend(suspend) = op else { return false };
    !suspend.waitpoints.is_empty() || suspend.waits.iter().any(|wait| wait.step.is_some())
}

/// Whether a report may be the end of its execution.
fn may_end(op: &Op) -> bool {
    matches!(op, Op::Complete { .. } | Op::Fail { .. })
}

/// The key under which the heartbeats of an instance wait.
pub fn instance_key(namespace: selvedge_core::NamespaceId, instance: &str) -> SessionId {
    SessionId::of(namespace, instance, 0)
}

/// What of an event others wait for: an end, a lease that its worker did not end itself, or that a worker is to drain.
fn tell(event: &Event, news: &mut Told) {
    if let Fact::DrainRequested { instance } = &event.fact {
        news.sessions.push(instance_key(event.namespace, instance));
    }
    if let (Fact::FlowEnded { .. }, Some(flow)) = (&event.fact, event.flow) {
        news.ended.push(ExecutionId(flow.0));
    }
    let Some(execution) = event.execution else { return };
    if ended(&event.fact) {
        news.ended.push(execution);
    }
    let taken = match &event.fact {
        Fact::TimedOut { lease, .. }
        | Fact::Lapsed { lease, .. }
        | Fact::Orphaned { lease, .. }
        | Fact::Revoked { lease, .. }
        | Fact::Breached { lease, .. }
        | Fact::Cancelled { lease: Some(lease), .. }
        | Fact::DeadlinePassed { lease: Some(lease) } => Some(&lease.instance),
        _ => None,
    };
    if let Some(instance) = taken {
        news.sessions.push(instance_key(event.namespace, instance));
    }
}

fn ended(fact: &Fact) -> bool {
    use selvedge_core::fact::Next;
    match fact {
        Fact::Cancelled { .. }
        | Fact::DeadlinePassed { .. }
        | Fact::StartByPassed
        | Fact::SuspensionTimedOut { .. } => true,
        Fact::Joined { next, .. } => matches!(next, Next::Terminal(_)),
        other => ending(other).is_some_and(|(_, end)| matches!(end.next, Next::Terminal(_))),
    }
}
