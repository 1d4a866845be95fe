-- Read-only views for reports, with the columns of the views on Postgres. Ids are UUIDs as text, times RFC 3339 in UTC. A column
-- of a view keeps its name and meaning; a change of either is a new view, `v2_…`.

create view v1_executions as
select
  lower(
    substr(hex(executions.id), 1, 8) || '-' || substr(hex(executions.id), 9, 4) || '-' || substr(hex(executions.id), 13, 4)
    || '-' || substr(hex(executions.id), 17, 4) || '-' || substr(hex(executions.id), 21)
  ) as id,
  namespaces.name as namespace,
  lower(
    substr(hex(coalesce(executions.flow, executions.id)), 1, 8) || '-' || substr(hex(coalesce(executions.flow, executions.id)), 9, 4)
    || '-' || substr(hex(coalesce(executions.flow, executions.id)), 13, 4)
    || '-' || substr(hex(coalesce(executions.flow, executions.id)), 17, 4)
    || '-' || substr(hex(coalesce(executions.flow, executions.id)), 21)
  ) as flow_id,
  iif(executions.flow is null, null, coalesce(json_extract(executions.spec, '$.node.name'), 'root')) as node,
  json_extract(executions.spec, '$.node.parent') as parent,
  classes.lane,
  classes.kind,
  classes.capabilities,
  case executions.state
    when 0 then iif(
      exists (
        select 1
        from gates
        where gates.namespace = executions.namespace
          and gates.kind = 1 -- lane
          and gates.name = classes.lane
          and gates.config is not null
          and json_extract(gates.config, '$.state') = 'paused'
      ),
      'held',
      'waiting'
    )
    when 1 then 'delayed'
    when 2 then 'active'
    when 3 then 'waiting_dependencies'
    when 4 then 'suspended'
    when 5 then 'held'
    when 10 then 'completed'
    when 11 then 'failed'
    when 12 then 'cancelled'
    when 13 then 'expired'
    when 14 then 'skipped'
  end as state,
  case executions.state
    when 10 then 'completed'
    when 11 then 'failed'
    when 12 then 'cancelled'
    when 13 then 'expired'
    when 14 then 'skipped'
  end as outcome,
  coalesce(json_extract(executions.detail, '$.head'), executions.claim_priority) as priority,
  executions.epoch as attempts,
  coalesce(json_extract(executions.detail, '$.generation'), 0) as generation,
  coalesce(json_extract(executions.detail, '$.retries'), 0) as retries,
  coalesce(json_extract(executions.detail, '$.interruptions'), 0) as interruptions,
  coalesce(executions.tags, '{}') as tags,
  cast(
    coalesce(executions.input, (select inputs.body from inputs where inputs.execution = executions.id)) as text
  ) as input,
  cast(executions.result as text) as result,
  json_extract(executions.detail, '$.error.message') as error_message,
  json_extract(executions.detail, '$.error.class') as error_class,
  executions.version,
  strftime('%Y-%m-%dT%H:%M:%fZ', executions.submitted_at / 1000 / 1000.0, 'unixepoch') as submitted_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', executions.started_at / 1000 / 1000.0, 'unixepoch') as started_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', executions.ended_at / 1000 / 1000.0, 'unixepoch') as ended_at,
  iif(
    executions.state = 1,
    strftime('%Y-%m-%dT%H:%M:%fZ', executions.until_at / 1000 / 1000.0, 'unixepoch'),
    null
  ) as delayed_until_at,
  strftime(
    '%Y-%m-%dT%H:%M:%fZ',
    (
      select min(deadline)
      from (
        select coalesce(json_extract(executions.detail, '$.replayed_at'), executions.submitted_at)
          + json_extract(executions.spec, '$.policy.deadline_ms') * 1000 as deadline
        union all
        select iif(
          json_extract(executions.detail, '$.replayed_at') is null,
          json_extract(executions.spec, '$.node.flow_deadline_at'),
          null
        )
      )
    ) / 1000 / 1000.0,
    'unixepoch'
  ) as deadline_at,
  json_extract(executions.detail, '$.cancel') is not null as cancel_requested,
  json_extract(executions.spec, '$.idempotency_key') as idempotency_key,
  json_extract(executions.spec, '$.unique_while_active') as unique_while_active,
  json_extract(executions.spec, '$.draws.fairness_key') as fairness_key,
  json_extract(executions.spec, '$.policy.attempt_timeout_ms') as attempt_timeout_ms,
  json_extract(executions.spec, '$.policy.deadline_ms') as deadline_ms,
  json_extract(executions.spec, '$.policy.start_by_ms') as start_by_ms,
  coalesce(json_extract(executions.spec, '$.policy.retention_ms'), 604800000) as retention_ms
from executions
join namespaces on namespaces.id = executions.namespace
join classes on classes.id = executions.class;

create view v1_flows as
select
  lower(
    substr(hex(flows.id), 1, 8) || '-' || substr(hex(flows.id), 9, 4) || '-' || substr(hex(flows.id), 13, 4)
    || '-' || substr(hex(flows.id), 17, 4) || '-' || substr(hex(flows.id), 21)
  ) as id,
  namespaces.name as namespace,
  flows.name,
  case flows.state
    when 0 then 'running'
    when 1 then 'completed'
    when 2 then 'failed'
    when 3 then 'cancelled'
  end as state,
  flows.waiting_dependencies + flows.waiting + flows.delayed + flows.active + flows.suspended + flows.held
    + flows.completed + flows.failed + flows.cancelled + flows.expired + flows.skipped as total,
  flows.waiting_dependencies,
  flows.waiting,
  flows.delayed,
  flows.active,
  flows.suspended,
  flows.held,
  flows.completed,
  flows.failed,
  flows.cancelled,
  flows.expired,
  flows.skipped,
  coalesce(flows.tags, '{}') as tags,
  strftime('%Y-%m-%dT%H:%M:%fZ', flows.submitted_at / 1000 / 1000.0, 'unixepoch') as submitted_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', flows.ended_at / 1000 / 1000.0, 'unixepoch') as ended_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', json_extract(flows.spec, '$.deadline_at') / 1000 / 1000.0, 'unixepoch') as deadline_at,
  json_extract(flows.spec, '$.retention_ms') as retention_ms,
  json_extract(flows.spec, '$.idempotency_key') as idempotency_key,
  flows.version,
  json_extract(flows.detail, '$.cancel') is not null as cancel_requested
from flows
join namespaces on namespaces.id = flows.namespace
where coalesce(json_extract(flows.detail, '$.deleting'), 0) = 0;
