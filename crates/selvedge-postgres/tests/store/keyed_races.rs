//! Two servers get the same call with the same idempotency key at once: it takes effect once.

use crate::races::check_and_stop;
use selvedge_engine::core::rules::CallKey;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::{Draft, Name};
use selvedge_system_tests::Sandbox;
use selvedge_system_tests::server::{self, Server};

#[tokio::test]
async fn a_keyed_replay_that_two_servers_get_at_once_is_applied_once() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.server("a").await, sandbox.server("b").await);
    let plain = sandbox.plain().await;
    let id = a.submit(Draft::new("kind")).await;
    a.cancel(id).await.expect("it has not ended");
    plain.lock_execution(id).await;
    let replay = async |server: &Server| {
        let calls = server.namespace.keyed(Some(call_key()));
        calls.operate(id, Action::Replay, None, &server::operator()).await.expect("it has ended")
    };
    let release = async {
        sandbox.waits_for_lock("a", 1).await;
        sandbox.waits_for_lock("b", 1).await;
        plain.release().await;
    };
    let (first, second, ()) = tokio::join!(replay(&a), replay(&b), release);
    assert_ne!(first.duplicate, second.duplicate);
    assert_eq!((first.done.version, second.done.version), (3, 3));
    assert_eq!(a.row(id).await.detail.generation, 1);
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn a_keyed_rotation_that_two_servers_get_at_once_makes_one_key() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.server("a").await, sandbox.server("b").await);
    let plain = sandbox.plain().await;
    plain.block_commits().await;
    let rotate = async |server: &Server| {
        let calls = server.namespace.keyed(Some(call_key()));
        calls.rotate_token_keys(1000, &server::operator()).await.expect("the keys are rotated")
    };
    let release = async {
        sandbox.waits_for_lock("a", 1).await;
        sandbox.waits_for_lock("b", 1).await;
        plain.release().await;
    };
    let (first, second, ()) = tokio::join!(rotate(&a), rotate(&b), release);
    assert_ne!(first.duplicate, second.duplicate);
    assert_eq!(first.done.id, second.done.id);
    let keys = a.engine.store().token_keys().await.expect("the keys are read");
    assert_eq!(keys.iter().filter(|key| key.retires_at.is_none()).count(), 1);
    check_and_stop(&[&a, &b]).await;
}

fn call_key() -> CallKey {
    CallKey { key: Name::trusted("key"), digest: 7 }
}
