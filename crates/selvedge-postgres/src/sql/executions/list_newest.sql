-- Returns the matching entries among the newest {count_scan} executions of a namespace, except active ones. For counts: it
-- visits no more entries however few match.
-- Locks: none. Index: executions_list, backwards.
select {listed}
from (
  select {listed}
  from executions
  where namespace = $1
    and state <> {active}
    and (submitted_at, id) < ($2, $3)
    and submitted_at >= $4
    and submitted_at < $5
  order by submitted_at desc, id desc
  limit {count_scan}
) as executions
where ($6::integer[] is null or class in (select unnest($6)))
  and ($7::smallint[] is null or state = any($7))
limit $8
