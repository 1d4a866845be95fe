//! Group commit: commands of concurrent callers gather while earlier batches commit, and go together in the next one.
//!
//! No timer and no added delay when idle: a command that finds a free writer starts at once; a command that finds all
//! writers busy waits for the next batch with everybody else. A batch that fails whole is halved until the culprit is
//! alone, so one bad command never fails its neighbours.

use crate::Error;
use crate::batch::{Batch, Outcome};
use crate::bells::Bells;
use crate::command::{Command, Reply};
use crate::dispatcher::Left;
use crate::memory::Memory;
use crate::parked::Parked;
use crate::registry::Registry;
use crate::tail::Tail;
use selvedge_core::rules::report::{Fence, Report};
use selvedge_core::rules::worker::{PutBack, Why};
use selvedge_core::{ExecutionId, FlowId, Timestamp};
use selvedge_store::{News, Store};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, mpsc, oneshot};

/// How much one batch carries at most.
const BATCH_WEIGHT: usize = 512;

/// How far a batch looks for commands that may run now.
const LOOK_AHEAD: usize = 4096;

/// A command that waits for its reply.
pub struct Pending {
    command: Command,
    reply: oneshot::Sender<Result<Reply, Error>>,
    /// The flows whose members it reports of, as far as that is known.
    flows: Vec<FlowId>,
    /// Whether it goes through gates that many share.
    gated: bool,
}

impl Pending {
    /// A command and where its reply goes.
    pub fn new(command: Command) -> (Pending, oneshot::Receiver<Result<Reply, Error>>) {
        let (reply, receiver) = oneshot::channel();
        (Pending { command, reply, flows: Vec::new(), gated: false }, receiver)
    }

    /// The command, and where its reply goes.
    pub fn into_parts(self) -> (Command, oneshot::Sender<Result<Reply, Error>>) {
        (self.command, self.reply)
    }
}

/// What the committer tells the rest of the engine after each commit.
pub struct Aftermath {
    /// For the other servers.
    pub news: mpsc::UnboundedSender<News>,
    /// For the supervisor: something will be due this many milliseconds from now.
    pub due: mpsc::UnboundedSender<i64>,
    /// For the dispatcher: what the commit left to be done.
    pub left: mpsc::UnboundedSender<Left>,
    /// For subscribers: something was logged.
    pub tail: Arc<Tail>,
}

/// Runs commands in batches.
pub struct Committer {
    store: Arc<dyn Store>,
    writers: usize,
    registry: Arc<Registry>,
    memory: Arc<Memory>,
    parked: Arc<Parked>,
    bells: Arc<Bells>,
    aftermath: Aftermath,
    queue: Mutex<Queue>,
    idle: Notify,
    batches: AtomicU64,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Pending>,
    /// Those that go in batches of their own, and whether it is their turn.
    apart: VecDeque<Pending>,
    turn_of_apart: bool,
    /// The flows of the batches that run. Two that meet in one flow would only wait for each other's locks: what comes for
    /// it meanwhile gathers for the next.
    busy: HashSet<FlowId>,
    /// Whether a batch runs that goes through gates which many share. Another one would only wait for its locks, so what comes
    /// for them meanwhile gathers for the next.
    gates_busy: bool,
    running: usize,
    closed: bool,
}

impl Committer {
    /// A committer for `store`.
    pub fn new(
        store: Arc<dyn Store>,
        registry: Arc<Registry>,
        parked: Arc<Parked>,
        bells: Arc<Bells>,
        aftermath: Aftermath,
    ) -> Arc<Self> {
        let writers = store.describe().writers;
        Arc::new(Committer {
            store,
            writers,
            registry,
            memory: Arc::default(),
            parked,
            bells,
            aftermath,
            queue: Mutex::default(),
            idle: Notify::new(),
            batches: AtomicU64::new(0),
        })
    }

    /// Runs one command and waits for its reply.
    pub async fn run(self: &Arc<Self>, command: Command) -> Result<Reply, Error> {
        let (pending, reply) = Pending::new(command);
        self.enqueue(vec![pending])?;
        reply.await.unwrap_or(Err(Error::Closed))
    }

    /// The names that this process knows.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Puts commands in the queue together, so that they go in the same batch unless it is full.
    pub fn enqueue(self: &Arc<Self>, mut commands: Vec<Pending>) -> Result<(), Error> {
        let flows: Vec<FlowId> =
            commands.iter().flat_map(|pending| self.flows_of(&pending.command)).collect();
        if !flows.is_empty() {
            commands.iter_mut().for_each(|pending| pending.flows.clone_from(&flows));
        }
        if commands.iter().any(|pending| self.is_gated(&pending.command)) {
            commands.iter_mut().for_each(|pending| pending.gated = true);
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.closed {
            return Err(Error::Closed);
        }
        for pending in commands {
            let apart = pending.command.goes_apart();
            if apart { queue.apart.push_back(pending) } else { queue.waiting.push_back(pending) }
        }
        if queue.running < self.writers {
            queue.running += 1;
            drop(queue);
            tokio::spawn(self.clone().write());
        }
        Ok(())
    }

    /// The flows of what a report is about, where this process handed it out.
    fn flows_of(&self, command: &Command) -> Vec<FlowId> {
        let Command::Report(reports) = command else { return Vec::new() };
        let mut flows: Vec<FlowId> =
            reports.iter().filter_map(|report| self.memory.flow_of(report.fence.execution)).collect();
        flows.sort_unstable();
        flows.dedup();
        flows
    }

    /// Whether a command goes through gates that many share, as far as that is known.
    fn is_gated(&self, command: &Command) -> bool {
        if self.writers == 1 || !self.registry.has_gates() {
            return false;
        }
        match command {
            Command::Report(reports) => {
                let class = |report: &Report| self.memory.class_of(report.fence.execution);
                reports.iter().filter_map(class).any(|class| self.registry.is_gated(class))
            }
            Command::Claim { claim, .. } => {
                self.registry.covered(&claim.scope).into_iter().any(|class| self.registry.is_gated(class))
            }
            // A claim that waits may be taken along.
            Command::Submit { submit, .. } => {
                submit.items.iter().any(|item| self.registry.is_gated(item.class))
            }
            _ => false,
        }
    }

    /// How many batches were committed.
    pub fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    /// Whether new commands are refused.
    pub fn is_closed(&self) -> bool {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).closed
    }

    /// Refuses new commands and waits until everything that was accepted is answered.
    pub async fn close(&self) {
        loop {
            let idle = self.idle.notified();
            {
                let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
                queue.closed = true;
                if queue.running == 0 {
                    return;
                }
            }
            idle.await;
        }
    }

    /// One writer: batch after batch until nothing waits that may run now.
    async fn write(self: Arc<Self>) {
        let _running = Running(&self);
        while let Some((mut batch, busy)) = self.next_batch() {
            let _busy = busy;
            for claim in self.parked.take_for(batch.iter().map(|pending| &pending.command)) {
                batch.push(claim);
            }
            self.run_batch(batch).await;
        }
    }

    /// The next batch; what it has to do with is busy from now on. None when nothing waits that may run now.
    fn next_batch(&self) -> Option<(Vec<Pending>, Busy<'_>)> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let first = queue.turn_of_apart;
        let batch = queue.take(first).or_else(|| queue.take(!first))?;
        let flows: Vec<FlowId> = batch.iter().flat_map(|pending| pending.flows.iter().copied()).collect();
        let gated = batch.iter().any(|pending| pending.gated);
        queue.busy.extend(&flows);
        queue.gates_busy |= gated;
        Some((batch, Busy { committer: self, flows, gated }))
    }

    async fn run_batch(self: &Arc<Self>, batch: Vec<Pending>) {
        let mut work = vec![batch];
        while let Some(batch) = work.pop() {
            let (commands, mut replies): (Vec<_>, Vec<_>) =
                batch.into_iter().map(Pending::into_parts).unzip();
            let commands = Arc::new(commands);
            match self.transact(commands.clone()).await {
                Ok((mut outcome, emptied)) => {
                    replies.append(&mut outcome.taken);
                    let left = Left { outbox: std::mem::take(&mut outcome.left), emptied };
                    if !left.is_empty() {
                        let _ = self.aftermath.left.send(left);
                    }
                    let answers = self.conclude(outcome);
                    let mut later: BTreeMap<Option<ExecutionId>, Vec<Pending>> = BTreeMap::new();
                    for (index, (reply, answer)) in replies.into_iter().zip(answers).enumerate() {
                        if matches!(answer, Reply::Later) {
                            let command = commands[index].clone();
                            let waiting = later.entry(command.comes_to()).or_default();
                            waiting.push(Pending { command, reply, flows: Vec::new(), gated: false });
                        } else if let Err(Ok(unheard)) = reply.send(Ok(answer)) {
                            self.put_back_unheard(unheard);
                        }
                    }
                    // What comes to one execution waits for it in a batch of its own, and holds no other.
                    work.extend(later.into_values());
                }
                Err(error)
                    if commands.len() > 1 && !matches!(error, selvedge_store::Error::Unavailable(_)) =>
                {
                    tracing::warn!(commands = commands.len(), %error, "a batch failed whole; halving it");
                    let commands = Arc::try_unwrap(commands).unwrap_or_else(|shared| (*shared).clone());
                    let pending = commands.into_iter().zip(replies);
                    let mut first: Vec<Pending> = pending
                        .map(|(command, reply)| Pending { command, reply, flows: Vec::new(), gated: false })
                        .collect();
                    let second = first.split_off(first.len() / 2);
                    work.push(second);
                    work.push(first);
                }
                Err(error) => {
                    for reply in replies {
                        let _ = reply.send(Err(error.clone().into()));
                    }
                }
            }
        }
    }

    /// A claimer that no longer waits for its answer will never know of its leases: they go back at once.
    fn put_back_unheard(self: &Arc<Self>, reply: Reply) {
        let Reply::Claim(Ok(claimed)) = reply else { return };
        let put_back = claimed.iter().filter_map(|one| {
            let fence = Fence::of(&one.execution)?;
            let namespace = one.execution.namespace;
            Some(Pending::new(Command::PutBack(PutBack { namespace, fence, why: Why::Orphaned })).0)
        });
        // When the engine is closing they lapse instead.
        let _ = self.enqueue(put_back.collect());
    }

    async fn transact(
        &self,
        commands: Arc<Vec<Command>>,
    ) -> Result<(Outcome, Vec<FlowId>), selvedge_store::Error> {
        let outcome = Arc::new(Mutex::new(Outcome::default()));
        let (registry, memory, parked) = (self.registry.clone(), self.memory.clone(), self.parked.clone());
        let batch = Batch::new(commands, outcome.clone(), registry, memory, parked);
        let transaction = self.store.transact(Box::new(batch)).await;
        let mut outcome = std::mem::take(&mut *outcome.lock().unwrap_or_else(PoisonError::into_inner));
        match transaction {
            Ok(transaction) => {
                self.batches.fetch_add(1, Ordering::Relaxed);
                Ok((outcome, transaction.emptied))
            }
            Err(error) => {
                // Claims that were taken along got nothing, and ask for themselves.
                for reply in outcome.taken.drain(..) {
                    let _ = reply.send(Ok(Reply::Claim(Ok(Vec::new()))));
                }
                Err(error)
            }
        }
    }

    /// After the commit: remembers rows, wakes waiters here, tells the others.
    fn conclude(&self, outcome: Outcome) -> Vec<Reply> {
        self.memory.remember(outcome.leased);
        self.hear(&outcome.news);
        if !outcome.news.is_empty() {
            let _ = self.aftermath.news.send(outcome.news);
        }
        if let Some((at, now)) = outcome.next_due {
            let _ = self.aftermath.due.send(Timestamp::ms_since(at, now));
        }
        outcome.replies
    }

    /// Wakes the waiters of this process: after a commit here, or on news from another server.
    pub fn hear(&self, news: &News) {
        if news.logged {
            self.aftermath.tail.ring();
        }
        self.parked.wake(&news.ready);
        for id in &news.ended {
            self.bells.ring_ended(*id);
        }
        for id in &news.streamed {
            self.bells.ring_streamed(*id);
        }
        for key in &news.sessions {
            self.bells.ring_instance(*key);
        }
    }
}

impl Queue {
    /// A batch of one of the two kinds; none when nothing of that kind may run now. The other kind has the next turn.
    fn take(&mut self, apart: bool) -> Option<Vec<Pending>> {
        let Queue { waiting, apart: going_apart, busy, gates_busy, .. } = self;
        let source = if apart { going_apart } else { waiting };
        let mut batch = Vec::new();
        let mut weight = 0;
        let (mut index, mut looked) = (0, 0);
        while let Some(pending) = source.get(index).filter(|_| looked < LOOK_AHEAD) {
            looked += 1;
            if (pending.gated && *gates_busy) || pending.flows.iter().any(|flow| busy.contains(flow)) {
                index += 1;
                continue;
            }
            weight += pending.command.weight();
            if weight > BATCH_WEIGHT && !batch.is_empty() {
                break;
            }
            batch.extend(source.remove(index));
        }
        self.turn_of_apart = !apart;
        (!batch.is_empty()).then_some(batch)
    }

    /// Whether something waits that may run now.
    fn has_work(&self) -> bool {
        let stuck = |pending: &Pending| {
            (pending.gated && self.gates_busy) || pending.flows.iter().any(|flow| self.busy.contains(flow))
        };
        self.waiting.iter().chain(&self.apart).take(LOOK_AHEAD).any(|pending| !stuck(pending))
    }
}

/// What a batch that runs has to do with; free again when it ends, however it ends.
struct Busy<'a> {
    committer: &'a Committer,
    flows: Vec<FlowId>,
    gated: bool,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        if self.flows.is_empty() && !self.gated {
            return;
        }
        let mut queue = self.committer.queue.lock().unwrap_or_else(PoisonError::into_inner);
        for flow in &self.flows {
            queue.busy.remove(flow);
        }
        queue.gates_busy &= !self.gated;
    }
}

/// Counts a writer out when it stops, however it stops; if commands came meanwhile, nobody else would start one.
struct Running<'a>(&'a Arc<Committer>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.has_work() {
            drop(queue);
            tokio::spawn(self.0.clone().write());
            return;
        }
        queue.running -= 1;
        if queue.running == 0 {
            self.0.idle.notify_waiters();
        }
    }
}
