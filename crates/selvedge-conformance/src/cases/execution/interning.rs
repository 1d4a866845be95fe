//! Interned namespaces and classes: one id each, visible in ascending order.

use crate::harness::{Harness, Worker, concurrently};
use selvedge_core::bulk_job::BulkJobId;
use selvedge_core::class::UNPOOLED;
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::rows::Queries;
use selvedge_core::{Class, ClassId, Draft, Name, NamespaceId, Needs};
use selvedge_store::{Deletion, NamespaceSettings, retired_name};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

fn class(namespace: NamespaceId, lane: &str, kind: &str, capabilities: &[&str]) -> Class {
    Class {
        namespace,
        lane: Name::trusted(lane),
        kind: Name::trusted(kind),
        capabilities: capabilities.iter().map(|word| Name::trusted(word)).collect(),
        pool: None,
    }
}

async fn intern(harness: &Harness, classes: &[Class]) -> BTreeMap<Class, ClassId> {
    let interned = harness.store.intern(classes).await.expect("classes are interned");
    let ids: BTreeMap<Class, ClassId> = interned.into_iter().map(|(id, class)| (class, id)).collect();
    let requested: BTreeSet<&Class> = classes.iter().collect();
    assert!(requested.iter().all(|class| ids.contains_key(class)), "each class has an id");
    ids
}

async fn classes_after(harness: &Harness, after: ClassId) -> Vec<(ClassId, Class)> {
    harness.store.classes_after(after).await.expect("classes are read")
}

pub async fn concurrent_interning_gives_a_namespace_one_id(harness: &Harness) {
    let ids = concurrently(12, |task| {
        let harness = harness.clone();
        async move {
            let mut ids = Vec::new();
            for word in 0..6 {
                let name = Name::trusted(&format!("namespace{}", (word + task) % 6));
                let id = harness.store.namespace(&name).await.expect("it is interned");
                ids.push((name, id));
            }
            ids
        }
    });
    let mut known: BTreeMap<Name, NamespaceId> = BTreeMap::new();
    for (name, id) in ids.await.into_iter().flatten() {
        assert_eq!(*known.entry(name).or_insert(id), id, "all tasks got the same id");
    }
    known.insert(Name::trusted("conformance"), harness.namespace);
    let distinct: BTreeSet<NamespaceId> = known.values().copied().collect();
    assert_eq!(distinct.len(), 7);
    let all = harness.store.namespaces().await.expect("namespaces are read");
    let all: BTreeMap<Name, NamespaceId> = all.into_iter().map(|(id, name)| (name, id)).collect();
    assert_eq!(all, known);
}

pub async fn classes_that_differ_in_any_part_have_different_ids(harness: &Harness) {
    let (here, other) = (harness.namespace, harness.in_namespace("elsewhere").await.namespace);
    let classes = [
        class(here, "a", "k", &[]),
        class(other, "a", "k", &[]),
        class(here, "b", "k", &[]),
        class(here, "a", "l", &[]),
        class(here, "a", "K", &[]),
        class(here, "a", "k", &["x"]),
        class(here, "a", "k", &["x", "y"]),
        class(here, "a", "k", &["x,y"]),
        class(here, "a", "k", &["x\",\"y"]),
        class(here, "a,k", "", &[]),
        class(here, "käse", "\u{1f9f5}", &["ö"]),
    ];
    let ids = intern(harness, &classes).await;
    let distinct: BTreeSet<ClassId> = ids.values().copied().collect();
    assert_eq!(distinct.len(), classes.len());
    assert_eq!(intern(harness, &classes).await, ids, "interning again returns the same ids");
    let read: BTreeMap<Class, ClassId> =
        classes_after(harness, ClassId(0)).await.into_iter().map(|(id, class)| (class, id)).collect();
    assert_eq!(read, ids);
    let in_transaction = harness
        .load(Needs {
            queries: Queries { classes_after: Some(ClassId(0)), ..Queries::default() },
            ..Needs::default()
        })
        .await;
    assert_eq!(in_transaction.found.classes, classes_after(harness, ClassId(0)).await);
    assert!(harness.load(Needs::default()).await.found.classes.is_empty());
    assert!(harness.store.intern(&[]).await.expect("nothing is interned").is_empty());
}

pub async fn a_reader_that_sees_a_class_has_seen_all_earlier_ones(harness: &Harness) {
    const LANES: usize = 30;
    let namespace = harness.namespace;
    let tasks = concurrently(6, |task| {
        let harness = harness.clone();
        async move {
            let (mut interned, mut seen) = (BTreeMap::new(), Vec::new());
            let mut newest = ClassId(0);
            for step in 0..LANES {
                let lane = (step * 7 + task * 5) % LANES;
                let names = [format!("lane{lane}"), format!("lane{}", (lane + 1) % LANES)];
                let classes = names.map(|lane| class(namespace, &lane, "kind", &[]));
                interned.extend(intern(&harness, &classes).await);
                for (id, class) in classes_after(&harness, newest).await {
                    assert!(id > newest, "ids are in ascending order");
                    newest = id;
                    seen.push((id, class));
                }
            }
            (interned, seen)
        }
    });
    let tasks = tasks.await;
    let all = classes_after(harness, ClassId(0)).await;
    assert_eq!(all.len(), LANES);
    assert!(all.is_sorted_by(|a, b| a.0 < b.0));
    for (interned, seen) in tasks {
        assert_eq!(seen, all[..seen.len()], "the classes read in steps have no gap");
        assert!(interned.iter().all(|(class, id)| all.contains(&(*id, class.clone()))));
    }
    let overview = harness.store.overview().await.expect("the overview is read");
    assert_eq!(ClassId(overview.newest_class), all[LANES - 1].0);
}

pub async fn the_first_classes_of_a_lane_have_no_pool_and_later_ones_share_one(harness: &Harness) {
    let namespace = harness.namespace;
    let of_kind = |number: usize, capabilities: &[&str]| {
        class(namespace, "crowded", &format!("kind {number}"), capabilities)
    };
    let classes: Vec<Class> = (0..UNPOOLED + 3).map(|number| of_kind(number, &[])).collect();
    let interned = harness.store.intern(&classes).await.expect("classes are interned");
    let (unpooled, pooled) = interned.split_at(UNPOOLED);
    assert!(unpooled.iter().all(|(_, class)| class.pool.is_none()));
    let pool = Some(ClassId(-pooled[0].0.0));
    assert!(pooled.iter().all(|(_, class)| class.pool == pool), "{pooled:?}");
    let others = [of_kind(0, &["gpu"]), class(namespace, "other", "kind", &[])];
    let others = harness.store.intern(&others).await.expect("classes are interned");
    assert!(others.iter().all(|(_, class)| class.pool.is_none()));
    assert_eq!(
        harness.store.intern(&classes).await.expect("classes are interned"),
        interned,
        "the same again"
    );
    let read = classes_after(harness, ClassId(0)).await;
    assert!(interned.iter().all(|one| read.contains(one)));
}

pub async fn unused_classes_are_removed_and_their_ids_are_not_used_again(harness: &Harness) {
    let namespace = harness.namespace;
    let used = harness.submit(Draft { lane: "used".into(), ..Draft::new("kind") }).await.class;
    let classes: Vec<Class> = ["a", "b", "c"].map(|lane| class(namespace, lane, "kind", &[])).into();
    let unused = intern(harness, &classes).await;
    let remove = async |unused_ms, limit| {
        harness.store.remove_unused_classes(unused_ms, limit).await.expect("classes are removed")
    };
    assert_eq!(remove(3_600_000, 10).await, 0, "all were used within the hour");
    // Whatever was used before the next second. The one with an execution does not hide the others.
    let mut removed = 0;
    for _ in 0..4 {
        let page = remove(-1_000, 1).await;
        assert!(page <= 1);
        removed += page;
    }
    assert_eq!(removed, 3);
    assert_eq!(remove(-1_000, 10).await, 0);
    let left: Vec<ClassId> = classes_after(harness, ClassId(0)).await.into_iter().map(|(id, _)| id).collect();
    assert_eq!(left, [used]);
    let again = intern(harness, &classes).await;
    let newest = unused.values().max().expect("there are some");
    assert!(again.values().all(|id| id > newest), "{again:?} after {unused:?}");
    let claimed = harness.claim_as(&Worker::new("one").on(&["used", "a"]), 9).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(remove(-1_000, 10).await, 3, "the class of an active execution is used");
}

pub async fn the_settings_of_a_namespace_are_its_own_and_have_defaults(harness: &Harness) {
    let other = harness.in_namespace("settled").await;
    let read = async |harness: &Harness| {
        harness.store.namespace_settings(harness.namespace).await.expect("settings are read")
    };
    let set = async |settings| {
        other.store.configure_namespace(other.namespace, settings).await.expect("settings are stored");
    };
    assert_eq!(read(&other).await, NamespaceSettings::default());
    let settings = NamespaceSettings {
        suspension_timeout_ms: Some(5_000),
        retention_ms: Some(6_000),
        weight: Some(7),
        deletion: None,
    };
    set(settings).await;
    assert_eq!((read(&other).await, read(harness).await), (settings, NamespaceSettings::default()));
    set(NamespaceSettings::default()).await;
    assert_eq!(read(&other).await, NamespaceSettings::default());
}

pub async fn a_deletion_that_has_begun_is_not_undone(harness: &Harness) {
    let doomed = harness.in_namespace("doomed").await.namespace;
    let change = async |deletion: Option<Deletion>| {
        let settings = NamespaceSettings { deletion, ..NamespaceSettings::default() };
        harness.store.configure_namespace(doomed, settings).await.expect("the call is accepted");
        harness.store.namespace_settings(doomed).await.expect("settings are read").deletion
    };
    let job = |number| Some(Deletion::Running(BulkJobId(Uuid::from_u128(number))));
    assert_eq!(change(job(1)).await, job(1));
    for other in [None, job(2)] {
        assert_eq!(change(other).await, job(1), "the first job goes on");
    }
    let done = Some(Deletion::Done);
    assert_eq!(change(done).await, done);
    for other in [None, job(2)] {
        assert_eq!(change(other).await, done);
    }
}

pub async fn a_name_that_was_deleted_gets_a_new_id_and_the_old_rows_stay_apart(harness: &Harness) {
    let find =
        async |name: &str| harness.store.find_namespace(&Name::trusted(name)).await.expect("it is read");
    assert_eq!(find("trial").await, None);
    let old = harness.in_namespace("trial").await;
    let submitted = old.submit(Draft::new("kind")).await;
    let settings = |deletion| NamespaceSettings { deletion, ..NamespaceSettings::default() };
    let running = settings(Some(Deletion::Running(BulkJobId(Uuid::from_u128(1)))));
    for deleted in [running, settings(Some(Deletion::Done))] {
        assert_eq!(harness.in_namespace("trial").await.namespace, old.namespace);
        harness.store.configure_namespace(old.namespace, deleted).await.expect("settings are stored");
        assert_eq!(find("trial").await, Some(old.namespace));
    }
    let ids = concurrently(8, |_| {
        let harness = harness.clone();
        async move { harness.in_namespace("trial").await.namespace }
    });
    let ids: BTreeSet<NamespaceId> = ids.await.into_iter().collect();
    let new = *ids.first().expect("there is an id");
    assert_eq!(ids.len(), 1, "all got the same id");
    assert!(new > old.namespace);
    assert_eq!(find("trial").await, Some(new));
    let read = harness.store.namespace_settings(new).await.expect("settings are read");
    assert_eq!(read, NamespaceSettings::default());
    let all = harness.store.namespaces().await.expect("namespaces are read");
    let (_, name) = all.into_iter().find(|(id, _)| *id == old.namespace).expect("the row stays");
    assert_eq!(name, retired_name("trial", old.namespace));
    assert!(Name::parse("", &name, 200).is_err(), "no caller can choose this name");
    let listed = harness.store.list(&Filter::all(new), None, 9, Payloads::NONE).await;
    assert_eq!(listed.expect("executions are listed").rows.len(), 0);
    assert_eq!(old.row(submitted.id).await.namespace, old.namespace);
}
