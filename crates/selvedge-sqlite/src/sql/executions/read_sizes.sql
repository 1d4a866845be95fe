-- Returns the size of the payloads asked for of an execution. Does not read the payloads.
-- Index: the unique index on executions.id, the primary key of inputs.
-- Parameters: ?1 id, ?2 and ?3 whether to count the input and the result
select iif(?2, {input_bytes}, 0) + iif(?3, ifnull(length(result), 0), 0)
from executions
where id = ?1
