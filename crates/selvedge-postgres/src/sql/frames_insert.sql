-- A number that is taken fails with unique_violation: somebody else appended to the stream.
insert into frames (execution, attempt, number, kind, best_effort, at, data)
select *
from unnest(
  $1::uuid[], $2::integer[], $3::integer[], $4::smallint[], $5::boolean[], $6::timestamptz[], $7::bytea[]
)
