-- Deletes up to ?2 sessions of a namespace.
-- Index: sessions_instance.
-- Parameters: ?1 the namespace, ?2 the limit
delete from sessions
where id in (
  select id
  from sessions indexed by sessions_instance
  where namespace = ?1
  limit ?2
)
