//! Interned namespaces and classes: one id each, whoever comes first, and seen in their order.
#![allow(missing_docs)]

use super::harness::Harness;
use super::side_by_side;
use selvedge_core::rows::Queries;
use selvedge_core::{Class, ClassId, Name, NamespaceId, Needs};
use std::collections::{BTreeMap, BTreeSet};

fn class(namespace: NamespaceId, lane: &str, kind: &str, capabilities: &[&str]) -> Class {
    Class {
        namespace,
        lane: Name::trusted(lane),
        kind: Name::trusted(kind),
        capabilities: capabilities.iter().map(|word| Name::trusted(word)).collect(),
    }
}

async fn intern(harness: &Harness, classes: &[Class]) -> BTreeMap<Class, ClassId> {
    let interned = harness.store.intern(classes).await.expect("classes are interned");
    let ids: BTreeMap<Class, ClassId> = interned.into_iter().map(|(id, class)| (class, id)).collect();
    let asked: BTreeSet<&Class> = classes.iter().collect();
    assert!(asked.iter().all(|class| ids.contains_key(class)), "each gets an id");
    ids
}

async fn classes_after(harness: &Harness, after: ClassId) -> Vec<(ClassId, Class)> {
    harness.store.classes_after(after).await.expect("classes are read")
}

pub async fn a_namespace_has_one_id_however_many_ask_for_it_at_once(harness: &Harness) {
    let ids = side_by_side(12, |side| {
        let harness = harness.clone();
        async move {
            let mut ids = Vec::new();
            for word in 0..6 {
                let name = Name::trusted(&format!("namespace{}", (word + side) % 6));
                let id = harness.store.namespace(&name).await.expect("it is interned");
                ids.push((name, id));
            }
            ids
        }
    });
    let mut known: BTreeMap<Name, NamespaceId> = BTreeMap::new();
    for (name, id) in ids.await.into_iter().flatten() {
        assert_eq!(*known.entry(name).or_insert(id), id, "all were told the same");
    }
    known.insert(Name::trusted("conformance"), harness.namespace);
    let distinct: BTreeSet<NamespaceId> = known.values().copied().collect();
    assert_eq!(distinct.len(), 7);
    let all = harness.store.namespaces().await.expect("namespaces are read");
    let all: BTreeMap<Name, NamespaceId> = all.into_iter().map(|(id, name)| (name, id)).collect();
    assert_eq!(all, known);
}

pub async fn classes_that_differ_in_anything_have_different_ids(harness: &Harness) {
    let (here, there) = (harness.namespace, harness.beside("elsewhere").await.namespace);
    let classes = [
        class(here, "a", "k", &[]),
        class(there, "a", "k", &[]),
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
    assert_eq!(intern(harness, &classes).await, ids, "a second time gives the same");
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

pub async fn whoever_sees_a_class_has_seen_all_before_it(harness: &Harness) {
    const LANES: usize = 30;
    let namespace = harness.namespace;
    let sides = side_by_side(6, |side| {
        let harness = harness.clone();
        async move {
            let (mut told, mut seen) = (BTreeMap::new(), Vec::new());
            let mut newest = ClassId(0);
            for step in 0..LANES {
                let lane = (step * 7 + side * 5) % LANES;
                let names = [format!("lane{lane}"), format!("lane{}", (lane + 1) % LANES)];
                let classes = names.map(|lane| class(namespace, &lane, "kind", &[]));
                told.extend(intern(&harness, &classes).await);
                for (id, class) in classes_after(&harness, newest).await {
                    assert!(id > newest, "they come in order");
                    newest = id;
                    seen.push((id, class));
                }
            }
            (told, seen)
        }
    });
    let sides = sides.await;
    let all = classes_after(harness, ClassId(0)).await;
    assert_eq!(all.len(), LANES);
    assert!(all.is_sorted_by(|a, b| a.0 < b.0));
    for (told, seen) in sides {
        assert_eq!(seen, all[..seen.len()], "what was seen step by step has no hole");
        assert!(told.iter().all(|(class, id)| all.contains(&(*id, class.clone()))));
    }
    let overview = harness.store.overview().await.expect("is read");
    assert_eq!(ClassId(overview.newest_class), all[LANES - 1].0);
}
