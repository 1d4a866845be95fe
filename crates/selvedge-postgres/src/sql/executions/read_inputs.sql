-- Returns the sizes of the inputs of executions, with the inputs up to a size of $2.
-- Locks: none. Index: executions_pkey.
select id, octet_length(input), case when octet_length(input) <= $2 then input end
from executions
where id = any($1)
