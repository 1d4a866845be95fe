-- The inbox: submissions from SQL. A user's own transaction writes rows with the functions `submit` and `submit_flow`; a
-- server takes committed rows in as ordinary submissions and deletes them, in one transaction. A refused row stays for seven
-- days with its problem.

create table inbox (
  number bigint generated always as identity primary key,
  -- The transaction that wrote the row. Servers remember a snapshot in which nothing waited, and then look only for rows of
  -- transactions that it does not contain: neither a long transaction nor the remains of deleted rows slow them down.
  xid xid8 not null default pg_current_xact_id(),
  submitted_at timestamptz not null default clock_timestamp(),
  -- The id that the caller got, of the execution or of the flow.
  id uuid not null,
  -- The name of the namespace, which may not exist yet.
  namespace text not null,
  -- The role that called the function.
  role text not null,
  flow boolean not null,
  -- The request as over HTTP, without the id: a JSON object. The input has the bytes that the caller gave.
  body text not null,
  refused_at timestamptz,
  problem json,
  constraint refused_has_a_problem check ((refused_at is null) = (problem is null))
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000);

alter table inbox alter column body set storage external;

-- Rows that wait to be taken in.
create index inbox_pending on inbox (xid, number) where refused_at is null;
-- Refused rows: by namespace, and by age.
create index inbox_refused on inbox (namespace, number) where refused_at is not null;
create index inbox_refused_at on inbox (refused_at) where refused_at is not null;

-- The namespaces into which roles may submit; '*' stands for all. The owner of the functions, and roles that have its rights,
-- may submit into all.
create table inbox_rights (
  role name not null,
  namespace text not null,
  primary key (role, namespace)
);

-- The functions run with the rights of their owner. So their search path is fixed, and temporary objects come last in it.
select set_config('search_path', current_setting('search_path') || ', pg_temp', true);

-- Returns a new UUID of version 7.
create function inbox_new_id() returns uuid
language sql
volatile
as $$
  select encode(
    set_bit(
      set_bit(
        overlay(
          uuid_send(gen_random_uuid())
          placing substring(int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
          from 1 for 6
        ),
        52, 1
      ),
      53, 1
    ),
    'hex'
  )::uuid
$$;

-- Returns the role that called, if it may submit into a namespace. Refuses it otherwise.
create function inbox_caller(namespace text) returns text
language plpgsql
stable
as $$
#variable_conflict use_variable
declare
  caller text := current_setting('role');
begin
  if caller = 'none' then
    caller := session_user;
  end if;
  if pg_has_role(caller, current_user, 'usage') then
    return caller;
  end if;
  perform
  from inbox_rights as rights
  where rights.namespace in (namespace, '*')
    and case
      when to_regrole(quote_ident(rights.role)) is null then false
      else pg_has_role(caller, rights.role, 'usage')
    end
  limit 1;
  if not found then
    raise exception using
      errcode = '42501',
      message = format('role %s may not submit into namespace %s', quote_ident(caller), quote_literal(namespace)),
      hint = format('An owner of the schema can allow it: insert into %I.inbox_rights (role, namespace) values (%L, %L).',
        current_schema(), caller, namespace);
  end if;
  return caller;
end
$$;

-- Returns what is wrong with a name: it is empty, too long, or contains a control character. Null if it is valid.
create function inbox_invalid_name(field text, value text, size integer) returns text
language sql
immutable
as $$
  select case
    when value = '' then format('%s must not be empty', field)
    when octet_length(value) > size
      then format('%s is %s bytes long; at most %s are allowed', field, octet_length(value), size)
    when value ~ '[\x01-\x1f\x7f]'
      then format('%s contains a control character; only printable text is allowed', field)
  end
$$;

-- Submits an execution as part of the caller's transaction. Returns the id that the execution will have.
create function submit(
  kind text,
  input json default null,
  lane text default null,
  id uuid default null,
  idempotency_key text default null,
  idempotency_window_ms bigint default null,
  unique_while_active text default null,
  priority integer default null,
  capabilities text[] default null,
  tags jsonb default null,
  delay_until_at timestamptz default null,
  delay_ms bigint default null,
  start_by_ms bigint default null,
  retry json default null,
  attempt_timeout_ms bigint default null,
  deadline_ms bigint default null,
  retention_ms bigint default null,
  budgets json default null,
  quotas text[] default null,
  concurrency json default null,
  fairness_key text default null,
  namespace text default 'default',
  notify boolean default false
) returns uuid
language plpgsql
volatile
security definer
set search_path from current
as $$
#variable_conflict use_variable
declare
  caller text := inbox_caller(namespace);
  submitted uuid := coalesce(id, inbox_new_id());
  body text;
begin
  -- One condition for all, because each statement of a function costs time. A null argument makes its condition null.
  if kind is null
    or namespace is null
    or kind = '' or octet_length(kind) > 200 or kind ~ '[\x01-\x1f\x7f]'
    or lane = '' or octet_length(lane) > 200 or lane ~ '[\x01-\x1f\x7f]'
    or namespace = '' or octet_length(namespace) > 200 or namespace ~ '[\x01-\x1f\x7f]'
    or idempotency_key = '' or octet_length(idempotency_key) > 512 or idempotency_key ~ '[\x01-\x1f\x7f]'
    or unique_while_active = '' or octet_length(unique_while_active) > 512 or unique_while_active ~ '[\x01-\x1f\x7f]'
    or fairness_key = '' or octet_length(fairness_key) > 512 or fairness_key ~ '[\x01-\x1f\x7f]'
    or octet_length(input::text) > 1048576
    or priority not between -100 and 100
    or least(idempotency_window_ms, delay_ms, start_by_ms, attempt_timeout_ms, deadline_ms, retention_ms) < 0
    or num_nonnulls(delay_until_at, delay_ms) = 2
    or not isfinite(delay_until_at)
    or jsonb_typeof(tags) <> 'object'
    or jsonb_path_exists(tags, '$.* ? (@.type() != "string")')
    or array_position(capabilities, null) is not null
    or array_position(quotas, null) is not null
    or json_typeof(retry) <> 'object'
    or json_typeof(concurrency) <> 'object'
    or json_typeof(budgets) <> 'array'
  then
    raise exception using
      errcode = '22023',
      message = case
        when kind is null then 'kind is missing'
        when namespace is null then 'namespace is missing'
        when octet_length(input::text) > 1048576
          then format('input is %s bytes long; at most 1048576 are allowed', octet_length(input::text))
        when priority not between -100 and 100
          then format('priority is %s; it must be between -100 and 100', priority)
        when least(idempotency_window_ms, delay_ms, start_by_ms, attempt_timeout_ms, deadline_ms, retention_ms) < 0
          then 'idempotency_window_ms, delay_ms, start_by_ms, attempt_timeout_ms, deadline_ms and retention_ms must not be negative'
        when num_nonnulls(delay_until_at, delay_ms) = 2
          then 'delay_ms cannot be combined with delay_until_at; give only one of them'
        when not isfinite(delay_until_at) then 'delay_until_at must be a time'
        when jsonb_typeof(tags) <> 'object' or jsonb_path_exists(tags, '$.* ? (@.type() != "string")')
          then 'tags must be an object whose values are strings'
        when array_position(capabilities, null) is not null then 'capabilities must not contain null'
        when array_position(quotas, null) is not null then 'quotas must not contain null'
        when json_typeof(retry) <> 'object' then 'retry must be an object'
        when json_typeof(concurrency) <> 'object' then 'concurrency must be an object'
        when json_typeof(budgets) <> 'array' then 'budgets must be an array'
        else coalesce(
          inbox_invalid_name('kind', kind, 200),
          inbox_invalid_name('lane', lane, 200),
          inbox_invalid_name('namespace', namespace, 200),
          inbox_invalid_name('idempotency_key', idempotency_key, 512),
          inbox_invalid_name('unique_while_active', unique_while_active, 512),
          inbox_invalid_name('fairness_key', fairness_key, 512)
        )
      end;
  end if;
  -- A part with a null argument is null, and left out.
  body := concat(
    '{"kind":', to_json(kind)::text,
    ',"input":' || input::text,
    ',"lane":' || to_json(lane)::text,
    ',"idempotency_key":' || to_json(idempotency_key)::text,
    ',"idempotency_window_ms":' || idempotency_window_ms::text,
    ',"unique_while_active":' || to_json(unique_while_active)::text,
    ',"priority":' || priority::text,
    ',"capabilities":' || array_to_json(capabilities)::text,
    ',"tags":' || tags::text,
    ',"delay_until_at":' || to_json(delay_until_at)::text,
    ',"delay_ms":' || delay_ms::text,
    ',"start_by_ms":' || start_by_ms::text,
    ',"retry":' || retry::text,
    ',"attempt_timeout_ms":' || attempt_timeout_ms::text,
    ',"deadline_ms":' || deadline_ms::text,
    ',"retention_ms":' || retention_ms::text,
    ',"budgets":' || budgets::text,
    ',"quotas":' || array_to_json(quotas)::text,
    ',"concurrency":' || concurrency::text,
    ',"fairness_key":' || to_json(fairness_key)::text,
    '}'
  );
  if octet_length(body) > 2097152 then
    raise exception using errcode = '22023',
      message = format('all arguments together are %s bytes long; at most 2097152 are allowed', octet_length(body));
  end if;
  insert into inbox (id, namespace, role, flow, body)
  values (submitted, namespace, caller, false, body);
  if notify then
    perform pg_notify('selvedge_' || current_schema(), '{"from": "sql", "inbox": true}');
  end if;
  return submitted;
end
$$;

-- Submits a flow as part of the caller's transaction. `body` is that of POST /v1/flows. Returns the id that the flow will have.
create function submit_flow(
  body json,
  namespace text default 'default',
  notify boolean default false
) returns uuid
language plpgsql
volatile
security definer
set search_path from current
as $$
#variable_conflict use_variable
declare
  caller text := inbox_caller(namespace);
  submitted uuid;
  given text;
  unknown text;
begin
  if namespace is null then
    raise exception using errcode = '22023', message = 'namespace is missing';
  end if;
  unknown := inbox_invalid_name('namespace', namespace, 200);
  if unknown is not null then
    raise exception using errcode = '22023', message = unknown;
  end if;
  if coalesce(json_typeof(body), 'null') <> 'object' then
    raise exception using errcode = '22023', message = 'body must be an object';
  end if;
  if octet_length(body::text) > 33554432 then
    raise exception using errcode = '22023',
      message = format('body is %s bytes long; at most 33554432 are allowed', octet_length(body::text));
  end if;
  unknown := (
    select field
    from json_object_keys(body) as field
    where field not in (
      'id', 'idempotency_key', 'name', 'tags', 'deadline_ms', 'retention_ms', 'defaults', 'nodes', 'edges', 'groups'
    )
    limit 1
  );
  if unknown is not null then
    raise exception using errcode = '22023',
      message = format('body has a field %s, which flows do not have', to_json(left(unknown, 200)));
  end if;
  if coalesce(json_typeof(body -> 'nodes'), 'null') <> 'array' then
    raise exception using errcode = '22023', message = 'nodes must be an array';
  end if;
  given := body ->> 'id';
  begin
    submitted := coalesce(given::uuid, inbox_new_id());
  exception when invalid_text_representation then
    raise exception using errcode = '22023', message = 'id must be a UUID';
  end;
  insert into inbox (id, namespace, role, flow, body)
  values (submitted, namespace, caller, true, body::text);
  if notify then
    perform pg_notify('selvedge_' || current_schema(), '{"from": "sql", "inbox": true}');
  end if;
  return submitted;
end
$$;

-- Everyone may execute a new function, unless that is revoked.
revoke all on function inbox_new_id from public;
revoke all on function inbox_caller from public;
revoke all on function inbox_invalid_name from public;
revoke all on function submit from public;
revoke all on function submit_flow from public;
