-- Pools, the use of classes, and what large tables need.
--
-- A lane with many kinds has as many classes. Claims of any kind search the first 32 of a lane and capability set one by
-- one, and all others as one range: their pool. Its id is negative: minus the id of the first class in it.
--
-- A class is removed when it was not used for days and no execution refers to it.

alter table classes
  add column pool integer check (pool < 0),
  -- The default is for servers of an earlier version, which do not name the column.
  add column used_at timestamptz not null default now();

-- The classes of a lane and capability set that belong to no pool, and those of a pool.
create index classes_pooled on classes (namespace, lane, capabilities, pool);
create index classes_in_pool on classes (pool) where pool is not null;
-- Classes by the time of their last use.
create index classes_used on classes (used_at);

-- The highest class id at the time of the last removal: an absent class up to it was removed and is not lost, and its id
-- is never used again. 0 if none was removed.
create table class_removal (
  single boolean primary key default true,
  upto integer not null default 0,
  constraint there_is_one check (single)
);
insert into class_removal default values;

-- The pool of the class; null if it has none.
alter table executions add column pool integer;

update classes
set pool = -numbered.pool
from (
  select id, number, nth_value(id, 33) over (
    partition by namespace, lane, capabilities
    order by id
    rows between unbounded preceding and unbounded following
  ) as pool
  from (
    select id, namespace, lane, capabilities,
      row_number() over (partition by namespace, lane, capabilities order by id) as number
    from classes
  ) as counted
) as numbered
where classes.id = numbered.id
  and numbered.number > 32;

update executions
set pool = classes.pool
from classes
where classes.id = executions.class
  and classes.pool is not null
  and executions.state < 10; -- terminal

insert into class_priorities (class, priority, generation)
select distinct pool, claim_priority, 0::bigint
from executions
where state = 0 -- waiting
  and pool is not null;

-- Claims of any kind: the first waiting executions (state 0) of a pool.
create index executions_claim_pool on executions (pool, claim_priority desc, ready_order, id)
where state = 0 and pool is not null;

-- New sessions. The time changes only when a session begins again, so a renewal stays a heap-only update.
create index sessions_registered on sessions (registered_at);

-- Lists of flows by name, newest first. Namespace and name are one value, so that the planner cannot take another index of
-- the namespace and compare the name row by row.
create index flows_list_by_name on flows ((namespace::text || '/' || name), state, submitted_at, id)
where name is not null;
