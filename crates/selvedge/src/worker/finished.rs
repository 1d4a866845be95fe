//! What handlers gave back and the engine has not accepted yet.
//!
//! Reports that end together go together, with a claim for the slots they free. While the store is away they are kept
//! and repeated: the fence of the lease makes that safe, and nothing new can be claimed meanwhile, so there are never
//! more than there are slots.

use super::Drained;
use super::handler::Failure;
use crate::{Error, Namespace, Refusal};
use selvedge_core::rules::claim::{ClaimDraft, Claimed};
use selvedge_core::rules::report::{Fence, Op, Reported};
use selvedge_engine::ReportItem;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a report is repeated while the store is away.
const PATIENCE: Duration = Duration::from_secs(300);
/// The first and the longest pause between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A pause that doubles while calls fail.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pause(Duration);

impl Pause {
    /// How long to wait before the next call.
    pub fn length(self) -> Duration {
        self.0
    }

    /// A call was answered.
    pub fn reset(&mut self) {
        self.0 = Duration::ZERO;
    }

    /// A call failed.
    pub fn grow(&mut self) {
        self.0 = (self.0 * 2).clamp(PAUSES.0, PAUSES.1);
    }
}

/// The end of an attempt.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Under which lease.
    pub fence: Fence,
    /// What to report.
    pub op: Op,
    since: Instant,
}

impl Ending {
    /// It ended just now.
    pub fn new(fence: Fence, op: Op) -> Self {
        let since = Instant::now();
        Ending { fence, op, since }
    }
}

/// The answer to a report of several endings, and what was claimed along with it.
pub struct Answer {
    /// Each ending and what became of its report.
    pub endings: Vec<(Ending, Result<Reported, Error>)>,
    /// What was claimed.
    pub claimed: Vec<Claimed>,
}

impl Answer {
    /// Whether something has to be repeated because the store is away.
    pub fn store_is_away(&self) -> bool {
        let away = |result: &Result<Reported, Error>| matches!(result, Err(Error::Store(error)) if error.is_transient());
        self.endings.iter().any(|(_, result)| away(result))
    }
}

/// Reports these endings after `pause`, and claims along with them.
pub async fn report(
    namespace: Namespace,
    endings: Vec<Ending>,
    claim: Option<ClaimDraft>,
    pause: Pause,
) -> Answer {
    sleep(pause.length()).await;
    match namespace.report(endings.iter().map(item).collect(), claim).await {
        Ok((results, claimed)) => {
            let results = results.into_iter().map(|result| result.map_err(Error::from));
            Answer { endings: endings.into_iter().zip(results).collect(), claimed }
        }
        Err(Error::Store(selvedge_store::Error::Failed(detail))) => {
            tracing::warn!(detail, "a report failed whole; its parts are tried one by one");
            one_by_one(&namespace, endings).await
        }
        Err(error) => Answer {
            endings: endings.into_iter().map(|ending| (ending, Err(error.clone()))).collect(),
            claimed: Vec::new(),
        },
    }
}

/// One that the store cannot take must not keep its neighbours from being reported.
async fn one_by_one(namespace: &Namespace, endings: Vec<Ending>) -> Answer {
    let mut answered = Vec::with_capacity(endings.len());
    for ending in endings {
        let result = match namespace.report(vec![item(&ending)], None).await {
            Ok((results, _)) => results.into_iter().next().map_or_else(
                || Err(Refusal::field("/ops", "has no answer").into()),
                |result| result.map_err(Error::from),
            ),
            Err(error) => Err(error),
        };
        answered.push((ending, result));
    }
    Answer { endings: answered, claimed: Vec::new() }
}

fn item(ending: &Ending) -> ReportItem {
    Ok((ending.fence, None, ending.op.clone()))
}

/// What follows the answer to the report of one ending.
pub enum Follows {
    /// It is settled.
    Nothing,
    /// Report this.
    Report(Ending),
}

/// Counts an answered ending, or says what to report next.
pub fn settle(ending: Ending, result: Result<Reported, Error>, drained: &mut Drained) -> Follows {
    let execution = ending.fence.execution;
    let error = match result {
        Ok(_) => {
            match ending.op {
                Op::Complete { .. } => drained.completed += 1,
                Op::Fail { .. } => drained.failed += 1,
                Op::Delay { .. } | Op::Release => drained.released += 1,
                Op::Suspend(_) => drained.suspended += 1,
                Op::Progress { .. }
                | Op::Spawn(_)
                | Op::Frame { .. }
                | Op::Waitpoint { .. }
                | Op::Step(_)
                | Op::Usage(_) => {}
            }
            return Follows::Nothing;
        }
        Err(Error::Store(error)) if error.is_transient() && ending.since.elapsed() < PATIENCE => {
            tracing::debug!(%execution, %error, "a report is repeated");
            return Follows::Report(ending);
        }
        Err(Error::Refused(refusal)) if is_correctable(&refusal, &ending.op) => {
            // The lease is still ours, and what the handler gave back would never be accepted.
            let what = if matches!(ending.op, Op::Suspend(_)) { "waits for" } else { "gave back" };
            let failure = Failure::permanent(format!("what the handler {what} was refused: {refusal}"));
            return Follows::Report(Ending::new(ending.fence, failure.into()));
        }
        Err(error) => error,
    };
    tracing::warn!(%execution, attempt = ending.fence.attempt, %error, "the end of an attempt was not accepted");
    drained.aborted += 1;
    Follows::Nothing
}

/// Whether it was the content that was refused, and not the lease.
fn is_correctable(refusal: &Refusal, op: &Op) -> bool {
    let content = match refusal {
        Refusal::InvalidField { .. } | Refusal::UnknownField { .. } | Refusal::PayloadTooLarge { .. } => true,
        // Of a suspension: one of its waits has the name of another step, or there is no room for one more.
        Refusal::IdempotencyMismatch { .. } | Refusal::LimitReached { .. } => matches!(op, Op::Suspend(_)),
        Refusal::NotFound { .. }
        | Refusal::StaleLease(_)
        | Refusal::AlreadyTerminal { .. }
        | Refusal::WrongState { .. }
        | Refusal::Token { .. }
        | Refusal::VersionMismatch { .. }
        | Refusal::Cycle { .. }
        | Refusal::UnknownNode { .. }
        | Refusal::FlowEnded { .. }
        | Refusal::LaneDraining { .. }
        | Refusal::Unreadable { .. } => false,
    };
    content && !matches!(op, Op::Fail { .. })
}
