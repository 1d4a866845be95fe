//! Rows that cannot be understood, and commands that cannot be decided, harm nobody else.

mod support;

use selvedge_engine::Error;
use selvedge_engine::core::filter::Filter;
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Draft, Policy};
use support::test_server::{TestServer, claim_of, complete_op, fence, ids};
use support::{Plain, Sandbox, until};
use tokio::task::JoinHandle;

fn soon_due() -> Draft {
    Draft { delay: Some(When::AfterMs(1)), ..Draft::new("kind") }
}

/// Damages the first so many executions in this order.
async fn poison(plain: &Plain, order: &str, count: usize) {
    let text = format!(
        "update executions set detail = '{{' where id in (select id from executions order by {order} limit {count})"
    );
    plain.run(&text).await;
}

async fn repair(plain: &Plain) {
    plain.run("update executions set detail = null where detail = '{'").await;
}

/// Waits until so many are due.
async fn are_due(plain: &Plain, count: i64) {
    until("they are due", async || {
        plain.number("select count(*) from executions where due_at <= clock_timestamp()", &[]).await == count
    })
    .await;
}

#[tokio::test]
async fn a_page_of_poisoned_rows_at_the_head_of_a_scan_is_set_aside_and_the_rest_is_dealt_with() {
    let sandbox = Sandbox::new();
    let (side, plain) = (sandbox.side("side").await, sandbox.plain().await);
    side.submit_many(vec![soon_due(); 620]).await;
    poison(&plain, "due_at, id", 600).await;
    are_due(&plain, 620).await;
    let first = side.tick("delay_promoter").await;
    assert_eq!((first.scanned, first.done, first.errors), (620, 20, 600));
    assert_eq!(side.claim("one", 1000).await.len(), 20);
    let second = side.tick("delay_promoter").await;
    assert_eq!((second.scanned, second.done, second.errors), (600, 0, 0), "they are left alone for a while");
    repair(&plain).await;
    let mut promoted = 0;
    until("those that were repaired are dealt with", async || {
        promoted += side.tick("delay_promoter").await.done;
        promoted == 600
    })
    .await;
    side.engine.shutdown().await;
}

#[tokio::test]
async fn poisoned_rows_that_lapse_time_out_or_may_be_deleted_are_set_aside_each_on_its_own() {
    let sandbox = Sandbox::new();
    let (side, plain) = (sandbox.side("side").await, sandbox.plain().await);
    for reconciler in ["lease_expiry", "attempt_timeout", "execution_deadline", "retention"] {
        let mut policy = Policy::default();
        match reconciler {
            "attempt_timeout" => policy.attempt_timeout_ms = Some(1),
            "execution_deadline" => policy.deadline_ms = Some(100),
            "retention" => policy.retention_ms = 1,
            _ => {}
        }
        let submitted = side.submit_many(vec![Draft { policy, ..Draft::new("kind") }; 3]).await;
        match reconciler {
            "execution_deadline" => {}
            _ => {
                let brief = ClaimDraft { lease_ttl_ms: 500, ..claim_of("one", 3) };
                let claimed = side.claim_as(brief).await;
                assert_eq!(claimed.len(), 3);
                if reconciler == "retention" {
                    for one in &claimed {
                        side.complete(fence(one)).await.expect("it holds the lease");
                    }
                }
            }
        }
        let damage = format!("update executions set detail = '{{' where id = '{}'", submitted[1].0);
        plain.run(&damage).await;
        let mut done = 0;
        let mut errors = 0;
        until(&format!("{reconciler} has dealt with the others"), async || {
            let tick = side.tick(reconciler).await;
            (done, errors) = (done + tick.done, errors + tick.errors);
            done == 2
        })
        .await;
        assert!(errors >= 1, "{reconciler}: the bad one was counted");
        plain.run("delete from executions").await;
    }
    side.engine.shutdown().await;
}

#[tokio::test]
async fn poisoned_rows_at_the_head_of_a_lane_do_not_hide_what_is_behind_them() {
    let sandbox = Sandbox::new();
    let (side, plain) = (sandbox.side("side").await, sandbox.plain().await);
    let submitted = side.submit_many(vec![Draft::new("kind"); 620]).await;
    poison(&plain, "ready_order, id", 600).await;
    let first = ids(&side.claim("one", 1).await);
    assert_eq!(first, submitted[600..601]);
    assert_eq!(ids(&side.claim("one", 10).await), submitted[601..611]);
    assert_eq!(ids(&side.claim("one", 100).await), submitted[611..]);
    assert!(side.claim("one", 10).await.is_empty());
    repair(&plain).await;
    assert_eq!(side.claim("one", 1000).await.len(), 600, "nothing is lost");
    side.engine.shutdown().await;
}

#[tokio::test]
async fn a_poisoned_lease_does_not_keep_a_heartbeat_from_renewing_the_others() {
    let sandbox = Sandbox::new();
    let (side, plain) = (sandbox.side("side").await, sandbox.plain().await);
    side.submit_many(vec![Draft::new("kind"); 3]).await;
    let leases: Vec<_> = side.claim("one", 3).await.iter().map(fence).collect();
    let damage = format!("update executions set detail = '{{' where id = '{}'", leases[1].execution.0);
    plain.run(&damage).await;
    let beat = side.heartbeat("one", &leases).await;
    assert_eq!(beat.renewed, [leases[0], leases[2]]);
    assert_eq!(
        beat.lost.iter().map(|(fence, why)| (*fence, why.code())).collect::<Vec<_>>(),
        [(leases[1], "unreadable_row")]
    );
    for lease in [leases[0], leases[2]] {
        side.complete(lease).await.expect("it holds the lease");
    }
    side.engine.shutdown().await;
}

/// Keeps the only writer busy until `plain` lets go, so that what is asked for meanwhile goes in one batch.
async fn gather(sandbox: &Sandbox, plain: &Plain, narrow: &TestServer) -> JoinHandle<()> {
    let id = narrow.submit(Draft { lane: "apart".into(), ..Draft::new("kind") }).await;
    plain.hold(id).await;
    let narrow = narrow.clone();
    let busy = tokio::spawn(async move { drop(narrow.cancel(id).await.expect("it is cancelled")) });
    sandbox.waits_for_lock("narrow", 1).await;
    busy
}

#[tokio::test]
async fn a_command_whose_decision_panics_fails_alone_in_its_batch() {
    let sandbox = Sandbox::new();
    let (narrow, plain) = (sandbox.narrow_side("narrow").await, sandbox.plain().await);
    narrow.submit_many(vec![Draft::new("kind"); 4]).await;
    let leases: Vec<_> = narrow.claim("one", 3).await.iter().map(fence).collect();
    let bad = narrow.claim("bad", 1).await;
    // A lease without an epoch: the rule that names its attempt cannot count that low.
    let damage = format!("update executions set epoch = 0 where id = '{}'", bad[0].execution.id.0);
    plain.run(&damage).await;
    let busy = gather(&sandbox, &plain, &narrow).await;
    let before = narrow.engine.activity().0;
    let mut reports = Vec::new();
    let heartbeat = {
        let namespace = narrow.namespace.clone();
        tokio::spawn(async move { namespace.heartbeat("bad", vec![], std::time::Duration::ZERO).await })
    };
    for lease in leases {
        let side = narrow.clone();
        reports.push(tokio::spawn(async move { side.complete(lease).await }));
    }
    let submitter = narrow.clone();
    let submit = tokio::spawn(async move { submitter.submit(Draft::new("kind")).await });
    tokio::task::yield_now().await;
    plain.release().await;
    busy.await.expect("it is not part of the batch");
    let failed = heartbeat.await.expect("it is answered");
    let Err(Error::Store(error)) = failed else { panic!("{failed:?}") };
    assert!(error.to_string().contains("panicked"), "{error}");
    for report in reports {
        assert_eq!(
            report.await.expect("it is answered").expect("it is accepted").state,
            StateName::Completed
        );
    }
    let id = submit.await.expect("it is accepted");
    assert_eq!(narrow.state(id).await, StateName::Waiting);
    assert!(narrow.engine.activity().0 > before + 1, "the batch was cut up");
    narrow.engine.shutdown().await;
}

#[tokio::test]
async fn claims_of_one_batch_that_may_take_the_same_do_not_leave_each_other_empty_handed() {
    let sandbox = Sandbox::new();
    let (narrow, plain) = (sandbox.narrow_side("narrow").await, sandbox.plain().await);
    narrow.submit(Draft { lane: "b".into(), delay: Some(When::AfterMs(60_000)), ..Draft::new("kind") }).await;
    narrow.submit_many(vec![Draft { lane: "a".into(), ..Draft::new("kind") }; 3]).await;
    let busy = gather(&sandbox, &plain, &narrow).await;
    let mut claims = Vec::new();
    for lanes in [vec!["a", "b"], vec!["a"], vec!["a", "c"]] {
        let lanes: Vec<String> = lanes.into_iter().map(str::to_owned).collect();
        let (side, instance) = (narrow.clone(), lanes.join("+"));
        claims.push(tokio::spawn(async move {
            side.claim_as(ClaimDraft { lanes, ..claim_of(&instance, 1) }).await.len()
        }));
    }
    tokio::task::yield_now().await;
    plain.release().await;
    busy.await.expect("it is not part of the batch");
    for claim in claims {
        assert_eq!(claim.await.expect("it is answered"), 1);
    }
    narrow.engine.shutdown().await;
}

#[tokio::test]
async fn a_poisoned_row_is_left_out_of_a_list_and_hides_nothing_behind_it() {
    let sandbox = Sandbox::new();
    let (side, plain) = (sandbox.side("side").await, sandbox.plain().await);
    let mut expected = side.submit_many(vec![Draft::new("kind"); 12]).await;
    expected.sort();
    expected.reverse();
    for poisoned in [1, 3, 4, 5] {
        let damage = format!("update executions set detail = '{{' where id = '{}'", expected[poisoned].0);
        plain.run(&damage).await;
    }
    let readable = |index: &usize| ![1, 3, 4, 5].contains(index);
    let expected: Vec<_> = (0..12).filter(readable).map(|index| expected[index]).collect();
    let filter = Filter::all(side.namespace.id());
    for limit in [1, 2, 3, 5, 50] {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let (page, next) = side.namespace.list(&filter, after, limit).await.expect("they are listed");
            listed.extend(page.iter().map(|view| view.stored.execution.id));
            after = next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(listed, expected, "by pages of {limit}");
    }
    side.engine.shutdown().await;
}

#[tokio::test]
async fn a_report_on_a_row_that_cannot_be_read_refuses_only_itself() {
    let sandbox = Sandbox::new();
    let (side, plain) = (sandbox.side("side").await, sandbox.plain().await);
    side.submit_many(vec![Draft::new("kind"); 2]).await;
    let leases: Vec<_> = side.claim("one", 2).await.iter().map(fence).collect();
    let damage = format!(
        "update executions set spec = 'nonsense', version = version + 1 where id = '{}'",
        leases[0].execution.0
    );
    plain.run(&damage).await;
    let ops = leases.iter().map(|lease| Ok((*lease, None, complete_op()))).collect();
    let (results, _) = side.namespace.report(ops, None).await.expect("it is answered");
    assert_eq!(results[0].as_ref().expect_err("it cannot be read").code(), "unreadable_row");
    assert_eq!(results[1].as_ref().expect("it is accepted").state, StateName::Completed);
    side.engine.shutdown().await;
}
