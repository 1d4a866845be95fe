-- Returns the entry of execution $9 if it belongs to no flow: such an execution counts as a flow of its own.
-- Locks: none. Index: executions_pkey.
select {listed}
from executions
where id = $9
  and flow is null
  and namespace = $1
  and (submitted_at, id) < ($2, $3)
  and submitted_at >= $4
  and submitted_at < $5
  and ($6::integer[] is null or class in (select unnest($6)))
  and ($7::smallint[] is null or state = any($7))
  and (
    $10::text is null
    or exists (
      select
      from tags
      where tags.namespace = $1
        and tags.tag = $10
        and tags.submitted_at = executions.submitted_at
        and tags.execution = executions.id
    )
  )
limit $8
