//! Tokens: each allows one delivery to one waitpoint, while its time, its key and the operator allow it.
#![allow(missing_docs)]

use super::harness::{Harness, fence};
use super::side_by_side;
use super::signal_harness::{carried, name, on, secret, signal, suspend};
use selvedge_core::rows::Queries;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::signal::{Delivered, SignalDraft, Way};
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::signal::Effect;
use selvedge_core::suspension::WaitDraft;
use selvedge_core::table::Entries;
use selvedge_core::token::{TokenKey, TokenKeyId};
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::{Changes, Draft, DueKind, Needs, Refusal, Waitpoint, WaitpointId};
use uuid::Uuid;

const HOUR_MS: i64 = 3_600_000;

fn draft(text: &str) -> WaitpointDraft {
    WaitpointDraft::new(name(text))
}

/// One that runs, and a waitpoint of it.
async fn with_waitpoint(harness: &Harness, draft: WaitpointDraft) -> (Claimed, Waitpoint) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let waitpoint = harness.waitpoint(&claimed, draft).await;
    (claimed, waitpoint)
}

/// Delivers with this text in place of the token.
async fn deliver_with(harness: &Harness, waitpoint: &Waitpoint, token: &str) -> Result<Delivered, Refusal> {
    harness.run(harness.deliver_command(waitpoint, token, signal(&waitpoint.name))).await
}

/// The delivery is refused with this code, and nothing changes.
async fn is_refused(harness: &Harness, waitpoint: &Waitpoint, token: &str, code: &str) {
    let before = harness.row(waitpoint.execution).await;
    let refused = deliver_with(harness, waitpoint, token).await.expect_err("it is refused");
    assert_eq!(refused.code(), code, "{refused}");
    assert_eq!(harness.row(waitpoint.execution).await, before);
}

pub async fn the_keys_of_tokens_are_read_back_with_every_field(harness: &Harness) {
    assert!(harness.store.token_keys().await.expect("keys are read").is_empty());
    let now = harness.now().await;
    let key = |id: i64, fingerprint: i64, retires_at| TokenKey {
        id: TokenKeyId(id),
        fingerprint,
        created_at: now.minus_ms(id % 100),
        retires_at,
    };
    let keys =
        [key(3, i64::MIN, None), key(77, i64::MAX, Some(now)), key(i64::MAX, -1, Some(now.plus_ms(HOUR_MS)))];
    harness.save(Changes { token_keys: Entries::writing(keys.to_vec()), ..Changes::default() }).await;
    let read = async || {
        let read = harness.store.token_keys().await.expect("keys are read");
        let mut loaded = harness
            .load(Needs { queries: Queries { token_keys: true, ..Queries::default() }, ..Needs::default() })
            .await
            .token_keys;
        loaded.sort_by_key(|key| key.id);
        assert_eq!(loaded, read, "in a transaction as outside of it");
        read
    };
    assert_eq!(read().await, keys);
    assert!(harness.load(Needs::default()).await.token_keys.is_empty());
    let retired = TokenKey { retires_at: Some(now.plus_ms(5)), ..keys[0] };
    let token_keys_removed = vec![TokenKeyId(4), keys[1].id];
    harness
        .save(Changes {
            token_keys: Entries { written: vec![retired], removed: token_keys_removed },
            ..Changes::default()
        })
        .await;
    assert_eq!(read().await, [retired, keys[2]]);
}

pub async fn the_secret_that_is_kept_is_the_first_one_for_ever(harness: &Harness) {
    let kept = side_by_side(8, |side| {
        let harness = harness.clone();
        async move {
            let new = [side as u8; 32];
            harness.store.kept_secret(&new).await.expect("a secret is kept")
        }
    });
    let kept = kept.await;
    assert!(kept.iter().all(|one| *one == kept[0]), "whoever asks gets the same");
    assert!((0..8).any(|side| kept[0] == [side; 32]), "it is one of those that were offered");
    let again = harness.store.kept_secret(&[99; 40]).await.expect("a secret is kept");
    assert_eq!(again, kept[0]);
}

pub async fn a_token_is_accepted_once_and_a_repeat_gets_the_first_answer(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let with_source = WaitpointDraft { source: Some(name("ann@example.org")), ..draft("approval") };
    let report = suspend(vec![WaitDraft::new(on("approval"))], vec![with_source]);
    let waitpoint =
        harness.report(fence(&claimed), report).await.expect("it is suspended").waitpoints.remove(0);
    let first = harness.deliver(&waitpoint).await.expect("it is delivered");
    assert_eq!((first.number, first.effect, first.duplicate), (1, Effect::Resumed, false));
    assert_eq!((first.name.as_str(), first.source.as_str()), ("approval", "ann@example.org"));
    let before = harness.row(id).await;
    let repeated = Delivered { duplicate: true, ..first.clone() };
    let token = secret(1).sign(&waitpoint);
    let repeats = async || {
        assert_eq!(harness.deliver(&waitpoint).await, Ok(repeated.clone()));
        let other = SignalDraft { payload: "\"something else\"".into(), ..signal("approval") };
        let other = harness.run(harness.deliver_command(&waitpoint, &token, other)).await;
        assert_eq!(other, Ok(repeated.clone()), "whatever it says the second time");
        assert_eq!(harness.signals(id).await.len(), 1);
    };
    repeats().await;
    assert_eq!(harness.row(id).await, before);
    let claimed = harness.claim_again(id).await;
    assert_eq!(carried(&claimed), ["approval"]);
    repeats().await;
    harness.complete(&claimed, b"1").await;
    repeats().await;
}

pub async fn a_repeat_gets_the_first_answer_also_where_the_signal_had_another_name(harness: &Harness) {
    let (claimed, waitpoint) = with_waitpoint(harness, draft("w")).await;
    let id = claimed.execution.id;
    let token = secret(1).sign(&waitpoint);
    let send = || harness.deliver_command(&waitpoint, &token, signal("approved"));
    let first = harness.run(send()).await.expect("it is delivered");
    assert_eq!(first.name, name("approved"));
    let repeated = Ok(Delivered { duplicate: true, name: name("w"), ..first });
    assert_eq!(
        harness.run(send()).await,
        repeated,
        "the answer names the waitpoint, which is what the token knows"
    );
    harness.suspend(&claimed, vec![WaitDraft::new(on("approved"))]).await;
    assert_eq!(harness.run(send()).await, repeated, "also when the signal was taken");
    let nameless = SignalDraft { name: None, ..signal("w") };
    assert_eq!(harness.run(harness.deliver_command(&waitpoint, &token, nameless)).await, repeated);
    assert_eq!(harness.row(id).await.detail.record.signals, 1);
}

pub async fn a_token_that_several_use_at_once_is_accepted_once(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let report = suspend(vec![WaitDraft::new(on("w"))], vec![draft("w")]);
    let waitpoint =
        harness.report(fence(&claimed), report).await.expect("it is suspended").waitpoints.remove(0);
    let answers = side_by_side(8, |_| {
        let (harness, waitpoint) = (harness.clone(), waitpoint.clone());
        async move { harness.deliver(&waitpoint).await.expect("it is answered") }
    });
    let answers = answers.await;
    assert_eq!(answers.iter().filter(|answer| !answer.duplicate).count(), 1);
    assert!(answers.iter().all(|answer| (answer.number, answer.effect) == (1, Effect::Resumed)));
    assert_eq!(harness.signals(claimed.execution.id).await.len(), 1);
}

pub async fn a_key_of_a_caller_and_a_token_know_the_same_delivery(harness: &Harness) {
    let (claimed, waitpoint) = with_waitpoint(harness, draft("w")).await;
    let other = harness.waitpoint(&claimed, draft("v")).await;
    let keyed = |sent: &str| SignalDraft { key: Some("key".into()), ..signal(sent) };
    let send = async |through: &Waitpoint, draft| {
        harness.run(harness.deliver_command(through, &secret(1).sign(through), draft)).await
    };
    let first = send(&waitpoint, keyed("w")).await.expect("it is delivered");
    assert_eq!(send(&waitpoint, keyed("w")).await, Ok(Delivered { duplicate: true, ..first }));
    let refused = send(&other, keyed("v")).await.expect_err("the key stands for another signal");
    assert_eq!(refused.code(), "idempotency_mismatch");
    let refused = harness.try_signal(claimed.execution.id, keyed("w")).await.expect_err("it is from another");
    assert_eq!(refused.code(), "idempotency_mismatch");
    assert_eq!(harness.deliver(&other).await.expect("its token was not used up").number, 2);
}

pub async fn a_token_is_refused_anywhere_but_at_its_own_waitpoint(harness: &Harness) {
    let (claimed, waitpoint) = with_waitpoint(harness, draft("w")).await;
    let sibling = harness.waitpoint(&claimed, draft("v")).await;
    let elsewhere = harness.beside("elsewhere").await;
    let (_, same_name) = with_waitpoint(harness, draft("w")).await;
    let (_, of_others) = with_waitpoint(&elsewhere, draft("w")).await;
    let token = secret(1).sign(&waitpoint);
    for other in [&sibling, &same_name, &of_others] {
        is_refused(harness, other, &token, "invalid_token").await;
        is_refused(harness, &waitpoint, &secret(1).sign(other), "invalid_token").await;
    }
    let as_another = secret(1).sign(&Waitpoint { source: name("another"), ..waitpoint.clone() });
    let for_longer =
        secret(1).sign(&Waitpoint { expires_at: Some(harness.now().await), ..waitpoint.clone() });
    let in_another = secret(1).sign(&Waitpoint { namespace: of_others.namespace, ..waitpoint.clone() });
    let of_another = secret(1).sign(&Waitpoint { execution: same_name.execution, ..waitpoint.clone() });
    let other_secret = secret(2).sign(&waitpoint);
    for forged in
        [as_another, for_longer, in_another, of_another, other_secret, String::new(), format!("{token}A")]
    {
        is_refused(harness, &waitpoint, &forged, "invalid_token").await;
    }
    // A waitpoint that is not there, and one that is looked for in another execution.
    let unknown = Waitpoint { id: WaitpointId(Uuid::new_v4()), ..waitpoint.clone() };
    is_refused(harness, &unknown, &secret(1).sign(&unknown), "not_found").await;
    let misplaced = Waitpoint { execution: same_name.execution, ..waitpoint.clone() };
    is_refused(harness, &misplaced, &token, "not_found").await;
    // Whoever knows only another root secret verifies nothing.
    let way = Way::Token { waitpoint: waitpoint.id, token: token.clone(), secret: secret(2) };
    let deliver = signal("w").check(waitpoint.execution, way).expect("it is well formed");
    assert_eq!(harness.run(deliver).await.expect_err("its secret is another").code(), "invalid_token");
    assert_eq!(deliver_with(harness, &waitpoint, &token).await.expect("it is the right one").number, 1);
}

pub async fn a_token_does_not_speak_for_another_waitpoint(harness: &Harness) {
    let (claimed, waitpoint) = with_waitpoint(harness, draft("w")).await;
    let other = harness.waitpoint(&claimed, draft("v")).await;
    let token = secret(1).sign(&waitpoint);
    let send = |sent: &str| harness.deliver_command(&waitpoint, &token, signal(sent));
    let refused = harness.run(send("v")).await.expect_err("it is another's name");
    assert_eq!((refused.code(), refused.pointer()), ("invalid_field", Some("/name")));
    harness.deliver(&other).await.expect("it is delivered");
    let refused = harness.run(send("v")).await.expect_err("also when that has its delivery");
    assert_eq!(refused.pointer(), Some("/name"));
    assert_eq!(harness.waitpoints(claimed.execution.id).await[0].state, WaitpointState::Open);
    harness.run(send("w")).await.expect("it may speak for itself");
}

pub async fn a_token_is_refused_from_the_moment_its_time_is_over(harness: &Harness) {
    let until = |text: &str| WaitpointDraft { expires_ms: Some(1), ..draft(text) };
    let (claimed, expired) = with_waitpoint(harness, until("w")).await;
    let delivered = {
        let long = WaitpointDraft { expires_ms: Some(HOUR_MS), ..draft("v") };
        harness.waitpoint(&claimed, long).await
    };
    harness.deliver(&delivered).await.expect("it is delivered");
    harness.pass(1).await;
    let token = secret(1).sign(&expired);
    assert_eq!(harness.waitpoints(claimed.execution.id).await[0].state, WaitpointState::Open);
    is_refused(harness, &expired, &token, "token_expired").await;
    harness.due(claimed.execution.id, DueKind::WaitpointExpiry).await;
    is_refused(harness, &expired, &token, "token_expired").await;
    harness.complete(&claimed, b"1").await;
    is_refused(harness, &expired, &token, "token_expired").await;
    assert!(harness.deliver(&delivered).await.expect("it was in time").duplicate);
}

pub async fn a_token_that_was_revoked_is_refused(harness: &Harness) {
    let (claimed, waitpoint) = with_waitpoint(harness, draft("w")).await;
    let revoke = Action::RevokeWaitpoint { waitpoint: waitpoint.id };
    harness.operate(claimed.execution.id, revoke).await.expect("it is revoked");
    is_refused(harness, &waitpoint, &secret(1).sign(&waitpoint), "token_revoked").await;
    is_refused(harness, &waitpoint, &secret(2).sign(&waitpoint), "invalid_token").await;
}

pub async fn a_token_does_not_wake_what_has_ended(harness: &Harness) {
    let (claimed, waitpoint) = with_waitpoint(harness, draft("w")).await;
    harness.complete(&claimed, b"1").await;
    is_refused(harness, &waitpoint, &secret(1).sign(&waitpoint), "already_terminal").await;
    assert_eq!(harness.waitpoints(claimed.execution.id).await[0].state, WaitpointState::Open);
    harness.operate(claimed.execution.id, Action::Replay).await.expect("it is replayed");
    harness.deliver(&waitpoint).await.expect("it is live again");
}

pub async fn tokens_of_an_old_key_are_accepted_for_as_long_as_was_said(harness: &Harness) {
    let (claimed, first) = with_waitpoint(harness, draft("first")).await;
    let unused = harness.waitpoint(&claimed, draft("unused")).await;
    let old = harness.store.token_keys().await.expect("keys are read");
    assert_eq!((old.len(), old[0].id, old[0].retires_at), (1, first.key, None));
    assert_eq!(old[0].fingerprint, secret(1).fingerprint());
    let new = harness.rotate(HOUR_MS).await;
    let second = harness.waitpoint(&claimed, draft("second")).await;
    assert_eq!((second.key, new.retires_at), (new.id, None), "the new one signs from now on");
    assert_ne!(new.id, first.key);
    harness.deliver(&first).await.expect("its grace is not over");
    harness.deliver(&second).await.expect("its key is the newest");
    // A second rotation does not make the grace of the first any longer.
    harness.pass(1).await;
    let given =
        |keys: &[TokenKey]| keys.iter().find(|key| key.id == first.key).and_then(|key| key.retires_at);
    let before = given(&harness.store.token_keys().await.expect("keys are read"));
    let third = harness.rotate(0).await;
    let keys = harness.store.token_keys().await.expect("keys are read");
    assert_eq!((given(&keys), keys.len()), (before, 3));
    let last = harness.waitpoint(&claimed, draft("last")).await;
    assert_eq!(last.key, third.id);
    harness.deliver(&unused).await.expect("the oldest key has the longest grace");
    harness.deliver(&last).await.expect("its key is the newest");
}

pub async fn tokens_of_a_key_whose_grace_is_over_are_refused(harness: &Harness) {
    let (claimed, waitpoint) = with_waitpoint(harness, draft("w")).await;
    let delivered = harness.waitpoint(&claimed, draft("delivered")).await;
    harness.deliver(&delivered).await.expect("it is delivered");
    let old = secret(1).sign(&waitpoint);
    harness.rotate(0).await;
    is_refused(harness, &waitpoint, &old, "invalid_token").await;
    is_refused(harness, &delivered, &secret(1).sign(&delivered), "invalid_token").await;
    // What is open and asked for again is signed with the key of the day; the old token stays refused.
    let version = harness.row(claimed.execution.id).await.version;
    let signed_anew = harness.waitpoint(&claimed, draft("w")).await;
    assert_eq!(signed_anew.id, waitpoint.id);
    let row = harness.row(claimed.execution.id).await;
    assert_eq!(
        (row.version, row.detail.record.waitpoints),
        (version + 1, 2),
        "that is a change, and no new one"
    );
    assert_ne!(signed_anew.key, waitpoint.key);
    assert_eq!(harness.store.waitpoint(waitpoint.id).await.expect("is read"), Some(signed_anew.clone()));
    is_refused(harness, &signed_anew, &old, "invalid_token").await;
    harness.pass(1).await;
    harness.rotate(HOUR_MS).await;
    let keys = harness.store.token_keys().await.expect("keys are read");
    assert_eq!(keys.len(), 2, "a key that verifies nothing any more is gone with the next rotation");
    harness.deliver(&signed_anew).await.expect("its grace is not over");
}

pub async fn a_server_with_another_root_secret_signs_with_a_key_of_its_own(harness: &Harness) {
    let (claimed, waitpoint) = with_waitpoint(harness, draft("w")).await;
    let make = |text: &str| Op::Waitpoint { draft: draft(text), fingerprint: secret(2).fingerprint() };
    let made = harness.report(fence(&claimed), make("v")).await.expect("it is made").waitpoints.remove(0);
    assert_ne!(made.key, waitpoint.key);
    let deliver = |through: &Waitpoint, number: u8| {
        let (token, secret) = (secret(number).sign(through), secret(number));
        let way = Way::Token { waitpoint: through.id, token, secret };
        signal(&through.name).check(through.execution, way).expect("it is well formed")
    };
    harness.run(deliver(&made, 2)).await.expect("its own secret verifies it");
    harness.run(deliver(&waitpoint, 1)).await.expect("the other one's tokens are its own affair");
    let third = harness.waitpoint(&claimed, draft("w2")).await;
    let theirs = harness.report(fence(&claimed), make("w2")).await.expect("it is there").waitpoints.remove(0);
    assert_eq!(theirs.id, third.id, "one that is open is given again");
    assert_eq!(theirs.key, made.key, "signed so that the answer's token is accepted there");
    harness.run(deliver(&theirs, 2)).await.expect("it is accepted");
}
