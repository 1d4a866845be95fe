-- Marks signals as taken by suspensions.
-- Locks: the signals. Index: signals_pkey.
update signals
set taken = by.suspension
from unnest($1::uuid[], $2::integer[], $3::integer[]) as by (execution, number, suspension)
where signals.execution = by.execution
  and signals.number = by.number
