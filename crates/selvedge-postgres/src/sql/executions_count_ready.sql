-- How many are ready, counted up to a bound. Index: executions_claim, once per class.
select count(*)
from (
  select
  from unnest($1::integer[]) as asked (class)
  join executions on executions.class = asked.class and state = 0
  limit $2
) as counted
