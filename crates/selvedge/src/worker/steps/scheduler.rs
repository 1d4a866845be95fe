//! Runs a handler until it returns, or until all that it does is wait: then it is dropped, and its attempt is suspended.
//!
//! A handler does several things at once with `join!`, `select!` or collections of futures, so that it waits for
//! something does not mean that it waits for nothing else. It is suspended when a poll of it has left nothing to be polled
//! again: nobody has woken it since, no step and no report of it is under way, and it waits for something. Futures that
//! put themselves off (by waking themselves, or by tokio's budget) get their turn before that.

use super::ledger::Ledger;
use crate::worker::{Failure, Return};
use selvedge_core::suspension::WaitDraft;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use tokio::task::yield_now;

/// How a handler ended.
pub enum Given {
    /// It returned.
    Returned(Result<Return, Failure>),
    /// It waits for one of these.
    Suspended(Vec<WaitDraft>),
}

/// Runs a handler to one of its ends.
pub async fn run(handling: impl Future<Output = Result<Return, Failure>>, ledger: Arc<Ledger>) -> Given {
    let _over = Over(ledger.clone());
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    ledger.answer_to(waker.clone());
    let mut handling = pin!(handling);
    loop {
        let idle_or_ended = poll_fn(|cx| {
            bell.answer_to(cx.waker());
            let polled = handling.as_mut().poll(&mut Context::from_waker(&waker));
            match polled {
                Poll::Ready(given) => Poll::Ready(Some(given)),
                Poll::Pending if ledger.is_idle() => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        match idle_or_ended.await {
            Some(given) => return Given::Returned(checked(given, &ledger)),
            None => {
                // What was put off until the task yields is woken before the task is.
                yield_now().await;
                let waits = if bell.has_rung() { None } else { ledger.suspend() };
                if let Some(waits) = waits {
                    return Given::Suspended(waits);
                }
            }
        }
    }
}

/// A handler that is done has asked for all that was recorded.
fn checked(given: Result<Return, Failure>, ledger: &Ledger) -> Result<Return, Failure> {
    let vanished = match &given {
        Ok(Return::Complete(_)) => ledger.vanished(),
        Ok(Return::Delay(_) | Return::Release) | Err(_) => None,
    };
    vanished.map_or(given, Err)
}

/// Ends the attempt, however its handler ends: it may have returned, panicked, or been dropped.
struct Over(Arc<Ledger>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Wakes the task of a handler, and remembers that it did.
#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Bell {
    /// The task is about to poll the handler.
    fn answer_to(&self, task: &Waker) {
        let mut answers = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *answers {
            Some(known) => known.clone_from(task),
            None => *answers = Some(task.clone()),
        }
        drop(answers);
        self.rung.store(false, Ordering::SeqCst);
    }

    /// Whether somebody has woken the task since.
    fn has_rung(&self) -> bool {
        self.rung.load(Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
        task.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;
    use futures_util::stream::FuturesUnordered;
    use selvedge_core::Name;
    use selvedge_core::step::StepKind;
    use selvedge_core::suspension::Condition;
    use std::future::pending;
    use std::time::Duration;
    use tokio::sync::{mpsc, oneshot};
    use tokio::time::timeout;

    /// Waits for something of this name.
    async fn wait(ledger: Arc<Ledger>, name: &str) -> Result<Return, Failure> {
        let step = Some((Name::trusted(name), StepKind::Wait));
        let _waiting = ledger.wait(WaitDraft { step, ..WaitDraft::new(Condition::operator()) })?;
        pending().await
    }

    /// Runs a handler that comes to wait, and gives what it waits for.
    async fn waits_for(
        handling: impl Future<Output = Result<Return, Failure>>,
        ledger: &Arc<Ledger>,
    ) -> Vec<String> {
        let given = timeout(Duration::from_secs(30), run(handling, ledger.clone())).await;
        let Given::Suspended(waits) = given.expect("it ends in time") else { panic!("it is suspended") };
        waits.into_iter().filter_map(|wait| Some(wait.step?.0.as_str().to_owned())).collect()
    }

    /// What is first done by a branch before it waits.
    async fn after(first: impl Future<Output = ()>, ledger: &Arc<Ledger>) -> Vec<String> {
        let late = async {
            first.await;
            wait(ledger.clone(), "late").await
        };
        let handling =
            async { tokio::try_join!(wait(ledger.clone(), "early"), late).map(|(early, _)| early) };
        waits_for(handling, ledger).await
    }

    #[tokio::test]
    async fn a_branch_that_yields_comes_to_its_wait_before_the_attempt_is_suspended() {
        let yields = async {
            for _ in 0..10 {
                yield_now().await;
            }
        };
        assert_eq!(after(yields, &Ledger::new(Vec::new())).await, ["early", "late"]);
    }

    #[tokio::test]
    async fn a_branch_that_uses_up_the_budget_of_its_task_comes_to_its_wait_too() {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        (0..1000).for_each(|number| sender.send(number).expect("it is there"));
        let receives = async { while receiver.recv().await.is_some_and(|number| number < 999) {} };
        assert_eq!(after(receives, &Ledger::new(Vec::new())).await, ["early", "late"]);
    }

    #[tokio::test]
    async fn everything_in_a_collection_of_futures_is_waited_for() {
        let ledger = Ledger::new(Vec::new());
        let handling = async {
            let mut waits: FuturesUnordered<_> = (0..100).map(|_| wait(ledger.clone(), "one")).collect();
            waits.next().await.expect("there are some")
        };
        assert_eq!(waits_for(handling, &ledger).await.len(), 100);
    }

    #[tokio::test]
    async fn a_wait_in_a_task_of_its_own_suspends_the_attempt() {
        let ledger = Ledger::new(Vec::new());
        let handling = async {
            let waiting = ledger.clone();
            tokio::spawn(async move {
                // The handler is idle by then, and nobody but this task wakes it.
                for _ in 0..10 {
                    yield_now().await;
                }
                wait(waiting, "elsewhere").await
            });
            pending().await
        };
        assert_eq!(waits_for(handling, &ledger).await, ["elsewhere"]);
    }

    #[tokio::test]
    async fn an_attempt_is_suspended_once_the_steps_of_other_tasks_have_ended() {
        let ledger = Ledger::new(Vec::new());
        let (go_on, goes_on) = oneshot::channel();
        let handling = async {
            let running = ledger.begin()?;
            let stepping = tokio::spawn(async move {
                goes_on.await.expect("it is told to");
                drop(running);
            });
            let waiting = ledger.clone();
            tokio::spawn(async move {
                let wait = wait(waiting, "elsewhere");
                let told = async { go_on.send(()).expect("it listens") };
                tokio::join!(wait, told).0
            });
            stepping.await?;
            pending().await
        };
        assert_eq!(waits_for(handling, &ledger).await, ["elsewhere"]);
        assert!(ledger.begin().is_err(), "no step begins in an attempt that is over");
        assert!(wait(ledger, "late").await.is_err());
    }

    #[tokio::test]
    async fn a_handler_that_waits_for_nothing_durable_is_not_suspended() {
        let ledger = Ledger::new(Vec::new());
        let (go_on, goes_on) = oneshot::channel();
        let dropped = tokio::spawn({
            let ledger = ledger.clone();
            async move { drop(timeout(Duration::ZERO, wait(ledger, "dropped")).await) }
        });
        dropped.await.expect("it ends");
        let handling = async {
            goes_on.await?;
            Ok(Return::Release)
        };
        let (given, told) = tokio::join!(run(handling, ledger), async { go_on.send(()) });
        told.expect("it listens");
        assert!(matches!(given, Given::Returned(Ok(Return::Release))));
    }
}
