//! Keys: they refer to one execution or one reply, and are deleted with it or when they expire.

use crate::harness::runner::RuleList;
use crate::harness::{Harness, Worker};
use bytes::Bytes;
use selvedge_core::rows::{KeyName, KeyRow, KeyScope, KeySubject};
use selvedge_core::rules::CallKey;
use selvedge_core::rules::keyed::{FixPlan, Keyed};
use selvedge_core::rules::operator::{Action, Operate};
use selvedge_core::table::{Entries, Request};
use selvedge_core::{Changes, Draft, ExecutionId, Name, Needs, Timestamp};

fn name(harness: &Harness, scope: KeyScope, text: &str) -> KeyName {
    KeyName { namespace: harness.namespace, scope, key: Name::trusted(text) }
}

fn key_of(name: &KeyName, execution: ExecutionId) -> KeyRow {
    KeyRow {
        name: name.clone(),
        subject: Some(KeySubject::Execution(execution)),
        digest: 1,
        answer: Bytes::new(),
        expires_at: None,
    }
}

async fn found(harness: &Harness, names: &[KeyName]) -> Vec<KeyRow> {
    let mut keys =
        harness.load(Needs { keys: Request::reading(names.to_vec()), ..Needs::default() }).await.keys;
    keys.sort_by(|a, b| a.name.cmp(&b.name));
    keys
}

async fn put(harness: &Harness, mut keys: Vec<KeyRow>) {
    keys.sort_by(|a, b| a.name.cmp(&b.name));
    harness.save(Changes { keys: Entries::writing(keys), ..Changes::default() }).await;
}

async fn remove(harness: &Harness, name: &KeyName, only_of: Option<ExecutionId>) {
    harness
        .save(Changes {
            keys: Entries::removing([(name.clone(), only_of.map(KeySubject::Execution))]),
            ..Changes::default()
        })
        .await;
}

pub async fn a_key_is_read_back_with_every_field(harness: &Harness) {
    let now = harness.now().await;
    let execution = harness.submit(Draft::new("kind")).await.id;
    let text = "käse' \" % _ \\";
    let keys = vec![
        KeyRow { digest: u64::MAX, ..key_of(&name(harness, KeyScope::Idempotency, text), execution) },
        KeyRow { digest: 1 << 63, ..key_of(&name(harness, KeyScope::Unique, text), execution) },
        KeyRow {
            name: name(harness, KeyScope::Operation, text),
            subject: None,
            digest: 0,
            answer: Bytes::from_static(b"\0\xff any bytes"),
            expires_at: Some(now.plus_ms(86_400_000)),
        },
    ];
    put(harness, keys.clone()).await;
    let mut names: Vec<KeyName> = keys.iter().map(|key| key.name.clone()).collect();
    names.push(name(harness, KeyScope::Unique, "unknown"));
    assert_eq!(found(harness, &names).await, keys);
}

pub async fn a_key_is_removed_only_if_it_belongs_to_that_execution(harness: &Harness) {
    let rows = harness.submit_all(vec![Draft::new("kind"); 2]).await;
    let key = name(harness, KeyScope::Unique, "key");
    put(harness, vec![key_of(&key, rows[0].id)]).await;
    let names = [key.clone()];
    remove(harness, &key, Some(rows[1].id)).await;
    assert_eq!(found(harness, &names).await.len(), 1, "it belongs to another execution");
    remove(harness, &key, Some(rows[0].id)).await;
    assert!(found(harness, &names).await.is_empty());
}

pub async fn keys_are_removed_before_keys_are_added(harness: &Harness) {
    let rows = harness.submit_all(vec![Draft::new("kind"); 3]).await;
    let key = name(harness, KeyScope::Idempotency, "key");
    put(harness, vec![key_of(&key, rows[0].id)]).await;
    for (only_of, next) in [(Some(rows[0].id), rows[1].id), (Some(rows[1].id), rows[2].id)] {
        harness
            .save(Changes {
                keys: Entries {
                    removed: vec![(key.clone(), only_of.map(KeySubject::Execution))],
                    written: vec![key_of(&key, next)],
                },
                ..Changes::default()
            })
            .await;
        assert_eq!(found(harness, std::slice::from_ref(&key)).await, [key_of(&key, next)]);
    }
}

pub async fn only_expired_keys_are_deleted_up_to_the_limit(harness: &Harness) {
    let now = harness.now().await;
    let execution = harness.submit(Draft::new("kind")).await.id;
    let expiring = |text: &str, at: Timestamp| KeyRow {
        name: name(harness, KeyScope::Operation, text),
        subject: None,
        digest: 1,
        answer: Bytes::new(),
        expires_at: Some(at),
    };
    let stale = async || harness.store.overview().await.expect("the overview is read").stale;
    let delete = async |limit| {
        let deleted = harness.store.delete_expired_keys(limit).await;
        deleted.expect("expired keys are deleted")
    };
    let kept = vec![
        key_of(&name(harness, KeyScope::Unique, "kept"), execution),
        expiring("later", now.plus_ms(3_600_000)),
    ];
    put(harness, kept.clone()).await;
    assert_eq!((delete(10).await, stale().await), (0, false));
    let past = (1..=5).map(|hours| expiring(&format!("past{hours}"), now.minus_ms(hours * 3_600_000)));
    let past: Vec<KeyRow> = past.collect();
    put(harness, past.clone()).await;
    assert!(stale().await);
    assert_eq!([delete(2).await, delete(10).await, delete(10).await], [2, 3, 0]);
    assert!(!stale().await);
    let names: Vec<KeyName> = kept.iter().chain(&past).map(|key| key.name.clone()).collect();
    assert_eq!(found(harness, &names).await, kept);
}

pub async fn a_repeated_keyed_call_gets_the_first_reply(harness: &Harness) {
    let call_key = |key: &str, digest| Some(CallKey { key: Name::trusted(key), digest });
    let mut submit = harness.submit_command(vec![Draft::new("kind"); 2]).await;
    submit.call_key = call_key("submit", 7);
    let first = harness.run(submit.clone()).await;
    let mut repeated = harness.submit_command(vec![Draft::new("kind"); 2]).await;
    repeated.call_key = call_key("submit", 7);
    for (first, again) in first.into_iter().zip(harness.run(repeated.clone()).await) {
        let again = again.expect("it is accepted");
        assert!(again.duplicate);
        assert_eq!(again.execution, first.expect("it is accepted").execution);
    }
    repeated.call_key = call_key("submit", 8);
    for refused in harness.run(repeated).await {
        assert_eq!(refused.expect_err("the content differs").code(), "idempotency_mismatch");
    }
    let mut claim = harness.claim_command(&Worker::new("one"), 1);
    claim.call_key = call_key("claim", 7);
    let first = harness.run(claim.clone()).await.expect("it is not refused").claimed;
    let again = harness.run(claim).await.expect("it is not refused").claimed;
    assert_eq!(again[0].execution, first[0].execution);
    assert_eq!(again[0].input, first[0].input);
    assert_eq!((first.len(), again.len()), (1, 1));
}

/// Returns a replay of an execution under a key.
fn keyed_replay(harness: &Harness, execution: ExecutionId, call_key: CallKey) -> Keyed<Operate> {
    let actor = Name::trusted("operator");
    let action = Action::Replay;
    let rule = Operate { namespace: harness.namespace, execution, actor, if_version: None, action };
    Keyed { call_key: Some(call_key), rule, keeps_refusals: false }
}

pub async fn a_keyed_operator_action_is_applied_once_also_by_concurrent_calls(harness: &Harness) {
    let id = harness.leased(Draft::new("kind")).await.execution.id;
    let call_key = |digest| CallKey { key: Name::trusted("replay"), digest };
    let replay = |digest| keyed_replay(harness, id, call_key(digest));
    let refused = harness.run(replay(7)).await.expect_err("it has not ended");
    assert_eq!(refused.code(), "wrong_state");
    harness.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).await.expect("it is cancelled");
    // Both calls share one transaction.
    let both = harness.run(RuleList(vec![replay(7), replay(7)])).await;
    let generations: Vec<_> = both
        .into_iter()
        .map(|reply| reply.expect("it is accepted"))
        .map(|answered| (answered.done.detail.generation, answered.duplicate))
        .collect();
    assert_eq!(generations, [(1, false), (1, true)]);
    harness.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).await.expect("it is cancelled");
    let again = harness.run(replay(7)).await.expect("it is accepted");
    assert_eq!((again.duplicate, again.done), (true, harness.row(id).await));
    assert_eq!(harness.row(id).await.detail.generation, 1);
    let other = harness.run(replay(8)).await.expect_err("the call differs");
    assert_eq!(other.code(), "idempotency_mismatch");
}

pub async fn a_step_of_a_keyed_call_is_refused_again_when_it_is_repeated(harness: &Harness) {
    let id = harness.leased(Draft::new("kind")).await.execution.id;
    let call_key = CallKey { key: Name::trusted("bulk"), digest: 7 };
    let plan = |plan: Vec<ExecutionId>| Keyed {
        call_key: Some(call_key.clone()),
        rule: FixPlan { namespace: harness.namespace, plan },
        keeps_refusals: false,
    };
    let first = harness.run(plan(vec![id])).await.expect("it is accepted");
    let again = harness.run(plan(vec![])).await.expect("it is accepted");
    assert_eq!((first.done, first.duplicate), (vec![id], false));
    assert_eq!((again.done, again.duplicate), (vec![id], true), "the plan of the first call");
    let step = || Keyed { keeps_refusals: true, ..keyed_replay(harness, id, call_key.step(id)) };
    assert_eq!(harness.run(step()).await.expect_err("it has not ended").code(), "wrong_state");
    harness.operate(id, Action::Cancel { reason: None, grace_ms: 0 }).await.expect("it is cancelled");
    assert_eq!(harness.run(step()).await.expect_err("it was refused").code(), "wrong_state");
}
