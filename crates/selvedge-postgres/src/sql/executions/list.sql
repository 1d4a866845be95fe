-- Returns the entries of a page of a namespace's executions, newest first, except active ones (see executions/list_active).
-- Locks: none. Index: executions_list, backwards.
select {listed}
from executions
where namespace = $1
  and state <> {active}
  and (submitted_at, id) < ($2, $3)
  and submitted_at >= $4
  and submitted_at < $5
  and ($6::integer[] is null or class in (select unnest($6)))
  and ($7::smallint[] is null or state = any($7))
order by submitted_at desc, id desc
limit $8
