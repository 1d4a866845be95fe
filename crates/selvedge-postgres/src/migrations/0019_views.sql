-- Read-only views for reports. A column of a view keeps its name and meaning; a change of either is a new view, `v2_…`. They read
-- with the rights of their owner, so a role needs the right to select from the view only.

create view v1_executions as
select
  executions.id,
  namespaces.name as namespace,
  coalesce(executions.flow, executions.id) as flow_id,
  case
    when executions.flow is not null then coalesce(spec.fields #>> '{node,name}', 'root')
  end as node,
  (spec.fields #>> '{node,parent}')::uuid as parent,
  classes.lane,
  classes.kind,
  classes.capabilities,
  case executions.state
    when 0 then case
      when exists (
        select
        from gates
        where gates.namespace = executions.namespace
          and gates.kind = 1 -- lane
          and gates.name = classes.lane
          and gates.config is not null
          and gates.config::json ->> 'state' = 'paused'
      ) then 'held'
      else 'waiting'
    end
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
  coalesce((detail.fields ->> 'head')::smallint, executions.claim_priority) as priority,
  executions.epoch as attempts,
  coalesce((detail.fields ->> 'generation')::integer, 0) as generation,
  coalesce((detail.fields ->> 'retries')::integer, 0) as retries,
  coalesce((detail.fields ->> 'interruptions')::integer, 0) as interruptions,
  coalesce(executions.tags, '{}')::json as tags,
  convert_from(executions.input, 'UTF8') as input,
  convert_from(executions.result, 'UTF8') as result,
  detail.fields #>> '{error,message}' as error_message,
  detail.fields #>> '{error,class}' as error_class,
  executions.version,
  executions.submitted_at,
  executions.started_at,
  executions.ended_at,
  case when executions.state = 1 then executions.until_at end as delayed_until_at,
  least(
    coalesce(detail.replayed_at, executions.submitted_at)
      + (spec.fields #>> '{policy,deadline_ms}')::bigint * interval '1 millisecond',
    case
      when detail.replayed_at is null
        then timestamptz 'epoch' + (spec.fields #>> '{node,flow_deadline_at}')::bigint * interval '1 microsecond'
    end
  ) as deadline_at,
  detail.fields -> 'cancel' is not null as cancel_requested,
  spec.fields ->> 'idempotency_key' as idempotency_key,
  spec.fields ->> 'unique_while_active' as unique_while_active,
  spec.fields #>> '{draws,fairness_key}' as fairness_key,
  (spec.fields #>> '{policy,attempt_timeout_ms}')::bigint as attempt_timeout_ms,
  (spec.fields #>> '{policy,deadline_ms}')::bigint as deadline_ms,
  (spec.fields #>> '{policy,start_by_ms}')::bigint as start_by_ms,
  coalesce((spec.fields #>> '{policy,retention_ms}')::bigint, 604800000) as retention_ms
from executions
join namespaces on namespaces.id = executions.namespace
join classes on classes.id = executions.class
cross join lateral (select coalesce(executions.spec, '{}')::json as fields) as spec
cross join lateral (
  select
    given.fields,
    timestamptz 'epoch' + (given.fields ->> 'replayed_at')::bigint * interval '1 microsecond' as replayed_at
  from (select coalesce(executions.detail, '{}')::json as fields) as given
) as detail;

create view v1_flows as
select
  flows.id,
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
  coalesce(flows.tags, '{}')::json as tags,
  flows.submitted_at,
  flows.ended_at,
  timestamptz 'epoch' + (flows.spec::json ->> 'deadline_at')::bigint * interval '1 microsecond' as deadline_at,
  (flows.spec::json ->> 'retention_ms')::bigint as retention_ms,
  flows.spec::json ->> 'idempotency_key' as idempotency_key,
  flows.version,
  coalesce(flows.detail, '{}')::json -> 'cancel' is not null as cancel_requested
from flows
join namespaces on namespaces.id = flows.namespace
where coalesce((flows.detail::json ->> 'deleting')::boolean, false) = false;
