-- Deletes what was spent of the parts of budgets that counted for a flow. Expects the indexes gates_of_flow and ledger_entries.
-- ?1 the flow, as text
delete from ledger
where gate in (select id from gates indexed by gates_of_flow where kind = 4 and part = ?1)
