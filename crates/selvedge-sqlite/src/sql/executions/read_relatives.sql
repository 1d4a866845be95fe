-- Returns the part of an upstream or a child that a claim carries: how it ended, the size of detail and result together, and
-- both up to a size.
-- Index: the unique index on executions.id.
-- Parameters: ?1 id, ?2 the largest size
select spec, state,
  ifnull(octet_length(detail), 0) + ifnull(octet_length(result), 0),
  iif(ifnull(octet_length(detail), 0) + ifnull(octet_length(result), 0) > ?2, null, detail),
  iif(ifnull(octet_length(detail), 0) + ifnull(octet_length(result), 0) > ?2, null, result)
from executions
where id = ?1
