-- Updates flows, except their counts, that must still have their expected version; fails with division_by_zero if one
-- does not. Leaves flow_tags alone: no rule changes the tags of a flow. The due time is set as in flows/insert; a flow
-- that already was due to be settled keeps its time.
-- Locks: the flows, in the order of the array, which is id order. Index: flows_pkey, nested loop.
with saved as (
  update flows
  set name = new.name,
    tags = new.tags,
    spec = new.spec,
    version = new.version,
    state = new.state,
    due_kind = case
      when new.delete_at is not null then {flow_delete}
      when new.state = {flow_running} and {live} = 0 then {flow_settle}
    end,
    due_at = case
      when new.delete_at is not null then new.delete_at
      when new.state = {flow_running} and {live} = 0 then
        case when flows.due_kind = {flow_settle} then flows.due_at else {now} end
    end,
    ended_at = new.ended_at,
    detail = new.detail
  from unnest(
    $1::uuid[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::smallint[], $8::timestamptz[],
    $9::timestamptz[], $10::text[]
  ) as new (id, expected_version, name, tags, spec, version, state, ended_at, delete_at, detail)
  where flows.id = new.id
    and flows.version = new.expected_version
  returning 1
)
select 1 / (case when count(*) = cardinality($1::uuid[]) then 1 else 0 end)
from saved
