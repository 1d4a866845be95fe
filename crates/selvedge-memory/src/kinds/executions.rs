//! Executions, with their payloads, their pages of history and their tags. Only this file changes their indexes.

use crate::MemoryStore;
use crate::kinds::classes::ranges_of;
use crate::kinds::{Kind, Record, Saving, Tables, gates, remove_member};
use async_trait::async_trait;
use bytes::Bytes;
use selvedge_core::execution::ROOT;
use selvedge_core::filter::{Filter, ListPosition, Listed, Payloads};
use selvedge_core::rows::{Payload, Relative, ResultChange, StoredRelative, TagEntry};
use selvedge_core::state::StateName;
use selvedge_core::{
    Changes, ClassId, DueKind, Execution, ExecutionId, Name, NamespaceId, Needs, Rows, Session, State,
    Timestamp,
};
use selvedge_store::{
    Depth, DueRow, Error, ExecutionReads, Head, LaneCounts, ListPage, ListScan, ReconcilerScope, Stored,
};
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};

pub(crate) const KIND: Kind = Kind { load, guards_hold, save, ..Kind::EMPTY };

/// Inserts a record into the table and its indexes.
fn put(tables: &mut Tables, record: Record) {
    let row = &record.execution;
    match &row.state {
        State::Waiting => {
            for range in ranges_of(tables, row.class) {
                tables.claimable.entry(range).or_default().insert(row.claim_order());
            }
        }
        State::Active(lease) => {
            tables.first_terms.insert((lease.first_term(), row.id));
            tables.leases.entry(lease.session).or_default().insert(row.id);
        }
        State::WaitingDependencies
        | State::Delayed { .. }
        | State::Suspended(_)
        | State::Held(_)
        | State::Terminal(_) => {}
    }
    gates::put_held(tables, row);
    if let Some(due) = row.due() {
        tables.due.entry(due.kind).or_default().insert((due.at, row.id));
    }
    tables.listed.entry(row.namespace).or_default().insert(place(row));
    tables.executions.insert(row.id, record);
}

/// Removes a record from the table and its indexes.
fn take(tables: &mut Tables, id: ExecutionId) -> Option<Record> {
    let record = tables.executions.remove(&id)?;
    let row = &record.execution;
    match &row.state {
        State::Waiting => {
            for range in ranges_of(tables, row.class) {
                remove_member(&mut tables.claimable, &range, &row.claim_order());
            }
        }
        State::Active(lease) => {
            tables.first_terms.remove(&(lease.first_term(), id));
            remove_member(&mut tables.leases, &lease.session, &id);
        }
        State::WaitingDependencies
        | State::Delayed { .. }
        | State::Suspended(_)
        | State::Held(_)
        | State::Terminal(_) => {}
    }
    gates::take_held(tables, row);
    if let Some(due) = row.due() {
        remove_member(&mut tables.due, &due.kind, &(due.at, id));
    }
    remove_member(&mut tables.listed, &row.namespace, &place(row));
    Some(record)
}

fn place(row: &Execution) -> ListPosition {
    ListPosition { submitted_at: row.submitted_at, id: row.id }
}

fn load(tables: &Tables, needs: &Needs, rows: &mut Rows) {
    let members = rows.found.members.iter().flat_map(|(_, ids)| ids);
    let held = rows.found.held.iter().flat_map(|(_, ids)| ids);
    let found = rows.found.candidates.iter().chain(members).chain(held);
    let ids: BTreeSet<&ExecutionId> = needs.executions.returned().chain(found).collect();
    let records = ids.into_iter().filter_map(|id| tables.executions.get(id));
    rows.executions = records.map(|record| record.execution.clone()).collect();
    let inputs = rows.found.candidates.iter().chain(needs.inputs.keys());
    let inputs: BTreeSet<ExecutionId> = inputs.copied().collect();
    let limit = needs.inline_inputs();
    let inputs = inputs.into_iter().map(|id| (id, limit));
    let whole = needs.whole_inputs.keys().map(|id| (*id, usize::MAX));
    rows.inputs = inputs
        .chain(whole)
        .filter_map(|(id, limit)| Some((id, Payload::within(limit, &tables.executions.get(&id)?.input))))
        .collect();
    let limit = needs.inline_relatives();
    let relatives = needs.relatives.keys().map(|id| (id, limit));
    let whole = needs.whole_relatives.keys().map(|id| (id, usize::MAX));
    rows.relatives = relatives
        .chain(whole)
        .filter_map(|(id, limit)| Some(StoredRelative::whole(relative(tables, *id)?).within(limit)))
        .collect();
}

fn relative(tables: &Tables, id: ExecutionId) -> Option<Relative> {
    let Record { execution, result, .. } = tables.executions.get(&id)?;
    let outcome = execution.state.outcome();
    let name = Name::trusted(execution.node().unwrap_or(ROOT));
    let error = execution.detail.error.clone().filter(|_| outcome.is_some());
    Some(Relative { execution: id, name, outcome, error, result: result.clone(), left_out: false })
}

fn guards_hold(tables: &Tables, changes: &Changes) -> bool {
    let version = |id: ExecutionId| tables.executions.get(&id).map(|record| record.execution.version);
    let goes = |id: ExecutionId| changes.executions.deleted.iter().any(|(gone, _)| *gone == id);
    let inserted = &changes.executions.inserted;
    let updated = changes.executions.updated.iter().map(|row| (row.execution.id, row.expected_version));
    inserted.iter().all(|row| version(row.execution.id).is_none() || goes(row.execution.id))
        && updated
            .chain(changes.executions.deleted.iter().copied())
            .all(|(id, expected)| version(id) == Some(expected))
}

fn save(tables: &mut Tables, changes: &mut Changes, _: &mut Saving) {
    for (id, _) in &changes.executions.deleted {
        take(tables, *id);
        let pages = tables.pages.range((*id, 0)..=(*id, u32::MAX));
        let pages: Vec<_> = pages.map(|(page, _)| *page).collect();
        pages.iter().for_each(|page| drop(tables.pages.remove(page)));
    }
    for row in std::mem::take(&mut changes.executions.inserted) {
        put(tables, Record { execution: row.execution, input: row.input, result: row.result });
    }
    for row in std::mem::take(&mut changes.executions.updated) {
        let Some(before) = take(tables, row.execution.id) else { continue };
        let result = match row.result {
            ResultChange::Keep => before.result,
            ResultChange::Set(result) => Some(result),
            ResultChange::Clear => None,
        };
        put(tables, Record { execution: row.execution, input: row.input.unwrap_or(before.input), result });
    }
    for page in std::mem::take(&mut changes.history_pages) {
        tables.pages.insert((page.execution, page.page), page.lines);
    }
    for tag in std::mem::take(&mut changes.tags.removed) {
        let (name, place) = tag_place(tag);
        remove_member(&mut tables.tags, &name, &place);
    }
    for tag in std::mem::take(&mut changes.tags.written) {
        let (name, place) = tag_place(tag);
        tables.tags.entry(name).or_default().insert(place);
    }
}

/// Returns the name and the member of an entry of the tag index.
fn tag_place(entry: TagEntry) -> ((NamespaceId, String), ListPosition) {
    let place = ListPosition { submitted_at: entry.submitted_at, id: entry.execution };
    ((entry.namespace, entry.tag), place)
}

#[async_trait]
impl ExecutionReads for MemoryStore {
    async fn fetch(&self, ids: &[ExecutionId], payloads: Payloads) -> Result<Vec<Stored>, Error> {
        self.read("fetch", |tables, _| fetch(tables, ids, payloads)).await
    }

    async fn payload_sizes(
        &self,
        ids: &[ExecutionId],
        payloads: Payloads,
    ) -> Result<Vec<(ExecutionId, u64)>, Error> {
        self.read("payload_sizes", |tables, _| payload_sizes(tables, ids, payloads)).await
    }

    async fn head(&self, id: ExecutionId) -> Result<Option<Head>, Error> {
        self.read("head", |tables, _| {
            let row = &tables.executions.get(&id)?.execution;
            Some(Head { namespace: row.namespace, epoch: row.epoch, state: row.state.name() })
        })
        .await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<ListPosition>,
        limit: u32,
        payloads: Payloads,
    ) -> Result<ListPage, Error> {
        self.read("list", |tables, _| list(tables, filter, after, limit, payloads)).await
    }

    async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        self.read("count", |tables, _| {
            bounded(indexed(tables, filter, None).filter(|record| filter.matches(&record.execution)), bound)
        })
        .await
    }

    async fn count_lanes(
        &self,
        namespace: NamespaceId,
        lanes: &[Vec<ClassId>],
        bound: u64,
    ) -> Result<Vec<LaneCounts>, Error> {
        self.read("count_lanes", |tables, _| count_lanes(tables, namespace, lanes, bound)).await
    }

    async fn depths(
        &self,
        namespace: NamespaceId,
        ranges: &[ClassId],
        bound: u64,
    ) -> Result<Vec<Depth>, Error> {
        self.read("depths", |tables, _| depths(tables, namespace, ranges, bound)).await
    }

    async fn history_pages(&self, id: ExecutionId) -> Result<Vec<Vec<u8>>, Error> {
        self.read("history_pages", |tables, _| {
            let pages = tables.pages.range((id, 0)..=(id, u32::MAX));
            pages.map(|(_, lines)| lines.clone()).collect()
        })
        .await
    }

    async fn ahead_of(&self, execution: &Execution, bound: u64) -> Result<u64, Error> {
        self.read("ahead_of", |tables, _| {
            let claimable = tables.claimable.get(&execution.class).into_iter();
            bounded(claimable.flat_map(|set| set.range(..execution.claim_order())), bound)
        })
        .await
    }

    async fn due(
        &self,
        scope: &ReconcilerScope,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        self.read("due", |tables, now| {
            let from = after.map_or(Unbounded, Excluded);
            let due = tables.due.get(&kind).into_iter();
            due.flat_map(|set| set.range((from, Unbounded)))
                .take_while(|(at, _)| *at <= now)
                .filter_map(|(at, id)| Some(due_row(&tables.executions.get(id)?.execution, *at)))
                .filter(|row| scope.covers(row.namespace, &row.tags))
                .take(limit as usize)
                .collect()
        })
        .await
    }

    async fn expired_leases(
        &self,
        scope: &ReconcilerScope,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        self.read("expired_leases", |tables, now| {
            let mut rows: Vec<DueRow> = expired_leases(tables, now)
                .filter(|row| after.is_none_or(|after| row.execution > after))
                .filter(|row| scope.covers(row.namespace, &row.tags))
                .collect();
            rows.sort_by_key(|row| row.execution);
            rows.truncate(limit as usize);
            rows
        })
        .await
    }
}

fn stored(tables: &Tables, record: &Record, payloads: Payloads) -> Stored {
    let lease = record.execution.state.lease();
    let session = lease.and_then(|lease| tables.sessions.get(&lease.session));
    Stored {
        execution: record.execution.clone(),
        input: if payloads.input { record.input.clone() } else { Bytes::new() },
        result: record.result.clone().filter(|_| payloads.result),
        renewed_at: session.and_then(|session| session.renewed_at),
    }
}

fn fetch(tables: &Tables, ids: &[ExecutionId], payloads: Payloads) -> Vec<Stored> {
    let records = ids.iter().filter_map(|id| tables.executions.get(id));
    records.map(|record| stored(tables, record, payloads)).collect()
}

fn payload_sizes(tables: &Tables, ids: &[ExecutionId], payloads: Payloads) -> Vec<(ExecutionId, u64)> {
    let size = |stored: Stored| stored.input.len() + stored.result.map_or(0, |result| result.len());
    let rows = fetch(tables, ids, payloads).into_iter();
    rows.map(|stored| (stored.execution.id, size(stored) as u64)).collect()
}

/// Returns the records of the narrowest index, newest first: that of the first tag, or that of the namespace.
fn indexed<'a>(
    tables: &'a Tables,
    filter: &Filter,
    after: Option<ListPosition>,
) -> impl Iterator<Item = &'a Record> + use<'a> {
    let index = match filter.tags.first() {
        Some(tag) => tables.tags.get(&(filter.namespace, tag.clone())),
        None => tables.listed.get(&filter.namespace),
    };
    let before = after.map_or(Unbounded, Excluded);
    index
        .into_iter()
        .flat_map(move |places| places.range((Unbounded, before)).rev())
        .filter_map(|place| tables.executions.get(&place.id))
}

fn list(
    tables: &Tables,
    filter: &Filter,
    after: Option<ListPosition>,
    limit: u32,
    payloads: Payloads,
) -> ListPage {
    let mut scan = ListScan::new(filter, after, limit);
    while !scan.has_ended() {
        let (after, count) = scan.next_scan();
        let entries =
            indexed(tables, filter, after).take(count as usize).map(|record| listed(&record.execution));
        let entries: Vec<Listed> = entries.collect();
        let mut groups = scan.groups(&entries).into_iter();
        if !groups.any(|ids| scan.add(fetch(tables, &ids, Payloads::NONE))) {
            scan.advance(&entries);
        }
    }
    if payloads == Payloads::NONE {
        return scan.page();
    }
    let mut page = scan.page();
    let ids: Vec<ExecutionId> = page.rows.iter().map(|stored| stored.execution.id).collect();
    let ids = page.cut(&payload_sizes(tables, &ids, payloads));
    page.with_rows(filter, fetch(tables, &ids, payloads))
}

/// Returns the leases whose own first term and whose session have expired.
pub fn expired_leases(tables: &Tables, now: Timestamp) -> impl Iterator<Item = DueRow> {
    tables.first_terms.iter().take_while(move |(first_term, _)| *first_term <= now).filter_map(
        move |(first_term, id)| {
            let row = &tables.executions.get(id)?.execution;
            let session = tables.sessions.get(&row.state.lease()?.session);
            let renewed_until = session.and_then(Session::renewed_until).unwrap_or_default();
            let since = renewed_until.max(*first_term);
            (since <= now).then(|| due_row(row, since))
        },
    )
}

/// Counts the waiting and active executions of lanes, each given by its classes and pools.
fn count_lanes(
    tables: &Tables,
    namespace: NamespaceId,
    lanes: &[Vec<ClassId>],
    bound: u64,
) -> Vec<LaneCounts> {
    let mut active: HashMap<ClassId, u64> = HashMap::new();
    let leased = tables.first_terms.iter().filter_map(|(_, id)| tables.executions.get(id));
    for row in leased.map(|record| &record.execution).filter(|row| row.namespace == namespace) {
        let range = ranges_of(tables, row.class).last().unwrap_or(row.class);
        *active.entry(range).or_default() += 1;
    }
    let waiting = |range: &ClassId| tables.claimable.get(range).map_or(0, |waiting| waiting.len() as u64);
    let lane = |ranges: &Vec<ClassId>| LaneCounts {
        waiting: ranges.iter().map(waiting).sum::<u64>().min(bound),
        active: ranges.iter().filter_map(|range| active.get(range)).sum(),
    };
    lanes.iter().map(lane).collect()
}

/// Counts the live executions of a namespace by class or pool and by state. Looks at all of them.
fn depths(tables: &Tables, namespace: NamespaceId, ranges: &[ClassId], bound: u64) -> Vec<Depth> {
    let mut depths: HashMap<(ClassId, StateName), Depth> = HashMap::new();
    let rows = tables.executions.values().map(|record| &record.execution);
    for row in rows.filter(|row| row.namespace == namespace && row.state.outcome().is_none()) {
        let range = ranges_of(tables, row.class).last().unwrap_or(row.class);
        let since = match &row.state {
            State::Waiting if !ranges.contains(&range) => continue,
            State::Waiting => row.ready_order,
            State::Active(lease) => lease.claimed_at,
            State::WaitingDependencies
            | State::Delayed { .. }
            | State::Held(_)
            | State::Suspended(_)
            | State::Terminal(_) => row.submitted_at,
        };
        let state = row.state.name();
        let depth =
            depths.entry((range, state)).or_insert(Depth { range, state, count: 0, oldest_at: since });
        depth.count = (depth.count + 1).min(bound);
        depth.oldest_at = depth.oldest_at.min(since);
    }
    depths.into_values().collect()
}

fn bounded<T>(items: impl Iterator<Item = T>, bound: u64) -> u64 {
    let bound = usize::try_from(bound).unwrap_or(usize::MAX);
    items.take(bound).count() as u64
}

fn due_row(row: &Execution, due_at: Timestamp) -> DueRow {
    DueRow { execution: row.id, due_at, namespace: row.namespace, tags: row.tags.clone() }
}

/// Returns the columns of an execution that a scan reads.
fn listed(row: &Execution) -> Listed {
    Listed {
        position: ListPosition::of(row),
        class: row.class,
        state: row.state.name(),
        ended_at: row.ended_at,
    }
}
