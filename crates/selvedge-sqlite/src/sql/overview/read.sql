-- Returns whether a lease has expired, whether a session, a key or a best-effort frame can be deleted, and the newest
-- class. Finds expired leases as leases/list_expired does.
-- Index: executions_session, keys_expires, frames_old.
-- Parameters: ?1 now, ?2 the time in milliseconds after which an unseen session can be deleted, ?3 the time up to which
-- best-effort frames are old
with recursive
held (session) as (
  select min(session)
  from executions indexed by executions_session
  where session is not null
  union all
  select (
    select min(further.session)
    from executions as further indexed by executions_session
    where further.session > held.session
  )
  from held
  where held.session is not null
)
select
  exists (
    select 1
    from held
    left join sessions on sessions.id = held.session
    where ifnull(renewed_at + ttl_ms * 1000, 0) <= ?1
      and exists (
        select 1
        from executions indexed by executions_session
        where executions.session = held.session
          and until_at <= ?1
      )
  ),
  exists (
    select 1
    from sessions
    where seen_at + max(?2, 2 * ttl_ms) * 1000 < ?1
      and ifnull(renewed_at + ttl_ms * 1000, 0) < ?1
      and not exists (
        select 1
        from executions indexed by executions_session
        where executions.session = sessions.id
      )
  ),
  exists (
    select 1
    from keys indexed by keys_expires
    where expires_at <= ?1
  ),
  exists (
    select 1
    from frames indexed by frames_old
    where best_effort = 1
      and at <= ?3
  ),
  (select ifnull(max(id), 0) from classes)
