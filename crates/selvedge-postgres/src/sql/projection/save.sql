-- Moves the projection of the owner $1 from the position $2 to $3, renews its lease for $4 milliseconds, and writes rows: events
-- ($5 to $13), attempts that began, with their ends if they have ended ($14 to $25), and ends of attempts that began earlier
-- ($26 to $31). Writes nothing and returns 0 if the owner or the position is another one. Attempts of deleted executions are
-- left out. An attempt that exists belongs to an execution that was deleted and had the same id.
-- Locks: the projection, and the rows that are written. Index: projection_pkey, projected_events_pkey,
-- projected_attempts_pkey, executions_pkey.
with moved as (
  update projection
  set entry = $3,
    owned_until = {now} + $4::bigint * interval '1 millisecond'
  where single
    and owner = $1
    and entry = $2
  returning 1
), events as (
  insert into projected_events (cursor, type, at, namespace, execution, flow, version, actor, data)
  select given.cursor, given.type, given.at, given.namespace, given.execution, given.flow, given.version, given.actor,
    given.data::json
  from unnest(
    $5::text[], $6::text[], $7::timestamptz[], $8::integer[], $9::uuid[], $10::uuid[], $11::bigint[], $12::text[], $13::text[]
  ) as given (cursor, type, at, namespace, execution, flow, version, actor, data)
  where exists (select from moved)
), began as (
  insert into projected_attempts (
    execution, attempt, namespace, lease_id, epoch, worker, instance, started_at, ended_at, outcome, error_message, error_class
  )
  select given.*
  from unnest(
    $14::uuid[], $15::integer[], $16::integer[], $17::uuid[], $18::integer[], $19::text[], $20::text[], $21::timestamptz[],
    $22::timestamptz[], $23::text[], $24::text[], $25::text[]
  ) as given (
    execution, attempt, namespace, lease_id, epoch, worker, instance, started_at, ended_at, outcome, error_message, error_class
  )
  where exists (select from moved)
    and exists (select from executions where executions.id = given.execution)
  on conflict (execution, attempt) do update
  set namespace = excluded.namespace,
    lease_id = excluded.lease_id,
    epoch = excluded.epoch,
    worker = excluded.worker,
    instance = excluded.instance,
    started_at = excluded.started_at,
    ended_at = excluded.ended_at,
    outcome = excluded.outcome,
    error_message = excluded.error_message,
    error_class = excluded.error_class
), ended as (
  update projected_attempts
  set ended_at = given.ended_at,
    outcome = given.outcome,
    error_message = given.error_message,
    error_class = given.error_class
  from unnest($26::uuid[], $27::integer[], $28::timestamptz[], $29::text[], $30::text[], $31::text[])
    as given (execution, attempt, ended_at, outcome, error_message, error_class)
  where projected_attempts.execution = given.execution
    and projected_attempts.attempt = given.attempt
    and exists (select from moved)
)
select count(*)
from moved
