//! API keys: a row is read back as it was written, by its digest and in lists, and nothing but its use, its revocation and the
//! deletion of one of its namespaces changes it.

use crate::harness::Harness;
use crate::harness::signals::name;
use selvedge_core::api_key::{ApiKey, ApiKeyId, KeyText};
use selvedge_core::fact::Fact;
use selvedge_core::rules::CallKey;
use selvedge_core::rules::api_key::{CreateApiKey, RemoveNamespaceFromKey, RevokeApiKey};
use selvedge_core::rules::keyed::Keyed;
use selvedge_core::{Role, Timestamp};
use uuid::Uuid;

/// Returns a key with this number, and its text.
fn key(number: u8) -> (ApiKey, KeyText) {
    let text = KeyText::new([number; 24]);
    let key = ApiKey {
        id: ApiKeyId(Uuid::from_u128(u128::from(number) << 80)),
        digest: text.digest(),
        name: name(&format!("key \"{number}\" é")),
        role: Role::ALL[usize::from(number) % Role::ALL.len()],
        namespaces: vec![name("a"), name("b \"quoted\"")],
        created_at: Timestamp::default(),
        expires_at: None,
        last_used_at: None,
        revoked_at: None,
    };
    (key, text)
}

async fn create(harness: &Harness, key: ApiKey) -> ApiKey {
    let create = CreateApiKey { namespace: harness.namespace, key, actor: name("admin") };
    harness.run(create).await.expect("the key is created")
}

async fn find(harness: &Harness, text: &KeyText) -> Option<ApiKey> {
    harness.store.api_key(&text.digest()).await.expect("keys are read").map(|(key, _)| key)
}

pub async fn a_key_is_found_by_its_digest_with_every_field(harness: &Harness) {
    for number in 1..=5 {
        let (draft, text) = key(number);
        let now = harness.store.now().await.expect("the time is read");
        let expires_at = (number % 2 == 0).then(|| now.plus_ms(60_000));
        let created = create(harness, ApiKey { expires_at, ..draft.clone() }).await;
        assert!(created.created_at >= now);
        assert_eq!(created, ApiKey { created_at: created.created_at, expires_at, ..draft });
        assert_eq!(find(harness, &text).await, Some(created));
    }
    assert_eq!(find(harness, &key(6).1).await, None);
    let (_, read_at) =
        harness.store.api_key(&key(1).1.digest()).await.expect("keys are read").expect("it exists");
    assert!(read_at <= harness.store.now().await.expect("the time is read"));
}

pub async fn a_key_that_has_expired_already_is_refused(harness: &Harness) {
    let (draft, text) = key(1);
    let expires_at = Some(harness.store.now().await.expect("the time is read"));
    let create = CreateApiKey {
        namespace: harness.namespace,
        key: ApiKey { expires_at, ..draft },
        actor: name("admin"),
    };
    assert_eq!(harness.run(create).await.expect_err("it is refused").code(), "invalid_field");
    assert_eq!(find(harness, &text).await, None);
}

pub async fn keys_are_listed_in_pages_newest_first(harness: &Harness) {
    for number in 1..=5 {
        create(harness, key(number).0).await;
    }
    let page = async |after, limit| {
        let keys = harness.store.api_keys(after, limit).await.expect("keys are read");
        keys.into_iter().map(|key| key.id).collect::<Vec<_>>()
    };
    let ids = |numbers: &[u8]| numbers.iter().map(|number| key(*number).0.id).collect::<Vec<_>>();
    assert_eq!(page(None, 2).await, ids(&[5, 4]));
    assert_eq!(page(Some(key(4).0.id), 2).await, ids(&[3, 2]));
    assert_eq!(page(Some(key(2).0.id), 2).await, ids(&[1]));
    assert_eq!(page(None, 9).await.len(), 5);
}

pub async fn a_revoked_key_keeps_its_first_time_and_has_one_event(harness: &Harness) {
    let (draft, text) = key(1);
    let created = create(harness, draft).await;
    let revoke = |within: Option<Vec<_>>| RevokeApiKey {
        namespace: harness.namespace,
        id: created.id,
        within,
        actor: name("admin"),
    };
    let foreign = harness.run(revoke(Some(vec![name("a")]))).await;
    assert_eq!(foreign.expect_err("it has another namespace too").code(), "not_found");
    harness.store.touch_api_keys(&[created.id]).await.expect("its use is recorded");
    let used = find(harness, &text).await.expect("it exists").last_used_at;
    let (first, second) = tokio::join!(harness.run(revoke(None)), harness.run(revoke(None)));
    let (first, second) = (first.expect("it is revoked"), second.expect("it is revoked"));
    assert_eq!(first.revoked_at, second.revoked_at);
    assert!(first.revoked_at.is_some());
    let stored = find(harness, &text).await.expect("it exists");
    assert_eq!(stored, ApiKey { revoked_at: first.revoked_at, last_used_at: used, ..created.clone() });
    let log = harness.log().await;
    let events: Vec<_> = log.iter().flat_map(|(_, events)| events).collect();
    let revocations = events.iter().filter(|event| matches!(event.fact, Fact::ApiKeyRevoked { .. })).count();
    let creations = events.iter().filter(|event| matches!(event.fact, Fact::ApiKeyCreated { .. })).count();
    assert_eq!((creations, revocations), (1, 1));
    let unknown = RevokeApiKey { id: key(2).0.id, ..revoke(None) };
    assert_eq!(harness.run(unknown).await.expect_err("it does not exist").code(), "not_found");
}

pub async fn the_use_of_a_key_is_recorded_and_changes_nothing_else(harness: &Harness) {
    let (draft, text) = key(1);
    let created = create(harness, draft).await;
    let mut last = None;
    for _ in 0..2 {
        harness.advance_past(1).await;
        harness.store.touch_api_keys(&[key(9).0.id, created.id]).await.expect("its use is recorded");
        let stored = find(harness, &text).await.expect("it exists");
        assert!(stored.last_used_at > last, "{:?} after {last:?}", stored.last_used_at);
        last = stored.last_used_at;
        assert_eq!(stored, ApiKey { last_used_at: last, ..created.clone() });
    }
    harness.store.touch_api_keys(&[]).await.expect("nothing is recorded");
}

pub async fn a_repeated_creation_creates_no_second_key(harness: &Harness) {
    let call_key = Some(CallKey { key: name("once"), digest: 1 });
    let keyed = |number| {
        let rule = CreateApiKey { namespace: harness.namespace, key: key(number).0, actor: name("admin") };
        Keyed { call_key: call_key.clone(), rule, keeps_refusals: false }
    };
    let first = harness.run(keyed(1)).await.expect("it is created");
    let again = harness.run(keyed(2)).await.expect("it is answered");
    assert!(!first.duplicate && again.duplicate);
    assert_eq!((again.done.id, again.done.created_at), (first.done.id, first.done.created_at));
    assert_eq!(harness.store.api_keys(None, 9).await.expect("keys are read"), [first.done]);
}

pub async fn a_deleted_namespace_is_removed_from_older_keys_and_no_newer_ones(harness: &Harness) {
    let mut keys = Vec::new();
    for (number, namespaces) in [(1, &["a", "b"][..]), (2, &["a"]), (3, &["b"]), (4, &["*"])] {
        let namespaces = namespaces.iter().copied().map(name).collect();
        keys.push(create(harness, ApiKey { namespaces, ..key(number).0 }).await);
    }
    let created_by = harness.store.overview().await.expect("the time is read").now;
    harness.advance_past(1).await;
    keys.push(create(harness, ApiKey { namespaces: vec![name("a")], ..key(5).0 }).await);
    let remove = |id| RemoveNamespaceFromKey {
        namespace: harness.namespace,
        id,
        name: name("a"),
        created_by,
        actor: Some(name("admin")),
    };
    for expected in [[true, true, false, false, false], [false; 5]] {
        for (key, expected) in keys.iter().zip(expected) {
            assert_eq!(harness.run(remove(key.id)).await, expected, "{key:?}");
        }
    }
    let mut stored = harness.store.api_keys(None, 9).await.expect("keys are read");
    stored.reverse();
    assert_eq!(stored[0], ApiKey { namespaces: vec![name("b")], ..keys[0].clone() });
    assert!(stored[1].revoked_at.is_some(), "it had no other");
    assert_eq!(stored[1], ApiKey { revoked_at: stored[1].revoked_at, ..keys[1].clone() });
    assert_eq!(stored[2..], keys[2..]);
}
