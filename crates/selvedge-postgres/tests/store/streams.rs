//! Appending to a stream touches the same few pages and rows, however long the stream is.

use selvedge_conformance::Harness;
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::stream::{FrameKind, FrameMode};
use selvedge_engine::core::{Draft, ExecutionId};
use selvedge_postgres::testing;
use selvedge_system_tests::Sandbox;
use selvedge_system_tests::pages::pages;
use std::collections::HashMap;
use uuid::Uuid;

/// Two streams among others: one with a single frame, one with 100 000, of which nine in ten were best-effort; only the
/// last thousand of those remain.
const FILL: &str = "
insert into streams (execution, attempt, next, bytes, digest, summary_version, best_effort_from)
select
  ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 1,
  case n when 1 then 1 when 2 then 100000 else 10 end, 0, 0, 0, case n when 2 then 98901 else 0 end
from generate_series(1, 1000) as n;
insert into frames
select ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 1, number, 1, false, now(), '1'
from generate_series(1, 1000) as n
cross join lateral generate_series(0, case n when 1 then 0 else 9 end) as number
where n <> 2;
insert into frames
select '00000000-0000-7000-8000-000000000002', 1, number, 1, number % 10 <> 0, now(), '1'
from generate_series(0, 99999) as number
where number % 10 = 0 or number > 98900;
";

fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x0000_0000_0000_7000_8000_0000_0000_0000 + number)
}

#[tokio::test]
async fn an_append_touches_as_many_pages_for_the_first_frame_as_for_the_hundred_thousandth() {
    let sandbox = Sandbox::new();
    sandbox.store("store").await;
    sandbox.plain().await.run(FILL).await;
    let client = testing::connect(&sandbox.url("pages"), &sandbox.settings()).await;
    let client = client.expect("the connection opens");
    let statements: HashMap<_, _> = testing::statements().into_iter().collect();
    for (statement, arguments) in [
        ("streams/read", "'{ID}', '{1}', false"),
        ("streams/upsert", "'{ID}', '{1}', '{NEXT}', '{7}', '{7}', '{0}', '{null}'"),
        ("frames/insert", "'{ID}', '{1}', '{NEXT}', '{1}', '{true}', '{2026-01-01}', '{1}', '{null}'"),
        ("frames/list", "'ID', 1, NEXT - 1, 2147483647, false, 600000, 1"),
    ] {
        let of = |number, next: &str| {
            arguments.replace("ID", &id(number).to_string()).replace("NEXT - 1", next).replace("NEXT", next)
        };
        // The first run loads the caches of the connection.
        pages(&client, statements[statement], &of(3, "10")).await;
        let short = pages(&client, statements[statement], &of(1, "1")).await;
        let long = pages(&client, statements[statement], &of(2, "100000")).await;
        assert!(long <= short + 4, "{statement}: {long} pages instead of {short}");
        assert!(long < 40, "{statement}: {long} pages");
    }
    // Deleting a hundred numbers costs the same at the end of a long stream.
    let dropped = format!("'{{{}}}', '{{1}}', '{{99001}}'", id(2));
    let touched = pages(&client, statements["frames/delete_before"], &dropped).await;
    assert!(touched < 350, "{touched} pages for a hundred frames");
}

/// Opens a harness with an active execution.
async fn leased(sandbox: &Sandbox) -> (Harness, Fence) {
    let harness = Harness::new(sandbox.store("store").await).await;
    let claimed = harness.leased(Draft::new("kind")).await;
    let fence = Fence::of(&claimed.execution).expect("the execution is active");
    (harness, fence)
}

async fn append(harness: &Harness, fence: Fence, mode: FrameMode, data: &str) {
    let op = Op::Frame { kind: FrameKind::Event, mode, data: data.to_owned().into(), correlation_id: None };
    harness.report(fence, op).await.expect("the frame is appended");
}

#[tokio::test]
async fn an_append_does_not_rewrite_a_large_summary() {
    let sandbox = Sandbox::new();
    let (harness, fence) = leased(&sandbox).await;
    let plain = sandbox.plain().await;
    let summary = format!("{{\"a\": \"{}\"}}", "x".repeat(100_000));
    append(&harness, fence, FrameMode::Summary, &summary).await;
    let table: String = plain
        .query_one("select reltoastrelid::regclass::text from pg_class where oid = 'streams'::regclass", &[])
        .await
        .expect("there is one")
        .get(0);
    let chunks = format!("select sum(distinct chunk_id::bigint)::bigint from {table}");
    let before = plain.number(&chunks, &[]).await;
    for number in 0..20 {
        append(&harness, fence, FrameMode::Durable, &number.to_string()).await;
    }
    assert_eq!(plain.number(&chunks, &[]).await, before, "the document was not written again");
    append(&harness, fence, FrameMode::Summary, "{\"a\": \"y\"}").await;
    let stream = harness.store.stream(name(fence.execution, fence.attempt)).await.expect("the read succeeds");
    assert_eq!(stream.and_then(|stream| stream.summary).as_deref(), Some(&b"{\"a\":\"y\"}"[..]));
}

#[tokio::test]
async fn an_append_is_a_heap_only_update_of_the_stream() {
    let sandbox = Sandbox::new();
    sandbox.store("store").await;
    sandbox.plain().await.run(FILL).await;
    let client = testing::connect(&sandbox.url("updates"), &sandbox.settings()).await;
    let client = client.expect("the connection opens");
    let statements: HashMap<_, _> = testing::statements().into_iter().collect();
    let asked = client.prepare(statements["streams/upsert"]).await.expect("the statement is prepared");
    client.batch_execute("begin").await.expect("the transaction begins");
    for next in 1..=10_i32 {
        let (ids, ones, next) = (vec![id(2)], vec![1_i32], vec![100_000 + next]);
        let none: Vec<Option<Vec<u8>>> = vec![None];
        let stream: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
            [&ids, &ones, &next, &vec![1_i64], &vec![1_i64], &vec![0_i32], &none];
        client.execute(&asked, &stream).await.expect("the row is written");
    }
    let text = "select pg_stat_get_xact_tuples_hot_updated('streams'::regclass)";
    let row = client.query_one(text, &[]).await.expect("the usage is counted");
    assert_eq!(row.get::<_, i64>(0), 10);
}

fn name(execution: ExecutionId, attempt: u32) -> selvedge_engine::core::stream::StreamName {
    selvedge_engine::core::stream::StreamName { execution, attempt }
}

#[tokio::test]
async fn locked_frames_are_left_for_the_next_deletion() {
    let sandbox = Sandbox::new();
    let (harness, fence) = leased(&sandbox).await;
    let (plain, other) = (sandbox.plain().await, sandbox.plain().await);
    for number in 0..4 {
        append(&harness, fence, FrameMode::BestEffort, &number.to_string()).await;
    }
    plain.run("update frames set at = at - interval '11 minutes'").await;
    other.run("begin; select from frames where number < 2 for update").await;
    assert_eq!(harness.store.delete_old_frames(10).await.expect("the deletion does not wait"), 2);
    other.release().await;
    assert_eq!(harness.store.delete_old_frames(10).await.expect("the deletion does not wait"), 2);
}
