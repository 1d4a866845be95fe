//! Unreadable rows, and decisions that panic, affect no other execution.

use selvedge_engine::Error;
use selvedge_engine::core::filter::{Filter, Payloads};
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::{Draft, Policy};
use selvedge_system_tests::server::{Server, claim_of, complete_op, fence, ids};
use selvedge_system_tests::{PlainConnection, Sandbox, wait_until};
use tokio::task::JoinHandle;

fn due_soon() -> Draft {
    Draft { delay: Some(When::AfterMs(1)), ..Draft::new("kind") }
}

/// Makes the first executions in this order unreadable.
async fn make_unreadable(plain: &PlainConnection, order: &str, count: usize) {
    let text = format!(
        "update executions set detail = '{{' where id in (select id from executions order by {order} limit {count})"
    );
    plain.run(&text).await;
}

async fn repair(plain: &PlainConnection) {
    plain.run("update executions set detail = null where detail = '{'").await;
}

/// Waits until this number of executions is due.
async fn are_due(plain: &PlainConnection, count: i64) {
    wait_until("the executions are due", async || {
        plain.number("select count(*) from executions where due_at <= clock_timestamp()", &[]).await == count
    })
    .await;
}

#[tokio::test]
async fn a_page_of_unreadable_rows_at_the_head_of_a_scan_is_quarantined_and_the_rest_is_processed() {
    let sandbox = Sandbox::new();
    let (server, plain) = (sandbox.server("server").await, sandbox.plain().await);
    server.submit_many(vec![due_soon(); 620]).await;
    make_unreadable(&plain, "due_at, id", 600).await;
    are_due(&plain, 620).await;
    let first = server.tick("delay_promoter").await;
    assert_eq!((first.scanned, first.done, first.errors), (620, 20, 600));
    assert_eq!(server.claim("one", 1000).await.len(), 20);
    let second = server.tick("delay_promoter").await;
    assert_eq!((second.scanned, second.done, second.errors), (600, 0, 0), "they are quarantined for a while");
    repair(&plain).await;
    let mut promoted = 0;
    wait_until("the repaired rows are processed", async || {
        promoted += server.tick("delay_promoter").await.done;
        promoted == 600
    })
    .await;
    server.engine.shutdown().await;
}

#[tokio::test]
async fn unreadable_rows_that_are_due_for_any_reconciler_are_quarantined_alone() {
    let sandbox = Sandbox::new();
    let (server, plain) = (sandbox.server("server").await, sandbox.plain().await);
    for reconciler in ["lease_expiry", "attempt_timeout", "execution_deadline", "retention"] {
        let mut policy = Policy::default();
        match reconciler {
            "attempt_timeout" => policy.attempt_timeout_ms = Some(1),
            "execution_deadline" => policy.deadline_ms = Some(100),
            "retention" => policy.retention_ms = 1,
            _ => {}
        }
        let submitted = server.submit_many(vec![Draft { policy, ..Draft::new("kind") }; 3]).await;
        match reconciler {
            "execution_deadline" => {}
            _ => {
                let brief = ClaimDraft { lease_ttl_ms: 500, ..claim_of("one", 3) };
                let claimed = server.claim_as(brief).await;
                assert_eq!(claimed.len(), 3);
                if reconciler == "retention" {
                    for one in &claimed {
                        server.complete(fence(one)).await.expect("the lease is held");
                    }
                }
            }
        }
        let damage = format!("update executions set detail = '{{' where id = '{}'", submitted[1].0);
        plain.run(&damage).await;
        let mut done = 0;
        let mut errors = 0;
        wait_until(&format!("{reconciler} has processed the other rows"), async || {
            let tick = server.tick(reconciler).await;
            (done, errors) = (done + tick.done, errors + tick.errors);
            done == 2
        })
        .await;
        assert!(errors >= 1, "{reconciler}: the unreadable row was counted");
        plain.run("delete from executions").await;
    }
    server.engine.shutdown().await;
}

#[tokio::test]
async fn unreadable_rows_at_the_head_of_a_lane_do_not_hide_the_rows_behind_them() {
    let sandbox = Sandbox::new();
    let (server, plain) = (sandbox.server("server").await, sandbox.plain().await);
    let submitted = server.submit_many(vec![Draft::new("kind"); 620]).await;
    make_unreadable(&plain, "ready_order, id", 600).await;
    let first = ids(&server.claim("one", 1).await);
    assert_eq!(first, submitted[600..601]);
    assert_eq!(ids(&server.claim("one", 10).await), submitted[601..611]);
    assert_eq!(ids(&server.claim("one", 100).await), submitted[611..]);
    assert!(server.claim("one", 10).await.is_empty());
    repair(&plain).await;
    assert_eq!(server.claim("one", 1000).await.len(), 600, "no execution is lost");
    server.engine.shutdown().await;
}

#[tokio::test]
async fn an_unreadable_lease_does_not_keep_a_heartbeat_from_renewing_the_others() {
    let sandbox = Sandbox::new();
    let (server, plain) = (sandbox.server("server").await, sandbox.plain().await);
    server.submit_many(vec![Draft::new("kind"); 3]).await;
    let leases: Vec<_> = server.claim("one", 3).await.iter().map(fence).collect();
    let damage = format!("update executions set detail = '{{' where id = '{}'", leases[1].execution.0);
    plain.run(&damage).await;
    let beat = server.heartbeat("one", &leases).await;
    assert_eq!(beat.renewed, [leases[0], leases[2]]);
    assert_eq!(
        beat.lost.iter().map(|(fence, why)| (*fence, why.code())).collect::<Vec<_>>(),
        [(leases[1], "unreadable_row")]
    );
    for lease in [leases[0], leases[2]] {
        server.complete(lease).await.expect("the lease is held");
    }
    server.engine.shutdown().await;
}

/// Keeps the single writer busy until `plain` releases its lock, so that calls that arrive meanwhile share one batch.
async fn keep_busy(sandbox: &Sandbox, plain: &PlainConnection, narrow: &Server) -> JoinHandle<()> {
    let id = narrow.submit(Draft { lane: "apart".into(), ..Draft::new("kind") }).await;
    plain.lock_execution(id).await;
    let narrow = narrow.clone();
    let busy = tokio::spawn(async move { drop(narrow.cancel(id).await.expect("the cancellation succeeds")) });
    sandbox.waits_for_lock("narrow", 1).await;
    busy
}

#[tokio::test]
async fn an_operation_whose_decision_panics_fails_alone_in_its_batch() {
    let sandbox = Sandbox::new();
    let (narrow, plain) = (sandbox.single_writer_server("narrow").await, sandbox.plain().await);
    narrow.submit_many(vec![Draft::new("kind"); 4]).await;
    let leases: Vec<_> = narrow.claim("one", 3).await.iter().map(fence).collect();
    let bad = narrow.claim("bad", 1).await;
    // An active execution without an epoch: the rule underflows when it names the attempt.
    let damage = format!("update executions set epoch = 0 where id = '{}'", bad[0].execution.id.0);
    plain.run(&damage).await;
    let busy = keep_busy(&sandbox, &plain, &narrow).await;
    let before = narrow.engine.activity().0;
    let mut reports = Vec::new();
    let heartbeat = {
        let namespace = narrow.namespace.clone();
        tokio::spawn(async move { namespace.heartbeat("bad", None, vec![], std::time::Duration::ZERO).await })
    };
    for lease in leases {
        let server = narrow.clone();
        reports.push(tokio::spawn(async move { server.complete(lease).await }));
    }
    let submitter = narrow.clone();
    let submit = tokio::spawn(async move { submitter.submit(Draft::new("kind")).await });
    tokio::task::yield_now().await;
    plain.release().await;
    busy.await.expect("the blocked call succeeds");
    let failed = heartbeat.await.expect("the call is answered");
    let Err(Error::Store(error)) = failed else { panic!("{failed:?}") };
    assert!(error.to_string().contains("panicked"), "{error}");
    for report in reports {
        assert_eq!(
            report.await.expect("the call is answered").expect("the request is accepted").state,
            StateName::Completed
        );
    }
    let id = submit.await.expect("the request is accepted");
    assert_eq!(narrow.state(id).await, StateName::Waiting);
    assert!(narrow.engine.activity().0 > before + 1, "the batch was split");
    narrow.engine.shutdown().await;
}

#[tokio::test]
async fn claims_of_one_batch_for_the_same_executions_all_get_one() {
    let sandbox = Sandbox::new();
    let (narrow, plain) = (sandbox.single_writer_server("narrow").await, sandbox.plain().await);
    narrow.submit(Draft { lane: "b".into(), delay: Some(When::AfterMs(60_000)), ..Draft::new("kind") }).await;
    narrow.submit_many(vec![Draft { lane: "a".into(), ..Draft::new("kind") }; 3]).await;
    let busy = keep_busy(&sandbox, &plain, &narrow).await;
    let mut claims = Vec::new();
    for lanes in [vec!["a", "b"], vec!["a"], vec!["a", "c"]] {
        let lanes: Vec<String> = lanes.into_iter().map(str::to_owned).collect();
        let (server, instance) = (narrow.clone(), lanes.join("+"));
        claims.push(tokio::spawn(async move {
            server.claim_as(ClaimDraft { lanes, ..claim_of(&instance, 1) }).await.len()
        }));
    }
    tokio::task::yield_now().await;
    plain.release().await;
    busy.await.expect("the blocked call succeeds");
    for claim in claims {
        assert_eq!(claim.await.expect("the call is answered"), 1);
    }
    narrow.engine.shutdown().await;
}

#[tokio::test]
async fn an_unreadable_row_is_left_out_of_a_list_and_hides_nothing_behind_it() {
    let sandbox = Sandbox::new();
    let (server, plain) = (sandbox.server("server").await, sandbox.plain().await);
    let mut expected = server.submit_many(vec![Draft::new("kind"); 12]).await;
    expected.sort();
    expected.reverse();
    for unreadable in [1, 3, 4, 5] {
        let damage = format!("update executions set detail = '{{' where id = '{}'", expected[unreadable].0);
        plain.run(&damage).await;
    }
    let readable = |index: &usize| ![1, 3, 4, 5].contains(index);
    let expected: Vec<_> = (0..12).filter(readable).map(|index| expected[index]).collect();
    let filter = Filter::all(server.namespace.id());
    for limit in [1, 2, 3, 5, 50] {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let (page, next) =
                server.namespace.list(&filter, after, limit, Payloads::NONE).await.expect("the list is read");
            listed.extend(page.iter().map(|view| view.stored.execution.id));
            after = next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(listed, expected, "with pages of {limit}");
    }
    server.engine.shutdown().await;
}

#[tokio::test]
async fn a_report_on_an_unreadable_row_refuses_only_itself() {
    let sandbox = Sandbox::new();
    let (server, plain) = (sandbox.server("server").await, sandbox.plain().await);
    server.submit_many(vec![Draft::new("kind"); 2]).await;
    let leases: Vec<_> = server.claim("one", 2).await.iter().map(fence).collect();
    let damage = format!(
        "update executions set spec = 'nonsense', version = version + 1 where id = '{}'",
        leases[0].execution.0
    );
    plain.run(&damage).await;
    let ops = leases.iter().map(|lease| Ok((*lease, None, complete_op()))).collect();
    let (results, _) = server.namespace.report(ops, None).await.expect("the call is answered");
    assert_eq!(results[0].as_ref().expect_err("the row is unreadable").code(), "unreadable_row");
    assert_eq!(results[1].as_ref().expect("the request is accepted").state, StateName::Completed);
    server.engine.shutdown().await;
}
