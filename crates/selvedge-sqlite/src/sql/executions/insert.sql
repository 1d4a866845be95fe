-- Inserts an execution, unless its id is taken.
-- Index: the unique index on executions.id; the primary key of classes.
-- Parameters: ?1 to ?27 as {fixed}, {moving}, wiring, ?28 input, ?29 result
insert into executions ({fixed}, {moving}, wiring, input, result, rank, pool)
values (
  ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,
  ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29,
  ?11 - ?10 * {ageing},
  (select pool from classes where id = ?4)
)
on conflict (id) do nothing
