-- A new execution; changes nothing if the id is taken. Expects the unique index on id.
insert into executions (
  id,
  partition,
  namespace,
  class,
  flow,
  submitted_at,
  spec,
  version,
  state,
  priority,
  ready_order,
  epoch,
  due_kind,
  due_at,
  session,
  lease_id,
  until_at,
  started_at,
  ended_at,
  tags,
  detail,
  history,
  input,
  result
)
values (
  ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
  ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24
)
on conflict (id) do nothing
