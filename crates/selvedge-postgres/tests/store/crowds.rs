//! A lane with 40 000 kinds: claims read hardly more than in a lane with few, and classes that are no longer used are removed.

use super::plans::explain;
use selvedge_engine::core::class::UNPOOLED;
use selvedge_engine::core::{ClaimScope, ClassId, Classes, Draft, Name, NamespaceId};
use selvedge_engine::store::{ClassStore, NamespaceStore};
use selvedge_postgres::testing;
use selvedge_system_tests::server::{claim_of, claim_wait, ids};
use selvedge_system_tests::{Sandbox, wait_until};
use std::time::Duration;

/// Inserts `kinds` classes of a lane in namespace 1, as interning does, with `each` waiting executions.
fn fill(lane: &str, first: i32, kinds: usize, each: usize) -> String {
    let last = first + kinds as i32 - 1;
    let pooled = first + UNPOOLED as i32;
    format!(
        "insert into classes
         select n, 1, '{lane}', 'kind ' || n, '{{}}', case when n >= {pooled} then -{pooled} end, now()
         from generate_series({first}, {last}) as n;
         insert into executions (
           id, submitted_at, namespace, class, pool, partition, input, version, epoch, state, claim_priority, ready_order,
           history
         )
         select
           gen_random_uuid(), now(), 1, class, case when class >= {pooled} then -{pooled} end, 0, 'null', 1, 0, 0, 0,
           now() - n * interval '1 ms', ''
         from generate_series({first}, {last}) as class, generate_series(1, {each}) as n;
         insert into class_priorities
         select distinct class, 0, 0 from executions where class >= {first}
         union
         select distinct pool, 0, 0 from executions where pool is not null
         on conflict do nothing;"
    )
}

#[tokio::test]
async fn a_claim_among_40_000_kinds_reads_at_most_twice_the_pages_of_one_among_few() {
    let sandbox = Sandbox::new();
    let store = sandbox.store("store").await;
    let namespace = store.namespace(&Name::trusted("default")).await.expect("the namespace is interned");
    assert_eq!(namespace, NamespaceId(1));
    let plain = sandbox.plain().await;
    plain.run(&fill("few", 1, UNPOOLED, 1250)).await;
    plain.run(&fill("crowded", 1001, 40_000, 1)).await;
    plain.run("analyze executions, class_priorities").await;
    let mut classes = Classes::default();
    classes.add(store.classes_after(ClassId(0)).await.expect("classes are read"));
    let client =
        testing::connect(&sandbox.url("plans"), &sandbox.settings()).await.expect("the connection opens");
    let statements: std::collections::HashMap<_, _> = testing::statements().into_iter().collect();
    let mut pages = Vec::new();
    for lane in ["few", "crowded"] {
        let scope = ClaimScope {
            namespace,
            lanes: vec![Name::trusted(lane)],
            kinds: None,
            capabilities: Default::default(),
        };
        let covered: Vec<i32> = classes.covered(&scope).into_iter().map(|class| class.0).collect();
        assert!(covered.len() <= UNPOOLED + 1, "{covered:?}");
        let (asks, limits) = (vec![1; covered.len()], vec![20_i64; covered.len()]);
        let none = "'{}'::bigint[], '{}'::bigint[], '{}'::timestamptz[]";
        let arguments = format!(
            "array{covered:?}::integer[], {none}, array{asks:?}::integer[], array{limits:?}::bigint[], '{{}}', 1000"
        );
        let plan = explain(&client, statements["executions/lock_candidates"], &arguments).await;
        assert!(plan.text.contains("executions_claim"), "{}", plan.text);
        pages.push(plan.pages);
    }
    println!("pages of a claim: {} among {UNPOOLED} kinds, {} among 40 000", pages[0], pages[1]);
    assert!(pages[1] <= 2 * pages[0], "{} pages among many kinds, {} among few", pages[1], pages[0]);

    // A server of this database claims them in order.
    let server = sandbox.server("server").await;
    let claim = |max| selvedge_engine::core::rules::claim::ClaimDraft {
        lanes: vec!["crowded".into()],
        ..claim_of("one", max)
    };
    let claimed = server.namespace.claim(claim_wait(claim(100), Duration::ZERO)).await;
    assert_eq!(claimed.expect("the claim succeeds").len(), 100);
    let newest = server.submit(Draft { lane: "crowded".into(), ..Draft::new("a further kind") }).await;
    let by_kind = selvedge_engine::core::rules::claim::ClaimDraft {
        kinds: Some(vec!["a further kind".into()]),
        ..claim(9)
    };
    let claimed = server.namespace.claim(claim_wait(by_kind, Duration::ZERO)).await;
    assert_eq!(ids(&claimed.expect("the claim succeeds")), [newest]);
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_server_that_knows_a_removed_class_goes_on_and_interns_it_again() {
    let sandbox = Sandbox::new();
    let plain = sandbox.plain().await;
    let first = sandbox.server("first").await;
    let in_lane = || Draft { lane: "rare".into(), ..Draft::new("kind") };
    first.submit(in_lane()).await;
    first.submit(Draft::new("kind")).await;
    let class_of = async || plain.number("select id::bigint from classes where lane = 'rare'", &[]).await;
    let removed = class_of().await;
    // Knows the class, and has not used it.
    let server = sandbox.server("server").await;
    plain.run("delete from executions where class = (select id from classes where lane = 'rare')").await;
    let store = sandbox.store("other").await;
    assert_eq!(store.remove_unused_classes(-1_000, 10).await.expect("classes are removed"), 1);
    let other = sandbox.server("another").await;
    let work = other.submit(in_lane()).await;
    assert!(class_of().await > removed, "an id is never used again");

    let name = format!("{}_server", sandbox.schema);
    plain
        .number(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = $1",
            &[&name],
        )
        .await;
    let claim = || selvedge_engine::core::rules::claim::ClaimDraft {
        lanes: vec!["rare".into()],
        ..claim_of("one", 9)
    };
    wait_until("the server has new connections and claims the execution", async || {
        let claimed = server.namespace.claim(claim_wait(claim(), Duration::ZERO)).await;
        claimed.is_ok_and(|claimed| ids(&claimed) == [work])
    })
    .await;
    let again = server.submit(in_lane()).await;
    let claimed = other.namespace.claim(claim_wait(claim(), Duration::ZERO)).await;
    assert_eq!(ids(&claimed.expect("the claim succeeds")), [again]);
    assert_eq!(server.tick("unused_classes").await.done, 0);
    for server in [first, server, other] {
        server.engine.shutdown().await;
    }
}
