//! One batch: commands of any kind decided in one transaction.
//!
//! The batch asks for the rows that its commands name, shows them to the rules in the order of their phases, and says
//! what to save. It may be begun again when the store finds that a row has moved; then nothing is remembered and every
//! row is read.

use crate::command::{Command, Reply};
use crate::memory::Memory;
use crate::registry::Registry;
use selvedge_core::fact::Fact;
use selvedge_core::history::ending;
use selvedge_core::log::Event;
use selvedge_core::rows::Candidates;
use selvedge_core::rules::report::{Op, Report};
use selvedge_core::{
    Changes, ClassId, Entropy, Execution, ExecutionId, Needs, Rows, SessionId, State, Timestamp, Work,
};
use selvedge_store::{Decision, News, Step};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How often a batch may ask for more than it first named.
const ROUNDS: u8 = 2;
/// How often a batch looks behind candidates that cannot be read, and how many it asks for at most when it does.
const LOOKS: u32 = 16;
const LOOK_LIMIT: u32 = 500;
/// How many more than it wants a claim is asked for at most because others may take from the same classes.
const SHARE_LIMIT: u32 = 256;

/// What a batch leaves behind once it is saved.
#[derive(Default)]
pub struct Outcome {
    /// One reply per command, in the order of the commands.
    pub replies: Vec<Reply>,
    /// What others may want to know.
    pub news: News,
    /// Rows under lease, to be remembered.
    pub leased: Vec<Execution>,
    /// The earliest thing that time will do to a row of this batch, and the time of the batch.
    pub next_due: Option<(Timestamp, Timestamp)>,
}

/// A batch under way.
pub struct Batch {
    commands: Arc<Vec<Command>>,
    outcome: Arc<Mutex<Outcome>>,
    registry: Arc<Registry>,
    memory: Arc<Memory>,
    work: Work,
    classes: Vec<Vec<ClassId>>,
    again: bool,
    rounds: u8,
    asked: Needs,
    candidates: Vec<Candidates>,
    behind: Behind,
}

/// Candidates that cannot be read, and what to ask for to see what is behind them.
#[derive(Default)]
struct Behind {
    asked: Vec<Candidates>,
    unreadable: Vec<ExecutionId>,
    passed: usize,
    looks: u32,
}

impl Batch {
    /// A batch of these commands; its outcome appears in `outcome`.
    pub fn new(
        commands: Arc<Vec<Command>>,
        outcome: Arc<Mutex<Outcome>>,
        registry: Arc<Registry>,
        memory: Arc<Memory>,
    ) -> Self {
        let work = Work::new(Entropy::seeded(0));
        Batch {
            commands,
            outcome,
            registry,
            memory,
            work,
            classes: Vec::new(),
            again: false,
            rounds: 0,
            asked: Needs::default(),
            candidates: Vec::new(),
            behind: Behind::default(),
        }
    }

    fn cover(&self) -> Vec<Vec<ClassId>> {
        let cover = |command: &Command| match command {
            Command::Claim { claim, .. } => self.registry.covered(&claim.scope),
            _ => Vec::new(),
        };
        self.commands.iter().map(cover).collect()
    }

    /// Reports come back for leases that this process handed out: those rows need no read. Only a report that ends the
    /// remembered lease may rely on it, because only then is the row saved, and with it the guess checked.
    fn remember(&mut self, trust: bool, needs: &mut Needs) {
        let mut trusted: HashMap<ExecutionId, Option<Execution>> = HashMap::new();
        for command in self.commands.iter() {
            match command {
                Command::Report(reports) => {
                    for Report { fence, op, .. } in reports {
                        let row = trusted
                            .entry(fence.execution)
                            .or_insert_with_key(|id| self.memory.take(*id).filter(|_| trust));
                        let ends = !matches!(op, Op::Progress { .. });
                        if !ends || row.as_ref().is_some_and(|row| !fence.holds(row)) {
                            *row = None;
                        }
                    }
                }
                Command::PutBack(other) => drop(trusted.insert(other.fence.execution, None)),
                Command::Operate(other) => drop(trusted.insert(other.execution, None)),
                Command::Tick(other) => drop(trusted.insert(other.execution, None)),
                Command::Submit { .. }
                | Command::Heartbeat(_)
                | Command::Drain(_)
                | Command::Depart(_)
                | Command::Forget(_)
                | Command::Claim { .. } => {}
            }
        }
        needs.executions.retain(|id| trusted.get(id).is_none_or(Option::is_none));
        trusted.into_values().flatten().for_each(|row| self.work.remember(row));
    }

    fn needs_more(&mut self) -> Needs {
        let mut needs = Needs::default();
        for command in self.commands.iter() {
            command.needs_more(&self.work, &mut needs);
        }
        let covered = self.cover();
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
        tidy(&mut needs);
        needs
    }

    /// Rows that cannot be read are passed over, and said aloud once.
    fn complain(&mut self, rows: &Rows) {
        for (execution, detail) in &rows.unreadable {
            if !self.behind.unreadable.contains(execution) {
                self.behind.unreadable.push(*execution);
            }
            if self.memory.is_newly_damaged(*execution) {
                tracing::error!(%execution, detail, "an execution cannot be read; it is left as it is");
            }
        }
    }

    fn decide(&mut self) -> Changes {
        let mut order: Vec<usize> = (0..self.commands.len()).collect();
        order.sort_by_key(|index| self.commands[*index].phase());
        let mut replies: Vec<Option<Reply>> = self.commands.iter().map(|_| None).collect();
        for index in order {
            let reply = self.commands[index].decide(&self.classes[index], self.again, &mut self.work);
            replies[index] = Some(reply);
        }
        let now = self.work.now();
        let ready = self.work.left_ready();
        let changes = std::mem::replace(&mut self.work, Work::new(Entropy::seeded(0))).finish();
        let rows = || {
            let inserted = changes.inserted.iter().map(|row| &row.execution);
            inserted.chain(changes.updated.iter().map(|row| &row.execution))
        };
        let mut news = News { ready, ..News::default() };
        changes.events.iter().for_each(|event| tell(event, &mut news));
        let asked = rows()
            .filter(|row| row.detail.cancel.is_some())
            .filter_map(|row| row.state.lease().map(|lease| instance_key(row.namespace, &lease.instance)));
        news.sessions.extend(asked);
        let live_due = rows().filter(|row| row.state.outcome().is_none()).filter_map(|row| row.due());
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Outcome {
            replies: replies.into_iter().flatten().collect(),
            news,
            leased: rows().filter(|row| matches!(row.state, State::Leased(_))).cloned().collect(),
            next_due: live_due.map(|due| due.at).min().map(|at| (at, now)),
        };
        changes
    }
}

impl Decision for Batch {
    fn begin(&mut self, again: u32) -> Needs {
        self.again = again > 0;
        self.rounds = 0;
        self.asked = Needs::default();
        self.work = Work::new(Entropy::seeded(fastrand::u64(..)));
        self.classes = self.cover();
        let mut needs = Needs::default();
        for (command, classes) in self.commands.iter().zip(&self.classes) {
            command.needs(classes, self.again, &mut needs);
        }
        if self.commands.iter().any(|command| matches!(command, Command::Claim { handed_only: false, .. })) {
            needs.classes_after = Some(self.registry.newest());
        }
        tidy(&mut needs);
        share_out(&mut needs.candidates);
        self.behind = Behind { asked: needs.candidates.clone(), ..Behind::default() };
        if self.commands.iter().any(Command::may_lock_more) {
            // Candidates are the last lock on executions: after them the transaction waits for no other.
            self.candidates = std::mem::take(&mut needs.candidates);
        } else {
            self.candidates.clear();
        }
        if !self.again {
            // A remembered row is locked only when it is saved: too late where sessions are locked before that.
            let trust = !self.commands.iter().any(Command::locks_sessions);
            self.remember(trust, &mut needs);
        }
        needs
    }

    fn next(&mut self, mut rows: Rows) -> Step {
        self.registry.add(std::mem::take(&mut rows.classes));
        self.complain(&rows);
        self.work.load(rows);
        if self.rounds < ROUNDS {
            self.rounds += 1;
            let more = self.needs_more();
            if more != Needs::default() && more != self.asked {
                self.asked = more.clone();
                return Step::Load(more);
            }
        }
        if !self.candidates.is_empty() {
            let candidates = std::mem::take(&mut self.candidates);
            return Step::Load(Needs { candidates, ..Needs::default() });
        }
        if let Some(behind) = self.behind.look() {
            return Step::Load(behind);
        }
        Step::Save(Box::new(self.decide()))
    }
}

impl Behind {
    /// Where rows that cannot be read stand at the head of a class, looks behind them: further each time.
    fn look(&mut self) -> Option<Needs> {
        if self.passed == self.unreadable.len() || self.asked.is_empty() || self.looks == LOOKS {
            return None;
        }
        self.looks += 1;
        self.passed = self.unreadable.len();
        for asked in &mut self.asked {
            asked.limit = asked.limit.max((asked.limit * 2).min(LOOK_LIMIT));
        }
        Some(Needs { candidates: self.asked.clone(), except: self.unreadable.clone(), ..Needs::default() })
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

/// Every id once, in the order in which locks are taken.
fn tidy(needs: &mut Needs) {
    fn once<T: Ord>(ids: &mut Vec<T>) {
        ids.sort_unstable();
        ids.dedup();
    }
    once(&mut needs.executions);
    once(&mut needs.executions_if_free);
    needs.executions_if_free.retain(|id| needs.executions.binary_search(id).is_err());
    once(&mut needs.keys);
    once(&mut needs.look);
    once(&mut needs.inputs);
    once(&mut needs.sessions);
    once(&mut needs.sessions_locked);
    once(&mut needs.instances);
}

/// The key under which the heartbeats of an instance wait.
pub fn instance_key(namespace: selvedge_core::NamespaceId, instance: &str) -> SessionId {
    SessionId::of(namespace, instance, 0)
}

/// What of an event others wait for: an end, a lease that its worker did not end itself, or that a worker is to drain.
fn tell(event: &Event, news: &mut News) {
    if let Fact::DrainRequested { instance } = &event.fact {
        news.sessions.push(instance_key(event.namespace, instance));
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
        Fact::Cancelled { .. } | Fact::DeadlinePassed { .. } | Fact::StartByPassed => true,
        other => ending(other).is_some_and(|(_, end)| matches!(end.next, Next::Terminal(_))),
    }
}
