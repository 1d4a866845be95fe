-- Inserts a flow, unless its id is taken. A flow with a deletion time is due to be deleted then; a running flow without
-- a live member is due to be settled since its submission.
-- Index: the unique index on flows.id.
-- Parameters: ?1 to ?21 as {flow}, {counts}, of which ?3 is submitted_at, ?8 state and ?11 to ?16 the counts of live members; ?22
-- deletion time or null
insert into flows ({flow}, {counts}, due_kind, due_at)
values (
  ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
  case
    when ?22 is not null then {flow_delete}
    when ?8 = {flow_running} and ?11 + ?12 + ?13 + ?14 + ?15 + ?16 = 0 then {flow_settle}
  end,
  case
    when ?22 is not null then ?22
    when ?8 = {flow_running} and ?11 + ?12 + ?13 + ?14 + ?15 + ?16 = 0 then ?3
  end
)
on conflict (id) do nothing
