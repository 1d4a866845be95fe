//! The payloads that calls read: only those that they hand out, and bounded in bytes.

use crate::test_server::{TestServer, claim_of, claim_wait, fence, ids, operator, passive_options};
use async_trait::async_trait;
use bytes::Bytes;
use selvedge_engine::core::filter::{Filter, Payloads};
use selvedge_engine::core::gate::{Config, GateKind};
use selvedge_engine::core::plan::{EdgeDraft, GraphDraft, NodeDraft};
use selvedge_engine::core::rules::claim::{CLAIM_BYTES, RELATIVES_BYTES};
use selvedge_engine::core::rules::flows::submit::FlowDraft;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Op;
use selvedge_engine::core::{Demand, Draft, Needs, Rows};
use selvedge_engine::store::{Decision, Error, Interceptor, ListPage, PAGE_BYTES, Stored, Transactions};
use selvedge_engine::{Bulk, BulkTarget, Relation};
use selvedge_memory::MemoryStore;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const MIB: usize = 1024 * 1024;

/// Counts the bytes of payloads that a store returns.
struct Counting(Arc<AtomicUsize>);

/// A decision whose loaded payloads are counted.
struct Counted(Box<dyn Decision>, Arc<AtomicUsize>);

impl Decision for Counted {
    fn begin(&mut self, again: u32) -> Needs {
        self.0.begin(again)
    }

    fn next(&mut self, rows: Rows) -> Demand {
        let inputs = rows.inputs.iter().filter_map(|(_, input)| input.whole()).map(Bytes::len);
        let results = rows.relatives.iter().filter_map(|one| one.relative.result.as_ref()).map(Bytes::len);
        let steps = rows.steps.iter().filter_map(|step| step.result.as_ref()).map(Bytes::len);
        let signals = rows.signals.iter().filter_map(|signal| signal.payload.as_ref()).map(Bytes::len);
        let bytes: usize = inputs.chain(results).chain(steps).chain(signals).sum();
        self.1.fetch_add(bytes, Ordering::SeqCst);
        self.0.next(rows)
    }
}

#[async_trait]
impl Interceptor for Counting {
    fn decision(&self, decision: Box<dyn Decision>) -> Box<dyn Decision> {
        Box::new(Counted(decision, self.0.clone()))
    }

    async fn after(&self, _call: &'static str, returned: &mut (dyn Any + Send)) -> Result<(), Error> {
        let fetched = returned.downcast_ref::<Vec<Stored>>();
        let listed = returned.downcast_ref::<ListPage>().map(|page| &page.rows);
        let bytes = |row: &Stored| row.input.len() + row.result.as_ref().map_or(0, Bytes::len);
        let rows = fetched.or(listed).into_iter().flatten();
        self.0.fetch_add(rows.map(bytes).sum::<usize>(), Ordering::SeqCst);
        Ok(())
    }
}

/// Starts a server. Returns it with the count of the bytes that it has read.
async fn server() -> (TestServer, Arc<AtomicUsize>) {
    let (store, read) = (MemoryStore::new(), Arc::new(AtomicUsize::new(0)));
    store.meter().intercept(Arc::new(Counting(read.clone())));
    (TestServer::new(Arc::new(store), passive_options()).await, read)
}

fn text(bytes: usize) -> Bytes {
    format!("\"{}\"", "x".repeat(bytes - 2)).into()
}

fn with_input(bytes: usize) -> Draft {
    Draft { input: text(bytes), ..Draft::new("kind") }
}

#[tokio::test]
async fn claims_that_compete_read_only_the_inputs_that_they_hand_out() {
    const LARGE: usize = 200 * 1024;
    let (server, read) = server().await;
    server.submit_many(vec![with_input(LARGE); 300]).await;
    let claims = (0..4).map(|number| {
        let namespace = server.namespace.clone();
        tokio::spawn(async move {
            let claim = claim_of(&format!("instance {number}"), 33);
            namespace.claim(claim_wait(claim, Duration::ZERO)).await.expect("the claim is answered")
        })
    });
    let mut handed_out = 0;
    for claim in claims.collect::<Vec<_>>() {
        let claimed = claim.await.expect("no claim panics");
        assert_eq!(claimed.len(), 33);
        assert!(claimed.iter().all(|one| one.input.len() == LARGE));
        handed_out += claimed.len() * LARGE;
    }
    assert_eq!(read.load(Ordering::SeqCst), handed_out, "bytes of inputs");
}

#[tokio::test]
async fn a_claim_of_a_thousand_large_inputs_is_bounded_in_bytes_and_the_rest_is_claimed_next() {
    let (server, read) = server().await;
    let submitted = server.submit_many(vec![with_input(MIB); 60]).await;
    let mut claimed = Vec::new();
    while claimed.len() < submitted.len() {
        let before = read.load(Ordering::SeqCst);
        let more = server.claim("instance", 1000).await;
        assert!(!more.is_empty());
        assert!(read.load(Ordering::SeqCst) - before <= CLAIM_BYTES + MIB);
        claimed.extend(ids(&more));
    }
    assert_eq!(claimed, submitted);
}

/// A flow of upstreams of one downstream, `join`.
fn fan_in(width: usize) -> FlowDraft {
    let node = |name: String| NodeDraft { draft: Draft::new("kind"), name };
    let names = || (0..width).map(|number| format!("n{number}"));
    let edge = |from: String| EdgeDraft { from, to: "join".into(), when: Default::default() };
    let nodes = names().chain(["join".to_owned()]).map(node).collect();
    FlowDraft {
        graph: GraphDraft { nodes, edges: names().map(edge).collect(), groups: vec![] },
        ..FlowDraft::default()
    }
}

#[tokio::test]
async fn a_join_of_many_large_results_reads_those_that_it_carries_and_the_pages_have_all() {
    const WIDTH: usize = 40;
    let (server, read) = server().await;
    server.namespace.submit_flow(fan_in(WIDTH), None).await.expect("the flow is accepted");
    for claimed in server.claim("instance", WIDTH as u32).await {
        let complete = Op::Complete { result: text(MIB) };
        server.report(fence(&claimed), complete).await.expect("it completes");
    }
    let before = read.load(Ordering::SeqCst);
    let join = server.claim_one("instance").await;
    let carried = read.load(Ordering::SeqCst) - before;
    assert!(carried <= RELATIVES_BYTES + MIB, "the claim has read {carried} bytes");
    let (whole, left_out): (Vec<_>, Vec<_>) = join.upstreams.iter().partition(|one| !one.left_out);
    assert_eq!((whole.len(), left_out.len()), (4, WIDTH - 4));
    assert!(whole.iter().all(|one| one.result == Some(text(MIB))));
    assert!(left_out.iter().all(|one| one.result.is_none() && one.outcome.is_some()));
    let (mut after, mut found) = (0, Vec::new());
    loop {
        let before = read.load(Ordering::SeqCst);
        let page = server.namespace.relatives(join.execution.id, Relation::Upstream, after, 500).await;
        let (rows, next) = page.expect("the page is read");
        assert!(read.load(Ordering::SeqCst) - before <= PAGE_BYTES + MIB);
        found.extend(rows.into_iter().map(|row| (row.execution.id, row.result)));
        match next {
            Some(next) => after = next,
            None => break,
        }
    }
    let expected: Vec<_> = join.upstreams.iter().map(|one| (one.execution, Some(text(MIB)))).collect();
    assert!(found == expected);
}

#[tokio::test]
async fn lists_bulk_actions_explanations_histories_and_gates_read_no_payload() {
    let (server, read) = server().await;
    let ids = server.submit_many(vec![with_input(MIB); 10]).await;
    let claimed = server.claim_one("instance").await;
    server.complete(fence(&claimed)).await.expect("it completes");
    read.store(0, Ordering::SeqCst);
    let namespace = &server.namespace;
    let all = Filter::all(namespace.id());
    let (listed, _) = namespace.list(&all, None, 500, Payloads::NONE).await.expect("they are listed");
    assert_eq!(listed.len(), 10);
    for id in &ids {
        namespace.explain(*id).await.expect("it is explained");
        namespace.attempts(*id).await.expect("the attempts are read");
        namespace.execution_events(*id).await.expect("the events are read");
        namespace.signals(*id, 0, 10).await.expect("the signals are read");
        namespace.frames(*id, None, 0, 10).await.expect("the frames are read");
    }
    let limited = Config { concurrency: Some(5), ..Config::default() };
    namespace.configure(GateKind::Lane, "default", Some(limited), &operator()).await.expect("it is set");
    let bulk = |action| Bulk { action, target: BulkTarget::Filter(Box::new(all.clone())), dry_run: false };
    let priority = bulk(Action::Prioritise { priority: 3 });
    namespace.bulk(priority, &operator()).await.expect("the priorities change");
    let cancel = bulk(Action::Cancel { reason: None, grace_ms: 0 });
    namespace.bulk(cancel, &operator()).await.expect("they are cancelled");
    assert_eq!(read.load(Ordering::SeqCst), 0, "bytes of payloads");
    let payloads = Payloads { input: true, result: true };
    let (listed, next) = namespace.list(&all, None, 500, payloads).await.expect("they are listed");
    assert!(listed.len() < 10 && next.is_some(), "a page is bounded in bytes");
    assert!(read.load(Ordering::SeqCst) <= PAGE_BYTES + 2 * MIB);
}
