//! Tokens: each allows one delivery to one waitpoint, until its expiry, the retirement of its key or its revocation.

use super::signals::raise_version;
use crate::harness::by_hand;
use crate::harness::concurrently;
use crate::harness::signals::{name, on_signal, secret, signal, signal_names, suspend};
use crate::harness::{Harness, fence};
use selvedge_core::execution::RecordSummary;
use selvedge_core::rows::Queries;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::signal::{Delivered, SignalDraft, SignalSender};
use selvedge_core::rules::waitpoint::{Reissue, WaitpointDraft};
use selvedge_core::signal::Effect;
use selvedge_core::suspension::WaitDraft;
use selvedge_core::table::{Entries, Guarded};
use selvedge_core::token::{TokenKey, TokenKeyId};
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::{Changes, Draft, DueKind, Needs, Refusal, Waitpoint, WaitpointId};
use uuid::Uuid;

const HOUR_MS: i64 = 3_600_000;

fn draft(text: &str) -> WaitpointDraft {
    WaitpointDraft::new(name(text))
}

/// Returns a claimed execution and a waitpoint of it.
async fn with_waitpoint(harness: &Harness, draft: WaitpointDraft) -> (Claimed, Waitpoint) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let waitpoint = harness.waitpoint(&claimed, draft).await;
    (claimed, waitpoint)
}

/// Delivers a signal with this text as the token.
async fn deliver_with(harness: &Harness, waitpoint: &Waitpoint, token: &str) -> Result<Delivered, Refusal> {
    harness.run(harness.deliver_command(waitpoint, token, signal(&waitpoint.name))).await
}

/// Asserts that a delivery is refused with this code and changes nothing.
async fn assert_refused(harness: &Harness, waitpoint: &Waitpoint, token: &str, code: &str) {
    let before = harness.row(waitpoint.execution).await;
    let refused = deliver_with(harness, waitpoint, token).await.expect_err("it is refused");
    assert_eq!(refused.code(), code, "{refused}");
    assert_eq!(harness.row(waitpoint.execution).await, before);
}

pub async fn token_keys_are_read_back_with_every_field(harness: &Harness) {
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
        assert_eq!(loaded, read, "the same in a transaction and outside of it");
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

pub async fn the_first_secret_is_kept_for_ever(harness: &Harness) {
    let kept = concurrently(8, |task| {
        let harness = harness.clone();
        async move {
            let new = [task as u8; 32];
            harness.store.root_secret(&new).await.expect("a secret is kept").bytes
        }
    });
    let kept = kept.await;
    assert!(kept.iter().all(|one| *one == kept[0]), "all callers get the same secret");
    assert!((0..8).any(|task| kept[0] == [task; 32]), "it is one of the offered secrets");
    let again = harness.store.root_secret(&[99; 40]).await.expect("a secret is kept");
    assert_eq!(again.bytes, kept[0]);
}

pub async fn a_token_is_accepted_once_and_a_repeat_gets_the_first_reply(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    let with_source = WaitpointDraft { source: Some(name("ann@example.org")), ..draft("approval") };
    let report = suspend(vec![WaitDraft::new(on_signal("approval"))], vec![with_source]);
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
        assert_eq!(other, Ok(repeated.clone()), "regardless of the second payload");
        assert_eq!(harness.signals(id).await.len(), 1);
    };
    repeats().await;
    assert_eq!(harness.row(id).await, before);
    let claimed = harness.claim_again(id).await;
    assert_eq!(signal_names(&claimed), ["approval"]);
    repeats().await;
    harness.complete(&claimed, b"1").await;
    repeats().await;
}

pub async fn a_repeat_gets_the_first_reply_even_if_the_signal_had_another_name(harness: &Harness) {
    let choice = WaitpointDraft { signals: Some(vec![name("approved"), name("rejected")]), ..draft("w") };
    let (claimed, waitpoint) = with_waitpoint(harness, choice).await;
    let id = claimed.execution.id;
    let token = secret(1).sign(&waitpoint);
    let send = || harness.deliver_command(&waitpoint, &token, signal("approved"));
    let first = harness.run(send()).await.expect("it is delivered");
    assert_eq!(first.name, name("approved"));
    let repeated = Ok(Delivered { duplicate: true, name: name("w"), ..first });
    assert_eq!(harness.run(send()).await, repeated, "the reply to a repeat names the waitpoint");
    harness.suspend(&claimed, vec![WaitDraft::new(on_signal("approved"))]).await;
    assert_eq!(harness.run(send()).await, repeated, "also after the signal was taken");
    let nameless = SignalDraft { name: None, ..signal("w") };
    assert_eq!(harness.run(harness.deliver_command(&waitpoint, &token, nameless)).await, repeated);
    assert_eq!(harness.row(id).await.detail.record.signals, 1);
}

pub async fn a_token_used_concurrently_is_accepted_once(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let report = suspend(vec![WaitDraft::new(on_signal("w"))], vec![draft("w")]);
    let waitpoint =
        harness.report(fence(&claimed), report).await.expect("it is suspended").waitpoints.remove(0);
    let replies = concurrently(8, |_| {
        let (harness, waitpoint) = (harness.clone(), waitpoint.clone());
        async move { harness.deliver(&waitpoint).await.expect("it is accepted") }
    });
    let replies = replies.await;
    assert_eq!(replies.iter().filter(|reply| !reply.duplicate).count(), 1);
    assert!(replies.iter().all(|reply| (reply.number, reply.effect) == (1, Effect::Resumed)));
    assert_eq!(harness.signals(claimed.execution.id).await.len(), 1);
}

pub async fn a_callers_key_and_a_token_deduplicate_the_same_delivery(harness: &Harness) {
    let (claimed, waitpoint) = with_waitpoint(harness, draft("w")).await;
    let other = harness.waitpoint(&claimed, draft("v")).await;
    let keyed = |sent: &str| SignalDraft { key: Some("key".into()), ..signal(sent) };
    let send = async |through: &Waitpoint, draft| {
        harness.run(harness.deliver_command(through, &secret(1).sign(through), draft)).await
    };
    let first = send(&waitpoint, keyed("w")).await.expect("it is delivered");
    assert_eq!(send(&waitpoint, keyed("w")).await, Ok(Delivered { duplicate: true, ..first }));
    let refused = send(&other, keyed("v")).await.expect_err("the key belongs to another signal");
    assert_eq!(refused.code(), "idempotency_mismatch");
    let refused = harness.try_signal(claimed.execution.id, keyed("w")).await.expect_err("the source differs");
    assert_eq!(refused.code(), "idempotency_mismatch");
    assert_eq!(harness.deliver(&other).await.expect("its token was not used up").number, 2);
}

pub async fn a_token_is_accepted_only_at_its_own_waitpoint(harness: &Harness) {
    let (claimed, waitpoint) = with_waitpoint(harness, draft("w")).await;
    let sibling = harness.waitpoint(&claimed, draft("v")).await;
    let elsewhere = harness.in_namespace("elsewhere").await;
    let (_, same_name) = with_waitpoint(harness, draft("w")).await;
    let (_, of_others) = with_waitpoint(&elsewhere, draft("w")).await;
    let token = secret(1).sign(&waitpoint);
    for other in [&sibling, &same_name, &of_others] {
        assert_refused(harness, other, &token, "invalid_token").await;
        assert_refused(harness, &waitpoint, &secret(1).sign(other), "invalid_token").await;
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
        assert_refused(harness, &waitpoint, &forged, "invalid_token").await;
    }
    // An unknown waitpoint, and a waitpoint named under another execution.
    let unknown = Waitpoint { id: WaitpointId(Uuid::new_v4()), ..waitpoint.clone() };
    assert_refused(harness, &unknown, &secret(1).sign(&unknown), "not_found").await;
    let misplaced = Waitpoint { execution: same_name.execution, ..waitpoint.clone() };
    assert_refused(harness, &misplaced, &token, "not_found").await;
    // A server with another root secret cannot verify the token.
    let way = SignalSender::TokenHolder { waitpoint: waitpoint.id, token: token.clone(), secret: secret(2) };
    let deliver = signal("w").check(waitpoint.execution, way).expect("it is valid");
    assert_eq!(harness.run(deliver).await.expect_err("the secret differs").code(), "invalid_token");
    assert_eq!(deliver_with(harness, &waitpoint, &token).await.expect("the token is valid").number, 1);
}

pub async fn a_token_sends_only_the_signals_of_its_waitpoint(harness: &Harness) {
    let (claimed, waitpoint) = with_waitpoint(harness, draft("w")).await;
    let choice = WaitpointDraft { signals: Some(vec![name("yes"), name("no")]), ..draft("choice") };
    let choice = harness.waitpoint(&claimed, choice).await;
    let send = async |through: &Waitpoint, sent: Option<&str>| {
        let draft = SignalDraft { name: sent.map(str::to_owned), ..signal("x") };
        harness.run(harness.deliver_command(through, &secret(1).sign(through), draft)).await
    };
    for (through, sent) in
        [(&waitpoint, Some("choice")), (&waitpoint, Some("yes")), (&choice, Some("choice")), (&choice, None)]
    {
        let refused = send(through, sent).await.expect_err("the token may not send it");
        assert_eq!((refused.code(), refused.pointer()), ("invalid_field", Some("/name")));
    }
    let states: Vec<_> =
        harness.waitpoints(claimed.execution.id).await.into_iter().map(|one| one.state).collect();
    assert_eq!(states, [WaitpointState::Open; 2]);
    assert_eq!(send(&choice, Some("no")).await.expect("it is a choice").name, name("no"));
    assert_eq!(send(&waitpoint, None).await.expect("its own name is the default").name, name("w"));
}

pub async fn a_token_of_an_earlier_build_sends_any_signal_but_that_of_another_waitpoint(harness: &Harness) {
    let row = by_hand::recorded(harness, RecordSummary { waitpoints: 2, ..RecordSummary::default() }).await;
    let (key, now) = (harness.rotate(0).await.id, harness.now().await);
    let earlier = |number: u32, text: &str| Waitpoint {
        id: WaitpointId(Uuid::new_v4()),
        namespace: harness.namespace,
        execution: row.id,
        number,
        name: name(text),
        source: name(text),
        key,
        created_at: now,
        expires_at: None,
        state: WaitpointState::Open,
        signals: None,
        prompt: None,
        issue: 0,
    };
    let waitpoints = vec![earlier(1, "w"), earlier(2, "v")];
    let waitpoint = waitpoints[0].clone();
    let executions = Guarded::updating(vec![raise_version(harness, row.id).await]);
    harness.save(Changes { waitpoints, executions, ..Changes::default() }).await;
    let token = secret(1).sign(&waitpoint);
    let send = |sent: &str| harness.deliver_command(&waitpoint, &token, signal(sent));
    let refused = harness.run(send("v")).await.expect_err("the name belongs to another waitpoint");
    assert_eq!((refused.code(), refused.pointer()), ("invalid_field", Some("/name")));
    harness.run(send("anything")).await.expect("it is accepted");
}

pub async fn a_new_token_ends_the_old_one(harness: &Harness) {
    let (claimed, first) = with_waitpoint(harness, draft("w")).await;
    let id = claimed.execution.id;
    let reissue = async |waitpoint: &Waitpoint| {
        let fingerprint = secret(1).fingerprint();
        let reissue = Reissue { waitpoint: waitpoint.id, expires_ms: None, fingerprint };
        harness.operate(id, Action::ReissueWaitpoint(reissue)).await
    };
    reissue(&first).await.expect("it is issued again");
    assert_refused(harness, &first, &secret(1).sign(&first), "invalid_token").await;
    let second = harness.waitpoints(id).await.remove(0);
    assert_eq!((second.id, second.issue), (first.id, 1));
    let revoke = Action::RevokeWaitpoint { waitpoint: first.id };
    harness.operate(id, revoke).await.expect("it is revoked");
    reissue(&first).await.expect("a revoked waitpoint is opened again");
    assert_refused(harness, &first, &secret(1).sign(&second), "invalid_token").await;
    let third = harness.waitpoints(id).await.remove(0);
    assert_eq!(harness.deliver(&third).await.expect("the newest token is accepted").number, 1);
    assert_eq!(reissue(&first).await.expect_err("it was delivered").code(), "wrong_state");
}

pub async fn an_operator_answers_in_place_of_the_token_holder(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let with_source = WaitpointDraft { source: Some(name("ann")), ..draft("w") };
    let report = suspend(vec![WaitDraft::new(on_signal("w"))], vec![with_source]);
    let waitpoint =
        harness.report(fence(&claimed), report).await.expect("it is suspended").waitpoints.remove(0);
    let (namespace, actor) = (harness.namespace, name("operator"));
    let sender = SignalSender::Operator { namespace, waitpoint: waitpoint.id, actor };
    let nameless = SignalDraft { name: None, ..signal("w") };
    let answer = nameless.check(waitpoint.execution, sender).expect("it is valid");
    let first = harness.run(answer.clone()).await.expect("it is delivered");
    assert_eq!((first.source.as_str(), first.effect), ("ann", Effect::Resumed));
    let repeated = Ok(Delivered { duplicate: true, ..first });
    assert_eq!(harness.run(answer).await, repeated);
    assert_eq!(harness.deliver(&waitpoint).await, repeated, "the token is used up, too");
}

pub async fn a_token_is_refused_from_the_moment_of_its_expiry(harness: &Harness) {
    let until = |text: &str| WaitpointDraft { expires_ms: Some(1), ..draft(text) };
    let (claimed, expired) = with_waitpoint(harness, until("w")).await;
    let delivered = {
        let long = WaitpointDraft { expires_ms: Some(HOUR_MS), ..draft("v") };
        harness.waitpoint(&claimed, long).await
    };
    harness.deliver(&delivered).await.expect("it is delivered");
    harness.advance_past(1).await;
    let token = secret(1).sign(&expired);
    assert_eq!(harness.waitpoints(claimed.execution.id).await[0].state, WaitpointState::Open);
    assert_refused(harness, &expired, &token, "token_expired").await;
    harness.due(claimed.execution.id, DueKind::WaitpointExpiry).await;
    assert_refused(harness, &expired, &token, "token_expired").await;
    harness.complete(&claimed, b"1").await;
    assert_refused(harness, &expired, &token, "token_expired").await;
    assert!(harness.deliver(&delivered).await.expect("it was delivered in time").duplicate);
}

pub async fn a_revoked_token_is_refused(harness: &Harness) {
    let (claimed, waitpoint) = with_waitpoint(harness, draft("w")).await;
    let revoke = Action::RevokeWaitpoint { waitpoint: waitpoint.id };
    harness.operate(claimed.execution.id, revoke).await.expect("it is revoked");
    assert_refused(harness, &waitpoint, &secret(1).sign(&waitpoint), "token_revoked").await;
    assert_refused(harness, &waitpoint, &secret(2).sign(&waitpoint), "invalid_token").await;
}

pub async fn a_token_of_an_ended_execution_is_refused(harness: &Harness) {
    let (claimed, waitpoint) = with_waitpoint(harness, draft("w")).await;
    harness.complete(&claimed, b"1").await;
    assert_refused(harness, &waitpoint, &secret(1).sign(&waitpoint), "already_terminal").await;
    assert_eq!(harness.waitpoints(claimed.execution.id).await[0].state, WaitpointState::Expired);
    harness.operate(claimed.execution.id, Action::Replay).await.expect("it is replayed");
    assert_refused(harness, &waitpoint, &secret(1).sign(&waitpoint), "token_expired").await;
}

pub async fn tokens_of_an_old_key_are_accepted_during_the_grace_period(harness: &Harness) {
    let (claimed, first) = with_waitpoint(harness, draft("first")).await;
    let unused = harness.waitpoint(&claimed, draft("unused")).await;
    let old = harness.store.token_keys().await.expect("keys are read");
    assert_eq!((old.len(), old[0].id, old[0].retires_at), (1, first.key, None));
    assert_eq!(old[0].fingerprint, secret(1).fingerprint());
    let new = harness.rotate(HOUR_MS).await;
    let second = harness.waitpoint(&claimed, draft("second")).await;
    assert_eq!((second.key, new.retires_at), (new.id, None), "the new key signs from now on");
    assert_ne!(new.id, first.key);
    harness.deliver(&first).await.expect("its grace period is not over");
    harness.deliver(&second).await.expect("its key is the newest");
    // A second rotation does not extend the grace period of the first key.
    harness.advance_past(1).await;
    let first_retires_at =
        |keys: &[TokenKey]| keys.iter().find(|key| key.id == first.key).and_then(|key| key.retires_at);
    let before = first_retires_at(&harness.store.token_keys().await.expect("keys are read"));
    let third = harness.rotate(0).await;
    let keys = harness.store.token_keys().await.expect("keys are read");
    assert_eq!((first_retires_at(&keys), keys.len()), (before, 3));
    let last = harness.waitpoint(&claimed, draft("last")).await;
    assert_eq!(last.key, third.id);
    harness.deliver(&unused).await.expect("the oldest key has the longest grace period");
    harness.deliver(&last).await.expect("its key is the newest");
}

pub async fn tokens_of_a_retired_key_are_refused(harness: &Harness) {
    let (claimed, waitpoint) = with_waitpoint(harness, draft("w")).await;
    let delivered = harness.waitpoint(&claimed, draft("delivered")).await;
    harness.deliver(&delivered).await.expect("it is delivered");
    let old = secret(1).sign(&waitpoint);
    harness.rotate(0).await;
    assert_refused(harness, &waitpoint, &old, "invalid_token").await;
    assert_refused(harness, &delivered, &secret(1).sign(&delivered), "invalid_token").await;
    // An open waitpoint that is requested again is signed with the current key; the old token stays refused.
    let version = harness.row(claimed.execution.id).await.version;
    let resigned = harness.waitpoint(&claimed, draft("w")).await;
    assert_eq!(resigned.id, waitpoint.id);
    let row = harness.row(claimed.execution.id).await;
    assert_eq!(
        (row.version, row.detail.record.waitpoints),
        (version + 1, 2),
        "the waitpoint is changed and not created anew"
    );
    assert_ne!(resigned.key, waitpoint.key);
    assert_eq!(harness.store.waitpoint(waitpoint.id).await.expect("rows are read"), Some(resigned.clone()));
    assert_refused(harness, &resigned, &old, "invalid_token").await;
    harness.advance_past(1).await;
    harness.rotate(HOUR_MS).await;
    let keys = harness.store.token_keys().await.expect("keys are read");
    assert_eq!(keys.len(), 2, "the next rotation deletes a retired key");
    harness.deliver(&resigned).await.expect("its grace period is not over");
}

pub async fn a_server_with_another_root_secret_signs_with_a_key_of_its_own(harness: &Harness) {
    let (claimed, waitpoint) = with_waitpoint(harness, draft("w")).await;
    let create = |text: &str| Op::Waitpoint { draft: draft(text), fingerprint: secret(2).fingerprint() };
    let created =
        harness.report(fence(&claimed), create("v")).await.expect("it is created").waitpoints.remove(0);
    assert_ne!(created.key, waitpoint.key);
    let deliver = |through: &Waitpoint, number: u8| {
        let (token, secret) = (secret(number).sign(through), secret(number));
        let way = SignalSender::TokenHolder { waitpoint: through.id, token, secret };
        signal(&through.name).check(through.execution, way).expect("it is valid")
    };
    harness.run(deliver(&created, 2)).await.expect("its own secret verifies the token");
    harness.run(deliver(&waitpoint, 1)).await.expect("tokens of the other server stay valid");
    let third = harness.waitpoint(&claimed, draft("w2")).await;
    let theirs = harness.report(fence(&claimed), create("w2")).await.expect("it exists").waitpoints.remove(0);
    assert_eq!(theirs.id, third.id, "an open waitpoint is reused");
    assert_eq!(theirs.key, created.key, "it is signed with the key of the requesting server");
    harness.run(deliver(&theirs, 2)).await.expect("it is accepted");
}
