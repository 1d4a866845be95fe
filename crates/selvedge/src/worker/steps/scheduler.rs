//! Runs a handler until it returns, or until it only waits: then the handler is dropped and its attempt suspended.
//!
//! A handler may do several things concurrently with `join!`, `select!` or collections of futures, so an open wait does
//! not mean that the handler is idle. It is suspended after a poll that left nothing to be polled again: it has not
//! been woken since, it has no step or report in progress, and it has an open wait. Futures that yield, by waking
//! themselves or through tokio's budget, are polled again before that.

use super::lock;
use super::tracker::StepTracker;
use crate::worker::{Failure, Return};
use selvedge_core::suspension::WaitDraft;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use tokio::task::yield_now;

/// The end of a handler's run.
pub enum HandlerEnd {
    /// The handler returned.
    Returned(Result<Return, Failure>),
    /// The handler was dropped while it had these open waits.
    Suspended(Vec<WaitDraft>),
}

/// Runs a handler until it returns or can be suspended.
pub async fn run(
    handler: impl Future<Output = Result<Return, Failure>>,
    tracker: Arc<StepTracker>,
) -> HandlerEnd {
    let _close = CloseOnDrop(tracker.clone());
    let handler_waker = Arc::new(HandlerWaker::default());
    let waker = Waker::from(handler_waker.clone());
    tracker.set_waker(waker.clone());
    let mut handler = pin!(handler);
    loop {
        let idle_or_returned = poll_fn(|cx| {
            handler_waker.set_task(cx.waker());
            let polled = handler.as_mut().poll(&mut Context::from_waker(&waker));
            match polled {
                Poll::Ready(returned) => Poll::Ready(Some(returned)),
                Poll::Pending if tracker.is_idle() => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        match idle_or_returned.await {
            Some(returned) => return HandlerEnd::Returned(check_vanished(returned, &tracker)),
            None => {
                // Futures that deferred their wake-up until the task yields are woken before the task itself.
                yield_now().await;
                let waits = if handler_waker.was_woken() { None } else { tracker.suspend() };
                if let Some(waits) = waits {
                    return HandlerEnd::Suspended(waits);
                }
            }
        }
    }
}

/// Replaces a completion by a failure if the handler did not request every recorded step.
fn check_vanished(returned: Result<Return, Failure>, tracker: &StepTracker) -> Result<Return, Failure> {
    let vanished = match &returned {
        Ok(Return::Complete(_)) => tracker.vanished(),
        Ok(Return::Delay(_) | Return::Release | Return::Cancelled) | Err(_) => None,
    };
    vanished.map_or(returned, Err)
}

/// Closes the tracker when the handler returns, panics, or is dropped.
struct CloseOnDrop(Arc<StepTracker>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Wakes the task of a handler, and records that it did.
#[derive(Default)]
struct HandlerWaker {
    woken: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl HandlerWaker {
    /// Sets the task to wake and clears the record, before a poll of the handler.
    fn set_task(&self, task: &Waker) {
        let mut current = lock(&self.task);
        match &mut *current {
            Some(waker) => waker.clone_from(task),
            None => *current = Some(task.clone()),
        }
        drop(current);
        self.woken.store(false, Ordering::SeqCst);
    }

    /// Returns true if the handler was woken since the last poll began.
    fn was_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }
}

impl Wake for HandlerWaker {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        let task = lock(&self.task).clone();
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

    fn tracker() -> Arc<StepTracker> {
        StepTracker::new(Vec::new())
    }

    /// Opens a wait of this name and never returns.
    async fn wait(tracker: Arc<StepTracker>, name: &str) -> Result<Return, Failure> {
        let step = Some((Name::trusted(name), StepKind::Wait));
        let _open = tracker.open_wait(WaitDraft { step, ..WaitDraft::new(Condition::operator()) })?;
        pending().await
    }

    /// Runs a handler until it is suspended, and returns the names of its open waits.
    async fn waits_of(
        handler: impl Future<Output = Result<Return, Failure>>,
        tracker: &Arc<StepTracker>,
    ) -> Vec<String> {
        let end = timeout(Duration::from_secs(30), run(handler, tracker.clone())).await;
        let HandlerEnd::Suspended(waits) = end.expect("the handler ends in time") else {
            panic!("the handler is suspended")
        };
        waits.into_iter().filter_map(|wait| Some(wait.step?.0.as_str().to_owned())).collect()
    }

    /// Runs a handler with two concurrent waits, of which the second is preceded by `first`.
    async fn waits_after(first: impl Future<Output = ()>, tracker: &Arc<StepTracker>) -> Vec<String> {
        let late = async {
            first.await;
            wait(tracker.clone(), "late").await
        };
        let handler =
            async { tokio::try_join!(wait(tracker.clone(), "early"), late).map(|(early, _)| early) };
        waits_of(handler, tracker).await
    }

    #[tokio::test]
    async fn a_branch_that_yields_reaches_its_wait_before_the_attempt_is_suspended() {
        let yields = async {
            for _ in 0..10 {
                yield_now().await;
            }
        };
        assert_eq!(waits_after(yields, &tracker()).await, ["early", "late"]);
    }

    #[tokio::test]
    async fn a_branch_that_exhausts_the_budget_of_its_task_reaches_its_wait_before_the_attempt_is_suspended()
    {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        (0..1000).for_each(|number| sender.send(number).expect("the receiver exists"));
        let receives = async { while receiver.recv().await.is_some_and(|number| number < 999) {} };
        assert_eq!(waits_after(receives, &tracker()).await, ["early", "late"]);
    }

    #[tokio::test]
    async fn a_suspension_includes_all_waits_of_a_collection_of_futures() {
        let tracker = tracker();
        let handler = async {
            let mut waits: FuturesUnordered<_> = (0..100).map(|_| wait(tracker.clone(), "one")).collect();
            waits.next().await.expect("the collection is not empty")
        };
        assert_eq!(waits_of(handler, &tracker).await.len(), 100);
    }

    #[tokio::test]
    async fn a_wait_in_a_task_of_its_own_suspends_the_attempt() {
        let tracker = tracker();
        let handler = async {
            let waiting = tracker.clone();
            tokio::spawn(async move {
                // The handler is idle by then, and only this task wakes it.
                for _ in 0..10 {
                    yield_now().await;
                }
                wait(waiting, "elsewhere").await
            });
            pending().await
        };
        assert_eq!(waits_of(handler, &tracker).await, ["elsewhere"]);
    }

    #[tokio::test]
    async fn an_attempt_is_suspended_once_the_steps_of_other_tasks_have_ended() {
        let tracker = tracker();
        let (end_step, step_ends) = oneshot::channel();
        let handler = async {
            let in_progress = tracker.begin_step()?;
            let step = tokio::spawn(async move {
                step_ends.await.expect("the step is ended by the other task");
                drop(in_progress);
            });
            let waiting = tracker.clone();
            tokio::spawn(async move {
                let wait = wait(waiting, "elsewhere");
                let end_step = async { end_step.send(()).expect("the step is in progress") };
                tokio::join!(wait, end_step).0
            });
            step.await?;
            pending().await
        };
        assert_eq!(waits_of(handler, &tracker).await, ["elsewhere"]);
        assert!(tracker.begin_step().is_err(), "no step begins in an attempt that is over");
        assert!(wait(tracker, "late").await.is_err());
    }

    #[tokio::test]
    async fn a_handler_that_waits_for_nothing_durable_is_not_suspended() {
        let tracker = tracker();
        let (release, released) = oneshot::channel();
        let dropped = tokio::spawn({
            let tracker = tracker.clone();
            async move { drop(timeout(Duration::ZERO, wait(tracker, "dropped")).await) }
        });
        dropped.await.expect("the task ends");
        let handler = async {
            released.await?;
            Ok(Return::Release)
        };
        let (end, sent) = tokio::join!(run(handler, tracker), async { release.send(()) });
        sent.expect("the handler waits for the release");
        assert!(matches!(end, HandlerEnd::Returned(Ok(Return::Release))));
    }
}
