-- Returns the sizes of the tables that grow, in bytes, as they are now and not as they were when they were analysed.
-- Locks: none. Index: none; asks the file system.
select array(
  select coalesce(pg_relation_size(to_regclass(name)), 0)
  from unnest(array[
    'executions', 'class_priorities', 'tags', 'sessions', 'keys', 'history_pages', 'nodes', 'flows', 'flow_tags', 'outbox',
    'streams', 'frames', 'signals', 'steps', 'waitpoints', 'gates', 'ledger', 'classes'
  ]) with ordinality as growing (name, place)
  order by place
)
