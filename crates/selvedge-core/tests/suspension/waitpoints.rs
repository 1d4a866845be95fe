//! Waitpoints take one delivery each, within their time, by the right token; the row knows when the next one expires.

use super::desk::{Desk, NAMESPACE, name};
use super::words::{secret, signal, suspend_with, token_command, wait, waitpoint_draft};
use selvedge_core::fact::Fact;
use selvedge_core::refusal::TokenReason;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::signal::{Deliver, SignalSender};
use selvedge_core::rules::timer::TimerReply;
use selvedge_core::rules::waitpoint::{RotateTokenKeys, WaitpointDraft};
use selvedge_core::signal::Effect;
use selvedge_core::suspension::{Condition, Distinct};
use selvedge_core::token::TokenKey;
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::{DueKind, ExecutionId, Refusal, Timestamp, Waitpoint};

fn expires_at(desk: &Desk, id: ExecutionId) -> Option<Timestamp> {
    desk.row(id).detail.record.expires_at
}

fn revoke(desk: &mut Desk, waitpoint: &Waitpoint) {
    let action = Action::RevokeWaitpoint { waitpoint: waitpoint.id };
    desk.operate(waitpoint.execution, action).expect("it is accepted");
}

fn state(desk: &Desk, waitpoint: &Waitpoint) -> WaitpointState {
    desk.waitpoints[&(waitpoint.execution, waitpoint.number)].state
}

fn reason<T: std::fmt::Debug>(answer: Result<T, Refusal>) -> TokenReason {
    match answer {
        Err(Refusal::Token { reason, .. }) => reason,
        other => panic!("the token is not what was refused: {other:?}"),
    }
}

#[test]
fn the_row_knows_when_the_next_open_waitpoint_expires() {
    let mut desk = Desk::new();
    let id = desk.leased();
    let start = desk.now;
    let at = |ms| Some(start.plus_ms(ms));
    desk.waitpoint(id, waitpoint_draft("never", None));
    assert_eq!(expires_at(&desk, id), None);
    let made = [("d", 40), ("a", 10), ("c", 30), ("b", 20), ("same", 20)]
        .map(|(text, ms)| desk.waitpoint(id, waitpoint_draft(text, Some(ms))));
    let [late, first, third, second, same] = &made;
    assert_eq!(expires_at(&desk, id), at(10));
    desk.deliver(first).expect("it is taken");
    assert_eq!(expires_at(&desk, id), at(20), "one that has taken its delivery does not expire");
    revoke(&mut desk, second);
    assert_eq!(expires_at(&desk, id), at(20), "there is another at the same time");
    revoke(&mut desk, same);
    assert_eq!(expires_at(&desk, id), at(30));
    assert_eq!(desk.tick(id, DueKind::WaitpointExpiry), TimerReply::NotDue);
    desk.wait_ms(30);
    assert_eq!(desk.tick(id, DueKind::WaitpointExpiry), TimerReply::Fired);
    assert_eq!((state(&desk, third), expires_at(&desk, id)), (WaitpointState::Expired, at(40)));
    desk.suspend(id, vec![wait(signal("x"))]);
    desk.wait_ms(10);
    assert_eq!(desk.tick(id, DueKind::WaitpointExpiry), TimerReply::Fired, "while it is suspended, too");
    assert_eq!((state(&desk, late), expires_at(&desk, id)), (WaitpointState::Expired, None));
    assert_eq!(desk.tick(id, DueKind::WaitpointExpiry), TimerReply::NotDue);
    assert_eq!(state(&desk, first), WaitpointState::Delivered(1, Effect::Buffered));
}

#[test]
fn several_that_expire_together_are_dealt_with_together() {
    let mut desk = Desk::new();
    let id = desk.leased();
    let made = ["a", "b", "c"].map(|text| desk.waitpoint(id, waitpoint_draft(text, Some(10))));
    desk.wait_ms(10);
    assert_eq!(desk.tick(id, DueKind::WaitpointExpiry), TimerReply::Fired);
    assert!(made.iter().all(|one| state(&desk, one) == WaitpointState::Expired));
}

#[test]
fn a_token_is_accepted_once_and_a_repeat_gets_the_first_answer() {
    let names = || ["a", "b"].map(name).to_vec();
    for (n, expected) in [(1, Effect::Resumed), (2, Effect::Counted)] {
        let mut desk = Desk::new();
        let id = desk.leased();
        let waitpoint = desk.waitpoint(id, waitpoint_draft("a", Some(10)));
        desk.suspend(id, vec![wait(Condition::count(n, names(), Distinct::Waitpoints))]);
        let first = desk.deliver(&waitpoint).expect("it is taken");
        assert_eq!((first.effect, first.duplicate, first.number), (expected, false, 1));
        let row = desk.row(id).clone();
        desk.wait_ms(20);
        let again = desk.deliver(&waitpoint).expect("it was taken");
        assert_eq!((again.effect, again.duplicate, again.number), (expected, true, 1));
        assert_eq!(again.name, first.name);
        assert_eq!(desk.row(id), &row, "a repeat changes nothing, also when its time is over");
        desk.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).expect("it is cancelled");
        assert!(desk.deliver(&waitpoint).expect("it was taken").duplicate);
    }
}

#[test]
fn a_repeat_is_known_by_its_waitpoint_whatever_it_says_of_itself() {
    let mut desk = Desk::new();
    let id = desk.leased();
    let waitpoint = desk.waitpoint(id, waitpoint_draft("approval", None));
    let first = desk.run(&token_command(&waitpoint, Some("rejected"))).expect("it is taken");
    assert_eq!((first.name.as_str(), first.source.as_str(), first.number), ("rejected", "approval", 1));
    for text in [None, Some("rejected"), Some("another")] {
        let again = desk.run(&token_command(&waitpoint, text)).expect("it was taken");
        assert_eq!((again.source.as_str(), again.number, again.duplicate), ("approval", 1, true));
    }
    assert_eq!(desk.signals_of(id).map(|signal| signal.name.as_str()).collect::<Vec<_>>(), ["rejected"]);
}

#[test]
fn a_token_is_refused_that_has_expired_was_revoked_or_is_of_another() {
    let mut desk = Desk::new();
    let id = desk.leased();
    let [expired, revoked, other] =
        ["expired", "revoked", "other"].map(|text| desk.waitpoint(id, waitpoint_draft(text, Some(10))));
    revoke(&mut desk, &revoked);
    assert_eq!(reason(desk.deliver(&revoked)), TokenReason::Revoked);
    let stolen = Deliver {
        way: SignalSender::TokenHolder {
            waitpoint: expired.id,
            token: secret().sign(&other),
            secret: secret(),
        },
        ..token_command(&expired, None)
    };
    assert_eq!(reason(desk.run(&stolen)), TokenReason::Invalid);
    desk.wait_ms(10);
    assert_eq!(reason(desk.deliver(&expired)), TokenReason::Expired, "before anybody has said so");
    desk.tick(id, DueKind::WaitpointExpiry);
    assert_eq!(reason(desk.deliver(&expired)), TokenReason::Expired, "and after");
    revoke(&mut desk, &expired);
    assert_eq!(state(&desk, &expired), WaitpointState::Expired, "it takes none any more, whoever says so");
    assert_eq!(desk.row(id).detail.record.signals, 0);
}

#[test]
fn a_token_does_not_speak_under_the_name_of_another_waitpoint() {
    let mut desk = Desk::new();
    let id = desk.leased();
    let [ann, _] = ["ann", "bob"].map(|text| desk.waitpoint(id, waitpoint_draft(text, None)));
    let refused = desk.run(&token_command(&ann, Some("bob")));
    assert!(refused.is_err_and(|refused| refused.pointer() == Some("/name")));
    let delivered = desk.run(&token_command(&ann, Some("approved"))).expect("it is taken");
    assert_eq!((delivered.name.as_str(), delivered.source.as_str()), ("approved", "ann"));
}

#[test]
fn a_waitpoint_that_is_asked_for_again_is_the_same_while_it_counts() {
    let mut desk = Desk::new();
    let id = desk.leased();
    let first = desk.waitpoint(id, waitpoint_draft("a", None));
    let row = desk.row(id).clone();
    assert_eq!(desk.waitpoint(id, waitpoint_draft("a", Some(5))), first, "it is open");
    assert_eq!(desk.row(id), &row, "that changes nothing");
    desk.deliver(&first).expect("it is taken");
    assert_eq!(desk.waitpoint(id, waitpoint_draft("a", None)).id, first.id, "its signal is still kept");
    desk.suspend(id, vec![wait(signal("a"))]);
    desk.claim();
    let second = desk.waitpoint(id, waitpoint_draft("a", Some(10)));
    assert_eq!((second.number, second.state), (2, WaitpointState::Open), "its signal was taken");
    revoke(&mut desk, &second);
    let third = desk.waitpoint(id, waitpoint_draft("a", Some(10)));
    assert_eq!(third.number, 3, "that one was revoked");
    desk.wait_ms(10);
    assert_eq!(desk.waitpoint(id, waitpoint_draft("a", None)).number, 4, "that one has expired");
}

#[test]
fn a_waitpoint_of_another_source_is_refused_while_one_of_its_name_is_open() {
    let mut desk = Desk::new();
    let id = desk.leased();
    desk.waitpoint(id, waitpoint_draft("a", None));
    let of_bob = || WaitpointDraft { source: Some(name("bob")), ..waitpoint_draft("a", None) };
    let alone = Op::Waitpoint { draft: of_bob(), fingerprint: secret().fingerprint() };
    let beside = suspend_with(vec![wait(signal("a"))], vec![waitpoint_draft("b", None), of_bob()]);
    for (op, at) in [(alone, "/source"), (beside, "/waitpoints/1/source")] {
        let before = (desk.row(id).clone(), desk.waitpoints.clone());
        let refused = desk.report(id, op).expect_err("it is refused");
        assert!(
            matches!(&refused, Refusal::IdempotencyMismatch { pointer, .. } if pointer == at),
            "{refused:?}"
        );
        assert_eq!((desk.row(id).clone(), desk.waitpoints.clone()), before);
    }
}

#[test]
fn a_waitpoint_that_is_named_twice_in_one_suspension_is_made_once() {
    let mut desk = Desk::new();
    let id = desk.leased();
    let drafts = ["a", "b", "a"].map(|text| waitpoint_draft(text, Some(10))).to_vec();
    let reported = desk.report(id, suspend_with(vec![wait(signal("a"))], drafts)).expect("it is accepted");
    let [first, other, again] = &reported.waitpoints[..] else { panic!("{reported:?}") };
    assert_eq!(first, again, "its token is the same");
    assert_ne!(first.id, other.id);
    let made = desk.events.iter().filter(|event| matches!(event.fact, Fact::WaitpointCreated { .. }));
    assert_eq!(made.count(), 2);
    assert_eq!(desk.deliver(again).map(|delivered| delivered.effect), Ok(Effect::Resumed));
}

fn rotate(desk: &mut Desk, grace_ms: i64) -> TokenKey {
    let (fingerprint, actor) = (secret().fingerprint(), name("operator"));
    desk.run(&RotateTokenKeys { namespace: NAMESPACE, grace_ms, fingerprint, actor }).expect("it is accepted")
}

#[test]
fn a_token_of_an_old_key_is_accepted_during_the_grace_and_not_after_it() {
    let mut desk = Desk::new();
    let id = desk.leased();
    let [soon, late] = ["soon", "late"].map(|text| desk.waitpoint(id, waitpoint_draft(text, None)));
    let new = rotate(&mut desk, 10);
    assert_eq!(desk.waitpoint(id, waitpoint_draft("new", None)).key, new.id);
    desk.wait_ms(9);
    assert_eq!(desk.deliver(&soon).map(|delivered| delivered.duplicate), Ok(false));
    desk.wait_ms(1);
    assert_eq!(reason(desk.deliver(&late)), TokenReason::Invalid);
    let version = desk.row(id).version;
    let signed = desk.waitpoint(id, waitpoint_draft("late", None));
    assert_eq!((signed.id, signed.number, signed.key), (late.id, late.number, new.id), "signed anew");
    assert_eq!(desk.row(id).version, version + 1, "whoever looked at it before finds that it changed");
    assert_eq!(reason(desk.deliver(&late)), TokenReason::Invalid, "the old token stays refused");
    assert_eq!(desk.deliver(&signed).map(|delivered| delivered.duplicate), Ok(false));
}

#[test]
fn a_grace_that_was_given_is_not_made_longer_by_the_next_change_of_keys() {
    let mut desk = Desk::new();
    let id = desk.leased();
    let waitpoint = desk.waitpoint(id, waitpoint_draft("a", None));
    rotate(&mut desk, 10);
    rotate(&mut desk, 1_000);
    desk.wait_ms(10);
    assert_eq!(reason(desk.deliver(&waitpoint)), TokenReason::Invalid);
    let newest = rotate(&mut desk, 0);
    let kept: Vec<_> = desk.keys.values().filter(|key| key.verifies(desk.now)).collect();
    assert_eq!(kept.len(), 2, "one in its grace, and the newest: {kept:?}");
    assert!(kept.iter().any(|key| key.id == newest.id));
}
