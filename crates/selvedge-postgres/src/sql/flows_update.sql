-- Saves flows that must still have their expected version, all but their counts; fails with division_by_zero if one has not.
-- The index of tags stays as it is, because no rule changes the tags of a flow.
-- Locks: the flows, in the order of the array, which is id order. Index: flows_pkey, nested loop.
with saved as (
  update flows
  set name = new.name,
    tags = new.tags,
    spec = new.spec,
    version = new.version,
    state = new.state,
    due_kind = case
      when new.delete_at is not null then 2
      when new.state = 0 and {live} = 0 then 1
    end,
    due_at = case
      when new.delete_at is not null then new.delete_at
      when new.state = 0 and {live} = 0 then
        case when flows.due_kind = 1 then flows.due_at else clock_timestamp() end
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
