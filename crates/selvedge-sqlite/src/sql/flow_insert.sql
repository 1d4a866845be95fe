-- A new flow; changes nothing if the id is taken. What is to be done about it: its deletion when that has a time, its
-- settlement where it runs without a live member. Expects the unique index on id.
-- ?3 submitted_at, ?8 state, ?11 to ?16 the live among the counts, ?22 when it may be deleted
insert into flows ({flow}, due_kind, due_at)
values (
  ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
  case
    when ?22 is not null then 2
    when ?8 = 0 and ?11 + ?12 + ?13 + ?14 + ?15 + ?16 = 0 then 1
  end,
  case
    when ?22 is not null then ?22
    when ?8 = 0 and ?11 + ?12 + ?13 + ?14 + ?15 + ?16 = 0 then ?3
  end
)
on conflict (id) do nothing
