//! A waitpoint accepts one delivery, before it expires, with the right token. The row has the time of the next expiry.

use super::helpers::{secret, signal, suspend_with, token_command, wait, waitpoint_draft};
use super::test_store::{NAMESPACE, TestStore, name};
use selvedge_core::fact::Fact;
use selvedge_core::refusal::TokenReason;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::signal::{Deliver, SignalSender};
use selvedge_core::rules::timer::TimerReply;
use selvedge_core::rules::waitpoint::{Reissue, RotateTokenKeys, WaitpointDraft};
use selvedge_core::signal::Effect;
use selvedge_core::suspension::{Condition, Distinct};
use selvedge_core::token::TokenKey;
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::{DueKind, ExecutionId, Refusal, Timestamp, Waitpoint};

fn expires_at(store: &TestStore, id: ExecutionId) -> Option<Timestamp> {
    store.row(id).detail.record.expires_at
}

fn revoke(store: &mut TestStore, waitpoint: &Waitpoint) {
    let action = Action::RevokeWaitpoint { waitpoint: waitpoint.id };
    store.operate(waitpoint.execution, action).expect("it is accepted");
}

/// Returns a waitpoint whose token may send these signals.
fn with_choices(text: &str, signals: &[&str]) -> WaitpointDraft {
    let signals = signals.iter().map(|signal| name(signal)).collect();
    WaitpointDraft { signals: Some(signals), ..waitpoint_draft(text, None) }
}

/// Returns the answer of an operator.
fn answer(waitpoint: &Waitpoint, text: Option<&str>) -> Deliver {
    let (waitpoint_id, actor) = (waitpoint.id, name("operator"));
    let sender = SignalSender::Operator { namespace: NAMESPACE, waitpoint: waitpoint_id, actor };
    Deliver { sender, ..token_command(waitpoint, text) }
}

/// Issues a new token, and returns the waitpoint as it is stored then.
fn reissue(
    store: &mut TestStore,
    waitpoint: &Waitpoint,
    expires_ms: Option<i64>,
) -> Result<Waitpoint, Refusal> {
    let fingerprint = secret().fingerprint();
    let reissue = Reissue { waitpoint: waitpoint.id, expires_ms, fingerprint };
    store.operate(waitpoint.execution, Action::ReissueWaitpoint(reissue))?;
    Ok(store.waitpoints[&(waitpoint.execution, waitpoint.number)].clone())
}

fn state(store: &TestStore, waitpoint: &Waitpoint) -> WaitpointState {
    store.waitpoints[&(waitpoint.execution, waitpoint.number)].state
}

fn reason<T: std::fmt::Debug>(answer: Result<T, Refusal>) -> TokenReason {
    match answer {
        Err(Refusal::Token { reason, .. }) => reason,
        other => panic!("expected a refused token: {other:?}"),
    }
}

#[test]
fn the_row_has_the_earliest_expiry_of_its_open_waitpoints() {
    let mut store = TestStore::new();
    let id = store.active();
    let start = store.now;
    let at = |ms| Some(start.plus_ms(ms));
    store.waitpoint(id, waitpoint_draft("never", None));
    assert_eq!(expires_at(&store, id), None);
    let created = [("d", 40), ("a", 10), ("c", 30), ("b", 20), ("same", 20)]
        .map(|(text, ms)| store.waitpoint(id, waitpoint_draft(text, Some(ms))));
    let [late, first, third, second, same] = &created;
    assert_eq!(expires_at(&store, id), at(10));
    store.deliver(first).expect("it is accepted");
    assert_eq!(expires_at(&store, id), at(20), "a delivered waitpoint does not expire");
    revoke(&mut store, second);
    assert_eq!(expires_at(&store, id), at(20), "another one expires at the same time");
    revoke(&mut store, same);
    assert_eq!(expires_at(&store, id), at(30));
    assert_eq!(store.fire(id, DueKind::WaitpointExpiry), TimerReply::NotDue);
    store.advance_ms(30);
    assert_eq!(store.fire(id, DueKind::WaitpointExpiry), TimerReply::Fired);
    assert_eq!((state(&store, third), expires_at(&store, id)), (WaitpointState::Expired, at(40)));
    store.suspend(id, vec![wait(signal("x"))]);
    store.advance_ms(10);
    assert_eq!(store.fire(id, DueKind::WaitpointExpiry), TimerReply::Fired, "also while it is suspended");
    assert_eq!((state(&store, late), expires_at(&store, id)), (WaitpointState::Expired, None));
    assert_eq!(store.fire(id, DueKind::WaitpointExpiry), TimerReply::NotDue);
    assert_eq!(state(&store, first), WaitpointState::Delivered(1, Effect::Buffered));
}

#[test]
fn waitpoints_that_expire_together_are_closed_together() {
    let mut store = TestStore::new();
    let id = store.active();
    let created = ["a", "b", "c"].map(|text| store.waitpoint(id, waitpoint_draft(text, Some(10))));
    store.advance_ms(10);
    assert_eq!(store.fire(id, DueKind::WaitpointExpiry), TimerReply::Fired);
    assert!(created.iter().all(|one| state(&store, one) == WaitpointState::Expired));
}

#[test]
fn a_token_is_accepted_once_and_a_repeat_gets_the_first_reply() {
    let names = || ["a", "b"].map(name).to_vec();
    for (n, expected) in [(1, Effect::Resumed), (2, Effect::Counted)] {
        let mut store = TestStore::new();
        let id = store.active();
        let waitpoint = store.waitpoint(id, waitpoint_draft("a", Some(10)));
        store.suspend(id, vec![wait(Condition::count(n, names(), Distinct::Waitpoints))]);
        let first = store.deliver(&waitpoint).expect("it is accepted");
        assert_eq!((first.effect, first.duplicate, first.number), (expected, false, 1));
        let row = store.row(id).clone();
        store.advance_ms(20);
        let again = store.deliver(&waitpoint).expect("it was accepted");
        assert_eq!((again.effect, again.duplicate, again.number), (expected, true, 1));
        assert_eq!(again.name, first.name);
        assert_eq!(store.row(id), &row, "a repeat changes nothing, even after the expiry");
        store.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).expect("it is cancelled");
        assert!(store.deliver(&waitpoint).expect("it was accepted").duplicate);
    }
}

#[test]
fn a_repeat_is_recognised_by_its_waitpoint_whatever_its_name() {
    let mut store = TestStore::new();
    let id = store.active();
    let waitpoint = store.waitpoint(id, with_choices("approval", &["approved", "rejected"]));
    let first = store.run(&token_command(&waitpoint, Some("rejected"))).expect("it is accepted");
    assert_eq!((first.name.as_str(), first.source.as_str(), first.number), ("rejected", "approval", 1));
    for text in [None, Some("rejected"), Some("another")] {
        let again = store.run(&token_command(&waitpoint, text)).expect("it was accepted");
        assert_eq!((again.source.as_str(), again.number, again.duplicate), ("approval", 1, true));
    }
    assert_eq!(store.signals_of(id).map(|signal| signal.name.as_str()).collect::<Vec<_>>(), ["rejected"]);
}

#[test]
fn an_expired_revoked_or_foreign_token_is_refused() {
    let mut store = TestStore::new();
    let id = store.active();
    let [expired, revoked, other] =
        ["expired", "revoked", "other"].map(|text| store.waitpoint(id, waitpoint_draft(text, Some(10))));
    revoke(&mut store, &revoked);
    assert_eq!(reason(store.deliver(&revoked)), TokenReason::Revoked);
    let stolen = Deliver {
        sender: SignalSender::TokenHolder {
            waitpoint: expired.id,
            token: secret().sign(&other),
            secret: secret(),
        },
        ..token_command(&expired, None)
    };
    assert_eq!(reason(store.run(&stolen)), TokenReason::Invalid);
    store.advance_ms(10);
    assert_eq!(reason(store.deliver(&expired)), TokenReason::Expired, "before the expiry is recorded");
    store.fire(id, DueKind::WaitpointExpiry);
    assert_eq!(reason(store.deliver(&expired)), TokenReason::Expired, "and after it is recorded");
    revoke(&mut store, &expired);
    assert_eq!(state(&store, &expired), WaitpointState::Expired, "an expired waitpoint cannot be revoked");
    assert_eq!(store.row(id).detail.record.signals, 0);
}

#[test]
fn a_token_sends_only_the_signals_that_its_waitpoint_allows() {
    let mut store = TestStore::new();
    let id = store.active();
    let plain = store.waitpoint(id, waitpoint_draft("plain", None));
    let choice = store.waitpoint(id, with_choices("choice", &["yes", "no"]));
    let only = store.waitpoint(id, with_choices("only", &["yes"]));
    let own = store.waitpoint(id, with_choices("own", &["no", "own"]));
    for (waitpoint, text) in [(&plain, "yes"), (&choice, "choice"), (&choice, "plain"), (&only, "only")] {
        let refused = store.run(&token_command(waitpoint, Some(text))).expect_err("it is refused");
        assert_eq!(refused.pointer(), Some("/name"), "{refused}");
    }
    let refused = store.deliver(&choice).expect_err("the sender must choose");
    assert!(refused.to_string().contains("yes, no"), "{refused}");
    for (waitpoint, text, expected) in
        [(&plain, None, "plain"), (&choice, Some("no"), "no"), (&only, None, "yes"), (&own, None, "own")]
    {
        let delivered = store.run(&token_command(waitpoint, text)).expect("it is accepted");
        assert_eq!((delivered.name.as_str(), &delivered.source), (expected, &waitpoint.source));
    }
}

#[test]
fn the_signals_of_an_open_waitpoint_stay_as_they_are() {
    let mut store = TestStore::new();
    let id = store.active();
    let first = store.waitpoint(id, with_choices("a", &["yes", "no"]));
    assert_eq!(store.waitpoint(id, with_choices("a", &["yes", "no"])), first);
    let asked = WaitpointDraft { prompt: Some("Again?".into()), ..with_choices("a", &["yes", "no"]) };
    assert_eq!(store.waitpoint(id, asked), first, "the first prompt stays");
    let draft = waitpoint_draft("a", None);
    let refused = store.report(id, Op::Waitpoint { draft, fingerprint: secret().fingerprint() });
    let refused = refused.expect_err("it is refused");
    assert!(matches!(&refused, Refusal::IdempotencyMismatch { pointer, .. } if pointer == "/signals"));
}

#[test]
fn an_operator_answers_in_place_of_the_token_holder() {
    let mut store = TestStore::new();
    let id = store.active();
    let waitpoint = store.waitpoint(
        id,
        WaitpointDraft { source: Some(name("ann")), ..with_choices("approval", &["yes", "no"]) },
    );
    store.suspend(id, vec![wait(signal("yes"))]);
    let refused = store.run(&answer(&waitpoint, Some("maybe"))).expect_err("it is refused");
    assert_eq!(refused.pointer(), Some("/name"));
    let first = store.run(&answer(&waitpoint, Some("yes"))).expect("it is accepted");
    assert_eq!((first.source.as_str(), first.effect, first.duplicate), ("ann", Effect::Resumed, false));
    let actor = store.events.iter().find(|event| matches!(event.fact, Fact::Signalled { .. }));
    assert_eq!(actor.and_then(|event| event.actor.clone()), Some(name("operator")));
    let again = store.run(&answer(&waitpoint, Some("no"))).expect("it was accepted");
    assert_eq!((again.effect, again.duplicate, again.number), (Effect::Resumed, true, 1));
    assert!(store.deliver(&waitpoint).expect("it was accepted").duplicate, "the token is used up, too");
}

#[test]
fn an_operator_cannot_answer_a_waitpoint_that_is_closed() {
    let mut store = TestStore::new();
    let id = store.active();
    let [revoked, expired] =
        ["revoked", "expired"].map(|text| store.waitpoint(id, waitpoint_draft(text, Some(10))));
    revoke(&mut store, &revoked);
    store.advance_ms(10);
    for waitpoint in [&revoked, &expired] {
        let refused = store.run(&answer(waitpoint, None)).expect_err("it is refused");
        assert!(matches!(refused, Refusal::WrongState { .. }), "{refused:?}");
    }
}

#[test]
fn a_new_token_ends_the_old_one_and_opens_the_waitpoint_again() {
    let mut store = TestStore::new();
    let id = store.active();
    let first = store.waitpoint(id, waitpoint_draft("a", Some(10)));
    let second = reissue(&mut store, &first, None).expect("it is issued again");
    assert_eq!((second.issue, second.expires_at), (1, first.expires_at), "its expiry stays");
    assert_eq!(reason(store.deliver(&first)), TokenReason::Invalid);
    revoke(&mut store, &second);
    let third = reissue(&mut store, &second, None).expect("a revoked one is opened again");
    assert_eq!(reason(store.deliver(&second)), TokenReason::Invalid);
    store.advance_ms(10);
    assert_eq!(store.fire(id, DueKind::WaitpointExpiry), TimerReply::Fired);
    let refused = reissue(&mut store, &third, None).expect_err("it has expired");
    assert_eq!(refused.pointer(), Some("/expires_ms"));
    let fourth = reissue(&mut store, &third, Some(5)).expect("it is opened again");
    assert_eq!(expires_at(&store, id), Some(store.now.plus_ms(5)));
    assert_eq!(store.deliver(&fourth).map(|delivered| delivered.duplicate), Ok(false));
    let refused = reissue(&mut store, &fourth, None).expect_err("it was delivered");
    assert!(matches!(refused, Refusal::WrongState { .. }), "{refused:?}");
    assert_eq!(store.row(id).detail.record.waitpoints, 1);
}

#[test]
fn a_new_token_is_signed_with_the_newest_key() {
    let mut store = TestStore::new();
    let id = store.active();
    let waitpoint = store.waitpoint(id, waitpoint_draft("a", None));
    let newest = rotate(&mut store, 0);
    let issued = reissue(&mut store, &waitpoint, None).expect("it is issued again");
    assert_eq!(issued.key, newest.id);
    assert_eq!(store.deliver(&issued).map(|delivered| delivered.duplicate), Ok(false));
}

#[test]
fn a_token_of_an_earlier_build_cannot_deliver_under_the_name_of_another_waitpoint() {
    let mut store = TestStore::new();
    let id = store.active();
    let [ann, _] = ["ann", "bob"].map(|text| store.waitpoint(id, waitpoint_draft(text, None)));
    for waitpoint in store.waitpoints.values_mut() {
        waitpoint.signals = None;
    }
    let refused = store.run(&token_command(&ann, Some("bob")));
    assert!(refused.is_err_and(|refused| refused.pointer() == Some("/name")));
    let delivered = store.run(&token_command(&ann, Some("approved"))).expect("it is accepted");
    assert_eq!((delivered.name.as_str(), delivered.source.as_str()), ("approved", "ann"));
}

#[test]
fn requesting_a_waitpoint_again_returns_it_while_it_is_open_or_its_signal_is_untaken() {
    let mut store = TestStore::new();
    let id = store.active();
    let first = store.waitpoint(id, waitpoint_draft("a", None));
    let row = store.row(id).clone();
    assert_eq!(store.waitpoint(id, waitpoint_draft("a", Some(5))), first, "it is open");
    assert_eq!(store.row(id), &row, "nothing changes");
    store.deliver(&first).expect("it is accepted");
    assert_eq!(store.waitpoint(id, waitpoint_draft("a", None)).id, first.id, "no wait has taken its signal");
    store.suspend(id, vec![wait(signal("a"))]);
    store.claim();
    let second = store.waitpoint(id, waitpoint_draft("a", Some(10)));
    assert_eq!((second.number, second.state), (2, WaitpointState::Open), "its signal was taken");
    revoke(&mut store, &second);
    let third = store.waitpoint(id, waitpoint_draft("a", Some(10)));
    assert_eq!(third.number, 3, "that one was revoked");
    store.advance_ms(10);
    assert_eq!(store.waitpoint(id, waitpoint_draft("a", None)).number, 4, "that one has expired");
}

#[test]
fn another_source_is_refused_while_a_waitpoint_of_that_name_is_open() {
    let mut store = TestStore::new();
    let id = store.active();
    store.waitpoint(id, waitpoint_draft("a", None));
    let of_bob = || WaitpointDraft { source: Some(name("bob")), ..waitpoint_draft("a", None) };
    let alone = Op::Waitpoint { draft: of_bob(), fingerprint: secret().fingerprint() };
    let beside = suspend_with(vec![wait(signal("a"))], vec![waitpoint_draft("b", None), of_bob()]);
    for (op, at) in [(alone, "/source"), (beside, "/waitpoints/1/source")] {
        let before = (store.row(id).clone(), store.waitpoints.clone());
        let refused = store.report(id, op).expect_err("it is refused");
        assert!(
            matches!(&refused, Refusal::IdempotencyMismatch { pointer, .. } if pointer == at),
            "{refused:?}"
        );
        assert_eq!((store.row(id).clone(), store.waitpoints.clone()), before);
    }
}

#[test]
fn a_waitpoint_named_twice_in_one_suspension_is_created_once() {
    let mut store = TestStore::new();
    let id = store.active();
    let drafts = ["a", "b", "a"].map(|text| waitpoint_draft(text, Some(10))).to_vec();
    let reported = store.report(id, suspend_with(vec![wait(signal("a"))], drafts)).expect("it is accepted");
    let [first, other, again] = &reported.waitpoints[..] else { panic!("{reported:?}") };
    assert_eq!(first, again, "its token is the same");
    assert_ne!(first.id, other.id);
    let created = store.events.iter().filter(|event| matches!(event.fact, Fact::WaitpointCreated { .. }));
    assert_eq!(created.count(), 2);
    assert_eq!(store.deliver(again).map(|delivered| delivered.effect), Ok(Effect::Resumed));
}

fn rotate(store: &mut TestStore, grace_ms: i64) -> TokenKey {
    let (fingerprint, actor) = (secret().fingerprint(), name("operator"));
    store
        .run(&RotateTokenKeys { namespace: NAMESPACE, grace_ms, fingerprint, actor })
        .expect("it is accepted")
}

#[test]
fn a_token_of_an_old_key_is_accepted_only_during_the_grace_period() {
    let mut store = TestStore::new();
    let id = store.active();
    let [soon, late] = ["soon", "late"].map(|text| store.waitpoint(id, waitpoint_draft(text, None)));
    let new = rotate(&mut store, 10);
    assert_eq!(store.waitpoint(id, waitpoint_draft("new", None)).key, new.id);
    store.advance_ms(9);
    assert_eq!(store.deliver(&soon).map(|delivered| delivered.duplicate), Ok(false));
    store.advance_ms(1);
    assert_eq!(reason(store.deliver(&late)), TokenReason::Invalid);
    let version = store.row(id).version;
    let signed = store.waitpoint(id, waitpoint_draft("late", None));
    assert_eq!(
        (signed.id, signed.number, signed.key),
        (late.id, late.number, new.id),
        "signed with the new key"
    );
    assert_eq!(store.row(id).version, version + 1, "a concurrent reader of the waitpoint fails its guard");
    assert_eq!(reason(store.deliver(&late)), TokenReason::Invalid, "the old token stays refused");
    assert_eq!(store.deliver(&signed).map(|delivered| delivered.duplicate), Ok(false));
}

#[test]
fn a_grace_period_is_not_extended_by_the_next_rotation() {
    let mut store = TestStore::new();
    let id = store.active();
    let waitpoint = store.waitpoint(id, waitpoint_draft("a", None));
    rotate(&mut store, 10);
    rotate(&mut store, 1_000);
    store.advance_ms(10);
    assert_eq!(reason(store.deliver(&waitpoint)), TokenReason::Invalid);
    let newest = rotate(&mut store, 0);
    let kept: Vec<_> = store.keys.values().filter(|key| key.verifies(store.now)).collect();
    assert_eq!(kept.len(), 2, "one in its grace period, and the newest: {kept:?}");
    assert!(kept.iter().any(|key| key.id == newest.id));
}
