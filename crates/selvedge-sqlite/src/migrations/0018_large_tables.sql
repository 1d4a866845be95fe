-- Pools: claims of any kind search the first 32 classes of a lane and capability set one by one, and all others as one
-- range. The id of a pool is negative: minus the id of the first class in it. Unused classes are removed.

alter table classes add column pool integer check (pool < 0);
-- The time of the last recorded use, in microseconds since the Unix epoch.
alter table classes add column used_at integer not null default 0;
update classes set used_at = unixepoch() * 1000000;

create index classes_pooled
on classes (namespace, lane, capabilities, pool);

create index classes_used
on classes (used_at);

-- The pool of the class; null if it has none.
alter table executions add column pool integer;

update classes
set pool = (
  select -first.id
  from classes as first
  where first.namespace = classes.namespace
    and first.lane = classes.lane
    and first.capabilities = classes.capabilities
  order by first.id
  limit 1 offset 32
)
where id in (
  select id
  from (
    select id, row_number() over (partition by namespace, lane, capabilities order by id) as number
    from classes
  )
  where number > 32
);

update executions
set pool = (select pool from classes where classes.id = executions.class)
where state < 10 -- not terminal
  and class in (select id from classes where pool is not null);

-- Waiting executions of pools.
create index executions_claim_pool
on executions (pool, rank, id)
where state = 0 and pool is not null;

-- Lists of flows by name.
create index flows_by_name
on flows (namespace, name, state, submitted_at, id)
where name is not null;
