//! Random schedules in lockstep with a reference: saved with other times and policies, fired at any time, paused, run at once,
//! and with runs that end at any moment.
//!
//! The time of a schedule is that of the server which fires it, not of the store, so the same sequences run on every store. The
//! reference enumerates all times of an interval one by one and keeps plain lists; it shares no code with core.

use super::compare::Comparison;
use super::random::ModelRuns;
use crate::harness::schedules::every;
use crate::harness::signals::name;
use crate::{Harness, Subject};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::schedule::RunSchedule;
use selvedge_core::schedule::{CatchUp, Overlap, RunResult, RunSubject, Schedule, ScheduleSpec};
use selvedge_core::transition::Cause;
use selvedge_core::{Draft, Timestamp};
use std::future::Future;
use uuid::Uuid;

/// Sets the seed, to repeat a failed run.
const SEED: &str = "SELVEDGE_SCHEDULE_MODEL_SEED";
/// Sets the number of cases, for a longer run.
const CASES: &str = "SELVEDGE_SCHEDULE_MODEL_CASES";
/// The time after which a time is missed, in milliseconds.
const GRACE_MS: i64 = 60_000;

/// One command of a sequence.
#[derive(Clone, Debug)]
enum ScheduleCommand {
    Save { interval_ms: i64, overlap: Overlap, catch_up: CatchUp, paused: bool, is_broken: bool },
    Pass { ms: i64 },
    Fire,
    Run,
    End { run: usize },
}

fn command() -> impl Strategy<Value = ScheduleCommand> {
    let intervals = vec![1000, 7000, GRACE_MS, 600_000];
    let save = (select(intervals), select(&Overlap::ALL[..]), select(&CatchUp::ALL[..]), 0..5_u8, 0..5_u8);
    let save = save.prop_map(|(interval_ms, overlap, catch_up, paused, broken)| ScheduleCommand::Save {
        interval_ms,
        overlap,
        catch_up,
        paused: paused == 0,
        is_broken: broken == 0,
    });
    let pass = select(vec![1, 999, 1000, 6000, 30_000, GRACE_MS, GRACE_MS + 1, 500_000, 5_000_000]);
    prop_oneof![
        2 => save,
        5 => pass.prop_map(|ms| ScheduleCommand::Pass { ms }),
        6 => Just(ScheduleCommand::Fire),
        1 => Just(ScheduleCommand::Run),
        4 => any::<usize>().prop_map(|run| ScheduleCommand::End { run }),
    ]
}

/// Runs `cases` random sequences, each on a store of its own that `make` creates.
///
/// # Panics
/// If a store and the reference differ. The message has the seed and the shortest failing sequence.
pub fn run<Made, Given>(make: impl Fn() -> Made, cases: u32)
where
    Made: Future<Output = Given>,
    Given: Into<Subject>,
{
    let causes = vec![Cause::Submit, Cause::Claim, Cause::Complete];
    let runs = ModelRuns { seed: SEED, cases: CASES, shrinks: 2048, cases_for_every_cause: 50, causes };
    runs.run(make, cases, |_| vec(command(), 1..40), run_sequence);
}

/// The result of a time, as the reference sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decided {
    Started,
    Skipped,
    Refused,
}

struct Reference {
    interval_ms: i64,
    overlap: Overlap,
    catch_up: CatchUp,
    paused: bool,
    is_broken: bool,
    anchor: i64,
    position: i64,
    queue: Vec<i64>,
    /// The number of runs that live.
    live: usize,
    decided: Vec<(i64, Decided)>,
}

impl Reference {
    /// Decides the first times up to `now`, as one tick does.
    fn fire(&mut self, now: i64) {
        if self.paused {
            return;
        }
        let mut times = Vec::new();
        let mut at = self.anchor + self.interval_ms;
        while at <= now {
            times.extend((at > self.position).then_some(at));
            at += self.interval_ms;
        }
        let missed = times.iter().filter(|at| **at < now - GRACE_MS).count();
        let kept = match self.catch_up {
            CatchUp::None => 0,
            CatchUp::One => 1,
            CatchUp::All => 1000,
        };
        let passed: Vec<i64> = times.drain(..missed.saturating_sub(kept)).collect();
        self.position = passed.last().copied().unwrap_or(self.position);
        times.truncate(100);
        self.position = times.last().copied().unwrap_or(self.position);
        for at in times {
            match self.overlap {
                Overlap::Allow => self.start(at),
                Overlap::Skip if self.live == 0 => self.start(at),
                Overlap::Skip => self.decided.push((at, Decided::Skipped)),
                Overlap::Queue if self.queue.len() < 100 => self.queue.push(at),
                Overlap::Queue => self.decided.push((at, Decided::Skipped)),
            }
        }
        if self.overlap == Overlap::Queue && self.live == 0 && !self.queue.is_empty() {
            let first = self.queue.remove(0);
            self.start(first);
        }
    }

    fn start(&mut self, at: i64) {
        match self.is_broken {
            true => self.decided.push((at, Decided::Refused)),
            false => {
                self.live += 1;
                self.decided.push((at, Decided::Started));
            }
        }
    }
}

/// A sequence in progress.
struct Walk {
    harness: Harness,
    now: Timestamp,
    reference: Option<Reference>,
    claimed: Vec<Claimed>,
    runs: u128,
}

async fn run_sequence(harness: &Harness, _subject: &Subject, commands: &[ScheduleCommand]) -> Comparison {
    let now = Timestamp::from_millis(harness.now().await.millis() + 1000);
    let mut walk = Walk { harness: harness.clone(), now, reference: None, claimed: Vec::new(), runs: 0 };
    for (number, command) in commands.iter().enumerate() {
        let checked = walk.step(command).await;
        checked.map_err(|error| format!("at command {number}, {command:?}: {error}"))?;
    }
    Ok(())
}

impl Walk {
    async fn step(&mut self, command: &ScheduleCommand) -> Comparison {
        match command {
            ScheduleCommand::Save { .. } => self.save(command).await,
            ScheduleCommand::Pass { ms } => self.now = self.now.plus_ms(*ms),
            ScheduleCommand::Fire => {
                if let Some(reference) = &mut self.reference {
                    self.harness.fire("s", self.now).await;
                    reference.fire(self.now.millis());
                    self.claimed.extend(self.harness.claim(1000).await);
                }
            }
            ScheduleCommand::Run => self.run_at_once().await,
            ScheduleCommand::End { run } => {
                if !self.claimed.is_empty() {
                    let ended = self.claimed.remove(run % self.claimed.len());
                    self.harness.complete(&ended, b"1").await;
                    self.reference.iter_mut().for_each(|reference| reference.live -= 1);
                }
            }
        }
        match &self.reference {
            Some(reference) => compare(reference, &self.harness.schedule("s").await, self.claimed.len()),
            None => Ok(()),
        }
    }

    async fn save(&mut self, command: &ScheduleCommand) {
        let ScheduleCommand::Save { interval_ms, overlap, catch_up, paused, is_broken } = command.clone()
        else {
            return;
        };
        let mut draft = Draft::new("k");
        if is_broken {
            draft.required_gates.quotas = vec![name("missing")];
        }
        let spec = ScheduleSpec { overlap, catch_up, paused, ..every(interval_ms, draft) };
        let saved = self.harness.save_schedule("s", spec).await;
        let (anchor, position) = (saved.state.anchor.millis(), saved.state.position.millis());
        let before = self.reference.take();
        let retimed = before.as_ref().is_none_or(|one| one.interval_ms != interval_ms);
        let resumed = before.as_ref().is_some_and(|one| one.paused && !paused);
        let mut next = before.unwrap_or(Reference {
            interval_ms,
            overlap,
            catch_up,
            paused,
            is_broken,
            anchor,
            position,
            queue: Vec::new(),
            live: 0,
            decided: Vec::new(),
        });
        if retimed || overlap != Overlap::Queue {
            next.queue.clear();
        }
        // The time of the store is not that of the sequence; it never moves the position back.
        if retimed {
            next.anchor = anchor;
        }
        if retimed || resumed {
            assert!(position >= next.position, "the position never goes back");
            next.position = position;
        }
        (next.interval_ms, next.overlap, next.catch_up) = (interval_ms, overlap, catch_up);
        (next.paused, next.is_broken) = (paused, is_broken);
        self.reference = Some(next);
    }

    async fn run_at_once(&mut self) {
        let Some(reference) = &mut self.reference else { return };
        let schedule = self.harness.schedule("s").await;
        let Ok(prepared) = self.harness.prepare(&schedule.spec.submit).await else { return };
        self.runs += 1;
        let id = Uuid::from_u128(self.runs);
        let rule = RunSchedule { name: schedule.name, prepared, id, at: self.now, actor: name("operator") };
        match self.harness.run(rule).await {
            Ok(subject) => {
                assert!(matches!(subject, RunSubject::Execution(_)));
                reference.live += 1;
                reference.decided.push((self.now.millis(), Decided::Started));
            }
            Err(_) => assert!(reference.is_broken, "only a broken submission is refused"),
        }
        self.claimed.extend(self.harness.claim(1000).await);
    }
}

fn compare(reference: &Reference, schedule: &Schedule, live: usize) -> Comparison {
    let state = &schedule.state;
    let count = |what: Decided| reference.decided.iter().filter(|(_, one)| *one == what).count() as u64;
    let expected = (count(Decided::Started), count(Decided::Skipped), count(Decided::Refused));
    let actual = (state.fired, state.skipped, state.refused);
    if actual != expected {
        return Err(format!("started, skipped, refused: {actual:?} instead of {expected:?}"));
    }
    let queue: Vec<i64> = state.queue.iter().map(|at| at.millis()).collect();
    if queue != reference.queue {
        return Err(format!("the queue is {queue:?} instead of {:?}", reference.queue));
    }
    let decided: Vec<(i64, Decided)> = state
        .runs
        .iter()
        .map(|run| match run.result {
            RunResult::Started(_) => (run.at.millis(), Decided::Started),
            RunResult::Skipped => (run.at.millis(), Decided::Skipped),
            RunResult::Refused { .. } => (run.at.millis(), Decided::Refused),
        })
        .collect();
    let last = reference.decided.len().saturating_sub(20);
    let mut expected: Vec<_> = reference.decided[last..].to_vec();
    // Times that one tick decides are shown in their order.
    let mut shown = decided.clone();
    expected.sort_by_key(|(at, _)| *at);
    shown.sort_by_key(|(at, _)| *at);
    if shown != expected && reference.decided.len() <= 20 {
        return Err(format!("the runs are {shown:?} instead of {expected:?}"));
    }
    if live != reference.live {
        return Err(format!("{live} runs live instead of {}", reference.live));
    }
    Ok(())
}
