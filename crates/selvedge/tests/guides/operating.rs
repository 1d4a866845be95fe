//! The guide to operating: failed executions are read and replayed.

use crate::{ended, engine};
use selvedge::{Context, Error, ExecutionFilter, Failure, Namespace, Outcome, State, Submission, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

// region: replay
async fn replay_failed(namespace: &Namespace, kind: &str) -> Result<usize, Error> {
    let filter = ExecutionFilter {
        kind: Some(kind.into()),
        states: vec![State::Failed],
        ..ExecutionFilter::default()
    };
    let (mut replayed, mut cursor) = (0, None);
    loop {
        let page = namespace.list(&filter, cursor.as_deref(), 100).await?;
        for execution in &page.items {
            let message = execution.error.as_ref().map(|error| error.message.as_str());
            println!("{}: {}", execution.id, message.unwrap_or("no error"));
            namespace.replay(execution.id).await?;
            replayed += 1;
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(replayed);
        }
    }
}
// endregion: replay

#[tokio::test]
async fn failed_executions_are_replayed_when_the_cause_is_repaired() -> Result<(), Error> {
    let (engine, namespace) = engine().await;
    let repaired = Arc::new(AtomicBool::new(false));
    let is_repaired = repaired.clone();
    let worker = Worker::new(namespace.clone(), "mail")
        .handler("mail", move |_: Context| {
            let is_repaired = is_repaired.load(Ordering::SeqCst);
            async move { if is_repaired { Ok("sent") } else { Err(Failure::permanent("no such host")) } }
        })
        .start()?;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = Submission::new("mail").submit(&namespace).await?.execution.id;
        assert_eq!(ended(&namespace, id).await.outcome, Outcome::Failed);
        ids.push(id);
    }
    repaired.store(true, Ordering::SeqCst);
    assert_eq!(replay_failed(&namespace, "mail").await?, 3);
    for id in ids {
        assert_eq!(ended(&namespace, id).await.json::<String>()?, "sent");
    }
    worker.drain().await;
    engine.shutdown().await;
    Ok(())
}
