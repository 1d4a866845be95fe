-- Returns the facts about the server and this connection that no setting tells: its version, whether it only replays, its time,
-- its standbys, its connections and the encryption of this one. A replication slot or a standby of another database counts too.
-- Locks: none. Index: none; reads views of the server's state.
select
  current_setting('server_version') as version,
  current_setting('server_version_num')::integer as version_number,
  pg_is_in_recovery() as is_standby,
  (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms,
  (select count(*) from pg_stat_replication) as standbys,
  (select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum')) as synchronous_standbys,
  (select coalesce(sum(numbackends), 0)::bigint from pg_stat_database where datid <> 0) as connections,
  coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as is_encrypted,
  coalesce((select version from pg_stat_ssl where pid = pg_backend_pid()), '') as tls_version
