-- Deletes the parts of budgets that counted for a flow.
-- Index: gates_of_flow.
-- Parameters: ?1 the flow, as text
delete from gates
where kind = {gate_budget}
  and part = ?1
