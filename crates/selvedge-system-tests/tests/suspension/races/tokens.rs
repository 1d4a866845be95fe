//! A delivery by token and everything else that can happen to its waitpoint: the same delivery, a revocation, a rotation
//! of the keys, and its expiry.

use super::{Block, Race};
use selvedge_engine::core::DueKind;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::waitpoint::WaitpointDraft;
use selvedge_engine::core::signal::Effect;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::waitpoint::WaitpointState;
use selvedge_engine::core::{Waitpoint, WaitpointId};
use selvedge_system_tests::server::{fence, operator};
use selvedge_system_tests::suspensions::{brief_waitpoint, name};

fn approval() -> WaitpointDraft {
    WaitpointDraft::new(name("approval"))
}

async fn state(race: &Race, id: WaitpointId) -> WaitpointState {
    let known = race.a.engine.store().waitpoint(id).await.expect("the read succeeds");
    known.expect("it exists").state
}

#[tokio::test]
async fn a_token_delivered_through_two_servers_at_once_is_one_delivery_with_the_same_answer() {
    let race = Race::new().await;
    for at_row in [true, false] {
        let waitpoint = race.a.suspended_at(approval()).await;
        let id = waitpoint.execution;
        let block = if at_row { Block::Row(id) } else { Block::Commits };
        let first = ("a", race.a.deliver(&waitpoint));
        let (first, second) = race.in_turn(block, first, ("b", race.b.deliver(&waitpoint))).await;
        let (first, second) =
            (first.expect("the waitpoint is open"), second.expect("a repetition is accepted"));
        assert_eq!((first.duplicate, second.duplicate), (false, true));
        assert_eq!((first.number, first.effect), (second.number, second.effect));
        assert_eq!((first.effect, race.a.signals(id).await.len()), (Effect::Resumed, 1));
        assert_eq!(state(&race, waitpoint.id).await, WaitpointState::Delivered(1, Effect::Resumed));
        race.resumes(id, &["approval"]).await;
        let late = race.b.deliver(&waitpoint).await.expect("a repetition after the end is accepted");
        assert_eq!((late.number, late.effect, late.duplicate), (1, Effect::Resumed, true));
    }
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_delivery_that_comes_before_a_revocation_stands() {
    let race = Race::new().await;
    let waitpoint = race.a.suspended_at(approval()).await;
    let id = waitpoint.execution;
    let delivery = ("a", race.a.deliver(&waitpoint));
    let revocation = ("b", race.b.revoke_token(waitpoint.id));
    let (delivered, revoked) = race.in_turn(Block::Row(id), delivery, revocation).await;
    assert_eq!(delivered.expect("the waitpoint is open").effect, Effect::Resumed);
    assert_eq!(revoked.state, WaitpointState::Delivered(1, Effect::Resumed));
    assert_eq!(race.a.count_events(id, "waitpoint.revoked").await, 0);
    race.resumes(id, &["approval"]).await;
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_delivery_that_comes_after_a_revocation_is_refused() {
    let race = Race::new().await;
    let waitpoint = race.a.suspended_at(approval()).await;
    let id = waitpoint.execution;
    let revocation = ("a", race.a.revoke_token(waitpoint.id));
    let delivery = ("b", race.b.deliver(&waitpoint));
    let (revoked, delivered) = race.in_turn(Block::Row(id), revocation, delivery).await;
    assert_eq!(revoked.state, WaitpointState::Revoked);
    assert_eq!(delivered.expect_err("the revocation succeeds").code(), "token_revoked");
    assert_eq!((race.a.state(id).await, race.a.signals(id).await.len()), (StateName::Suspended, 0));
    race.a.send(id, "approval").await.expect("the flow is still running");
    race.resumes(id, &["approval"]).await;
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_delivery_that_waits_while_the_keys_are_rotated_without_grace_is_refused() {
    let race = Race::new().await;
    let waitpoint = race.a.suspended_at(approval()).await;
    let id = waitpoint.execution;
    let delivery = ("a", race.a.deliver(&waitpoint));
    let operator = operator();
    let rotation = race.b.namespace.rotate_token_keys(0, &operator);
    let (delivered, key) = race.meanwhile(Block::Row(id), delivery, rotation).await;
    key.expect("the keys are rotated");
    assert_eq!(delivered.expect_err("the key is retired").code(), "invalid_token");
    assert_eq!((race.a.state(id).await, race.a.signals(id).await.len()), (StateName::Suspended, 0));
    assert_eq!(state(&race, waitpoint.id).await, WaitpointState::Open);
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_delivery_that_was_verified_before_a_rotation_without_grace_stands() {
    let race = Race::new().await;
    let waitpoint = race.a.suspended_at(approval()).await;
    let id = waitpoint.execution;
    let delivery = ("a", race.a.deliver(&waitpoint));
    let operator = operator();
    let rotation = ("b", race.b.namespace.rotate_token_keys(0, &operator));
    let (delivered, key) = race.in_turn(Block::Commits, delivery, rotation).await;
    assert_eq!(delivered.expect("the key was valid").effect, Effect::Resumed);
    let key = key.expect("the keys are rotated");
    let repeat = race.b.deliver(&waitpoint).await.expect_err("the key is retired");
    assert_eq!(repeat.code(), "invalid_token");
    let claimed = race.is_resumed(id, 1, &["approval"]).await;
    let next = race.a.suspend_at(fence(&claimed), approval()).await.waitpoints.remove(0);
    assert_eq!((next.key, next.id == waitpoint.id), (key.id, false), "the first waitpoint is delivered");
    race.b.deliver(&next).await.expect("the key is valid");
    race.is_resumed(id, 2, &["approval"]).await;
    race.check_and_stop().await;
}

/// The waitpoint is signed with a key that a rotation retires before the waitpoint is committed.
#[tokio::test]
async fn a_waitpoint_signed_with_a_retired_key_is_signed_again_when_it_is_requested_again() {
    let race = Race::new().await;
    race.a.suspended_at(approval()).await;
    let (id, lease) = race.a.leased().await;
    let ask = || race.a.report(lease, race.a.namespace.waitpoint(approval()));
    let operator = operator();
    let rotation = ("b", race.b.namespace.rotate_token_keys(0, &operator));
    let (made, key) = race.in_turn(Block::Commits, ("a", ask()), rotation).await;
    let made: Waitpoint = made.expect("the lease is held").waitpoints.remove(0);
    let key = key.expect("the keys are rotated");
    assert_eq!(race.b.deliver(&made).await.expect_err("the key is retired").code(), "invalid_token");
    let again = ask().await.expect("the lease is held").waitpoints.remove(0);
    assert_eq!((again.id, again.key), (made.id, key.id), "the same waitpoint, another token");
    assert_eq!(race.b.deliver(&again).await.expect("the key is valid").effect, Effect::Buffered);
    assert_eq!(race.a.waitpoints(id).await.len(), 1);
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_delivery_that_comes_after_its_waitpoint_expired_is_refused() {
    let race = Race::new().await;
    let waitpoint = race.a.suspended_at(brief_waitpoint("approval", 1)).await;
    let id = waitpoint.execution;
    race.a.is_due(id, DueKind::WaitpointExpiry).await;
    let tick = ("a", race.a.tick("waitpoint_expiry"));
    let (tick, delivered) = race.in_turn(Block::Commits, tick, ("b", race.b.deliver(&waitpoint))).await;
    assert_eq!(tick.done, 1);
    assert_eq!(delivered.expect_err("the waitpoint has expired").code(), "token_expired");
    assert_eq!((race.a.state(id).await, race.a.signals(id).await.len()), (StateName::Suspended, 0));
    assert_eq!(state(&race, waitpoint.id).await, WaitpointState::Expired);
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_waitpoint_that_expires_while_its_delivery_commits_is_delivered() {
    let race = Race::new().await;
    // Long enough for a delivery that begins at once.
    let waitpoint = race.a.suspended_at(brief_waitpoint("approval", 2000)).await;
    let id = waitpoint.execution;
    let expires = async {
        race.b.is_due(id, DueKind::WaitpointExpiry).await;
        race.b.tick("waitpoint_expiry").await
    };
    let (delivered, tick) = race.meanwhile(Block::Commits, ("a", race.a.deliver(&waitpoint)), expires).await;
    assert_eq!(delivered.expect("the waitpoint was open").effect, Effect::Resumed);
    assert_eq!((tick.scanned, tick.done, tick.superseded), (1, 0, 1), "the other transaction has locked it");
    assert_eq!(race.b.tick("waitpoint_expiry").await.scanned, 0);
    assert_eq!(state(&race, waitpoint.id).await, WaitpointState::Delivered(1, Effect::Resumed));
    race.resumes(id, &["approval"]).await;
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_delivery_that_waits_while_its_execution_ends_is_refused_and_its_waitpoint_closed() {
    let race = Race::new().await;
    let waitpoint = race.a.suspended_at(approval()).await;
    let id = waitpoint.execution;
    let cancel = ("a", race.a.operate(id, Action::Cancel { reason: None, grace_ms: 0 }));
    let delivery = ("b", race.b.deliver(&waitpoint));
    let (cancelled, delivered) = race.in_turn(Block::Row(id), cancel, delivery).await;
    cancelled.expect("it is cancelled");
    assert_eq!(delivered.expect_err("the execution has ended").code(), "already_terminal");
    assert_eq!(state(&race, waitpoint.id).await, WaitpointState::Expired);
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_cancellation_that_waits_for_a_delivery_closes_no_waitpoint_that_was_answered() {
    let race = Race::new().await;
    let waitpoint = race.a.suspended_at(approval()).await;
    let id = waitpoint.execution;
    let delivery = ("a", race.a.deliver(&waitpoint));
    let cancel = ("b", race.b.operate(id, Action::Cancel { reason: None, grace_ms: 0 }));
    let (delivered, cancelled) = race.in_turn(Block::Row(id), delivery, cancel).await;
    assert_eq!(delivered.expect("it is open").effect, Effect::Resumed);
    cancelled.expect("it is cancelled");
    assert_eq!(state(&race, waitpoint.id).await, WaitpointState::Delivered(1, Effect::Resumed));
    race.check_and_stop().await;
}
