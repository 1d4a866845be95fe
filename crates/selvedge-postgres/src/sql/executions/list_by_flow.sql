-- Returns the entries of a page of the members of flow $9, newest first.
-- Locks: none. Index: nodes_in_order, backwards, then executions_pkey.
select {listed}
from (
  select nodes.execution
  from nodes
  where nodes.flow = $9
    and (nodes.submitted_at, nodes.execution) < ($2, $3)
    and nodes.submitted_at >= $4
    and nodes.submitted_at < $5
  order by nodes.submitted_at desc, nodes.execution desc
) as member
join executions on executions.id = member.execution
where namespace = $1
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
