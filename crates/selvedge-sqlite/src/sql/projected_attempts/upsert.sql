-- Inserts an attempt of the projection, unless its execution was deleted. An attempt that exists belongs to an execution that
-- was deleted and had the same id.
-- Index: the unique index of executions on id; the primary key of projected_attempts.
insert or replace into projected_attempts (
  execution, attempt, namespace, lease_id, epoch, worker, instance, started_at, ended_at, outcome, error_message, error_class
)
select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12
where exists (select 1 from executions where id = ?1)
