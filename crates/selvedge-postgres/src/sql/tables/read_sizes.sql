-- Returns the numbers of rows of the tables that grow, with the dead ones, as they are now and not as they were when they
-- were analysed. The size of a table's file would need a lock on the table.
-- Locks: none. Index: none; reads the cumulative statistics.
select array(
  select pg_stat_get_live_tuples(found.oid) + pg_stat_get_dead_tuples(found.oid)
  from unnest(array[
    'executions', 'class_priorities', 'tags', 'sessions', 'keys', 'history_pages', 'nodes', 'flows', 'flow_tags', 'outbox',
    'streams', 'frames', 'signals', 'steps', 'waitpoints', 'gates', 'ledger', 'classes'
  ]) with ordinality as growing (name, place)
  cross join lateral (select to_regclass(growing.name)::oid as oid) as found
  order by place
)
