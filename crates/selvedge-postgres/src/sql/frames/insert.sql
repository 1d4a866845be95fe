-- Inserts frames. Fails with unique_violation if a number is taken: another server has appended to the stream.
-- Locks: the new rows. Index: frames_pkey.
insert into frames (execution, attempt, {frame})
select *
from unnest($1::uuid[], $2::integer[], {frame_types})
