-- One column, one meaning.

-- The priority under which claims find an execution. The heads of fairness lines share one; their own is in `detail`.
alter table executions rename column priority to claim_priority;

-- The encoded name of the gate that holds a held execution, which `suspension` had before.
alter table executions
  add column held_by bytea,
  drop constraint suspended_and_held_have_a_suspension;
update executions
set held_by = suspension, suspension = null
where state = 5; -- held
alter table executions
  add constraint suspended_has_a_suspension check ((state = 4) = (suspension is not null)),
  add constraint held_has_a_holder check ((state = 5) = (held_by is not null));

-- The count has the name of its state.
alter table flows rename column blocked to waiting_dependencies;

-- The execution that a key stands for, or the flow, by its scope.
alter table keys rename column execution to subject;
