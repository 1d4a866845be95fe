//! The rules that stores decide by themselves, in every combination that they distinguish, compared with their definitions.

use crate::harness::Harness;
use crate::harness::by_hand::{self, counts, put_sessions, session};
use selvedge_core::amount::Amount;
use selvedge_core::flow::FlowState;
use selvedge_core::gate::{Amounts, GateId, LedgerEntry};
use selvedge_core::rows::UnreadWrites;
use selvedge_core::session::SessionDetail;
use selvedge_core::state::StateName;
use selvedge_core::{Changes, ExecutionId, Flow, Name, Session, SessionId};
use selvedge_store::merge;
use std::collections::{BTreeMap, BTreeSet};

pub async fn sessions_are_merged_as_defined(harness: &Harness) {
    let now = harness.now().await;
    let mut pairs: Vec<(Session, Session)> = Vec::new();
    for life in [1, 2, 3] {
        for (before, after) in
            [(None, None), (None, Some(1)), (Some(1), None), (Some(1), Some(2)), (Some(2), Some(1))]
        {
            for (was_draining, drains) in [(false, false), (false, true), (true, false), (true, true)] {
                for later in [-1, 0, 1] {
                    let instance = format!("instance {}", pairs.len());
                    let of = |name: &str, life, renewed: Option<i64>, draining| Session {
                        worker: Name::trusted(name),
                        life,
                        renewed_at: renewed.map(|seconds| now.plus_ms(seconds * 1000)),
                        draining,
                        detail: SessionDetail {
                            incarnation: Some(Name::trusted(name)),
                            ..SessionDetail::default()
                        },
                        ..session(harness, &instance, 30_000, now)
                    };
                    let mut written = of("written", life, after, drains);
                    written.scope.lanes = vec![Name::trusted("other")];
                    (written.registered_at, written.seen_at) = (now.plus_ms(9), now.plus_ms(later));
                    pairs.push((of("stored", 2, before, was_draining), written));
                }
            }
        }
    }
    let (stored, written): (Vec<Session>, Vec<Session>) = pairs.into_iter().unzip();
    put_sessions(harness, &stored).await;
    put_sessions(harness, &written).await;
    let read = harness.store.sessions(None).await.expect("sessions are read");
    let read: BTreeMap<SessionId, Session> = read.into_iter().map(|session| (session.id, session)).collect();
    assert_eq!(read.len(), stored.len());
    for (stored, written) in stored.into_iter().zip(written) {
        assert_eq!(
            read[&stored.id],
            merge::session(Some(stored.clone()), written.clone()),
            "{stored:?} {written:?}"
        );
    }
}

pub async fn amounts_are_added_to_the_ledger_as_defined(harness: &Harness) {
    let amount = |text: &str| Amount::parse(text).expect("it is an amount");
    let all: Vec<Amounts> = [
        &[][..],
        &[("tokens", amount("0.000001"))],
        &[("tokens", amount("123456789012.999999")), ("cöst \"€\"", amount("0.1"))],
        &[("tokens", Amount::MAX), ("calls", amount("2"))],
    ]
    .into_iter()
    .map(|amounts| amounts.iter().map(|(dimension, amount)| ((*dimension).to_owned(), *amount)).collect())
    .collect();
    let mut entries = Vec::new();
    for stored in std::iter::once(None).chain(all.iter().map(Some)) {
        for more in &all {
            let (gate, period) = (GateId(7), 1 + entries.len() as u32 / 2);
            let execution = (entries.len() % 2 == 0).then(|| ExecutionId(uuid::Uuid::now_v7()));
            let entry = |spent: &Amounts| LedgerEntry { gate, period, execution, spent: spent.clone() };
            entries.push((stored.map(entry), entry(more)));
        }
    }
    let ledger: Vec<LedgerEntry> = entries.iter().filter_map(|(stored, _)| stored.clone()).collect();
    harness.save(Changes { ledger, ..Changes::default() }).await;
    let ledger: Vec<LedgerEntry> = entries.iter().map(|(_, more)| more.clone()).collect();
    harness.save(Changes { ledger, ..Changes::default() }).await;
    for (stored, more) in entries {
        let read = harness.store.ledger(more.gate, more.period).await.expect("the ledger is read");
        let read = read.into_iter().find(|entry| entry.execution == more.execution);
        let expected = merge::spent(stored.map(|entry| entry.spent), &more.spent);
        assert_eq!(read.map(|entry| entry.spent), Some(expected), "{more:?}");
    }
}

pub async fn flows_are_counted_and_reported_as_emptied_as_defined(harness: &Harness) {
    let now = harness.now().await;
    let mut flows: Vec<Flow> = Vec::new();
    let mut added = Vec::new();
    for state in FlowState::ALL {
        for (before, more) in [
            (vec![], vec![]),
            (vec![], vec![(StateName::Completed, 2)]),
            (vec![(StateName::Completed, 1)], vec![(StateName::Completed, -1), (StateName::Waiting, 1)]),
        ]
        .into_iter()
        .chain(StateName::ALL.into_iter().flat_map(|live| {
            [(2, 1), (1, 1), (1, 0)]
                .map(|(has, goes)| (vec![(live, has)], vec![(live, -goes), (StateName::Failed, goes)]))
        })) {
            let ended_at = (state != FlowState::Running).then_some(now);
            let flow = Flow { state, ended_at, counts: counts(&before), ..by_hand::flow(harness, now) };
            added.push((flow.id, counts(&more)));
            flows.push(flow);
        }
    }
    by_hand::insert_flows(harness, &flows).await;
    added.sort_by_key(|(id, _)| *id);
    let unread = UnreadWrites { flow_counts: added.clone(), ..UnreadWrites::default() };
    let transaction = harness.save(Changes { unread, ..Changes::default() }).await;
    flows.sort_by_key(|flow| flow.id);
    let mut emptied = BTreeSet::new();
    for (flow, (id, more)) in flows.iter_mut().zip(&added) {
        if merge::count(flow, *more) {
            emptied.insert(*id);
        }
    }
    assert_eq!(transaction.emptied.into_iter().collect::<BTreeSet<_>>(), emptied);
    let ids: Vec<_> = flows.iter().map(|flow| flow.id).collect();
    let mut read = harness.store.fetch_flows(&ids).await.expect("flows are read");
    read.sort_by_key(|flow| flow.id);
    assert_eq!(read, flows);
}
