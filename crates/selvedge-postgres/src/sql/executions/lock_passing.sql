-- Returns the first waiting executions of some classes whose specification matches none of the patterns $9: a limit for each
-- pair of class and priority, among the first {passed_max} from the bound of the pair on. The other parameters are those of
-- executions/lock_candidates. The last part has no condition on the state, which would let the planner read all of
-- executions_claim; claims ignore an execution that is no longer waiting. Pools are not searched.
-- Locks: the returned executions, unless another transaction has locked them. Index: class_priorities_pkey;
-- executions_claim, once per pair; executions_pkey.
with pair as materialized (
  select pair.class, pair.priority, asked.most, {bound} as bound
  from unnest($1::integer[], $5::integer[], $6::bigint[]) as asked (class, ask, most)
  join class_priorities as pair on pair.class = asked.class
), passing as materialized (
  select found.id
  from pair
  cross join lateral (
    select seen.id
    from (
      select id, spec, ready_order
      from executions
      where executions.class = pair.class
        and executions.claim_priority = pair.priority
        and state = {waiting}
        and ready_order >= pair.bound
      order by ready_order, id
      limit {passed_max}
    ) as seen
    where seen.id <> all($7)
      and not coalesce(seen.spec, '') like any($9::text[])
    order by seen.ready_order, seen.id
    limit pair.most
  ) as found
)
select {columns}, octet_length(input), case when octet_length(input) <= $8 then input end
from executions
where id = any(array(select passing.id from passing))
for no key update skip locked
