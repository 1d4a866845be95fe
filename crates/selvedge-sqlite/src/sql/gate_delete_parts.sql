-- Deletes the parts of budgets that counted for a flow. Expects the index gates_of_flow.
-- ?1 the flow, as text
delete from gates
where kind = 4
  and part = ?1
