-- Inserts frames. Fails with unique_violation if a number is taken: another server has appended to the stream.
-- Locks: the new rows. Index: frames_pkey.
insert into frames (execution, attempt, number, kind, best_effort, at, data, correlation_id)
select *
from unnest(
  $1::uuid[], $2::integer[], $3::integer[], $4::smallint[], $5::boolean[], $6::timestamptz[], $7::bytea[],
  $8::text[]
)
